// What a node is and may do, and the verbs that steer it.
import { useState } from "preact/hooks";
import { api } from "../api.js";
import { command } from "../commands.js";
import { html } from "../dom.js";
import { cost, duration, plural, tokens } from "../format.js";
import { Act, Age, Command, Copy, Exact, Field } from "../parts.js";
import { cut } from "../requests.js";
import { go, nodePath, runPath } from "../route.js";
import { view } from "../store.js";
import { statusOf } from "../status.js";
import { RollBack } from "./work.js";

const CAPABILITIES = [["writeCode", "change code"], ["writeDocs", "change documents"], ["runCommands", "run commands"],
  ["delegateOnly", "only hand work on"]];

const TOOL_USE = { gated: "ask me first", skip: "allow without asking" };

const MANAGES = { none: "no", self: "its own edges only", all: "yes" };

function managesOf({ capabilities: { edgeManagement }, permissions }) {
  if (edgeManagement === "none") return MANAGES.none;
  return `${MANAGES[edgeManagement]}, ${permissions.agentManagementRequiresApproval ? "after" : "without"} asking`;
}

function usedOf({ usage, spent }) {
  const parts = [`${tokens(usage?.totalTokens)} tokens`];
  if (usage?.costUsd !== undefined) parts.push(cost(usage.costUsd));
  if (spent) parts.push(plural(spent.turns, "turn"), duration(spent.wallMillis / 1000));
  return parts.join(", ");
}

export function Inspector({ node }) {
  const { run } = view.value;
  const config = run.nodeConfigs[node.id] ?? {};
  const edges = Object.values(run.edges).filter((edge) => edge.from === node.id || edge.to === node.id);
  const granted = Object.values(run.approvals).filter((one) => one.nodeId === node.id && one.always && one.resolution);
  const workspace = run.workspaces[node.alias];
  const { sessionId, runner } = node.session;
  const [editing, edit] = useState(false);
  const settings = command.setNode(run, node, ["--label", node.label]);
  return html`<div class="card">
    ${run.kind !== "flow" && html`<${Verbs} node=${node} />`}
    <dl class="facts">
      <div><dt>Alias</dt><dd><code>${node.alias}</code></dd></div>
      <div><dt>Provider</dt><dd>${config.providerName ?? node.provider}${config.model && ` · ${config.model}`}</dd></div>
      <div><dt>Tool use</dt><dd>${TOOL_USE[node.permissions.cliPermissionsMode]}</dd></div>
      <div><dt>May create nodes and edges</dt><dd>${managesOf(node)}</dd></div>
      <div><dt>May</dt><dd>${CAPABILITIES.filter(([name]) => node.capabilities[name]).map(([, words]) => words).join(", ")
        || "nothing"}</dd></div>
      <div><dt>Session</dt><dd>${sessionId === "pending" ? "none yet" : html`<code>${sessionId.slice(0, 8)}</code>`}
        ${runner && ` on ${runner}`}</dd></div>
      <div><dt>Inbox</dt><dd>${node.inboxCount ?? 0} unread</dd></div>
      <div><dt>Used</dt><dd>${usedOf(node)}</dd></div>
      ${Object.keys(node.limits ?? {}).length > 0
        && html`<div><dt>Limits</dt>
        <dd>${Object.entries(node.limits).map(([key, value]) => `${key} ${value}`).join(", ")}</dd></div>`}
      ${workspace && html`<div><dt>Branch</dt>
        <dd><code>${workspace.branchName}</code> <${Copy} text=${workspace.branchName} label="Copy the branch" /><br />
        <code>${workspace.headSha.slice(0, 10)}</code></dd></div>`}
      <div><dt>Active</dt><dd><${Age} time=${node.lastActivityAt} /></dd></div>
    </dl>
    ${granted.length > 0 && html`<h2 class="minor">Always approved</h2>
      <ul>${granted.map((one) => html`<li key=${one.id}>${one.always === "tool" ? "every call of " : "one exact call of "}
        <${Exact} text=${cut(one.tool.name)} /> · ask again: <${Command} line=${command.revoke(one)} /></li>`)}</ul>`}
    ${edges.length > 0 && html`<h2 class="minor">Edges</h2>
      <ul>${edges.map((edge) => html`<${EdgeOf} key=${edge.id} edge=${edge} node=${node} />`)}</ul>`}
    ${run.kind !== "flow" && html`<p>
      <span class="act"><button type="button" aria-expanded=${editing} onClick=${() => edit(!editing)}
        title=${settings}>Change settings…</button><${Copy} text=${settings} label="Copy the command" /></span></p>`}
    ${editing && html`<${Settings} node=${node} config=${config} onDone=${() => edit(false)} />`}
  </div>`;
}

