// What a person can do where nobody works: start a runner, or mend what let one hand a turn back.
import { html } from "../dom.js";
import { Command } from "../parts.js";

/** The commands that a reason names between backticks. */
export const mends = (reason) => [...(reason ?? "").matchAll(/`((?:aynig|git) [^`]+)`/g)].map(([, line]) => line);

/** How to start a runner. @param {{what?: string}} props what: waits for one */
export function NoRunner({ what = "" }) {
  return html`<div class="no-runner" role="status"><p>${what} <strong>No runner is at work here.</strong>
      ${" "}A runner takes the turns of agents and the steps of flows. Start one:</p>
    <ul class="plain-list"><li><${Command} line="aynig run --watch" /> in another terminal, or</li>
      <li><${Command} line="aynig serve --run" /> instead of <code>aynig serve</code></li></ul></div>`;
}

/**
 * The commands that a reason names, ready to be copied.
 * @param {{back: {runner: string, reason: string} | undefined}} props why a turn was handed back
 */
export function Mend({ back }) {
  const lines = mends(back?.reason);
  if (!lines.length) return null;
  return html`<ul class="plain-list">${lines.map((line) => html`<li key=${line}><${Command} line=${line} /></li>`)}</ul>`;
}
