// Messages to a node.
import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api.js";
import { command } from "../commands.js";
import { html } from "../dom.js";
import { Act, Command, useDraft } from "../parts.js";
import { route } from "../route.js";
import { branches, loadBranches, now, view } from "../store.js";
import { handedBack, hasEnded, isDue, nodeLacksRunner, statusOf } from "../status.js";
import { Mend } from "./runner.js";

const LONGEST = 64 * 1024;

export function Composer({ node }) {
  const { run } = view.value;
  const [text, set, forget] = useDraft(`message.${node.id}`);
  const box = useRef(null);
  useEffect(() => { if (route.peek().hash === "write") box.current?.focus(); }, []);
  const [sent, tell] = useState(false);
  const isRunning = statusOf(view.value, node) === "running";
  useEffect(() => { if (isRunning) tell(false); }, [isRunning]);
  const isReset = node.session?.resetCommands?.includes(text.trim());
  const tooLong = new TextEncoder().encode(text).length > LONGEST;
  const send = (interrupt) => () => api.chat(run.id, { nodeId: node.id, content: text, interrupt });
  const done = () => {
    forget();
    tell(true);
    loadBranches();
  };
  const ended = hasEnded(run);
  const onKey = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && text.trim() && !event.isComposing) {
      event.preventDefault();
      event.target.closest("form").querySelector("button").click();
    }
  };
  return html`<form class="composer" onSubmit=${(event) => event.preventDefault()}>
    <label class="field"><span>Message to ${node.alias}</span>
      <textarea rows="3" ref=${box} value=${text} onInput=${(event) => set(event.target.value)} onKeyDown=${onKey}
        placeholder=${ended ? "The run has ended. Resume it to send messages." : "Write what should be done. Ctrl+Enter sends."}
          disabled=${ended}></textarea></label>
    <div class="row">
      <div class="row">
        <${Act} kind="primary" act=${send(false)} onDone=${done} disabled=${!text.trim() || tooLong || ended}>
          ${isRunning ? "Queue" : "Send"}</${Act}>
        <${Act} act=${send(true)} onDone=${done} disabled=${!text.trim() || tooLong || ended}>Interrupt now</${Act}>
        <span class="hint">${tooLong ? "A message has at most 64 KiB." : isReset ? "This resets the session." : isRunning
          ? "Queue: read after this turn. Interrupt now: ends this turn, and is read first." : ""}</span>
      </div>
      <${Command} line=${command.chat(run, node, text.length > 60 ? "-" : text, false)} />
    </div>
    <div role="status">${sent && isDue(view.value, node, now.value) && html`<${Sent} node=${node} />`}</div></form>`;
}

/** What becomes of a message until a runner has taken it. */
function Sent({ node }) {
  const back = handedBack(branches.value, view.value.run, node);
  if (back) return html`<p>Sent. ${back.runner} cannot take the turn.</p><${Mend} back=${back} />`;
  return nodeLacksRunner(view.value, node, now.value, branches.value)
    ? html`<p>Sent. No runner is at work here. In another terminal: <${Command} line="aynig run --watch" /></p>`
    : html`<p class="muted">Sent. Waiting for a runner.</p>`;
}
