// A node: what it says and does, what it was given, what it changed, and what it may do.
import { useState } from "preact/hooks";
import { api } from "../api.js";
import { command } from "../commands.js";
import { html, save } from "../dom.js";
import { bytes, duration, moment, plural } from "../format.js";
import { Act, Age, Command, Empty, Fault, Loading, Said, Status, Tabs, Title, useFetched } from "../parts.js";
import { nodePath, route, runPath } from "../route.js";
import { branches, now, view } from "../store.js";
import { handedBack, isDue, nodeLacksRunner, openOf, statusOf, whyIdle } from "../status.js";
import { Ansi, Markdown, Plain } from "../text.js";
import { VirtualList } from "../virtual.js";
import { Composer } from "./composer.js";
import { Files, parsePatch } from "./diff.js";
import { Inspector } from "./inspector.js";
import { Mend, NoRunner } from "./runner.js";
import { Transcript } from "./transcript.js";

const SHOWN = { transcript: Conversation, diff: Changes, artifacts: Artifacts, prompts: Prompts, log: Log };

export function NodeScreen() {
  const { run } = view.value;
  const node = run.nodes[route.value.node] ?? Object.values(run.nodes).find((one) => one.alias === route.value.node);
  if (!node) return html`<${Crumbs} run=${run} /><${Title}>No such node</${Title}>
    <${Empty}>It may have been removed. <a href=${runPath(run.id)}>The run</a></${Empty}>`;
  const tab = route.value.query.get("tab") ?? (run.kind === "flow" ? "diff" : "transcript");
  const artifacts = artifactsOf(run, node);
  const named = [["transcript", "Transcript"], ["diff", "Changes"], ["artifacts", "Artifacts", artifacts.length],
    ["prompts", "Prompts"], ["log", "Log", view.value.logs[node.id]?.length]];
  const tabs = named.map(([name, text, count]) => [name, nodePath(run.id, node.id, name), text, count]);
  const Shown = SHOWN[tab] ?? Conversation;
  return html`<${Crumbs} run=${run} />
    <div class="heading-row"><${Title}>${node.label || node.alias}</${Title}></div>
    <${Standing} node=${node} />
    <${Tabs} label="Of this node" tabs=${tabs} current=${tab} />
    <div class="node-grid"><div><${Shown} key=${node.id} node=${node} artifacts=${artifacts} /></div>
      <aside aria-label="Settings of the node"><${Inspector} key=${node.id} node=${node} /></aside></div>`;
}

export function Crumbs({ run }) {
  return html`<nav class="crumbs" aria-label="Where this is">
    <a href="/">Runs</a> / <a href=${runPath(run.id)}>${run.label || run.slug}</a></nav>`;
}

function Standing({ node }) {
  const status = statusOf(view.value, node);
  const live = view.value.live[node.id];
  const took = live && duration((now.value - Date.parse(live.startedAt)) / 1000);
  const quiet = live ? (now.value - Date.parse(live.seenAt)) / 1000 : 0;
  const silent = quiet > 30 ? `, silent for ${duration(quiet)}` : "";
  const open = openOf(view.value, node.id);
  const lacks = nodeLacksRunner(view.value, node, now.value, branches.value);
  return html`<p class="row"><${Status} word=${status} />
    <span class="muted">${node.roleTemplate} · ${view.value.run.nodeConfigs[node.id]?.providerName ?? node.provider}</span>
    ${live && html`<span>${live.waiting ?? live.summary} <span class="muted">for ${took}${silent}</span></span>`}
    ${open.length > 0 && html`<a href="/inbox?id=${open[0].id}">
      ${plural(open.length, "request waits", "requests wait")} for you</a>`}</p>
    ${lacks ? html`<${NoRunner} what=${`${plural(node.inboxCount, "message")} unread.`} />`
      : !live && html`<p class="muted"><${Said} text=${whyIdle(view.value, node, now.value, branches.value)} /></p>`}
    ${isDue(view.value, node, now.value) && html`<${Mend} back=${handedBack(branches.value, view.value.run, node)} />`}`;
}

function Conversation({ node }) {
  if (view.value.run.kind === "flow") return html`<${Empty}>A step of a flow has no
    conversation. <a href=${nodePath(view.value.run.id, node.id, "artifacts")}>Artifacts</a></${Empty}>`;
  return html`<${Transcript} node=${node} /><${Composer} node=${node} />`;
}

function artifactsOf(run, node) {
  const all = Object.values(run.artifacts).filter((one) => one.nodeId === node.id || (run.kind === "flow" && !one.nodeId));
  return all.sort((one, other) => other.createdAt.localeCompare(one.createdAt));
}

/** Artifacts by turn, the newest turn first. */
function byTurn(artifacts) {
  const turns = new Map();
  for (const one of artifacts) turns.set(one.turnId ?? "", [...(turns.get(one.turnId ?? "") ?? []), one]);
  return [...turns];
}

