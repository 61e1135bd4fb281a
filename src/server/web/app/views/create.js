// New runs: a graph from a pattern or by hand, or a flow of the repository.
import { useState } from "preact/hooks";
import { api } from "../api.js";
import { command, graphCommands } from "../commands.js";
import { html } from "../dom.js";
import { quoted } from "../format.js";
import { Act, Command, Copy, Fault, Field, Loading, Said, Tabs, Title, useFetched } from "../parts.js";
import { go, route, runPath } from "../route.js";
import { mends } from "./runner.js";

const PATTERNS = {
  one: { title: "One agent", nodes: [["ada", "implementer"]], edges: [] },
  pair: { title: "A pair: implementer and reviewer", nodes: [["ada", "implementer"], ["rex", "reviewer"]],
    edges: [["ada", "rex"]] },
  team: { title: "A team with an orchestrator", mode: "AUTO",
    nodes: [["lead", "orchestrator"], ["ada", "implementer"], ["ben", "implementer"], ["rex", "reviewer"]],
    edges: [["lead", "ada"], ["lead", "ben"], ["ada", "lead"], ["ben", "lead"], ["ada", "rex"], ["ben", "rex"]] },
};

const useChoices = () => useFetched(async () => {
  const [{ providers }, { templates }] = await Promise.all([api.providers(), api.templates()]);
  return { providers, roles: templates.map((one) => one.name) };
}, "choices");

export function NewRun() {
  const kind = route.value.query.get("kind") ?? "graph";
  return html`<div class="new-run"><nav class="crumbs" aria-label="Where this is"><a href="/">Runs</a></nav>
    <${Title}>New run</${Title}>
    <${Tabs} label="Kind of run" tabs=${[["graph", "/new", "Graph of agents"], ["flow", "/new?kind=flow", "Flow"]]}
      current=${kind} />
    ${kind === "flow" ? html`<${NewFlow} />` : html`<${NewGraph} />`}</div>`;
}

function NewGraph() {
  const { value, error } = useChoices();
  if (error) return html`<${Fault} error=${error} />`;
  if (!value) return html`<${Loading} what="providers and roles" />`;
  return html`<${GraphForm} ...${value} />`;
}

const usable = (providers) => providers.filter((one) => !one.reason);

function formOf(pattern, provider) {
  const { nodes, edges, mode = "INTERACTIVE" } = PATTERNS[pattern];
  return { pattern, mode, nodes: nodes.map(([alias, role]) => ({ alias, role, provider, permissions: "gated", prompt: "" })),
    edges: edges.map(([from, to]) => ({ from, to })) };
}

/** The edges of a form. An edge has both ways if no orchestrator is at its ends; there two edges make them. */
export function edgesInWords({ nodes, edges }) {
  const isAbove = (alias) => nodes.find((node) => node.alias === alias)?.role === "orchestrator";
  const both = ({ from, to }) => (!isAbove(from) && !isAbove(to)) || edges.some((one) => one.from === to && one.to === from);
  const isSecond = ({ from, to }, index) => edges.slice(0, index).some((one) => one.from === to && one.to === from);
  return edges.filter((edge, index) => !isSecond(edge, index))
    .map((edge) => `${edge.from} ${both(edge) ? "↔" : "→"} ${edge.to}`).join(", ");
}

