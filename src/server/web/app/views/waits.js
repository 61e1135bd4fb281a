// A branch that waits for somebody: what it asks, and the commands that answer it.
import { command } from "../commands.js";
import { html } from "../dom.js";
import { Age, Command, Said } from "../parts.js";

/** The commands that a text names between backticks. */
export const commandsIn = (text = "") => [...(text ?? "").matchAll(/`(aynig [^`]+)`/g)].map(([, line]) => line);

/** @param {{one: any}} props one: a row of the status with the kind `waits-for-you` */
export function Waits({ one }) {
  const { branch, asked, subject, waitsFor, answers, date } = one;
  // A driver of a run names its own commands; it is not answered by a state.
  const named = commandsIn(waitsFor).length ? commandsIn(waitsFor)
    : commandsIn(one.note).filter((line) => !line.startsWith("aynig answer"));
  const lines = named.length ? named : (answers ?? ["STATE"]).map((state) => command.answer(branch, state));
  return html`<p>${asked ?? subject}</p>
    <p class="muted">Asked <${Age} time=${date} />.${waitsFor && html` It waits for <${Said} text=${waitsFor} />.`}
      ${!named.length && (answers ? " It takes one of these answers." : " It takes any state as an answer.")}</p>
    <ul class="plain-list">${lines.map((line) => html`<li key=${line}><${Command} line=${line} /></li>`)}</ul>
    ${!named.length && html`<p class="small muted">The whole request: <${Command} line=${command.request(branch)} /></p>`}`;
}
