// Preact with htm, and the one place where text becomes HTML.
import { h, render } from "preact";
import htm from "htm";
import DOMPurify from "dompurify";

export const html = htm.bind(h);
export { render };

/** The worker that lays graphs out; the only script whose address is made here. */
const WORKER = "/app/layout.js";

const same = { createHTML: (text) => text, createScriptURL: (url) => (url === WORKER ? url : "") };
const policy = globalThis.trustedTypes?.createPolicy("aynig", same) ?? same;

/** @type {import("dompurify").Config} */
const ALLOWED = {
  ALLOWED_TAGS: ["p", "br", "hr", "em", "strong", "del", "code", "pre", "blockquote", "ul", "ol", "li", "a", "span",
    "h1", "h2", "h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td"],
  ALLOWED_ATTR: ["href", "class", "align", "start", "target", "rel"],
  ALLOWED_URI_REGEXP: /^(https?:|mailto:|#)/i,
  ...(globalThis.trustedTypes && { TRUSTED_TYPES_POLICY: policy, RETURN_TRUSTED_TYPE: true }),
};

/** HTML of a library, cleaned, as a property of an element. */
export const safe = (text) => ({ dangerouslySetInnerHTML: { __html: DOMPurify.sanitize(text, ALLOWED) } });

/** Saves bytes as a file. */
export function save(bytes, name) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(bytes), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export const layoutWorker = () => new Worker(policy.createScriptURL(WORKER), { type: "module" });
