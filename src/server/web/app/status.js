// The five words for a run, and why a node does not work. Pure.
import { duration, plural } from "./format.js";

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
      unread: nodes.reduce((sum, node) => sum + (node.inboxCount ?? 0), 0),
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
  if (status === "stopped") return { word: "finished", why: "stopped by a person" };
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
  return { word: "waiting", why: run.kind === "flow" ? "for a runner" : "for a message" };
}

/** The status of a node with what this host sees of it. */
export function statusOf(view, node) {
  if (node.status === "blocked" || openOf(view, node.id).length) return "blocked";
  return view.live[node.id] ? "running" : node.status;
}

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

/**
 * Why a node has no turn now. Empty if it has one.
 * @param {any} view @param {any} node @param {number} now
 */
export function whyIdle(view, node, now) {
  const { run } = view;
  if (statusOf(view, node) === "running") return "";
  if (["completed", "stopped", "failed"].includes(run.status)) return `The run has ended: ${run.status}.`;
  const open = openOf(view, node.id);
  if (open.length) return `Waits for your answer: ${open.map((one) => one.tool.name).join(", ")}.`;
  if (node.status === "failed") return `Its turns failed: ${node.summary
    || "no reason was given"}. A message or Start lets it try again.`;
  if (run.status === "paused") return run.halted ? `The run is paused. ${haltedLine(run)}` : "The run is paused by a person.";
  if (node.hold === "stopped") return "A person stopped it. Start lets it go on.";
  if (node.hold === "interrupted") return "A person interrupted it. Your next message lets it go on.";
  const until = Date.parse(node.turn?.until ?? "");
  if (until > now) return `The provider's usage limit ends in ${duration((until - now) / 1000)}.`;
  if (node.connection?.status === "lost") return "Its runner is gone. Another one takes the turn when its lease has expired.";
  if (node.inboxCount) return `${plural(node.inboxCount, "message")} unread, and no runner has taken the turn yet.`;
  if (node.waitingFor) {
    const wait = node.waits?.[node.waitingFor];
    const from = wait ? ` from ${run.nodes[wait.to]?.alias ?? "a removed node"}` : "";
    return `Waits for an answer${from} to its hand-off.`;
  }
  return "Nothing unread: it waits for a message.";
}
