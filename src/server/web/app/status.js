// The five words for a run, and why a node does not work. Pure.
import { duration, firstLine, plural } from "./format.js";
import { cut, visible } from "./requests.js";

/** The words, the most urgent first. */
export const WORDS = ["needs you", "working", "waiting", "finished", "failed"];

/**
 * What the five words are made of: of a summary as it is listed, or of a view.
 * @param {any} view
 */
export function summaryOf(view) {
  const nodes = Object.values(view.run.nodes);
  const count = (fits) => nodes.filter(fits).length;
  return {
    ...view.run,
    halted: view.run.halted?.cause ?? null,
    openApprovals: Object.values(view.run.approvals).filter((one) => !one.resolution).length,
    counts: {
      nodes: nodes.length,
      running: count((node) => statusOf(view, node) === "running"),
      failed: count((node) => node.status === "failed"),
      unread: nodes.reduce((sum, node) => sum + (node.hold ? 0 : node.inboxCount ?? 0), 0),
      held: count((node) => node.hold && node.inboxCount > 0),
    },
  };
}

/**
 * One word and its reason. The first that fits, so that two never contradict each other.
 * @param {any} run a summary
 * @returns {{word: string, why: string}}
 */
export function wordOf(run) {
  const { status, verdict, counts = {}, openApprovals = 0 } = run;
  if (status === "failed" || (status !== "running" && ["failed", "timed_out", "stalled"].includes(verdict))) {
    return { word: "failed", why: run.termination ?? "it cannot go on" };
  }
  if (status === "completed") return { word: "finished", why: verdict ? verdict.replace("_", " ") : "completed" };
  if (status === "stopped") {
    const isUndone = run.kind === "flow" && run.termination === "completed";
    return { word: "finished", why: isUndone ? "its work was put back" : "stopped by a person" };
  }
  if (openApprovals) return { word: "needs you", why: plural(openApprovals, "request waits", "requests wait") };
  if (status === "paused") {
    if (run.halted === "stalled") return { word: "needs you", why: "paused: it gets nowhere" };
    if (run.halted === "limit") return { word: "needs you", why: "paused: a limit is reached" };
    return { word: "waiting", why: "paused by a person" };
  }
  if (counts.running) return { word: "working", why: run.kind === "flow" ? "a step is under way"
    : plural(counts.running, "turn is", "turns are") + " under way" };
  if (counts.failed) return { word: "needs you", why: `${plural(counts.failed, "node has", "nodes have")} failed` };
  if (status === "queued") return { word: "waiting", why: "not begun" };
  if (counts.unread) return { word: "waiting", why: `for a runner: ${plural(counts.unread, "message")} unread` };
  if (counts.held) {
    return { word: "waiting", why: `for you: ${plural(counts.held, "node was", "nodes were")} stopped or interrupted` };
  }
  return { word: "waiting", why: run.kind === "flow" ? "for a runner" : "for a message" };
}

/** The status of a node with what this host sees of it. */
export function statusOf(view, node) {
  if (node.status === "blocked" || openOf(view, node.id).length) return "blocked";
  return view.live[node.id] ? "running" : node.status;
}

export const hasEnded = (run) => ["completed", "stopped", "failed"].includes(run.status);

/** Whether nodes of a run take messages. */
export const canWrite = (run) => run.kind !== "flow" && !hasEnded(run);

/** The requests of a node without an answer. */
export function openOf(view, id) {
  return Object.values(view.run.approvals).filter((one) => one.nodeId === id && !one.resolution);
}

const LIMITS = { turns: "turns", wallSeconds: "seconds of live turns", costUsd: "US dollars", tokens: "tokens", nodes: "nodes",
  depth: "levels of nodes" };

/** Why a run is paused without a person. */
export function haltedLine(run) {
  const { halted } = run;
  if (!halted) return "";
  if (halted.cause === "limit") {
    const of = halted.nodeId ? ` of ${run.nodes[halted.nodeId]?.alias ?? "a node"}` : "";
    return `The limit${of} of ${halted.bound} ${LIMITS[halted.limit] ?? halted.limit} is reached.`;
  }
  const { signal, count, nodeId, cycle = [] } = halted.evidence ?? {};
  const alias = run.nodes[nodeId]?.alias ?? "A node";
  const what = { handoff: "made the same hand-off", output: "gave the same answer", diff: "made the same change",
    verification: "had the same failing commands" }[signal] ?? `repeated itself (${signal})`;
  return `${alias} ${what} ${plural(count ?? 0, "time")}${cycle.length ? `: ${cycle.join(", ")}` : ""}.`;
}

