// What was said and done in a node, as it happens.
import { useEffect, useState } from "preact/hooks";
import { api } from "../api.js";
import { html } from "../dom.js";
import { bytes, callLine, cost, firstLine, moment, plural, took, who } from "../format.js";
import { Act, Empty, Exact, Status } from "../parts.js";
import { cut } from "../requests.js";
import { eventsPath, nodePath } from "../route.js";
import { journal, loadOlder, view } from "../store.js";
import { Markdown, Plain } from "../text.js";
import { VirtualList } from "../virtual.js";
import { Args, EditDiff } from "./call.js";

/** Some more is read by itself until there is something to read. */
const ENOUGH = 30;

export function Transcript({ node }) {
  const items = view.value.transcripts[node.id] ?? [];
  const { cursor, busy } = journal.value;
  useEffect(() => {
    if (items.length < ENOUGH && cursor && !busy) loadOlder();
  }, [items.length, cursor, busy]);
  return html`
    ${cursor && html`<p class="row small">
      <${Act} act=${loadOlder} kind="quiet" disabled=${busy}>${busy ? "Loading older events…"
      : "Load older events"}</${Act}></p>`}
    <${VirtualList} items=${items} keyOf=${keyOf} row=${(item) => html`<${Item} item=${item} />`}
      label="Transcript of ${node.alias}" follow=${true}
      class="transcript" onTop=${loadOlder}
        empty=${html`<${Empty}>${busy ? "Loading…" : "Nothing was said yet."}</${Empty}>`} />`;
}

const keyOf = (item) => item.kind + item.key;

const KINDS = { user: User, assistant: Assistant, thinking: Thinking, tool: Tool, handoff: Handoff, notice: Notice,
  approval: Approval, turn: Turn };

function Item({ item }) {
  return html`<${KINDS[item.kind]} item=${item} />`;
}

function Head({ item, name, children }) {
  return html`<div class="item-head"><b>${name}</b>${children}
    <a class="muted" href=${eventsPath(view.value.run.id, item.seq)} title="In the journal">${moment(item.ts)}</a></div>`;
}

function User({ item }) {
  return html`<div class="item item-user">
    <${Head} item=${item} name=${who(item.by) || "A person"}>${item.interrupt
    && html`<span class="badge">interrupts</span>`}</${Head}>
    <${Plain} text=${item.text} label="Message" /></div>`;
}

function Assistant({ item }) {
  return html`<div class="item item-assistant">
    <${Head} item=${item} name="Agent">${item.status && html`<span class="badge">${item.status}</span>`}</${Head}>
    <${Markdown} text=${item.text} /><${Whole} item=${item} />
      ${item.open && html`<span class="caret" aria-label="still writing" role="img"></span>`}</div>`;
}

function Thinking({ item }) {
  return html`<div class="item item-thinking">
    <details><summary>Thinking${item.open && "…"} <span class="line">${firstLine(item.text, 120)}</span></summary>
    <${Plain} text=${item.text} label="Thinking" /><${Whole} item=${item} /></details></div>`;
}

const TOOL_WORDS = { proposed: "proposed", running: "running", ok: "ok", failed: "failed" };

function Tool({ item }) {
  const { name, args, state, output, error, startedAt, endedAt } = item;
  const time = startedAt && endedAt ? took(Date.parse(endedAt) - Date.parse(startedAt)) : "";
  return html`<div class="item item-tool"><details>
    <summary><b><${Exact} text=${cut(name)} /></b> <span class="line"><${Exact} text=${callLine(args)} /></span> ${time
      && html`<span class="muted small">${time}</span>`}<${Status} word=${TOOL_WORDS[state]} /></summary>
    ${cut(name) !== name && html`<p><b><${Exact} text=${name} /></b></p>`}<${Args} tool=${item} /><${EditDiff} args=${args} />
    ${output !== undefined && html`<p class="muted small">Result</p><${Plain} text=${output} label="Result" />`}
    ${error && html`<p class="fault">${error}</p>`}<${Whole} item=${item} />
  </details></div>`;
}

