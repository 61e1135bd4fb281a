// A new request is announced: in the title, to screen readers, and by the browser if it is wanted.
import { effect, signal } from "@preact/signals";
import { callLine } from "./format.js";
import { notices } from "./prefs.js";
import { cut, isGate, nameOf, visible } from "./requests.js";
import { approvals, needed, repository } from "./store.js";

/** The newest announcement, for the page's live region. */
export const announcement = signal("");

/** Asks the browser for permission; only a click may do that. */
export async function wantNotices() {
  notices.value = (await Notification.requestPermission()) === "granted" ? "on" : "off";
}

/** The icon of the page with a count. It is a data: address, which the page's policy allows for images. */
export function icon(count) {
  if (!count) return "/favicon.svg";
  const words = count > 99 ? "99+" : String(count);
  const size = [24, 20, 15][words.length - 1];
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#845200"/>`
    + `<text x="16" y="17" fill="#fff" font-family="sans-serif" font-weight="700" font-size="${size}" text-anchor="middle" `
    + `dominant-baseline="central">${words}</text></svg>`;
  return `data:image/svg+xml,${encodeURIComponent(svg)}`;
}

/** The title of the page: how many requests wait, and of which repository. */
export const title = (count, name) => `${count ? `(${count}) ` : ""}${name ? `${name} · ` : ""}aynig`;

export function announce() {
  let known = null;
  effect(() => {
    const count = needed.value;
    document.title = title(count, repository.value);
    document.querySelector("link[rel=icon]").setAttribute("href", icon(count));
    const list = approvals.value;
    if (!list) return;
    const fresh = known ? list.filter((one) => !known.has(one.approvalId)) : [];
    known = new Set(list.map((one) => one.approvalId));
    for (const one of fresh) {
      const asks = `${cut(nameOf(one))}${isGate(one) ? "" : ` ${callLine(one.tool.args)}`}`;
      const words = visible(`${one.alias ?? "A flow"} of ${one.label || one.slug} asks: ${asks}`);
      announcement.value = words;
      if (notices.peek() === "on" && document.hidden) new Notification("aynig needs you", { body: words, tag: one.approvalId });
    }
  });
}
