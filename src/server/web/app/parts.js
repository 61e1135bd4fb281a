// Small pieces that all screens use.
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "./dom.js";
import { ago, moment } from "./format.js";
import { pieces } from "./requests.js";
import { arrival } from "./route.js";
import { now } from "./store.js";

/** Marks beside the words, so that a status is never told by its colour alone. */
const MARKS = { "needs you": "!", blocked: "!", working: "▸", running: "▸", waiting: "○", idle: "○", finished: "✓",
  completed: "✓", ok: "✓", failed: "✕", interrupted: "‖", paused: "‖", proposed: "○", stalled: "✕" };

export function Status({ word, title, label = word }) {
  return html`<span class="status status-${word.replace(" ", "-")}" title=${title}><i aria-hidden="true">${MARKS[word] ?? "·"}</i>
    ${label}</span>`;
}

export function Age({ time }) {
  if (!time) return null;
  return html`<time datetime=${time} title=${moment(time, now.value)}>${ago(time, now.value)}</time>`;
}

/** Copies a text, or what a function makes of it then. The word changes for a moment, which is told to screen readers too. */
export function Copy({ text, label = "Copy" }) {
  const [done, say] = useState("");
  const content = typeof text === "function" ? text : () => text;
  const copy = () => navigator.clipboard.writeText(content()).then(() => say("Copied"), () => say("Not copied"))
    .then(() => setTimeout(() => say(""), 1_500));
  const name = typeof text === "function" ? label : `${label}: ${text}`;
  return html`<button type="button" class="copy" onClick=${copy} aria-label=${name} title=${name}>
    <span aria-live="polite">${done || html`<${CopyIcon} />`}</span></button>`;
}

function CopyIcon() {
  return html`<svg width="13" height="13" viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.5"
    aria-hidden="true">
    <rect x="5.5" y="5.5" width="8" height="9" rx="1.5" />
      <path d="M10.5 5.5V3A1.5 1.5 0 0 0 9 1.5H4A1.5 1.5 0 0 0 2.5 3v7A1.5 1.5 0 0 0 4 11.5h1.5" /></svg>`;
}

/** The command line that does the same as a control. */
export function Command({ line }) {
  if (!line) return null;
  return html`<span class="command"><code>${line}</code><${Copy} text=${line} label="Copy the command" /></span>`;
}

/** The line below a heading with the command that shows the same. */
export function Same({ line }) {
  return html`<p class="same"><span>In a terminal:</span> <code>${line}</code>
    <${Copy} text=${line} label="Copy the command" /></p>`;
}

/**
 * A control that changes something: it shows its command line, waits for the answer, and shows why it was refused.
 * @param {{children: any, act: () => Promise<any>, line?: string, kind?: string, confirm?: string, disabled?: boolean,
 *   onDone?: () => void}} props
 */
export function Act({ children, act, line, kind = "", confirm, disabled, onDone }) {
  const [state, set] = useState({ busy: false, error: null, asks: false });
  const run = async () => {
    if (confirm && !state.asks) return set({ ...state, asks: true });
    set({ busy: true, error: null, asks: false });
    await act().then(() => {
      set({ busy: false, error: null, asks: false });
      onDone?.();
    }, (error) => set({ busy: false, error, asks: false }));
  };
  return html`<span class="act">
    <button type="button" class=${state.asks ? "danger" : kind} disabled=${disabled || state.busy} onClick=${run} title=${line}>
      ${state.asks ? confirm : children}</button>
    ${state.asks && html`<button type="button" class="quiet" onClick=${() => set({ ...state, asks: false })}>Keep it</button>`}
    ${line && html`<${Copy} text=${line} label="Copy the command" />`}
    ${state.error && html`<${Fault} error=${state.error} />`}
  </span>`;
}

/**
 * A text of an agent where somebody decides about it: what would not be seen is shown as an escape.
 * @param {{text: any, isBlock?: boolean}} props isBlock: it has lines and tabs
 */
export function Exact({ text, isBlock = false }) {
  return html`<span class="exact">${pieces(String(text ?? ""), isBlock).map((one) =>
    (one.isEscape ? html`<span class="escape">${one.text}</span>` : one.text))}</span>`;
}

/** A text of the program: what stands between backticks is a command, and moments are those of this place. */
export function Said({ text = "" }) {
  const parts = (text ?? "").replace(/\b\d{4}-\d\d-\d\dT[\d:.]+Z/g, (time) => moment(time, now.value)).split("`");
  return parts.map((part, index) => (index % 2 ? html`<code>${part}</code>` : part));
}

/**
 * A text that a person writes. It stays in this tab until it is sent, also over a reload.
 * @param {string} name what it is about
 * @returns {[string, (text: string) => void, () => void]} the text, and what changes and forgets it
 */
export function useDraft(name) {
  const key = `aynig.draft.${name}`;
  const [text, set] = useState("");
  useEffect(() => set(sessionStorage.getItem(key) ?? ""), [key]);
  const keep = (changed) => {
    set(changed);
    if (changed) sessionStorage.setItem(key, changed);
    else sessionStorage.removeItem(key);
  };
  return [text, keep, () => keep("")];
}

/** What went wrong, and what to do. */
export function Fault({ error }) {
  return html`<div class="fault" role="alert"><strong>${error.message}</strong>
    ${error.hint && html` <span>${error.hint}</span>`}</div>`;
}

/** The heading of a screen. It gets the focus when a link has led here, so that screen readers say where they are. */
export function Title({ children }) {
  const heading = useRef(null);
  useEffect(() => {
    if (arrival.isNew) heading.current.focus({ preventScroll: true });
    arrival.isNew = false;
  }, []);
  return html`<h1 tabindex="-1" ref=${heading}>${children}</h1>`;
}

export function Loading({ what }) {
  return html`<p class="loading" role="status">Loading ${what}…</p>`;
}

export function Empty({ children, line }) {
  return html`<div class="empty"><p>${children}</p>${line && html`<${Command} line=${line} />`}</div>`;
}

/** Tabs as links, so that each has an address. */
export function Tabs({ label, tabs, current }) {
  return html`<nav class="tabs" aria-label=${label}>${tabs.map(([name, href, text, count]) => html`
    <a href=${href} aria-current=${name === current ? "page" : undefined}>
      ${text}${count ? html` <span class="count">${count}</span>` : ""}</a>`)}</nav>`;
}

/** A dialog, by the browser's own element: it keeps the focus inside, and Escape closes it. */
export function Dialog({ title, children, onClose }) {
  const box = useRef(null);
  useEffect(() => box.current.showModal(), []);
  return html`<dialog ref=${box} onClose=${onClose} aria-label=${title}>
    <header><h2>${title}</h2>
      <button type="button" class="quiet" aria-label="Close" onClick=${() => box.current.close()}>✕</button></header>
    ${children}</dialog>`;
}

export function Field({ label, hint, children }) {
  return html`<label class="field"><span>${label}</span>${children}${hint && html`<small>${hint}</small>`}</label>`;
}

/** Fetches when `key` changes. */
export function useFetched(fetch, key) {
  const [state, set] = useState({ key: undefined, value: null, error: null });
  useEffect(() => {
    let isCurrent = true;
    set({ key, value: null, error: null });
    fetch().then((value) => isCurrent && set({ key, value, error: null }), (error) => isCurrent
      && set({ key, value: null, error }));
    return () => { isCurrent = false; };
  }, [key]);
  return state.key === key ? state : { value: null, error: null };
}
