// What waits for a person: requests of nodes, gates of flows, and branches.
import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api.js";
import { command } from "../commands.js";
import { html } from "../dom.js";
import { callLine, moment, plural } from "../format.js";
import { wantNotices } from "../notices.js";
import { Age, Command, Empty, Exact, Loading, Same, Title, useFetched } from "../parts.js";
import { keys, notices } from "../prefs.js";
import { cut, isGate, nameBox, nameOf, visible } from "../requests.js";
import { branchPath, nodePath, route, runPath, setQuery } from "../route.js";
import { approvals, loadApprovals, waitingBranches } from "../store.js";
import { Answer } from "./answer.js";
import { Batch } from "./batch.js";
import { Args, EditDiff } from "./call.js";
import { OPCODES } from "./track.js";
import { Answered, Waits } from "./waits.js";

export function Inbox() {
  // What was answered here may be in the list for a moment more.
  const done = useRef(new Set());
  const [sent, mark] = useState("");
  const list = approvals.value?.filter((one) => !done.current.has(one.approvalId));
  const [said, say] = useState(["", ""]);
  const [chosen, choose] = useState(route.value.query.get("id"));
  const [doing, begin] = useState("");
  const [ticks, tick] = useState(() => new Set());
  const selected = (list ?? []).filter((one) => ticks.has(one.approvalId));
  const index = list?.findIndex((one) => one.approvalId === chosen) ?? -1;
  const box = useRef(null);

  const select = (place) => {
    const one = list[Math.min(Math.max(place, 0), list.length - 1)];
    if (!one) return;
    choose(one.approvalId);
    begin("");
    say(["", ""]);
    setQuery({ id: one.approvalId });
    requestAnimationFrame(() => box.current?.querySelector("[aria-current=true]")?.scrollIntoView({ block: "nearest" }));
  };

  // What is shown stays what it is when the list changes: no key may answer another request than the one that was read.
  useEffect(() => {
    if (!chosen && list?.length) choose(list[0].approvalId);
  });
  const answered = (one) => (words, isOver) => {
    const next = list[index + 1] ?? list[index - 1];
    if (isOver) done.current.add(one.approvalId);
    choose(next?.approvalId);
    setQuery({ id: next?.approvalId });
    say([words, visible(`${cut(nameOf(one))} of ${one.alias ?? "the flow"}`)]);
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

  if (!list) return html`<${Title}>Inbox</${Title}><${Loading} what="requests" />`;
  const others = waitingBranches.value;
  return html`<div class="heading-row"><${Title}>Inbox</${Title}><${Wishes} /></div>
    <${Same} line=${command.waiting()} />
    <p class="said" aria-live="polite">${said[0]
      && html`<strong>${said[0]}</strong> <span class="muted">${said[1]}</span>`}</p>
    ${!list.length && !others.length && html`<${Empty}>Nothing is waiting for you.</${Empty}>`}
    <${Batch} selected=${selected} clear=${() => tick(new Set())} />
    ${list.length > 0 && html`<div class="inbox">
      <ol class="inbox-list" ref=${box} aria-label="Requests">${list.map((one, place) => html`<li key=${one.approvalId}>
        <input type="checkbox" 
          aria-label=${visible(`Select ${cut(nameOf(one))} of ${one.alias ?? "the flow"}, ${one.label || one.slug}`)}
          checked=${ticks.has(one.approvalId)} onChange=${() => tick(toggled(ticks, one.approvalId))} />
        <button type="button" class="inbox-row" aria-current=${place === index ? "true" : undefined}
          onClick=${() => select(place)}>
          <b><${Exact} text=${cut(nameOf(one))} /></b>
          <span class="muted"><${Exact} text=${`${one.alias ?? "flow"} · ${one.label || one.slug}`} /></span>
          <${Age} time=${one.requestedAt} />
          ${!isGate(one) && html`<code><${Exact} text=${callLine(one.tool.args)} /></code>`}
        </button></li>`)}</ol>
      ${current ? html`<${Request} key=${chosen} one=${current} doing=${doing} begin=${begin}
          onSend=${(isSent) => mark(isSent ? chosen : "")} onAnswered=${answered(current)} />`
        : chosen && sent !== chosen && html`<div class="card">
          <p role="status">This request was answered by somebody else, or withdrawn.</p>
          <button type="button" onClick=${() => select(0)}>Show the next request</button></div>`}
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
function Request({ one, doing, begin, onSend, onAnswered }) {
  const { tool, runId, nodeId } = one;
  const gate = isGate(one);
  const consequence = one.expiresAt ? `If nobody answers by ${moment(one.expiresAt)}, it is ${gate ? "rejected" : "denied"}.`
    : gate ? "The run waits until somebody answers." : "Nothing runs until somebody answers: the node waits.";
  return html`<article class="request card" aria-label="The request">
    <header><h2 ...${nameBox(one)}>${gate ? html`<${Exact} text=${tool.args?.question ?? "A gate is open"} />`
      : html`${one.alias ?? "A node"} wants to use <${Exact} text=${tool.name} />`}</h2>
      <p class="muted"><a href=${runPath(runId)}>${one.label || one.slug}</a>
        ${!gate && html` · <a href=${nodePath(runId, nodeId)}>${one.alias}</a>`} · asked <${Age} time=${one.requestedAt} />
        ${one.branch && html` · branch <code><${Exact} text=${one.branch} /></code>`}${one.cwd
        && html` · in <code><${Exact} text=${one.cwd} /></code>`}</p></header>
    ${gate ? html`<${Gate} args=${tool.args} run=${runId} node=${nodeId} />` : html`<${Args} tool=${tool} />`}
    ${!gate && html`<${EditDiff} args=${tool.args} />`}
    ${one.context && one.context !== tool.args?.question
      && html`<details open><summary>Context</summary><pre tabindex="0"><${Exact} text=${one.context} isBlock /></pre></details>`}
    ${one.consents?.length > 0
      && html`<p>${plural(one.consents.length, "person has", "people have")} approved; more are needed.</p>`}
    <p class="muted">${consequence}</p>
    ${gate && html`<p class="small muted">In a terminal: <${Command} line=${command.showFlow(one.slug)} /></p>`}
    <${Answer} one=${one} doing=${doing} begin=${begin} onSend=${onSend} onAnswered=${onAnswered} />
  </article>`;
}

/** The ends of a gate, in words. @type {[string, string][]} */
const ENDS = [["gate_approved", "Approve"], ["gate_rejected", "Reject"], ["gate_timed_out", "No answer in time"]];

/** What each answer of the open gate of a flow leads to. @param {any} of what `GET /api/runs/:id/flow` answers */
function waysOn(of) {
  const step = of?.graph.steps.find((one) => one.id === of.show.currentStep && one.opcode === "GATE");
  const wordsOf = (id) => {
    const next = of.graph.steps.find((one) => one.id === id);
    return next ? `${id} (${OPCODES[next.opcode]})` : "the run ends";
  };
  return ENDS.map(([outcome, words]) => [words, step?.routes.find((route) => route.outcome === outcome)?.target])
    .filter(([, target]) => target).map(([words, target]) => `${words}: ${wordsOf(target)}`);
}

function Gate({ args, run, node }) {
  const { changes, evidence, head, approvers = [] } = args;
  const ways = waysOn(useFetched(() => api.flowOf(run), run).value);
  return html`<dl class="facts">
    ${evidence && html`<div><dt>Before it</dt>
      <dd><${Exact} text=${`${evidence.step}: ${evidence.outcome}`} />
        ${evidence.evidence && html` (<${Exact} text=${evidence.evidence} />)`}</dd></div>`}
    ${changes && html`<div><dt>Changes</dt>
      <dd>${plural(changes.files,
      "file")}: <${Exact} text=${changes.paths?.join(", ")} /> ·${" "}
        <a href=${nodePath(run, node, "diff")}>read the diff</a></dd></div>`}
    ${head && html`<div><dt>Commit</dt><dd><code>${head.slice(0, 10)}</code></dd></div>`}
    ${ways.length > 0 && html`<div><dt>Then</dt><dd>${ways.join(" · ")}</dd></div>`}
    <div><dt>May answer</dt><dd>${approvers.length ? html`<${Exact} text=${approvers.join(", ")} />` : "everybody"}</dd></div>
  </dl>`;
}