function EdgeOf({ edge, node }) {
  const { run } = view.value;
  const isOut = edge.from === node.id;
  const other = isOut ? edge.to : edge.from;
  return html`<li>${isOut ? "→" : "←"} <a href=${nodePath(run.id, other)}>${run.nodes[other]?.alias ?? other}</a>
    ${" "}<span class="muted small">${edge.label}${edge.bidirectional && ", both ways"}</span></li>`;
}

function Verbs({ node }) {
  const { run } = view.value;
  const isRunning = statusOf(view.value, node) === "running";
  const verb = (name) => ({ act: () => api.steerNode(run.id, node.id, name), line: command.node(run, node, name) });
  return html`<div class="row">
    ${isRunning && html`<${Act} ...${verb("interrupt")}>Interrupt</${Act}>`}
    ${node.hold || node.status === "failed" ? html`<${Act} kind="primary" ...${verb("start")}>Start</${Act}>`
      : html`<${Act} ...${verb("stop")}>Stop</${Act}>`}
    <${Act} ...${verb("reset")} confirm="Forget its session?">Reset</${Act}>
    <${RollBack} run=${run} node=${node} />
    <${Act} act=${() => api.removeNode(run.id, node.id)} line=${command.node(run, node, "remove")}
      confirm="Remove ${node.alias}?" onDone=${() => go(runPath(run.id))}>Remove</${Act}>
  </div>`;
}

function Settings({ node, config, onDone }) {
  const { run } = view.value;
  const [form, set] = useState({ label: node.label, mode: node.permissions.cliPermissionsMode,
    edges: node.capabilities.edgeManagement,
    asks: node.permissions.agentManagementRequiresApproval, model: config.model ?? "", ...node.capabilities });
  const change = (field) => (event) =>
    set({ ...form, [field]: event.target.type === "checkbox" ? event.target.checked : event.target.value });
  const capabilities = { ...Object.fromEntries(CAPABILITIES.map(([name]) => [name, form[name]])), edgeManagement: form.edges };
  const permissions = { cliPermissionsMode: form.mode, agentManagementRequiresApproval: form.asks };
  const options = ["--label", form.label, "--permissions", form.mode, "--edge-management", form.edges, "--management-approval",
    String(form.asks),
    ...CAPABILITIES.filter(([name]) => form[name] !== node.capabilities[name]).flatMap(([name]) => ["--capability",
      `${name}=${form[name]}`])];
  const save = () => api.patchNode(run.id, node.id, { patch: { label: form.label, capabilities, permissions } });
  return html`<form onSubmit=${(event) => event.preventDefault()}>
    <${Field} label="Label"><input value=${form.label} onInput=${change("label")} /></${Field}>
    <${Field} label="Tool use">
      <select value=${form.mode} onChange=${change("mode")}><option value="gated">ask me first</option>
      <option value="skip">allow without asking</option></select></${Field}>
    <${Field} label="May create nodes and edges">
      <select value=${form.edges} onChange=${change("edges")}><option value="none">no</option>
      <option value="self">its own edges only</option><option value="all">yes</option></select></${Field}>
    ${[...CAPABILITIES.map(([name, words]) => [name, `May ${words}`]),
      ["asks", "Ask before it creates nodes and edges"]].map(([name, words]) => html`
      <p><label><input type="checkbox" checked=${form[name]} onChange=${change(name)} /> ${words}</label></p>`)}
    <${Act} kind="primary" act=${save} line=${command.setNode(run, node, options)} onDone=${onDone}>Save</${Act}>
  </form>`;
}
