// A call of a tool: its arguments, and the change that it would make.
import { html } from "../dom.js";
import { Plain } from "../text.js";
import { Lines } from "./diff.js";

const BEFORE = ["old_string", "old_str", "oldText"];
const AFTER = ["new_string", "new_str", "newText", "content"];
const LONG = 80;

const textOf = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

/** The arguments that are not shown as a change. */
export function Args({ tool }) {
  const hidden = isEdit(tool.args) ? [...BEFORE, ...AFTER] : [];
  const fields = Object.entries(tool.args ?? {}).filter(([key]) => !hidden.includes(key));
  if (!fields.length) return null;
  return html`<dl class="args">${fields.map(([key, value]) => {
    const text = textOf(value);
    const isBlock = text.includes("\n") || text.length > LONG || ["command", "cmd"].includes(key);
    return html`<div key=${key} class=${isBlock ? "wide" : ""}><dt>${key}</dt>
      <dd>${isBlock ? html`<${Plain} text=${text} label=${key} />` : html`<code>${text}</code>`}</dd></div>`;
  })}</dl>`;
}

const found = (args, keys) => keys.map((key) => args?.[key]).find((value) => typeof value === "string");
const isEdit = (args) => found(args, AFTER) !== undefined && (found(args, BEFORE) !== undefined || args?.file_path !== undefined);

/** The change of an edit, as a diff. */
export function EditDiff({ args }) {
  if (!isEdit(args)) return null;
  const lines = (text, mark) => (text ? text.replace(/\n$/, "").split("\n").map((line) => mark + line) : []);
  const [before, after] = [found(args, BEFORE) ?? "", found(args, AFTER)];
  return html`<figure class="edit"><figcaption>${args.file_path ?? args.path ?? "The change"}</figcaption>
    <${Lines} lines=${[...lines(before, "-"), ...lines(after, "+")]} /></figure>`;
}
