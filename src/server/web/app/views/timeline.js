// When each node had its turns, or each step was tried, as bars with their words.
import { html } from "../dom.js";
import { duration, moment } from "../format.js";
import { Act, Empty } from "../parts.js";
import { nodePath } from "../route.js";
import { journal, loadOlder, now, view } from "../store.js";

export function Timeline() {
  const { run } = view.value;
  const rows = run.kind === "flow" ? stepRows(run) : turnRows(run);
  const all = rows.flatMap((row) => row.bars);
  const older = journal.value.cursor && html`<p><${Act} act=${loadOlder}>Load older events</${Act}></p>`;
  if (!all.length) return html`${older}<${Empty}>No turn in the events that are loaded.</${Empty}>`;
  const begin = Math.min(...all.map((bar) => bar.from));
  const end = Math.max(begin + 1_000, ...all.map((bar) => bar.to));
  const part = (time) => `${((100 * (time - begin)) / (end - begin)).toFixed(3)}%`;
  return html`${older}<p class="muted">${moment(begin)} to ${moment(end)}: ${duration((end - begin) / 1000)}</p>
    <div class="bars" role="list">
      ${rows.map((row) => html`<div class="bar-row" role="listitem" key=${row.name}>
      <span>${row.href ? html`<a href=${row.href}>${row.name}</a>` : row.name}</span>
      <div class="bar-track">${row.bars.map((bar) =>
        html`<span key=${bar.key} class="bar ${bar.status}" role="img" aria-label=${wordsOf(bar)} title=${wordsOf(bar)}
        style=${{ left: part(bar.from), width: part(begin + bar.to - bar.from) }}></span>`)}</div></div>`)}</div>
    <details><summary>In words</summary>
      <ul>${rows.flatMap((row) =>
      row.bars.map((bar) => html`<li key=${bar.key}>${row.name}: ${wordsOf(bar)}</li>`))}</ul></details>`;
}

const wordsOf = (bar) => `${bar.name} ${bar.status}, from ${moment(bar.from)}, ${duration((bar.to - bar.from) / 1000)}`;

function turnRows(run) {
  return Object.values(run.nodes).sort((one, other) => one.number - other.number).map((node) => ({
    name: node.alias,
    href: nodePath(run.id, node.id),
    bars: (view.value.transcripts[node.id] ?? []).filter((item) => item.kind === "turn").map((item) =>
      ({ key: item.key, name: `turn ${item.number ?? ""}`,
      status: item.status, from: Date.parse(item.startedAt), to: item.endedAt ? Date.parse(item.endedAt) : now.value })),
  }));
}

const GOOD = ["completed", "success", "gate_approved"];

function stepRows(run) {
  const rows = new Map();
  for (const step of Object.values(run.steps)) {
    const bar = { key: step.number, name: `attempt ${step.attempt} of visit ${step.visit}`, from: Date.parse(step.startedAt),
      to: step.endedAt ? Date.parse(step.endedAt) : now.value,
      status: !step.outcome ? "running" : GOOD.includes(step.outcome) ? "completed" : "failed" };
    rows.set(step.id, [...(rows.get(step.id) ?? []), bar]);
  }
  return [...rows].map(([name, bars]) => ({ name, href: undefined, bars }));
}
