// The controls that answer a request or a gate.
import { useState } from "preact/hooks";
import { api } from "../api.js";
import { command } from "../commands.js";
import { html } from "../dom.js";
import { parse } from "../json.js";
import { Command, Copy, Fault, useDraft } from "../parts.js";
import { cut, isGate, visible } from "../requests.js";

/** What calls are approved from now on, and in words. @type {[string, (name: string) => string][]} */
const ALWAYS = [["call", () => "this exact call"], ["tool", (name) => `every call of ${name}`]];

/** The words of an answer: as a verb, and after it was given. A gate is rejected, as by `aynig flow reject`. */
const NO = { gate: ["Reject", "Rejected."], tool: ["Deny", "Denied."] };

/**
 * @param {{one: any, doing: string, begin: (what: string) => void, onSend: (isSent: boolean) => void,
 *   onAnswered: (words: string, isOver: boolean) => void}} props doing: the form that is open; isOver: nobody else is asked
 */
export function Answer({ one, doing, begin, onSend, onAnswered }) {
  const [reason, setReason, forget] = useDraft(`reason.${one.approvalId}`);
  const [text, setText] = useState(() => visible(JSON.stringify(one.tool.args, null, 2), true));
  const [state, set] = useState({ busy: false, error: null });
  const gate = isGate(one);
  const [no, said] = NO[gate ? "gate" : "tool"];

  const send = async (words, resolution, always) => {
    set({ busy: true, error: null });
    onSend(true);
    await api.resolve(one.approvalId, resolution, one.runId, always).then((answer) => {
      set({ busy: false, error: null });
      begin("");
      forget();
      const isOver = Boolean(answer.resolution);
      onAnswered(isOver ? words : "Approved. More people have to approve it.", isOver);
    }, (error) => {
      onSend(false);
      set({ busy: false, error });
    });
  };
  // The key `a` asks once more: one letter alone lets nothing run.
  const approve = () => send("Approved.", { status: "approved" });
  const args = parsed(text);
  const Opens = ({ what, children }) =>
    html`<button type="button" disabled=${state.busy} aria-expanded=${doing === what}
      onClick=${() => begin(doing === what ? "" : what)}>${children}</button>`;
  return html`<div class="answer">
    <div class="row">
      <button type="button" class="primary" disabled=${state.busy} onClick=${approve}
        ref=${(button) => doing === "approve" && button?.focus()}>Approve</button>
      ${Opens({ what: "deny", children: `${no}…` })}
      ${!gate && html`${Opens({ what: "edit", children: "Edit arguments…" })}
        ${Opens({ what: "always", children: "Approve always…" })}`}
      <${Copy} text=${command.approve(one)} label="Copy the command" />
    </div>
    ${doing === "approve" && html`<p class="hint"
      role="status">Press <kbd>a</kbd> or <kbd>Enter</kbd> to approve, or <kbd>k</kbd> or <kbd>j</kbd> to leave it.</p>`}
    ${doing === "deny"
      && html`<form onSubmit=${(event) => { event.preventDefault(); send(said, { status: "denied", reason }); }}>
      <label class="field"><span>Reason (required; ${gate ? "the flow keeps it" : "the agent reads it"})</span>
        <textarea rows="2" required value=${reason} onInput=${(event) => setReason(event.target.value)}
          ref=${focusOnce}></textarea></label>
      <button class="danger" disabled=${state.busy || !reason.trim()}>${no}</button>
      <${Command} line=${command.deny(one, reason)} /></form>`}
    ${doing === "edit" && !gate && html`<form onSubmit=${(event) => {
        event.preventDefault();
        send("Approved with other arguments.", { status: "modified", modifiedArgs: args });
      }}>
      <label class="field"><span>The arguments that are used instead, as JSON</span>
        <textarea rows="8" class="code" spellcheck="false" value=${text} onInput=${(event) => setText(event.target.value)}
          ref=${focusOnce}></textarea></label>
      ${!args && html`<p class="hint" role="status">This is no JSON object.</p>`}
      <button class="primary" disabled=${state.busy || !args}>Approve with these arguments</button>
      <${Command} line=${args ? command.approve(one, args) : ""} /></form>`}
    ${doing === "always" && !gate && html`<div class="always">
      ${ALWAYS.map(([always, wordsOf]) => [always, `${wordsOf(visible(cut(one.tool.name)))} from now on`])
        .map(([always, words]) => html`
        <p class="row" key=${always}><button type="button" disabled=${state.busy}
          onClick=${() => send(`Approved, and ${words}.`, { status: "approved" }, always)}>Approve, and ${words}</button>
        <${Command} line=${command.approveAlways(one, always)} /></p>`)}
      <p class="hint">This holds for ${one.alias ?? "this node"} alone. Its page lists it, with the command that
        ends it.</p></div>`}
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
    const value = parse(text);
    return value && typeof value === "object" && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}