/** What keeps a node from a turn that is due. */
function hindrance(view, node, now) {
  const { run } = view;
  if (hasEnded(run)) return `The run has ended: ${run.status}.`;
  const open = openOf(view, node.id);
  const isStopped = node.hold === "stopped" ? ". A person stopped it, too: Start lets it go on" : "";
  if (open.length) return waitsForAnswer(open.map((one) => one.tool.name)) + isStopped;
  if (node.status === "failed") return `Its turns failed: ${node.summary
    || "no reason was given"}. A message or Start lets it try again.`;
  if (run.status === "paused") return run.halted ? `The run is paused. ${haltedLine(run)}` : "The run is paused by a person.";
  if (node.hold === "stopped") return "A person stopped it. Start lets it go on.";
  if (node.hold === "interrupted") return "A person interrupted it. Your next message lets it go on.";
  const until = Date.parse(node.turn?.until ?? "");
  if (until > now) return `The provider's usage limit ends in ${duration((until - now) / 1000)}.`;
  if (node.connection?.status === "lost") return "Its runner is gone. Another one takes the turn when its lease has expired.";
  return "";
}

/** Requests in words. @param {string[]} names */
export const waitsForAnswer = (names) => `Waits for your answer: ${names.map((name) => visible(cut(name))).join(", ")}`;

/** Whether a node only needs a runner to have its turn. */
export const isDue = (view, node, now) =>
  node.inboxCount > 0 && statusOf(view, node) !== "running" && !hindrance(view, node, now);

/** How long something may wait for a runner before the page says that there is none: a runner looks every 10 seconds. */
const PATIENCE = 10_000;

/** Whether nobody works here, and something has waited for a runner since `since`. `host`: what `GET /api/status` answers. */
export const lacksRunner = (host, since, now) =>
  Boolean(host) && now - Date.parse(since) > PATIENCE && !host.branches.some((one) => one.kind === "working");

/** When the oldest unread item of a node came, as far as it is known. */
function unreadSince(view, node) {
  let left = node.inboxCount;
  const items = view.transcripts[node.id] ?? [];
  const isIn = ({ kind, way }) => kind === "user" || kind === "notice" || (kind === "handoff" && way === "in");
  const first = items.findLast((one) => isIn(one) && (left -= 1) === 0);
  return first?.ts ?? node.lastActivityAt;
}

/** Whether a node waits for a runner where there is none. One that was handed back had one. */
export function nodeLacksRunner(view, node, now, host) {
  return isDue(view, node, now) && !handedBack(host, view.run, node) && lacksRunner(host, unreadSince(view, node), now);
}

const returned = new WeakMap();

/**
 * The runner that handed the turn of a node back, and its reason, which names the command that helps.
 * @param {any} host @returns {{runner: string, reason: string} | undefined}
 */
export function handedBack(host, run, node) {
  if (!host) return undefined;
  if (!returned.has(host)) {
    const drivers = host.branches.filter((one) => one.unable?.length && one.kind !== "working");
    returned.set(host, new Map(drivers.map((one) => [one.branch.split("/").slice(-2).join("/"), one.unable.at(-1)])));
  }
  return returned.get(host).get(`${run.slug}/${node.alias}`);
}

/**
 * Why a node has no turn now. Empty if it has one.
 * @param {any} view @param {any} node @param {number} now @param {any} [host] what `GET /api/status` answers
 */
export function whyIdle(view, node, now, host) {
  const { run } = view;
  if (statusOf(view, node) === "running") return "";
  const why = hindrance(view, node, now);
  if (why) return why;
  if (node.inboxCount) {
    const back = handedBack(host, run, node);
    if (back) return `${back.runner} cannot take the turn: ${back.reason}.`;
    const unread = `${plural(node.inboxCount, "message")} unread`;
    return nodeLacksRunner(view, node, now, host) ? `${unread}. No runner is at work here.` : `${unread}, waiting for a runner.`;
  }
  if (node.waitingFor) {
    const wait = node.waits?.[node.waitingFor];
    const from = wait ? ` from ${run.nodes[wait.to]?.alias ?? "a removed node"}` : "";
    return `Waits for an answer${from} to its hand-off.`;
  }
  return "Nothing unread: it waits for a message.";
}

/** What a node does, or why it does not. A request comes first: it is what a person can do something about. */
export function doing(view, node, now, host) {
  return openOf(view, node.id).length ? whyIdle(view, node, now, host)
    : view.live[node.id]?.summary ?? whyIdle(view, node, now, host);
}

/** As `doing`, for a card: a node that waits for no more than a message shows its last one, and a reason is cut. */
export function cardWords(view, node, now, host) {
  const back = isDue(view, node, now) && handedBack(host, view.run, node);
  if (back) return `Handed back: ${back.reason.split(/[;`]/)[0].trim()}`;
  const hasWords = !view.live[node.id] && !openOf(view, node.id).length && !isDue(view, node, now);
  return (hasWords && firstLine(node.summary, 80)) || doing(view, node, now, host);
}

const DUE = / is due; a runner begins it/;

/** Where a flow stands, in words. @param {any} show of `GET /api/runs/:id/flow` */
export const flowWords = (show) => show.words.replace(/^(.+?) is due; a runner begins it/, "`$1` is next; waiting for a runner");

/** Whether the next step of a flow waits for a runner where there is none. */
export const flowLacksRunner = (show, now, host) => DUE.test(show?.words) && lacksRunner(host, show.since, now);
