// The journal of a run, and its state as of any event.
import { useEffect, useMemo, useState } from "preact/hooks";
import { html } from "../dom.js";
import { bytes, callLine, firstLine, moment, plural } from "../format.js";
import { Act, Copy, Empty, Loading, Same, Status, Title } from "../parts.js";
import { eventsPath, route, setQuery } from "../route.js";
import { cut, visible } from "../requests.js";
import { journal, loadAll, loadOlder, view } from "../store.js";
import { begin, fold } from "../state.js";
import { statusOf, summaryOf, wordOf } from "../status.js";
import { VirtualList } from "../virtual.js";
import { command } from "../commands.js";
import { Crumbs } from "./node.js";

export function Events() {
  const { run } = view.value;
  const { events, cursor, busy } = journal.value;
  const { query, hash } = route.value;
  const [type, alias, text, at] = ["type", "node", "q", "at"].map((name) => query.get(name) ?? "");
  const [open, toggle] = useState("");
  const seq = Number(at || hash) || 0;
  const names = useMemo(() => Object.fromEntries(Object.values(run.nodes).map((node) => [node.id, node.alias])), [run.nodes]);
  const shown = useMemo(() => filtered(events, { type, alias, text }, names), [events, type, alias, text, names]);

  // A link to an old event, or to the state as of it, needs what came before.
  useEffect(() => {
    if (at || (seq && events.length && events[0].seq > seq)) loadAll();
  }, [at, seq]);

  const types = useMemo(() => [...new Set(events.map((event) => event.type))].sort(), [events]);
  return html`<${Crumbs} run=${run} /><${Title}>Events</${Title}><${Same} line=${command.events(run)} />
    <div class="filters" role="search">
      <label><span class="unseen">Search events</span>
        <input type="search" placeholder="Search text" value=${text}
        onInput=${(event) => setQuery({ q: event.target.value })} /></label>
      <label><span class="unseen">Type</span>
        <select value=${type} onChange=${(event) => setQuery({ type: event.target.value })}><option value="">all types</option>
        ${types.map((one) => html`<option>${one}</option>`)}</select></label>
      <label><span class="unseen">Node</span>
        <select value=${alias} onChange=${(event) => setQuery({ node: event.target.value })}><option value="">all nodes</option>
        ${Object.values(names).sort().map((one) => html`<option>${one}</option>`)}</select></label>
      <span class="muted">${shown.length === events.length ? plural(events.length, "event")
        : `${shown.length} of ${plural(events.length, "event")}`}${cursor && ", older ones not loaded"}</span>
      ${cursor && html`<${Act} act=${loadOlder} disabled=${busy}>Load older</${Act}>`}
      <${Copy} text=${() => shown.map((event) => JSON.stringify(event)).join("\n")} label="Copy as JSONL" />
    </div>
    ${at && html`<${AsOf} seq=${seq} />`}
    <${VirtualList} items=${shown} keyOf=${(event) => String(event.seq)} estimate=${31} label="Events" follow=${!seq}
      onTop=${loadOlder}
      at=${seq ? shown.findIndex((event) => event.seq >= seq) : undefined} empty=${html`<${Empty}>No event fits.</${Empty}>`}
      row=${(event) => html`<${Row} event=${event} run=${run} names=${names} isHere=${event.seq === seq}
        isOpen=${open === event.id} toggle=${() => toggle(open === event.id ? "" : event.id)} />`} />`;
}

function filtered(events, { type, alias, text }, names) {
  const lower = text.toLowerCase();
  return events.filter((event) => (!type || event.type === type) && (!alias || names[nodeOf(event)] === alias)
    && (!lower || JSON.stringify(event).toLowerCase().includes(lower)));
}

const nodeOf = (event) => event.nodeId ?? event.message?.nodeId ?? event.envelope?.fromNodeId;

function Row({ event, run, names, isHere, isOpen, toggle }) {
  return html`<div class="event-row ${isHere ? "here" : ""}"><a href=${eventsPath(run.id, event.seq)}>${event.seq}</a>
    <time class="muted" datetime=${event.ts}>${moment(event.ts)}</time>
    <span><code>${event.type}</code>${names[nodeOf(event)] && html` <span class="muted">${names[nodeOf(event)]}</span>`}</span>
    <div><button type="button" class="quiet event-line" aria-expanded=${isOpen} onClick=${toggle}>${summary(event, names)
      || "…"}</button>
      ${isOpen && html`<pre tabindex="0">${JSON.stringify(event, null, 2).slice(0, 50_000)}</pre>
        <p class="row"><${Copy} text=${JSON.stringify(event)} label="Copy the event" />
        <button type="button" onClick=${() => setQuery({ at: String(event.seq) })}>State as of here</button></p>`}</div></div>`;
}

/** What an event says, in a line. */
function summary(event, names) {
  const { type, patch } = event;
  if (event.artifact?.sha256 && !event.commit) return `a long event, ${bytes(event.artifact.size)}`;
  if (type.endsWith(".delta")) return firstLine(event.delta, 120);
  if (patch) return Object.entries(patch).map(([key, value]) =>
    `${key} ${value !== null && typeof value === "object" ? "…" : firstLine(String(value), 60)}`).join(", ");
  if (event.tool) return visible(`${cut(event.tool.name)} ${callLine(event.tool.args)}`);
  if (event.envelope) {
    const { fromNodeId, toNodeId, payload } = event.envelope;
    return `${names[fromNodeId]} → ${names[toNodeId]}: ${firstLine(payload.message, 100)}`;
  }
  if (event.resolution) return `${event.resolution.status} ${event.resolution.reason ?? ""}`;
  const { message, content, line, artifact, detail, status, step, outcome, evidence } = event;
  return firstLine(message?.content ?? content ?? line ?? artifact?.name ?? [status ?? step?.id ?? outcome,
    typeof evidence === "string" ? evidence : detail].filter(Boolean).join(": "), 160);
}

/** The state as of an event: all events up to it, folded anew. */
function AsOf({ seq }) {
  const { events, cursor } = journal.value;
  const last = events.at(-1)?.seq ?? seq;
  const past = useMemo(() => (cursor ? null : fold(begin(), events.filter((event) => event.seq <= seq))),
    [cursor, seq, events.length > 0]);
  const move = (to) => setQuery({ at: String(Math.min(Math.max(1, to), last)) });
  if (!past) return html`<${Loading} what="the events before" />`;
  const { word, why } = wordOf(summaryOf(past));
  return html`<section class="card as-of" aria-label="State as of event ${seq}">
    <div class="row"><h2>As of event ${seq}</h2><${Status} word=${word} title=${why} /><span class="muted">${why}</span>
      <button type="button" onClick=${() => move(seq - 1)}>Back</button>
        <button type="button" onClick=${() => move(seq + 1)}>Forward</button>
      <button type="button" class="quiet" onClick=${() => setQuery({ at: "" })}>Close</button></div>
    <label><span class="unseen">Event</span>
      <input type="range" min="1" max=${last} value=${seq} onChange=${(event) => move(Number(event.target.value))} /></label>
    <ul>${Object.values(past.run.nodes).map((node) =>
      html`<li key=${node.id}><b>
      ${node.alias}</b> <${Status} word=${statusOf(past, node)} /> ${node.inboxCount ?? 0} unread <span class="muted">
      ${firstLine(node.summary, 100)}</span></li>`)}
      ${Object.values(past.run.steps).map((step) =>
        html`<li key=${step.number}>${step.number}. <b>${step.id}</b> ${step.outcome ?? "under way"}</li>`)}</ul></section>`;
}
