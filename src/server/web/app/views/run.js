// A run: where it stands, what it costs, and how to steer it.
import { useState } from "preact/hooks";
import { api } from "../api.js";
import { command } from "../commands.js";
import { html } from "../dom.js";
import { cost, duration, firstLine, tokens } from "../format.js";
import { Act, Age, Dialog, Empty, Said, Same, Status, Tabs, Title } from "../parts.js";
import { eventsPath, go, nodePath, route, runPath, writePath } from "../route.js";
import { branches, flow, now, view } from "../store.js";
import { canWrite, doing, flowLacksRunner, flowWords, haltedLine, hasEnded, nodeLacksRunner, openOf, statusOf, summaryOf, whyIdle,
  wordOf } from "../status.js";
import { NodeForm } from "./create.js";
import { Graph } from "./graph.js";
import { NoRunner } from "./runner.js";
import { Timeline } from "./timeline.js";
import { Track } from "./track.js";
import { Publish, RollBack } from "./work.js";

export function RunScreen() {
  const { run } = view.value;
  const isFlow = run.kind === "flow";
  const tab = route.value.query.get("view") ?? (isFlow ? "track" : "graph");
  const first = isFlow ? ["track", "Steps"] : ["graph", "Graph"];
  const tabs = [first, ...(isFlow ? [] : [["table", "Table"]]),
    ["timeline", "Timeline"]].map(([name, text]) => [name, `${runPath(run.id)}?view=${name}`, text]);
  const Shown = { graph: Graph, table: Table, timeline: Timeline, track: Track }[tab] ?? Graph;
  const lacks = isFlow ? flowLacksRunner(flow.value?.show, now.value, branches.value)
    : Object.values(run.nodes).some((node) => nodeLacksRunner(view.value, node, now.value, branches.value));
  return html`<${Head} />${lacks && html`<${NoRunner} />`}
    <${Tabs} label="Views of the run" tabs=${[...tabs, ["events", eventsPath(run.id), "Events"]]} current=${tab} />
    <${Shown} />
    ${tab !== "table" && !isFlow && html`<${WhyIdle} />`}`;
}

function Head() {
  const { run, deleted } = view.value;
  const summary = summaryOf(view.value);
  const { word, why } = wordOf(summary);
  const open = Object.values(run.approvals).filter((one) => !one.resolution);
  const { spent, usage, limits = {} } = run;
  const isFlow = run.kind === "flow";
  const words = deleted ? "deleted" : isFlow && flow.value ? flowWords(flow.value.show) : why;
  const base = `${(run.baseRef ?? "").replace("refs/heads/", "")} ${(run.baseSha ?? "").slice(0, 8)}`;
  return html`<div class="run-head">
    <nav class="crumbs" aria-label="Where this is"><a href="/">Runs</a> / <code>${run.slug}</code></nav>
    <div class="heading-row"><${Title}>${run.label || run.slug}</${Title}><${Steer} run=${run} /></div>
    <p class="row"><${Status} word=${word} /><span><${Said} text=${words} /></span>
      ${open.length > 0 && html`<a class="button primary" href="/inbox?id=${open[0].id}">Answer</a>`}
      ${!isFlow && html`<span class="muted">${run.mode === "AUTO" ? "Runs without a person." : "Interactive."}
        ${" "}Agents may change ${run.globalMode === "PLANNING" ? "documents only" : "all files"}.</span>`}</p>
    ${run.halted && html`<div class="fault"><strong>Paused.</strong> ${haltedLine(run)} Resume lets it go on and counts anew.
      ${run.halted.evidence?.summaries?.length > 0
        && html`<details><summary>Evidence</summary>
        <ul>${run.halted.evidence.summaries.map((one) => html`<li>${firstLine(one, 200)}</li>`)}</ul></details>`}</div>`}
    <div class="metrics">
      <span>Cost <b>${cost(usage?.costUsd) || "not reported"}</b>${limits.costUsd && ` of ${cost(limits.costUsd)}`}</span>
      <span>Tokens <b>${tokens(usage?.totalTokens)}</b>${limits.tokens && ` of ${tokens(limits.tokens)}`}</span>
      ${spent && html`<span>Turns <b>${spent.turns}</b>${limits.turns && ` of ${limits.turns}`}</span>
        <span>Live <b>${duration(spent.wallMillis / 1000)}</b></span>`}
      <span>Begun <b><${Age} time=${run.createdAt} /></b></span><span>Changed <b><${Age} time=${run.updatedAt} /></b></span>
      <span>Base <b><code>${base}</code></b></span></div>
    <${Same} line=${isFlow ? `aynig flow show ${run.slug}` : command.show(run)} />
  </div>`;
}

