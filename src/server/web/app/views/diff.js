// Changes of files: hunks with the words that differ marked.
import { diffWordsWithSpace } from "diff/word";
import { useState } from "preact/hooks";
import { html } from "../dom.js";
import { plural } from "../format.js";
import { Empty, Exact } from "../parts.js";
import { upTo } from "../requests.js";

/** Beyond these, lines are shown without marked words, and files are closed at first. */
const MOST_MARKED = 400;
const MOST_OPEN = 8;
const PART = 600;
/** The characters of a line that are shown at first. */
const MOST_SHOWN = 2_000;

/** Reads a patch as git writes it into the shape of `GET …/diff`. */
export function parsePatch(text) {
  const files = [];
  let hunk;
  for (const line of text.split("\n")) {
    const file = files.at(-1);
    const start = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)$/.exec(line);
    if (line.startsWith("diff --git ")) {
      const path = / b\/(.*)$/.exec(line)?.[1] ?? line.slice(11);
      files.push({ path, old: null, status: "modified", binary: false, hunks: [] });
      hunk = undefined;
    } else if (start && file) {
      const [, oldStart, oldLines = "1", newStart, newLines = "1", header] = start;
      hunk = { header, oldStart: Number(oldStart), oldLines: Number(oldLines), newStart: Number(newStart),
        newLines: Number(newLines), lines: [] };
      file.hunks.push(hunk);
    } else if (hunk && /^[ +\-\\]/.test(line)) hunk.lines.push(line);
    else if (file && line.startsWith("new file")) file.status = "added";
    else if (file && line.startsWith("deleted file")) file.status = "deleted";
    else if (file && line.startsWith("rename from ")) Object.assign(file, { old: line.slice(12), status: "renamed" });
    else if (file && line.startsWith("Binary files")) file.binary = true;
  }
  return files;
}

const countOf = (file, mark) => file.hunks.reduce((sum, hunk) => sum + hunk.lines.filter((line) => line[0] === mark).length, 0);

/** Files with their hunks. `seen` marks are kept in this browser under `name`. */
export function Files({ files, name }) {
  if (!files.length) return html`<${Empty}>No file differs.</${Empty}>`;
  const sum = (mark) => files.reduce((all, file) => all + countOf(file, mark), 0);
  return html`<div class="diff">
    <p class="muted">${plural(files.length, "file")}, ${plural(sum("+"), "line")} added, ${plural(sum("-"), "line")} removed</p>
    ${files.map((file, index) =>
      html`<${File} key=${file.path} file=${file} name=${name} isOpen=${index < MOST_OPEN} />`)}</div>`;
}

function File({ file, name, isOpen }) {
  const key = `aynig.seen.${name}.${file.path}`;
  const [seen, see] = useState(() => Boolean(name && localStorage.getItem(key) === digest(file)));
  const [open, toggle] = useState(isOpen && !seen);
  const mark = () => {
    if (seen) localStorage.removeItem(key);
    else localStorage.setItem(key, digest(file));
    toggle(seen);
    see(!seen);
  };
  return html`<details class="file" open=${open} onToggle=${(event) => toggle(event.target.open)}>
    <summary><span class="path">${file.old
      && html`<s><${Exact} text=${file.old} /></s> → `}<${Exact} text=${file.path} /></span>
      <span class="badge">${file.status}</span>
        <span class="plus">+${countOf(file, "+")}</span> <span class="minus">−${countOf(file, "-")}</span></summary>
    ${name && html`<label class="seen"><input type="checkbox" checked=${seen} onChange=${mark} /> Seen</label>`}
    ${open && (file.binary ? html`<p class="muted pad">A binary file.</p>`
      : file.hunks.map((hunk) => html`<${Hunk} hunk=${hunk} />`))}
  </details>`;
}

/** Enough to notice that a file has changed since it was seen. */
const digest = (file) =>
  `${file.status} ${countOf(file, "+")} ${countOf(file, "-")} ${file.hunks.map((hunk) => hunk.newStart).join(",")}`;

function Hunk({ hunk }) {
  return html`<div class="hunk">
    <p class="hunk-head">@@ −${hunk.oldStart},${hunk.oldLines} +${hunk.newStart},${hunk.newLines} @@ ${hunk.header}</p>
    <${Lines} lines=${hunk.lines} old=${hunk.oldStart} at=${hunk.newStart} /></div>`;
}

const exact = (text) => html`<${Exact} text=${text} isBlock />`;
const wordOf = (part) => (part.is ? html`<mark>${exact(part.value)}</mark>` : exact(part.value));

/** A line; the rest of a long one is shown when somebody asks for it. */
function Line({ text }) {
  const [most, show] = useState(MOST_SHOWN);
  const shown = upTo(text, most);
  const left = text.length - shown.length;
  return html`${exact(shown)}${left > 0
    && html`<button type="button" class="quiet" onClick=${() => show(Infinity)}>… ${left} more characters</button>`}`;
}

const WORDS = { "+": "added", "-": "removed", " ": "" };

/** Lines that begin with their mark, as in a patch. */
export function Lines({ lines, old = 1, at = 1 }) {
  const [shown, show] = useState(PART);
  const numbered = [];
  let [left, right] = [old, at];
  for (const line of lines) {
    const mark = line[0];
    numbered.push({ mark, text: line.slice(1), left: mark === "+" || mark === "\\" ? "" : left++, right: mark === "-"
      || mark === "\\" ? "" : right++ });
  }
  const marked = lines.length <= MOST_MARKED ? words(numbered) : numbered;
  return html`<div class="lines" role="group" tabindex="0" aria-label="Changed lines">
    <table><tbody>${marked.slice(0, shown).map((line, index) => html`
    <tr key=${index} class=${{ "+": "added", "-": "removed", "\\": "muted" }[line.mark] ?? ""}>
      <td class="number">${line.left}</td><td class="number">${line.right}</td>
        <td class="mark"><span class="unseen">${WORDS[line.mark] ?? ""}</span><span aria-hidden="true">${line.mark}</span></td>
      <td class="text">${line.parts ? line.parts.map(wordOf)
        : html`<${Line} text=${line.text} />`}</td></tr>`)}
  </tbody></table>${marked.length > shown
    && html`<button type="button" class="quiet"
    onClick=${() => show(shown + PART)}>Show ${marked.length - shown} more lines</button>`}</div>`;
}

/** Marks the words that differ between removed lines and the added lines that follow them, one by one. */
function words(lines) {
  const out = lines.slice();
  let at = 0;
  while (at < out.length) {
    let removed = 0;
    while (out[at + removed]?.mark === "-") removed += 1;
    let added = 0;
    while (out[at + removed + added]?.mark === "+") added += 1;
    if (removed && added) {
      for (let i = 0; i < Math.min(removed, added); i += 1) {
        const [one, other] = [out[at + i], out[at + removed + i]];
        if (one.text.length + other.text.length > 1_000) continue;
        const parts = diffWordsWithSpace(one.text, other.text);
        const side = (key) => parts.filter((part) => !part[key === "removed" ? "added"
          : "removed"]).map((part) => ({ value: part.value, is: part[key] }));
        out[at + i] = { ...one, parts: side("removed") };
        out[at + removed + i] = { ...other, parts: side("added") };
      }
    }
    at += Math.max(1, removed + added);
  }
  return out;
}