function GraphForm({ providers, roles }) {
  const first = usable(providers)[0]?.name ?? providers[0]?.name ?? "";
  const [form, set] = useState({ label: "", doneWhen: "", ...formOf("pair", first) });
  const node = (index) => (fields) =>
    set({ ...form, nodes: form.nodes.map((one, place) => (place === index ? { ...one, ...fields } : one)) });
  const lines = graphCommands(form);
  const make = async () => {
    const { run } = await api.createRun({ label: form.label, mode: form.mode,
      ...(form.doneWhen && { doneWhen: form.doneWhen }) });
    const ids = {};
    for (const one of form.nodes) ids[one.alias] = (await api.addNode(run.id, nodeFields(one))).node.id;
    for (const edge of form.edges) await api.addEdge(run.id, { from: ids[edge.from], to: ids[edge.to] });
    for (const one of form.nodes) if (one.prompt) await api.chat(run.id, { nodeId: ids[one.alias], content: one.prompt });
    go(runPath(run.id));
  };
  const isWhole = form.nodes.every((one) => /^[a-z0-9][a-z0-9-]{0,31}$/.test(one.alias)) && form.nodes.length > 0;
  return html`<form onSubmit=${(event) => event.preventDefault()}>
    <${Field} label="Pattern">
      <select value=${form.pattern} onChange=${(event) => set({ ...form, ...formOf(event.target.value, first) })}>
      ${Object.entries(PATTERNS).map(([key, one]) => html`<option value=${key}>${one.title}</option>`)}</select></${Field}>
    <${Field} label="Label"><input value=${form.label} onInput=${(event) => set({ ...form, label: event.target.value })}
      placeholder="What it is about" /></${Field}>
    ${form.mode === "AUTO" && html`<${Field} label="Done when" hint="A text that the orchestrator judges by, or validator:NAME">
      <input value=${form.doneWhen} onInput=${(event) => set({ ...form, doneWhen: event.target.value })} /></${Field}>`}
    ${form.nodes.map((one, index) =>
      html`<${NodeFields} key=${index} one=${one} change=${node(index)} providers=${providers} roles=${roles} />`)}
    <p class="muted">${edgesInWords(form)}</p>
    <p><${Act} kind="primary" act=${make} disabled=${!isWhole}>Create the run</${Act}></p>
    <details><summary>In a terminal</summary>
      <div class="commands">${lines.map((line) => html`<code key=${line}>${line}</code>`)}</div>
      <p><${Copy} text=${() => lines.join("\n")} label="Copy the commands" /></p></details>
    <p class="muted small">A runner takes the turns: <${Command} line="aynig run --watch" />, or this server with
      ${" "}<code>--run</code></p>
  </form>`;
}

const nodeFields = ({ alias, role, provider, permissions }) =>
  ({ label: alias, alias, roleTemplate: role, provider, permissions: { cliPermissionsMode: permissions } });

function NodeFields({ one, change, providers, roles }) {
  const set = (field) => (event) => change({ [field]: event.target.value });
  const chosen = providers.find((provider) => provider.name === one.provider);
  const cannotAsk = chosen?.protocol === "text" && one.permissions === "gated";
  const warning = chosen?.reason ? `It cannot be used on this host: ${chosen.reason}.`
    : cannotAsk ? "A provider with the protocol text cannot ask." : "";
  // The reason names a command only if it knows a better one.
  const lines = mends(chosen?.reason);
  if (chosen?.reason && !lines.length) lines.push(command.provider(chosen.name));
  return html`<fieldset class="node-form"><legend>${one.alias || "Node"}</legend><div class="form-grid">
      <${Field} label="Alias"><input value=${one.alias} onInput=${set("alias")} pattern="[a-z0-9][a-z0-9\\-]*"
        maxlength="32" /></${Field}>
      <${Field} label="Role"><select value=${one.role} onChange=${set("role")}>${roles.map((role) =>
        html`<option>${role}</option>`)}</select></${Field}>
      <${Field} label="Provider">
        <select value=${one.provider} onChange=${set("provider")}>${providers.map((provider) =>
        html`<option value=${provider.name}>
        ${provider.name}${provider.reason ? " (not usable here)" : ""}</option>`)}</select></${Field}>
      <${Field} label="Tool use">
        <select value=${one.permissions} onChange=${set("permissions")}><option value="gated">ask me first</option>
        <option value="skip">allow without asking</option></select></${Field}></div>
    ${warning && html`<p class="hint"><${Said} text=${warning} /></p>`}
    ${lines.length > 0 && html`<p class="hint row">Install it, or name the program:
      ${lines.map((line) => html`<${Command} key=${line} line=${line} />`)}</p>
      <p class="hint row">A provider of your own: <${Command} line="git config aynig.provider.NAME.kind custom" />
        <${Command} line=${command.provider("NAME")} /> List all: <${Command} line="aynig provider list" /></p>`}
    ${"prompt" in one && html`<${Field} label="First message">
      <textarea rows="2" value=${one.prompt} onInput=${set("prompt")}></textarea></${Field}>`}</fieldset>`;
}

