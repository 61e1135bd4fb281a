// A branch that waits for somebody: what it asks, and its answers.
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { api } from "../api.js";
import { command } from "../commands.js";
import { html } from "../dom.js";
import { Act, Age, Command, Exact, Field, Said } from "../parts.js";
import { namedCommands } from "../requests.js";
import { loadBranches } from "../store.js";

/** The newest answer given here: its branch goes from the list. */
const newest = signal(/** @type {{branch: string, state: string, warnings: string[]} | null} */ (null));

/** @param {{one: any}} props one: a row of the status with the kind `waits-for-you` */
export function Waits({ one }) {
  const { branch, asked, subject, waitsFor, answers, date } = one;
  // A driver of a run names its own commands; it is not answered by a state.
  const named = namedCommands(one);
  return html`<p><${Exact} text=${asked ?? subject} isBlock /></p>
    <p class="muted">Asked <${Age} time=${date} />.${waitsFor && html` It waits for ${named.length
        ? html`<${Said} text=${waitsFor} />` : html`<${Exact} text=${waitsFor} />`}.`}
      ${!named.length && (answers ? " It takes one of these answers." : " It takes any state as an answer.")}</p>
    ${named.length > 0 && html`<ul class="plain-list">
      ${named.map((line) => html`<li key=${line}><${Command} line=${line} /></li>`)}</ul>`}
    ${!named.length && html`<${Reply} key=${one.commit} one=${one} />
      <p class="small muted">The whole request: <${Command} line=${command.request(branch)} /></p>`}`;
}

/** A button for each answer. It counts only for the commit that is shown here. */
function Reply({ one }) {
  const { branch, answers, commit } = one;
  const [comment, setComment] = useState("");
  const [own, setOwn] = useState("");
  const words = comment.trim();
  const fields = (state) => ({ branch, state, expect: commit, ...(words && { comment: words }) });
  const give = async (state) => {
    const { warnings } = await api.answerBranch(fields(state));
    newest.value = { branch, state, warnings };
    loadBranches();
  };
  const states = answers ?? [own.trim()];
  return html`<div class="form-grid">
      ${!answers && html`<${Field} label="The state that answers">
        <input value=${own} onInput=${(event) => setOwn(event.target.value)} autocomplete="off" spellcheck="false" /></${Field}>`}
      <${Field} label="Comment" hint="It becomes a part of the commit, if it is not empty">
        <textarea rows="2" value=${comment} onInput=${(event) => setComment(event.target.value)}></textarea></${Field}></div>
    <ul class="plain-list">${states.map((state) => html`<li key=${answers ? state : ""} class="row">
      <${Act} act=${() => give(state)} disabled=${!state}>Answer ${state}</${Act}>
      <${Command} line=${command.answer(fields(state))} /></li>`)}</ul>`;
}

/** What was answered here just now. It gets the focus, since the button that had it is gone. */
export function Answered({ branch }) {
  const box = useRef(null);
  const one = newest.value && (!branch || newest.value.branch === branch) ? newest.value : null;
  useEffect(() => { if (one) box.current.focus(); }, [one]);
  useEffect(() => () => { newest.value = null; }, []);
  return html`<div role="status" tabindex="-1" ref=${box}>${one && html`<p>${one.branch} was answered with ${one.state}.</p>
    ${one.warnings.map((text) => html`<p class="hint" key=${text}>${text}</p>`)}`}</div>`;
}
