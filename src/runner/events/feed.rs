//! The feed of a run: hands every notice to every subscriber, in the order of subscription.
//!
//! Invariant: a notice reaches all subscribers before the stage that reported it continues. A slow subscriber
//! has to queue notices itself.

use super::notice::Notice;

type Subscriber<'a> = Box<dyn Fn(&Notice) + Sync + 'a>;

/// The subscribers to the notices of a run. They are called from several threads.
#[derive(Default)]
pub struct Feed<'a> {
    subscribers: Vec<Subscriber<'a>>,
}

impl<'a> Feed<'a> {
    /// Adds a subscriber.
    pub fn subscribe(&mut self, subscriber: impl Fn(&Notice) + Sync + 'a) {
        self.subscribers.push(Box::new(subscriber));
    }

    /// Hands a notice to all subscribers.
    pub fn publish(&self, notice: &Notice) {
        for subscriber in &self.subscribers {
            subscriber(notice);
        }
    }
}
