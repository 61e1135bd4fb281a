// The steps of a flow as a track, with all their attempts, and the steps that have not begun.
import { api } from "../api.js";
import { command } from "../commands.js";
import { html } from "../dom.js";
import { cost, moment, ordinal, took } from "../format.js";
import { Act, Command, Empty, Loading, Status } from "../parts.js";
import { flow, now, view } from "../store.js";

/** The kinds of steps, in words. */
export const OPCODES = { RUN_AGENT: "agent", RUN_VALIDATION: "validators", EVALUATE: "planner", GATE: "a person",
  ROLLBACK: "rollback", STOP: "end" };
const GOOD = ["completed", "success", "gate_approved"];

export function Track() {
  const { run } = view.value;
  if (!flow.value) return html`<${Loading} what="the flow" />`;
  const { graph, show } = flow.value;
  const attempts = Object.values(run.steps).sort((one, other) => one.number - other.number);
  if (!graph.steps.length) return html`<${Empty}>The flow has no steps.</${Empty}>`;
  return html`<p>${graph.description}</p>
    ${show.next?.length > 0 && html`<p class="row"><span class="muted">${show.place === "ended" ? "Next:" : "To continue:"}</span>
      ${show.next.map((line) => html`<${Command} key=${line} line=${line} />`)}</p>`}
    <ol class="track">${graph.steps.map((step) =>
      html`<${Step} key=${step.id} run=${run} step=${step} attempts=${attempts.filter((one) => one.id === step.id)}
      isCurrent=${show.currentStep === step.id && show.place !== "ended"} />`)}</ol>`;
}

function Step({ run, step, attempts, isCurrent }) {
  const last = attempts.at(-1);
  const state = isCurrent ? "current" : !last ? "" : GOOD.includes(last.outcome) ? "done" : last.outcome ? "failed" : "current";
  const taken = step.routes.filter((route) => route.taken > 0);
  return html`<li class=${state} aria-current=${isCurrent ? "step" : undefined}>
    <div class="row"><h2 class="minor">${step.id}</h2><span class="badge">${OPCODES[step.opcode] ?? step.opcode}</span>
      ${step.detail && html`<span class="muted">${step.detail}</span>`}
      ${isCurrent ? html`<${Status} word=${step.opcode === "GATE" ? "needs you" : "working"}
        label=${step.opcode === "GATE" ? "waits for you" : "here"} />` : !last
        && html`<span class="muted">not begun</span>`}</div>
    <ol class="attempts">${attempts.map((one) => html`<${Attempt} key=${one.number} one=${one} />`)}</ol>
    ${last && !isCurrent && html`<${Again} run=${run} step=${step} hasFailed=${state === "failed"} />`}
    <details class="small"><summary class="muted">Then${taken.length > 0
      && `: ${taken.map((route) => `${route.target} (${route.taken} ×)`).join(", ")}`}</summary>
      <ul>${step.routes.map((route) =>
        html`<li key=${route.outcome}>${route.outcome.replaceAll("_", " ")} → ${route.target}</li>`)}</ul></details></li>`;
}

/** How a step is tried again: a runner takes it up. Of a run that has ended a new run begins, by the command line. */
function Again({ run, step, hasFailed }) {
  const isOver = run.status === "completed";
  const line = isOver ? command.fork(run, step.id) : command.retry(run, step.id);
  return html`<details class="small" open=${hasFailed && run.status !== "running"}>
    <summary class="muted">Retry from here</summary>
    ${isOver ? html`<p><span class="muted">The run has ended. A new run begins with this step: </span>
        <${Command} line=${line} /></p>`
      : html`<p class="row"><${Act} act=${() => api.steer(run.id, "resume", { from: step.id })}
          confirm=${run.status === "running" ? `Yes, from ${step.id}` : undefined}>Retry from ${step.id}</${Act}>
        <${Command} line=${line} />
        ${run.status === "running" && html`<span class="muted">An open request is withdrawn.</span>`}</p>`}
    </details>`;
}

function Attempt({ one }) {
  const { number, visit, attempt, outcome, evidence, startedAt, endedAt, host, record } = one;
  const time = took((endedAt ? Date.parse(endedAt) : now.value) - Date.parse(startedAt));
  const which = `step ${number}, ${ordinal(visit)} visit${attempt > 1 ? `, attempt ${attempt}` : ""}`;
  const facts = [which, moment(startedAt), time, host && `on ${host}`, cost(record?.usage?.costUsd)].filter(Boolean);
  return html`<li><${Status} word=${!outcome ? "running" : GOOD.includes(outcome) ? "ok" : "failed"}
    label=${outcome?.replaceAll("_", " ") ?? "under way"} />
    ${" "}<span class="muted">${facts.join(" · ")}</span>
    ${evidence && html`<div>${evidence}</div>`}
    ${record?.violations?.map((text) => html`<div class="fault">${text}</div>`)}</li>`;
}
