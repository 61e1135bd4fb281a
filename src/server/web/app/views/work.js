// The work of a run or of a node: putting it back, and publishing it.
import { useState } from "preact/hooks";
import { api } from "../api.js";
import { command } from "../commands.js";
import { html } from "../dom.js";
import { Act, Command, Copy, Dialog, Field } from "../parts.js";

/** The workspaces of a run, by name. Those of a graph are named like its nodes. */
const namesOf = (run) => Object.keys(run.workspaces).sort();

/**
 * Puts work back to its base, after a question that says what becomes of it.
 * @param {{run: any, node?: any}} props node: of a graph
 */
export function RollBack({ run, node }) {
  const [open, toggle] = useState(false);
  const [done, set] = useState(null);
  const workspace = run.workspaces[node?.alias ?? "flow"];
  if (!workspace) return null;
  const act = async () => set(await api.steer(run.id, "rollback", node ? { node: node.alias } : {}));
  const close = () => { toggle(false); set(null); };
  const line = command.rollback(run, node);
  return html`<span class="act"><button type="button" aria-haspopup="dialog" title=${line}
      onClick=${() => toggle(true)}>Roll back…</button><${Copy} text=${line} label="Copy the command" /></span>
    ${open && html`<${Dialog} title=${node ? `Put back the work of ${node.alias}?` : "Put back the work of this flow?"}
      onClose=${close}>
      ${done ? html`<${Done} done=${done} />` : html`
        <p>The branch <code>${workspace.branchName}</code> and its files go back to the base <code>
          ${workspace.baseSha.slice(0, 10)}</code>.
          ${!node && " The run is paused."}</p>
        <p>The work is kept under a rescue ref, and can be brought back.</p>
        ${workspace.rolledBackAfter != null && html`<p class="hint">What was put back before comes back with
          ${" "}<${Command} line=${command.undo(run, node)} /></p>`}
        <p class="row"><${Act} kind="danger" act=${act} line=${line}>Put it back</${Act}>
          <button type="button" class="quiet" onClick=${close}>Leave it</button></p>`}
    </${Dialog}>`}`;
}

function Done({ done }) {
  const { rescueRefs = [], undo, warnings = [], changed } = done;
  return html`<p role="status">${changed === false ? "There was nothing to put back." : "The work was put back."}</p>
    ${rescueRefs.map((ref) => html`<p key=${ref}>It is kept: <${Command} line=${command.rescued(ref)} /></p>`)}
    ${changed !== false && undo && html`<p>This brings it back: <${Command} line=${undo} /></p>`}
    ${warnings.map((text) => html`<p class="hint" key=${text}>${text}</p>`)}`;
}

/** Publishes work as a branch, and as a proposal where the repository has a forge. */
export function Publish({ run }) {
  const names = namesOf(run);
  const [form, set] = useState({ node: names.includes("flow") ? "flow" : names[0] ?? "", into: "", squash: false, draft: false });
  const [done, tell] = useState(null);
  const change = (field) => ({ target }) => set({ ...form, [field]: target.type === "checkbox" ? target.checked : target.value });
  if (!names.length) return html`<p class="muted">There is no work to publish yet.</p>`;
  const isOnly = names.length === 1;
  const fields = { ...(!isOnly && { node: form.node }), ...(form.into.trim() && { into: form.into.trim() }),
    ...(form.squash && { squash: true }), ...(form.draft && { draft: true }) };
  return html`<div class="form-grid">
      <${Field} label="Work of">
        <select value=${form.node} onChange=${change("node")}>
        ${names.map((name) => html`<option>${name}</option>`)}</select></${Field}>
      <${Field} label="Into the branch" hint="The branch that the work began from, if it is empty">
        <input value=${form.into} onInput=${change("into")} autocomplete="off" spellcheck="false" /></${Field}></div>
    <p class="row"><label><input type="checkbox" checked=${form.squash} onChange=${change("squash")} /> As one commit</label>
      <label><input type="checkbox" checked=${form.draft} onChange=${change("draft")} /> As a draft</label></p>
    <p><${Act} act=${async () => tell(await api.steer(run.id, "publish", fields))}
      line=${command.publish(run, fields)}>Publish the work</${Act}></p>
    ${done && html`<${Published} done=${done} />`}`;
}

function Published({ done }) {
  const { branch, remote, base, pushed, proposal, compareUrl, notes = [] } = done;
  const url = proposal?.url ?? compareUrl;
  return html`<p role="status">
    ${pushed ? "Published" : "It was published before"} as <code>${branch}</code> on <code>${remote}</code>,
      to be merged into <code>${base}</code>.</p>
    ${/^https?:/.test(url ?? "") && html`<p><a href=${url} target="_blank" rel="noopener noreferrer">
      ${proposal ? "The proposal" : "Propose it"}</a></p>`}
    ${notes.map((text) => html`<p class="hint" key=${text}>${text}</p>`)}`;
}
