// Answers several requests, each of which somebody has selected.
import { useState } from "preact/hooks";
import { api } from "../api.js";
import { command } from "../commands.js";
import { html } from "../dom.js";
import { plural } from "../format.js";
import { Command, Dialog, Exact, Fault } from "../parts.js";
import { isGate, nameBox, nameOf } from "../requests.js";
import { loadApprovals } from "../store.js";
import { Args, EditDiff } from "./call.js";

/** The word for no: a gate is rejected, as by `aynig flow reject`. */
const denial = (list) => (list.every(isGate) ? "Reject" : "Deny");

const whereOf = (one) => `${one.alias ?? "flow"} · ${one.label || one.slug}`;

/**
 * The bar for the selected requests. No key answers more than one request: the dialog lists what will be answered.
 * @param {{selected: any[], clear: () => void}} props
 */
export function Batch({ selected, clear }) {
  const [asked, ask] = useState(null);
  const begin = (status) => () => ask({ status, list: selected });
  // What became of the requests is shown, although they are not in the list any more.
  const dialog = asked && html`<${Confirm} ...${asked} onClose=${(isDone) => { ask(null); if (isDone) clear(); }} />`;
  if (!selected.length) return dialog;
  return html`${dialog}<div class="row batch" role="group" aria-label="Selected requests">
    <span role="status">${plural(selected.length, "request")} selected</span>
    <button type="button" aria-haspopup="dialog" onClick=${begin("approved")}>Approve the selected…</button>
    <button type="button" aria-haspopup="dialog" onClick=${begin("denied")}>${denial(selected)} the selected…</button>
    <button type="button" class="quiet" onClick=${clear}>Clear</button></div>`;
}

/** The list is the one of the moment when it was asked for: a request that comes meanwhile is not in it. */
function Confirm({ status, list, onClose }) {
  const denies = status === "denied";
  const word = denies ? denial(list) : "Approve";
  const [reason, setReason] = useState("");
  const [results, set] = useState(/** @type {Record<string, any> | null} */ (null));
  const [busy, setBusy] = useState(false);
  const send = async () => {
    setBusy(true);
    const found = {};
    for (const one of list) {
      const resolution = { status, ...(denies && { reason }) };
      found[one.approvalId] = await api.resolve(one.approvalId, resolution, one.runId).then(() => "answered", (error) => error);
      set({ ...found });
    }
    loadApprovals();
  };
  const line = (one) => (denies ? command.deny(one, reason) : command.approve(one));
  return html`<${Dialog} title=${`${word} ${plural(list.length, "request")}?`}
    onClose=${() => onClose(results)}>
    <ol class="batch-list">${list.map((one) =>
      html`<li key=${one.approvalId}><b ...${nameBox(one)}><${Exact} text=${nameOf(one)} /></b>
        <span class="muted"><${Exact} text=${whereOf(one)} /></span>
      <${Args} tool=${one.tool} /><${EditDiff} args=${one.tool.args} />
      ${!results && html`<div><${Command} line=${line(one)} /></div>`}
      <${Result} of=${results?.[one.approvalId]}
        word=${!denies ? "approved" : isGate(one) ? "rejected" : "denied"} /></li>`)}</ol>
    ${results ? html`<p><button type="button" onClick=${() => onClose(true)}>Close</button></p>` : html`
      ${denies && html`<label class="field"><span>Reason (required; the agents read it)</span>
        <textarea rows="2" required value=${reason} onInput=${(event) => setReason(event.target.value)}></textarea></label>`}
      <p class="row"><button type="button" class=${denies ? "danger" : "primary"} disabled=${busy || (denies && !reason.trim())}
        onClick=${send}>
          ${word} these ${list.length}</button>
        <button type="button" class="quiet" onClick=${() => onClose(false)}>Leave them</button></p>`}
  </${Dialog}>`;
}

function Result({ of, word }) {
  if (!of) return null;
  return of === "answered" ? html`<p role="status">✓ ${word}</p>` : html`<${Fault} error=${of} />`;
}
