// Markdown and terminal colours, as elements.
import { Marked } from "marked";
import { AnsiUp } from "ansi_up";
import { useMemo, useState } from "preact/hooks";
import { html, safe } from "./dom.js";
import { bytes } from "./format.js";
import { Exact } from "./parts.js";
import { upTo } from "./requests.js";

/** A longer text is shown plain, and in parts: a browser lays 5 MB out for seconds. */
const MOST_MARKDOWN = 60_000;
const PART = 20_000;

const escaped = (text) => text.replace(/[&<>"]/g, (one) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[one]);

const marked = new Marked({
  gfm: true,
  renderer: {
    // Raw HTML is shown as it was written.
    html: ({ text }) => escaped(text),
    // An image would be fetched.
    image: ({ href, text }) => `${escaped(text || "image")} (${escaped(href)})`,
    link({ href, tokens }) {
      return `<a href="${escaped(href)}" target="_blank" rel="noopener noreferrer">${this.parser.parseInline(tokens)}</a>`;
    },
    // Headings of a message are no headings of this page.
    heading({ tokens }) {
      return `<p class="heading">${this.parser.parseInline(tokens)}</p>`;
    },
    checkbox: ({ checked }) => (checked ? "[x] " : "[ ] "),
  },
});

export function Markdown({ text }) {
  const isLong = text.length > MOST_MARKDOWN;
  // Lists draw their rows anew while they scroll.
  const content = useMemo(() => isLong || safe(/** @type {string} */ (marked.parse(text))), [text]);
  return isLong ? html`<${Plain} text=${text} />` : html`<div class="markdown" ...${content}></div>`;
}

/** A text as it is, a part of it if it is long. `isExact`: with escapes of what would not be seen. */
export function Plain({ text, label = "text", isExact = false }) {
  const [most, show] = useState(PART);
  const shown = upTo(text, most);
  const left = text.length - shown.length;
  return html`<div class="plain">
    <pre tabindex="0" aria-label=${label}>${isExact ? html`<${Exact} text=${shown} isBlock />` : shown}</pre>
    ${left > 0 && html`<button type="button" class="quiet" onClick=${() => show(most + 10 * PART)}>
      Show more (${bytes(left)} left)</button>`}
  </div>`;
}

/** The page's policy has no styles of elements, so that bold is a class. Colours beyond the named ones are left out. */
const styled = (_, style, names = "") => `<span class="${names}${style.includes("bold") ? " ansi-bold" : ""}"`;

/** A line of a log with its colours. It stands alone: colours end with it. */
export function Ansi({ line }) {
  const content = useMemo(() => {
    const ansi = new AnsiUp();
    ansi.use_classes = true;
    return safe(ansi.ansi_to_html(line.slice(0, PART)).replace(/<span style="([^"]*)"(?: class="([^"]*)")?/g, styled));
  }, [line]);
  return html`<span ...${content}></span>`;
}
