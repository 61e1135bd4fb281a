// What waits for a person: requests of nodes, gates of flows, and branches.
import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api.js";
import { command } from "../commands.js";
import { html } from "../dom.js";
import { callLine, moment, plural } from "../format.js";
import { wantNotices } from "../notices.js";
import { Age, Command, Copy, Empty, Fault, Loading, Title } from "../parts.js";
import { keys, notices } from "../prefs.js";
import { branchPath, nodePath, route, runPath, setQuery } from "../route.js";
import { approvals, loadApprovals, waitingBranches } from "../store.js";
import { Batch, nameOf } from "./batch.js";
import { Args, EditDiff } from "./call.js";
import { Same } from "./shell.js";
import { Answered, Waits } from "./waits.js";

export function Inbox() {
  const list = approvals.value;
  const [chosen, choose] = useState(route.value.query.get("id"));
  const [doing, begin] = useState("");
  const [ticks, tick] = useState(() => new Set());
  const ticked = (list ?? []).filter((one) => ticks.has(one.approvalId));
  const index = list?.findIndex((one) => one.approvalId === chosen) ?? -1;
  const box = useRef(null);

  const select = (place) => {
    const one = list[Math.min(Math.max(place, 0), list.length - 1)];
    if (!one) return;
    choose(one.approvalId);
    begin("");
    setQuery({ id: one.approvalId });
    requestAnimationFrame(() => box.current?.querySelector("[aria-current=true]")?.scrollIntoView({ block: "nearest" }));
  };

  // What is shown stays what it is when the list changes: no key may answer another request than the one that was read.
  useEffect(() => {
    if (!chosen && list?.length) choose(list[0].approvalId);
  });
  const answered = () => {
    const next = list[index + 1] ?? list[index - 1];
    choose(next?.approvalId);
    setQuery({ id: next?.approvalId });
    loadApprovals();
  };

  const current = list?.[index];
  const actions = { a: () => (doing === "approve" ? box.current.parentElement.querySelector(".primary").click()
    : begin("approve")), d: () => begin("deny"), e: () => begin("edit") };
  // Two keys may come before an effect: what they do is always what is shown now.
  const does = useRef(null);
  does.current = list?.length ? { j: () => select(index + 1), k: () => select(index - 1), ...(current && actions) } : {};
  useEffect(() => {
    const press = (event) => {
      const act = isForUs(event) && does.current[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);

  if (!list) return html`<${Title}>Inbox</${Title}><${Loading} what="what waits for you" />`;
  const others = waitingBranches.value;
  return html`<div class="heading-row"><${Title}>Inbox</${Title}><${Wishes} /></div>
    <${Same} line="aynig orch approvals" />
    ${!list.length && !others.length && html`<${Empty}>Nothing waits for you.</${Empty}>`}
    <${Batch} ticked=${ticked} clear=${() => tick(new Set())} />
    ${list.length > 0 && html`<div class="inbox">
      <ol class="inbox-list" ref=${box} aria-label="Requests">${list.map((one, place) => html`<li key=${one.approvalId}>
        <input type="checkbox" aria-label="Tick ${nameOf(one)} of ${one.alias ?? "the flow"}, ${one.label || one.slug}"
          checked=${ticks.has(one.approvalId)} onChange=${() => tick(toggled(ticks, one.approvalId))} />
        <button type="button" class="inbox-row" aria-current=${place === index ? "true" : undefined}
          onClick=${() => select(place)}>
          <b>${nameOf(one)}</b>
          <span class="muted">${one.alias ?? "flow"} · ${one.label || one.slug}</span>
          <${Age} time=${one.requestedAt} />
          ${one.tool.name !== "gate" && html`<code>${callLine(one.tool.args)}</code>`}
        </button></li>`)}</ol>
      ${current ? html`<${Request} key=${chosen} one=${current} doing=${doing} begin=${begin} onAnswered=${answered} />`
        : html`<div class="card"><p role="status">${chosen && "This request was answered, or is not asked any more."}</p>
          <button type="button" onClick=${() => select(0)}>Show the next one</button></div>`}
    </div>`}
    <${Answered} />
    ${others.length > 0 && html`<section aria-labelledby="waiting"><h2 id="waiting">Branches that wait for an answer</h2>
      <ul class="cards">${others.map((one) => html`<li key=${one.branch} class="card">
        <a href=${branchPath(one.branch)}><b>${one.branch}</b></a> <span class="muted">${one.state}</span>
        <${Waits} one=${one} /></li>`)}</ul></section>`}`;
}

function toggled(ticks, id) {
  const next = new Set(ticks);
  if (!next.delete(id)) next.add(id);
  return next;
}

/** Single keys are ours only while nobody types, composes, or holds another key. */
function isForUs(event) {
  if (keys.value !== "on" || event.defaultPrevented || event.isComposing || event.repeat) return false;
  if (event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return false;
  if (document.querySelector("dialog[open]")) return false;
  return !event.target.closest("input, textarea, select, [contenteditable]");
}

function Wishes() {
  const on = keys.value === "on";
  return html`<div class="wishes">
    <label><input type="checkbox" checked=${on} onChange=${() => (keys.value = on ? "off" : "on")} /> Keys${" "}
      <span class="muted">${on
        ? html`<kbd>j</kbd> <kbd>k</kbd> move · <kbd>a</kbd> approve · <kbd>d</kbd> deny · <kbd>e</kbd> edit`
        : "off"}</span></label>
    <label><input type="checkbox" checked=${notices.value === "on"}
      onChange=${() => (notices.value === "on" ? (notices.value = "off") : wantNotices())} /> Notify me</label>
  </div>`;
}

/** A request with all that is needed to decide it. */
export function Request({ one, doing, begin, onAnswered }) {
  const { tool, runId, nodeId } = one;
  const isGate = tool.name === "gate";
  const consequence = one.expiresAt ? `If nobody answers until ${moment(one.expiresAt)}, it counts as no.`
    : isGate ? "The run waits until somebody answers." : "Nothing runs until somebody answers: the node waits.";
  return html`<article class="request card" aria-label="The request">
    <header><h2>${isGate ? tool.args.question ?? "A gate is open" : `${one.alias ?? "A node"} wants to use ${tool.name}`}</h2>
      <p class="muted"><a href=${runPath(runId)}>${one.label || one.slug}</a>
        ${!isGate && html` · <a href=${nodePath(runId, nodeId)}>${one.alias}</a>`} · asked <${Age} time=${one.requestedAt} />
        ${one.branch && html` · branch <code>${one.branch}</code>`}${one.cwd && html` · in <code>${one.cwd}</code>`}</p></header>
    ${isGate ? html`<${Gate} args=${tool.args} run=${runId} node=${nodeId} />` : html`<${Args} tool=${tool} />`}
    <${EditDiff} args=${tool.args} />
    ${one.context && one.context !== tool.args.question
      && html`<details open><summary>Context</summary><pre tabindex="0">${one.context}</pre></details>`}
    ${one.consents?.length > 0
      && html`<p>${plural(one.consents.length, "person has", "people have")} approved; more are needed.</p>`}
    <p class="muted">${consequence}</p>
    <${Answer} one=${one} doing=${doing} begin=${begin} onAnswered=${onAnswered} />
  </article>`;
}

function Gate({ args, run, node }) {
  const { changes, evidence, head, approvers = [] } = args;
  return html`<dl class="facts">
    ${evidence && html`<div><dt>Before it</dt>
      <dd>${evidence.step}: ${evidence.outcome}${evidence.evidence && ` (${evidence.evidence})`}</dd></div>`}
    ${changes && html`<div><dt>Changes</dt>
      <dd>${plural(changes.files,
      "file")}: ${changes.paths?.join(", ")} · <a href=${nodePath(run, node, "diff")}>read the diff</a></dd></div>`}
    ${head && html`<div><dt>Commit</dt><dd><code>${head.slice(0, 10)}</code></dd></div>`}
    <div><dt>May answer</dt><dd>${approvers.length ? approvers.join(", ") : "everybody"}</dd></div>
  </dl>`;
}

function Answer({ one, doing, begin, onAnswered }) {
  const [reason, setReason] = useState("");
  const [text, setText] = useState(() => JSON.stringify(one.tool.args, null, 2));
  const [state, set] = useState({ busy: false, error: null });
  const isGate = one.tool.name === "gate";

  const send = async (resolution) => {
    set({ busy: true, error: null });
    await api.resolve(one.approvalId, resolution, one.runId).then(() => {
      set({ busy: false, error: null });
      begin("");
      onAnswered();
    }, (error) => set({ busy: false, error }));
  };
  // The key `a` asks once more: one letter alone lets nothing run.
  const approve = () => send({ status: "approved" });
  const args = parsed(text);
  return html`<div class="answer">
    <div class="row">
      <button type="button" class="primary" disabled=${state.busy} onClick=${approve}
        ref=${(button) => doing === "approve" && button?.focus()}>Approve</button>
      <button type="button" disabled=${state.busy} aria-expanded=${doing === "deny"}
        onClick=${() => begin(doing === "deny" ? "" : "deny")}>Deny…</button>
      ${!isGate && html`<button type="button" disabled=${state.busy} aria-expanded=${doing === "edit"}
        onClick=${() => begin(doing === "edit" ? "" : "edit")}>Edit arguments…</button>`}
      <${Copy} text=${command.approve(one)} label="Copy the command" />
    </div>
    ${doing === "approve" && html`<p class="hint"
      role="status">Press <kbd>a</kbd> or <kbd>Enter</kbd> to approve, or <kbd>k</kbd> or <kbd>j</kbd> to leave it.</p>`}
    ${doing === "deny" && html`<form onSubmit=${(event) => { event.preventDefault(); send({ status: "denied", reason }); }}>
      <label class="field"><span>The reason, which the agent reads</span>
        <textarea rows="2" required value=${reason} onInput=${(event) => setReason(event.target.value)}
          ref=${focusOnce}></textarea></label>
      <button class="danger" disabled=${state.busy || !reason.trim()}>Deny</button>
      <${Command} line=${command.deny(one, reason)} /></form>`}
    ${doing === "edit" && !isGate
      && html`<form onSubmit=${(event) => { event.preventDefault(); send({ status: "modified", modifiedArgs: args }); }}>
      <label class="field"><span>The arguments that are used instead, as JSON</span>
        <textarea rows="8" class="code" spellcheck="false" value=${text} onInput=${(event) => setText(event.target.value)}
          ref=${focusOnce}></textarea></label>
      ${!args && html`<p class="hint" role="status">This is no JSON object.</p>`}
      <button class="primary" disabled=${state.busy || !args}>Approve with these arguments</button>
      <${Command} line=${args ? command.approve(one, args) : ""} /></form>`}
    ${state.error && html`<${Fault} error=${state.error} />`}
  </div>`;
}

const focusOnce = (element) => {
  if (element && !element.dataset.focused) {
    element.dataset.focused = "yes";
    element.focus();
  }
};

function parsed(text) {
  try {
    const value = JSON.parse(text);
    return value && typeof value === "object" && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}