function Steer({ run }) {
  const [adding, add] = useState("");
  const verb = (name) => ({ act: () => api.steer(run.id, name), line: command.steerRun(run, name) });
  const ended = hasEnded(run);
  // A flow that has come to its end begins again at a step, or not at all.
  const isThrough = run.kind === "flow" && (run.verdict === "succeeded" || run.termination === "completed");
  const toMode = run.mode === "AUTO" ? "INTERACTIVE" : "AUTO";
  return html`<div class="controls row">
    ${run.status === "running" && html`<${Act} ...${verb("pause")}>Pause</${Act}>`}
    ${(run.status === "paused" || ended) && !isThrough && html`<${Act} kind="primary" ...${verb("resume")}>Resume</${Act}>`}
    ${!ended && run.kind !== "flow" && html`<${Act} act=${() => api.patchRun(run.id, { status: "completed" })}
      line=${command.steerRun(run, "complete")} confirm="Complete the run?">Complete</${Act}>`}
    ${!ended && html`<${Act} ...${verb("stop")} confirm="Stop the run?">Stop</${Act}>`}
    ${run.kind === "flow" && html`<${RollBack} run=${run} />`}
    <button type="button" aria-haspopup="dialog" onClick=${() => add("more")}>More…</button>
    ${adding && html`<${Dialog} title="More for this run" onClose=${() => add("")}>
      ${run.kind !== "flow" && html`<h3>Add a node</h3><${NodeForm} run=${run} onDone=${() => add("")} />
        <h3>Add an edge</h3><${EdgeForm} run=${run} />
        <h3>Modes</h3><p class="row">
          <${Act} act=${() => api.patchRun(run.id, { mode: toMode })} line=${command.setRun(run, "mode", toMode)}>
          ${toMode === "AUTO" ? "Run without a person" : "Make it interactive"}</${Act}></p>`}
      <h3>Publish</h3><${Publish} run=${run} />
      ${run.kind !== "flow" && html`<h3>Delete</h3><p class="row">
          <${Act} act=${() => api.deleteRun(run.id)} line=${command.steerRun(run, "delete")} confirm="Delete ${run.label
          || run.slug}?" onDone=${() => go("/")}>Delete the run</${Act}> <span class="muted small">Its ledger and its work stay
          in git, below refs/aynig/archive/.</span></p>`}
    </${Dialog}>`}</div>`;
}

const edgeWords = (run, { from, to, bidirectional }) =>
  `${run.nodes[from]?.alias} ${bidirectional ? "↔" : "→"} ${run.nodes[to]?.alias}`;

function EdgeForm({ run }) {
  const nodes = Object.values(run.nodes);
  const [form, set] = useState({ from: nodes[0]?.alias ?? "", to: nodes[1]?.alias ?? "" });
  const id = (alias) => nodes.find((node) => node.alias === alias)?.id;
  const Choice = ({ name, label }) =>
    html`<label class="field"><span>${label}</span>
    <select value=${form[name]} onChange=${(event) => set({ ...form, [name]: event.target.value })}>
    ${nodes.map((node) => html`<option>${node.alias}</option>`)}</select></label>`;
  return html`<div class="form-grid">${Choice({ name: "from", label: "From" })}${Choice({ name: "to", label: "To" })}</div>
    <p><${Act} act=${() => api.addEdge(run.id, { from: id(form.from), to: id(form.to) })}
      line=${command.edge(run, form.from, form.to)}
      disabled=${!form.from || !form.to || form.from === form.to}>Add the edge</${Act}></p>
    <ul>${Object.values(run.edges).map((edge) =>
      html`<li key=${edge.id}>${edgeWords(run, edge)} <${Act} kind="quiet" act=${() => api.removeEdge(run.id, edge.id)}
        line=${command.removeEdge(run, edge)}>Remove</${Act}></li>`)}</ul>`;
}

const sorted = (run) => Object.values(run.nodes).sort((one, other) => one.number - other.number);

function Table() {
  const { run } = view.value;
  if (!Object.keys(run.nodes).length) return html`<${Empty}>The run has no nodes yet.</${Empty}>`;
  return html`<div class="scroll-x" tabindex="0" role="region" aria-label="Nodes">
    <table class="table"><thead>
    <tr><th>Status</th><th>Node</th><th>What it does, or why it does not</th><th class="right">Unread</th>
    <th class="right">Turns</th><th class="right">Tokens</th><th class="right">Cost</th><th class="right">Active</th></tr></thead>
    <tbody>${sorted(run).map((node) => html`<tr key=${node.id}><td><${Status} word=${statusOf(view.value, node)} /></td>
      <td><a class="strong" href=${nodePath(run.id, node.id)}>${node.alias}</a>
        <div class="muted small">${node.roleTemplate} · ${run.nodeConfigs[node.id]?.providerName ?? node.provider}</div>
        ${canWrite(run) && html`<a class="small" href=${writePath(run.id, node.id)}>Write to ${node.alias}</a>`}</td>
      <td class="words"><${Said} text=${doing(view.value, node, now.value, branches.value)} /></td>
      <td class="right">${node.inboxCount ?? 0}</td><td class="right">${node.spent?.turns ?? 0}</td>
        <td class="right">${tokens(node.usage?.totalTokens)}</td><td class="right">${cost(node.usage?.costUsd)}</td>
        <td class="right nowrap"><${Age} time=${node.lastActivityAt} /></td></tr>`)}</tbody></table></div>`;
}

/** For each idle node why it does not run; nodes with the same reason share a line. */
function WhyIdle() {
  const { run } = view.value;
  const reasons = new Map();
  for (const node of sorted(run)) {
    const why = whyIdle(view.value, node, now.value, branches.value);
    if (why) reasons.set(why, [...(reasons.get(why) ?? []), node]);
  }
  if (!reasons.size) return null;
  return html`<section aria-labelledby="idle"><h2 id="idle">Why nodes are not working</h2>
    <ul>${[...reasons].map(([why, nodes]) => html`<li key=${why}>
    ${nodes.slice(0, 12).map((node, index) => html`${index > 0 && ", "}<a href=${nodePath(run.id, node.id)}>${node.alias}</a>`)}
      ${nodes.length > 12 && ` and ${nodes.length - 12} more`}: <${Said} text=${why} />
    ${openOf(view.value, nodes[0].id).length > 0
      && html` <a href="/inbox?id=${openOf(view.value, nodes[0].id)[0].id}">Answer</a>`}</li>`)}</ul></section>`;
}
