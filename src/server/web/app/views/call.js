// A call of a tool: its arguments, and the change that it would make.
import { html } from "../dom.js";
import { Exact } from "../parts.js";
import { drawnKeys, otherArgs, visible } from "../requests.js";
import { Plain } from "../text.js";
import { Lines } from "./diff.js";

const LONG = 80;

const textOf = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

/** The arguments that are not shown as a change. */
export function Args({ tool }) {
  const fields = otherArgs(tool.args);
  if (!fields.length) return null;
  return html`<dl class="args">${fields.map(([key, value]) => {
    const text = textOf(value);
    const isBlock = text.includes("\n") || text.length > LONG || ["command", "cmd"].includes(key);
    return html`<div key=${key} class=${isBlock ? "wide" : ""}><dt><${Exact} text=${key} /></dt>
      <dd>${isBlock ? html`<${Plain} text=${text} label=${visible(key)} isExact />`
        : html`<code><${Exact} text=${text} /></code>`}</dd></div>`;
  })}</dl>`;
}

/** The change of an edit, as a diff. */
export function EditDiff({ args }) {
  const drawn = drawnKeys(args);
  if (!drawn) return null;
  const lines = (text, mark) => (text ? text.replace(/\n$/, "").split("\n").map((line) => mark + line) : []);
  const [before, after] = [drawn.before === undefined ? "" : args[drawn.before], args[drawn.after]];
  const path = [args.file_path, args.path].find((one) => typeof one === "string") ?? "The change";
  return html`<figure class="edit"><figcaption><${Exact} text=${path} /></figcaption>
    <${Lines} lines=${[...lines(before, "-"), ...lines(after, "+")]} /></figure>`;
}
