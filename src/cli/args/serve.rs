//! The options of `aynig serve`.

use std::net::{Ipv4Addr, SocketAddr};

use clap::Args;

/// `aynig serve`.
#[derive(Debug, Args)]
#[command(
    after_help = "It prints a link that begins a session in a browser, once and within a minute. A script sends `Authorization: Bearer TOKEN`; the \
    token is in the file serve.json of the data directory, which its owner alone may read. `GET /api/openapi.json` describes the API.\n\
    The server keeps nothing that runs need. It may be killed at any time, and several may run.\n\
    Exit codes: 0 it was stopped by a signal, or the link is printed; 1 no server answers; 2 usage; 3 set-up, or the address is taken."
)]
pub(crate) struct Serve {
    /// The address, or a port of this host; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4173", value_parser = address, conflicts_with = "url")]
    pub(crate) listen: SocketAddr,

    /// Allow an address that other machines can reach: everybody who has a link or the token can then answer and run
    /// agents here, and nothing is encrypted
    #[arg(long, conflicts_with = "url")]
    pub(crate) allow_remote: bool,

    /// Also work as a runner, as `aynig run --watch` does
    #[arg(long, conflicts_with = "url")]
    pub(crate) run: bool,

    /// The most commands of that runner at once [default: the setting aynig.jobs]
    #[arg(long, short, value_name = "N", requires = "run")]
    pub(crate) jobs: Option<std::num::NonZeroUsize>,

    /// Open the link in a browser
    #[arg(long, conflicts_with = "url")]
    pub(crate) open: bool,

    /// Print a new link of the newest server that answers, and exit
    #[arg(long)]
    pub(crate) url: bool,
}

/// An address with a port, `localhost:PORT`, or a port of this host alone.
fn address(text: &str) -> Result<SocketAddr, String> {
    let here = text.strip_prefix("localhost:").unwrap_or(text);
    let port = here.parse().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    port.or_else(|_| text.parse()).map_err(|_| {
        "it has to be ADDRESS:PORT with an IP address, such as 127.0.0.1:4173, localhost:PORT, or a port"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn addresses() {
        for (text, means) in [
            ("127.0.0.1:4173", Some("127.0.0.1:4173")),
            ("localhost:80", Some("127.0.0.1:80")),
            ("8080", Some("127.0.0.1:8080")),
            ("0", Some("127.0.0.1:0")),
            ("[::1]:80", Some("[::1]:80")),
            ("0.0.0.0:80", Some("0.0.0.0:80")),
            ("65536", None),
            ("localhost", None),
            ("example.com:80", None),
            ("", None),
        ] {
            assert_eq!(address(text).ok().map(|found| found.to_string()).as_deref(), means, "{text}");
        }
    }
}