/** A text that is too long for an event; it is read when somebody asks for it. */
function Whole({ item }) {
  const [text, set] = useState("");
  if (!item.whole) return null;
  const load = async () => set(wordsOf((await api.artifact(view.value.run.id, item.whole.id)).content));
  return text ? html`<${Plain} text=${text} label="The whole text" />`
    : html`<p><${Act} act=${load}>Show the whole text (${bytes(item.whole.size ?? 0)})</${Act}></p>`;
}

/** The words of an event that became an artifact; the whole event if it has other fields. */
function wordsOf(content) {
  try {
    const event = JSON.parse(content);
    return event.delta ?? event.content ?? event.result?.output ?? JSON.stringify(event, null, 2);
  } catch {
    return content;
  }
}

function Handoff({ item }) {
  const { run } = view.value;
  const { message, structured, artifacts = [], status, response } = item.payload;
  const other = run.nodes[item.other];
  const name = other ? html`<a href=${nodePath(run.id, other.id)}>${other.alias}</a>` : "a removed node";
  return html`<div class="item item-handoff">
    <${Head} item=${item} name=${item.way === "out" ? html`Handed to ${name}` : html`Handed over by ${name}`}>
      ${status && html`<${Status} word=${status.ok ? "ok" : "failed"} title=${status.reason} />`}
      ${response?.expectation === "required" && html`<span class="badge">an answer is required</span>`}</${Head}>
    <${Plain} text=${message} label="Hand-off" />
    ${structured && html`<details><summary>Data</summary>
      <${Plain} text=${JSON.stringify(structured, null, 2)} label="Data" /></details>`}
    ${artifacts.length > 0 && html`<p class="muted small">With ${artifacts.map((one) =>
      html`<code>${one.ref}</code> `)}</p>`}</div>`;
}

function Notice({ item }) {
  return html`<div class="item item-notice"><${Head} item=${item} name="aynig"><span class="badge">${item.about}</span></${Head}>
    <${Plain} text=${item.text} label="Notice" /></div>`;
}

const ANSWERS = { approved: "approved", denied: "denied", modified: "approved with other arguments", expired: "expired",
  withdrawn: "withdrawn" };

function Approval({ item }) {
  const { tool, context, resolution } = item;
  return html`<div class="item item-approval"><${Head} item=${item} name=${html`Request to use <${Exact} text=${tool.name} />`}>
      ${resolution ? html`<span>${ANSWERS[resolution.status]} by ${who(item.by)}</span>`
        : html`<a href="/inbox?id=${item.key}"><${Status} word="needs you" label="answer it" /></a>`}</${Head}>
    <${Args} tool=${tool} /><${EditDiff} args=${tool.args} />
    ${resolution?.reason && html`<p>Reason: ${resolution.reason}</p>`}
    ${resolution?.modifiedArgs && html`<p>With these arguments:</p>
      <${Args} tool=${{ args: resolution.modifiedArgs }} /><${EditDiff} args=${resolution.modifiedArgs} />`}
    ${context && html`<details><summary>Context</summary><${Plain} text=${context} label="Context" isExact /></details>`}</div>`;
}

function Turn({ item }) {
  const { status, number, detail, startedAt, endedAt, spent, consumed, read } = item;
  const time = startedAt && endedAt ? `took ${took(Date.parse(endedAt) - Date.parse(startedAt))}` : "";
  // A turn that has not completed consumes nothing: its messages stay unread.
  const count = consumed?.length || read;
  return html`<div class="item-turn"><${Status} word=${status} /><span>Turn${number ? ` ${number}` : ""}</span>
    <span>${time}</span>
    ${count > 0 && html`<span>read ${plural(count, "item")}</span>`}<span>${cost(spent?.usage?.costUsd)}</span>
      <span>${moment(item.ts)}</span>
    ${detail && html`<span class="detail">${detail}</span>`}</div>`;
}
