// The frame around all screens.
import { Component } from "preact";
import { html } from "../dom.js";
import { session } from "../api.js";
import { duration } from "../format.js";
import { announcement } from "../notices.js";
import { Command, Empty, Fault, Loading, Title } from "../parts.js";
import { theme } from "../prefs.js";
import { route } from "../route.js";
import { connection, needed, now, problem, reconnect, repository, view } from "../store.js";
import { Branch, Branches } from "./branches.js";
import { Events } from "./events.js";
import { Inbox } from "./inbox.js";
import { NewRun } from "./create.js";
import { NodeScreen } from "./node.js";
import { RunScreen } from "./run.js";
import { Runs } from "./runs.js";

const SCREENS = { runs: Runs, inbox: Inbox, new: NewRun, branches: Branches, branch: Branch, run: RunScreen, node: NodeScreen,
  events: Events };
const OF_RUN = ["run", "node", "events"];

export function Shell() {
  const { screen } = route.value;
  const at = (name, screens) => (screens.includes(screen) ? "page" : undefined);
  return html`
    <a class="skip" href="#main">Skip to the content</a>
    <header class="top">
      <a class="brand" href="/"><img src="/favicon.svg" alt="" width="20" height="20" />aynig</a>
      ${repository.value && html`<span class="repository" title="The repository">${repository.value}</span>`}
      <nav aria-label="Screens">
        <a href="/inbox" aria-current=${at("inbox", ["inbox"])}>Inbox${needed.value > 0
          && html` <span class="count urgent">${needed.value}</span>`}</a>
        <a href="/" aria-current=${at("runs", ["runs", "new", ...OF_RUN])}>Runs</a>
        <a href="/branches" aria-current=${at("branches", ["branches", "branch"])}>Branches</a>
      </nav>
      <${Connection} />
      <${Theme} />
    </header>
    <div class="unseen" aria-live="polite" role="status">${announcement.value}</div>
    <main id="main" class="screen-${screen}">
      <${Guard} key=${location.pathname}><${Screen} /></${Guard}>
    </main>`;
}

function Screen() {
  const { screen } = route.value;
  if (session.value === "checking") return html`<${Loading} what="the session" />`;
  if (session.value === "closed") return html`<${Closed} />`;
  const Shown = SCREENS[screen];
  if (!Shown) return html`<${Title}>Nothing here</${Title}>
    <${Empty}>No screen has this address. <a href="/">All runs</a></${Empty}>`;
  if (OF_RUN.includes(screen) && !view.value) {
    return problem.value ? html`<${Title}>Run ${route.value.run}</${Title}><${Fault} error=${problem.value} />`
      : html`<${Loading} what="the run" />`;
  }
  return html`${problem.value && html`<${Fault} error=${problem.value} />`}<${Shown} />`;
}

/** A fault of one screen leaves the others usable. */
class Guard extends Component {
  state = { error: null };
  static getDerivedStateFromError(error) {
    return { error };
  }
  componentDidCatch(error) {
    console.error(error);
  }
  render() {
    if (!this.state.error) return this.props.children;
    return html`<${Title}>This screen has a fault</${Title}><${Fault} error=${this.state.error} />`;
  }
}

function Closed() {
  return html`<${Title}>No session</${Title}>
    <p>This browser may not read this server yet.
      A link that opens a session works once, for 60 seconds. This prints a fresh one:</p>
    <${Command} line="aynig serve --url" />`;
}

function Connection() {
  if (session.value !== "open") return null;
  const { state, since } = connection.value;
  if (state === "live") return html`<span class="connection" title="Changes are shown as they happen">
    <i class="dot" aria-hidden="true"></i>live</span>`;
  if (state === "connecting") return html`<span class="connection">connecting…</span>`;
  return html`<span class="connection stale"
    role="status">stale for ${duration(Math.max(0, now.value - since) / 1000)}
    <button type="button" class="quiet" onClick=${reconnect}>Reconnect</button></span>`;
}

const NEXT = { auto: "light", light: "dark", dark: "auto" };

function Theme() {
  return html`<button type="button" class="quiet theme" onClick=${() => (theme.value = NEXT[theme.value])}
    aria-label="Theme: ${theme.value}. Change to ${NEXT[theme.value]}">◐ <span>${theme.value}</span></button>`;
}
