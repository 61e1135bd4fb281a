// The runner's own table of branches, and the story of one.
import { api } from "../api.js";
import { command } from "../commands.js";
import { html } from "../dom.js";
import { duration, moment, plural } from "../format.js";
import { Age, Command, Empty, Fault, Loading, Said, Same, Status, Title, useFetched } from "../parts.js";
import { branchPath, route, setQuery } from "../route.js";
import { branches } from "../store.js";
import { Answered, Waits } from "./waits.js";

/** The kinds with the five words, the most urgent first. @type {[string, string][]} */
const KINDS = [["waits-for-you", "needs you"], ["stalled", "failed"], ["invalid", "failed"], ["expired", "waiting"],
  ["working", "working"], ["ready", "waiting"],
  ["parked", "waiting"], ["waiting", "waiting"], ["rests", "finished"], ["excluded", "waiting"], ["unmanaged", "waiting"]];
const WORDS = new Map(KINDS);
const ORDER = new Map(KINDS.map(([kind], index) => [kind, index]));

export function Branches() {
  const { query } = route.value;
  const [kind, text, runs] = ["kind", "q", "runs"].map((name) => query.get(name) ?? "");
  const status = branches.value;
  if (!status) return html`<${Title}>Branches</${Title}><${Loading} what="branches" />`;
  const all = status.branches.filter((one) => runs || !/^(run|work)\//.test(one.branch));
  const shown = all.filter((one) => (!kind || one.kind === kind)
    && (!text || `${one.branch} ${one.state} ${one.subject}`.toLowerCase().includes(text.toLowerCase())))
    .sort((one, other) => ORDER.get(one.kind) - ORDER.get(other.kind) || one.branch.localeCompare(other.branch));
  const kinds = KINDS.map(([name]) => name).filter((name) => all.some((one) => one.kind === name));
  return html`<${Title}>Branches</${Title}><${Same} line=${command.status()} />
    <${Runners} runners=${status.runners ?? []} />
    <div class="filters" role="search">
      <label><span class="unseen">Search branches</span>
      <input type="search" placeholder="Search branches" value=${text}
      onInput=${(event) => setQuery({ q: event.target.value })} /></label>
      <div class="chips" role="group" aria-label="Kind">
        ${["", ...kinds].map((name) =>
        html`<button type="button" key=${name} aria-pressed=${kind === name} onClick=${() => setQuery({ kind: name })}>
        ${name || "all"}</button>`)}</div>
      <label><input type="checkbox" checked=${Boolean(runs)}
        onChange=${() => setQuery({ runs: runs ? "" : "1" })} /> with the branches of runs</label></div>
    ${!shown.length ? html`<${Empty} line="aynig set-state --state STATE BRANCH">
      ${all.length ? "No branch fits." : "There is no branch with a state yet."}</${Empty}>` : html`
    <div class="scroll-x" tabindex="0" role="region" aria-label="Branches">
      <table class="table"><thead>
      <tr><th>Kind</th><th>Branch</th><th>State</th><th>What it waits for, or does</th><th class="right">Since</th></tr></thead>
      <tbody>${shown.map((one) =>
        html`<tr key=${one.branch}><td><${Status} word=${WORDS.get(one.kind) ?? "waiting"} label=${one.kind} /></td>
        <td><a class="strong" href=${branchPath(one.branch)}>${one.branch}</a>
          ${one.runner && html`<div class="muted small">held by ${one.runner}${leftOf(one)}</div>`}</td>
        <td><code>${one.state ?? ""}</code></td>
          <td class="words">${one.asked ?? one.subject}<div class="small"><${Said} text=${one.note ?? one.reason} /></div></td>
          <td class="right nowrap"><${Age} time=${one.date} /></td></tr>`)}</tbody></table></div>`}
    ${status.unmanaged > 0 && html`<p class="muted">${plural(status.unmanaged, "branch has", "branches have")} no state.</p>`}`;
}

const leftOf = ({ secondsLeft }) => (secondsLeft > 0 ? `, ${duration(secondsLeft)} left` : "");

function Runners({ runners }) {
  if (!runners.length) return null;
  return html`<section aria-label="Runners">
    <ul class="row">${runners.map((one) =>
    html`<li key=${one.runner} class="badge">
    ${one.runner}: ${one.branches.length ? one.branches.join(", ") : "idle"}</li>`)}</ul></section>`;
}

const OUTCOMES = { open: "running", advanced: "ok", stalled: "stalled", requeued: "interrupted", takenOver: "interrupted",
  invalid: "failed" };

export function Branch() {
  const { branch } = route.value;
  const standing = branches.value?.branches.find((one) => one.branch === branch);
  const { value, error } = useFetched(() => api.log(branch), `${branch} ${branches.value && standing?.commit}`);
  return html`<nav class="crumbs" aria-label="Where this is"><a href="/branches">Branches</a></nav><${Title}>${branch}</${Title}>
    <${Same} line=${command.log(branch)} />
    ${standing && html`<p class="row">
      <${Status} word=${WORDS.get(standing.kind) ?? "waiting"} label=${standing.kind} /> <code>${standing.state}</code>
      ${" "}<span class="muted"><${Said} text=${standing.note} /></span></p>
      ${standing.kind === "waits-for-you"
        && html`<section class="card" aria-label="What it waits for"><${Waits} one=${standing} /></section>`}`}
    <${Answered} branch=${branch} />
    ${error ? html`<${Fault} error=${error} />` : !value ? html`<${Loading} what="its story" />` : !value.entries.length
      ? html`<${Empty}>It has no story yet.</${Empty}>`
      : html`<ol class="cards">${value.entries.map((one, index) => html`<${Entry} key=${index} one=${one} />`)}</ol>`}`;
}

function Entry({ one }) {
  const { kind, state, outcome, originState, reason, subject, body, runner, elapsedMs, date, started, author, commitCount,
    rescueRefs = [], commit } = one;
  const title = {
    attempt: html`${originState} → ${state ?? "…"}`,
    state: html`set to <code>${state}</code>`,
    deferred: html`<code>${state}</code> waits beside the branch`,
  }[kind] ?? `${commitCount ?? ""} ${commitCount === 1 ? "commit" : "commits"}`;
  const facts = [runner ?? author, elapsedMs > 0 && duration(elapsedMs / 1000), moment(started ?? date)].filter(Boolean);
  return html`<li class="card">
    <div class="row"><b>${title}</b>${outcome && html`<${Status} word=${OUTCOMES[outcome] ?? "waiting"} label=${outcome} />`}
      <span class="muted small">${facts.join(" · ")}${commit && html` · <code>${commit.slice(0, 10)}</code>`}</span></div>
    <p>${subject}</p>${reason && html`<p class="fault">${reason}</p>`}
    ${body && html`<details><summary class="muted small">Message</summary><pre tabindex="0">${body}</pre></details>`}
    ${rescueRefs.map((ref) =>
      html`<p class="small"><span class="muted">Saved work:</span> <${Command} line=${`git log -p ${ref}`} /></p>`)}</li>`;
}