/** Adds a node to a run. */
export function NodeForm({ run, onDone }) {
  const { value, error } = useChoices();
  const [one, set] = useState({ alias: "", role: "implementer", provider: "", permissions: "gated" });
  if (error) return html`<${Fault} error=${error} />`;
  if (!value) return html`<${Loading} what="providers and roles" />`;
  const whole = { ...one, provider: one.provider || usable(value.providers)[0]?.name || value.providers[0]?.name || "" };
  const line = command.addNode(run.slug, whole);
  return html`<${NodeFields} one=${whole} change=${(fields) => set({ ...whole, ...fields })} ...${value} />
    <p><${Act} kind="primary" act=${() => api.addNode(run.id, nodeFields(whole))} line=${line} disabled=${!one.alias}
      onDone=${onDone}>Add the node</${Act}></p>`;
}

function NewFlow() {
  const { value, error } = useFetched(api.flows, "flows");
  if (error) return html`<${Fault} error=${error} />`;
  if (!value) return html`<${Loading} what="flows" />`;
  if (!value.flows.length) return html`<p class="muted">The repository has no flow. This installs examples:</p>
    <p><${Command} line="aynig install orchestration --apply" /></p>
    <p class="muted">A flow is a YAML file. This checks one of your own:</p><${Command} line="aynig flow check FILE" />`;
  return html`<${FlowForm} flows=${value.flows} commit=${value.commit} />`;
}

function FlowForm({ flows, commit }) {
  const [form, set] = useState({ path: flows[0].path, label: "", base: "", inputs: {} });
  const flow = flows.find((one) => one.path === form.path);
  const values = Object.fromEntries(flow.inputs.map((one) => [one.name, form.inputs[one.name] ?? one.default ?? ""]));
  const missing = flow.inputs.some((one) => one.required && !values[one.name].trim());
  const line = ["aynig flow start", quoted(form.path),
    ...Object.entries(values).filter(([, value]) => value).map(([name, value]) => `--input ${quoted(`${name}=${value}`)}`),
    ...(form.label ? ["--label", quoted(form.label)] : []), ...(form.base ? ["--base", quoted(form.base)] : [])].join(" ");
  const start = async () => {
    const { run } = await api.startFlow({ path: form.path, commit, inputs: values, ...(form.label && { label: form.label }),
      ...(form.base && { base: form.base }) });
    go(runPath(run.id));
  };
  return html`<form onSubmit=${(event) => event.preventDefault()}>
    <${Field} label="Flow"><select value=${form.path}
      onChange=${(event) => set({ ...form, path: event.target.value, inputs: {} })}>
      ${flows.map((one) => html`<option value=${one.path}>${one.path}: ${one.workflowId}</option>`)}</select></${Field}>
    <p class="muted">${flow.description}</p>${flow.fault && html`<p class="fault">${flow.fault}</p>`}
    ${flow.inputs.map((one) =>
      html`<${Field} key=${one.name} label=${one.name + (one.required ? "" : " (optional)")} hint=${one.description}>
      <textarea rows="3" required=${one.required} value=${values[one.name]}
      onInput=${(event) => set({ ...form, inputs: { ...form.inputs, [one.name]: event.target.value } })}></textarea></${Field}>`)}
    <${Field} label="Label"><input value=${form.label}
      onInput=${(event) => set({ ...form, label: event.target.value })} /></${Field}>
    <${Field} label="Base" hint="A branch or commit; HEAD if it is empty">
      <input value=${form.base} onInput=${(event) => set({ ...form, base: event.target.value })} /></${Field}>
    <p><${Act} kind="primary" act=${start} line=${line}
      disabled=${missing || Boolean(flow.fault)}>Start the flow</${Act}></p></form>`;
}
