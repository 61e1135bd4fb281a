// A new request is announced: in the title, to screen readers, and by the browser if it is wanted.
import { effect, signal } from "@preact/signals";
import { callLine } from "./format.js";
import { notices } from "./prefs.js";
import { approvals, needed } from "./store.js";

/** The newest announcement, for the page's live region. */
export const announcement = signal("");

/** Asks the browser for permission; only a click may do that. */
export async function wantNotices() {
  notices.value = (await Notification.requestPermission()) === "granted" ? "on" : "off";
}

export function announce() {
  let known = null;
  effect(() => {
    const count = needed.value;
    document.title = count ? `(${count}) aynig` : "aynig";
    const list = approvals.value;
    if (!list) return;
    const fresh = known ? list.filter((one) => !known.has(one.approvalId)) : [];
    known = new Set(list.map((one) => one.approvalId));
    for (const one of fresh) {
      const words = `${one.alias ?? "A flow"} of ${one.label || one.slug} asks: ${one.tool.name} ${callLine(one.tool.args)}`;
      announcement.value = words;
      if (notices.peek() === "on" && document.hidden) new Notification("aynig needs you", { body: words, tag: one.approvalId });
    }
  });
}
