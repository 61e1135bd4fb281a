// All runs: who needs you, what works, what it costs.
import { command } from "../commands.js";
import { html } from "../dom.js";
import { cost, firstLine, plural, tokens } from "../format.js";
import { Age, Empty, Loading, Same, Status, Title } from "../parts.js";
import { nameOf } from "../requests.js";
import { route, runPath, setQuery } from "../route.js";
import { approvals, loadMoreRuns, moreRuns, needed, summaries } from "../store.js";
import { WORDS, hasEnded, waitsForAnswer, wordOf } from "../status.js";

export function Runs() {
  const { query } = route.value;
  const [status, text] = [query.get("status") ?? "", query.get("q") ?? ""];
  const list = summaries.value;
  return html`<div class="heading-row"><${Title}>Runs</${Title}><a class="button primary" href="/new">New run</a></div>
    <${Same} line=${command.runs()} />
    ${needed.value > 0 && html`<a class="banner" href="/inbox">
      <${Status} word="needs you" /> ${plural(needed.value, "request waits", "requests wait")} in the inbox</a>`}
    <div class="filters" role="search">
      <label><span class="unseen">Search runs</span>
        <input type="search" placeholder="Search label, id, last message" value=${text}
        onInput=${(event) => setQuery({ q: event.target.value })} /></label>
      <div class="chips" role="group" aria-label="Status">${["", ...WORDS].map((word) => html`
        <button type="button" key=${word} aria-pressed=${status === word} onClick=${() => setQuery({ status: word })}>
          ${word || "all"}</button>`)}</div>
    </div>
    ${!list ? html`<${Loading} what="runs" />` : list.length === 0
      ? html`<${Empty}>${status || text ? "No run fits." : html`There is no run yet. <a href="/new">New run</a> makes a graph of
        agents, or starts a flow.`}</${Empty}>` : html`<${Table} list=${list} />`}
    ${moreRuns.value && html`<button type="button" onClick=${loadMoreRuns}>More runs</button>`}`;
}

/** What a run is made of, and where a flow is that has not ended. */
function kindOf(run) {
  if (run.kind === "flow") return `flow${run.step && !hasEnded(run) ? `, at ${run.step}` : ""}`;
  return plural(run.counts?.nodes ?? 0, "node") + (run.mode === "AUTO" ? " · auto" : "");
}

/** What a run waits for, else the last message of its nodes. */
function wordsOf(run) {
  const open = (approvals.value ?? []).filter((one) => one.runId === run.id);
  return open.length ? waitsForAnswer(open.map(nameOf)) : firstLine(run.lastWords ?? "", 140);
}

function Table({ list }) {
  return html`<div class="scroll-x">
    <table class="table runs">
    <thead><tr><th>Status</th><th>Run</th><th>Last message</th><th class="right">Tokens</th><th class="right">Cost</th>
    <th class="right">Changed</th></tr></thead>
    <tbody>${list.map((run) => {
      const { word, why } = wordOf(run);
      return html`<tr key=${run.id}><td><${Status} word=${word} title=${why} /><div class="muted small">${why}</div></td>
        <td><a class="strong" href=${runPath(run.id)}>${run.label
          || run.slug}</a><div class="muted small"><code>${run.slug}</code> · ${kindOf(run)}</div></td>
        <td class="words">${wordsOf(run)}</td>
        <td class="right">${tokens(run.usage?.totalTokens)}</td><td class="right">${cost(run.usage?.costUsd)}</td>
          <td class="right nowrap"><${Age} time=${run.updatedAt} /></td></tr>`;
    })}</tbody></table></div>`;
}