function Changes({ node, artifacts }) {
  const { run } = view.value;
  const workspace = run.workspaces[run.kind === "flow" ? "flow" : node.alias];
  const diffs = artifacts.filter((one) => one.kind === "diff");
  const [chosen, choose] = useState("");
  const { value, error } = useFetched(async () => (chosen ? parsePatch((await api.artifact(run.id, chosen)).content)
    : (await api.diff(run.id, { node: node.alias })).files), `${chosen} ${workspace?.headSha}`);
  return html`<div class="row"><label class="row"><span class="muted">Changes of</span>
      <select value=${chosen} onChange=${(event) => choose(event.target.value)}>
        <option value="">all turns, since the base</option>
        ${diffs.map((one) => html`<option value=${one.id}>the turn of ${moment(one.createdAt)}</option>`)}</select></label>
      <${Command} line=${command.diff(run, workspace)} /></div>
    ${error ? html`<${Fault} error=${error} />` : !value ? html`<${Loading} what="changes" />`
      : html`<${Files} files=${value} name=${`${run.slug}.${node.alias}`} />`}`;
}

function Artifacts({ artifacts }) {
  if (!artifacts.length) return html`<${Empty}>No turn has left anything yet.</${Empty}>`;
  return html`${byTurn(artifacts).map(([turn, list]) =>
    html`<section key=${turn} class="blocks">
    <h2 class="minor">${turn ? html`Turn of <${Age} time=${list[0].createdAt} />` : "Of no turn"}</h2>
    ${list.map((one) => html`<${Artifact} key=${one.id} one=${one} />`)}</section>`)}`;
}

/** An artifact that is fetched when it is opened. */
function Artifact({ one, isOpen = false }) {
  const [open, toggle] = useState(isOpen);
  const { run } = view.value;
  return html`<details open=${open} onToggle=${(event) => toggle(event.target.open)}>
    <summary><b>${one.name}</b> <span class="badge">${one.kind}</span> <span class="muted small">
    ${bytes(one.size ?? 0)}</span></summary>
    <p class="row"><${Act} act=${async () => save(await api.bytes(run.id, one.id), one.name)}>Download</${Act}>
      <${Command} line=${command.artifact(run, one)} /></p>
    ${open && (one.available === false ? html`<p class="muted">Its content is on the host ${one.host} alone.</p>`
      : html`<${Content} one=${one} />`)}</details>`;
}

function Content({ one }) {
  const { value, error } = useFetched(() => api.artifact(view.value.run.id, one.id), one.id);
  if (error) return html`<${Fault} error=${error} />`;
  if (!value) return html`<${Loading} what=${one.name} />`;
  if (one.kind === "diff") return html`<${Files} files=${parsePatch(value.content)} />`;
  if (one.mediaType === "text/markdown") return html`<${Markdown} text=${value.content} />`;
  return html`<${Plain} text=${value.content} label=${one.name} />`;
}

function Prompts({ node, artifacts }) {
  const { run } = view.value;
  const prompts = artifacts.filter((one) => one.kind === "prompt");
  const system = run.nodeConfigs[node.id]?.customSystemPrompt;
  return html`<p class="muted">What each turn was given, as it was sent.</p>
    ${system && html`<div class="blocks">
      <details><summary><b>Text of the role</b> <span class="badge">${node.roleTemplate}</span></summary>
      <${Plain} text=${system} label="Text of the role" /></details></div>`}
    ${!prompts.length && html`<${Empty}>No prompt was sent yet.</${Empty}>`}
    ${byTurn(prompts).map(([turn, list], index) => html`<section key=${turn} class="blocks">
      <h2 class="minor">Turn of <${Age} time=${list[0].createdAt} /></h2>
      ${list.map((one) => html`<${Artifact} key=${one.id} one=${one}
        isOpen=${index === 0 && one.name === "prompt.full.txt"} />`)}</section>`)}`;
}

function Log({ node }) {
  const lines = view.value.logs[node.id] ?? [];
  const [text, search] = useState("");
  const shown = text ? lines.filter((one) => one.line.toLowerCase().includes(text.toLowerCase())) : lines;
  const keyed = folded(shown);
  return html`<div class="filters">
    <label><span class="unseen">Search the log</span>
    <input type="search" placeholder="Search the log" value=${text} onInput=${(event) => search(event.target.value)} /></label>
      <span class="muted">${text ? `${shown.length} of ${plural(lines.length, "line")}`
        : plural(lines.length, "line")}</span></div>
    <${VirtualList} items=${keyed} keyOf=${(one) => one.key} estimate=${22} follow=${true} label="Log of ${node.alias}"
      empty=${html`<${Empty}>${text ? "No line fits."
      : "Nothing was logged in the events that are loaded. What the program printed is an artifact of its turn."}</${Empty}>`}
      row=${(one) => html`<div class="log-line"><time datetime=${one.ts}>${moment(one.ts)}</time>
        <span class="source">${one.source}</span>
        <span><${Ansi} line=${one.line} />${one.count > 1 && html` <span class="badge">× ${one.count}</span>`}</span></div>`} />`;
}

/** Equal lines in a row are one with a count. */
function folded(lines) {
  const out = [];
  for (const line of lines) {
    const last = out.at(-1);
    if (last?.line === line.line) last.count += 1;
    else out.push({ ...line, count: 1, key: String(out.length) });
  }
  return out;
}
