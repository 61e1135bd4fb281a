// The reducer: events of a run change its state. Pure, and shared with the tests.
//
// A view of a run has three parts:
//   run         the state as `GET /api/runs/:id` gives it (nodes, edges, approvals, …)
//   live        what this host saw of turns that are under way, by node; not of record
//   transcripts what was said and done, by node; see transcript.js
//
// Events with a number up to `run.lastSeq` are part of `run` already. They are replayed for the
// transcripts alone, as the contract's clients do with old pages.
import { bytes } from "./format.js";
import { record } from "./transcript.js";

/** @typedef {Record<string, any>} Json */
/**
 * @typedef {object} View
 * @property {Json} run
 * @property {Record<string, {turnId?: string, startedAt?: string, seenAt: string, summary?: string, waiting?: string}>} live
 * @property {Record<string, import("./transcript.js").Item[]>} transcripts
 * @property {Record<string, {source: string, line: string, ts: string}[]>} logs
 * @property {Record<string, boolean>} past  nodes whose newest turn was over before its own events came
 * @property {{from: string, to: string, seq: number} | null} passed  the newest hand-off
 * @property {boolean} deleted
 */

/** The most lines of a node's log that are kept. */
const MOST_LINES = 10_000;

/** The maps of a run that a `run.patch` merges by key. Its other fields are replaced. */
const MAPS = ["nodes", "nodeConfigs", "edges", "artifacts"];

/** The contract's fields without which a `node.patch` makes no node. */
const NEEDED = ["label", "roleTemplate", "provider", "status", "summary", "lastActivityAt", "capabilities",
  "permissions", "session"];

/** @param {Json} [run] @returns {View} */
export function begin(run = {}) {
  const maps = { nodes: {}, nodeConfigs: {}, edges: {}, artifacts: {}, approvals: {}, workspaces: {}, steps: {} };
  return { run: { lastSeq: 0, ...maps, ...run }, live: {}, past: {}, transcripts: {}, logs: {}, passed: null, deleted: false };
}

/**
 * Applies events in their order. Those that `run` has already are replayed, others a second time are dropped.
 * @param {View} view @param {Json[]} events @returns {View}
 */
export function fold(view, events) {
  const next = { ...view, run: { ...view.run }, live: { ...view.live }, past: { ...view.past },
    transcripts: { ...view.transcripts }, logs: { ...view.logs } };
  const owned = new Set();
  for (const event of events) {
    if (event.seq > next.run.lastSeq) {
      change(next, event);
      next.run.lastSeq = event.seq;
      observe(next, event);
      record(next.transcripts, owned, event);
    }
  }
  return next;
}

/**
 * The transcripts and logs of these events, which are all that are known, the oldest first. For old pages.
 * @param {View} view @param {Json[]} events @returns {View}
 */
export function replay(view, events) {
  const next = { ...view, transcripts: {}, logs: {}, live: {}, past: {} };
  const owned = new Set();
  for (const event of events) {
    observe(next, event);
    record(next.transcripts, owned, event);
  }
  // A host may have gone in the middle of a turn: then only the server knows that it is over.
  for (const id of Object.keys(next.live)) {
    if (!view.live[id] && view.run.nodes[id]?.status !== "running") delete next.live[id];
  }
  return { ...next, past: view.past };
}

/** Replaces an entry of a map of the run. */
function put(view, map, key, value) {
  view.run[map] = { ...view.run[map], [key]: value };
}

function drop(view, map, keys) {
  view.run[map] = { ...view.run[map] };
  for (const key of keys) delete view.run[map][key];
}

function patchNode(view, id, patch) {
  const node = view.run.nodes[id];
  if (node) {
    const turn = node.status === "failed" && patch.status && patch.status !== "failed" && node.turn
      ? { turn: without({ ...node.turn }, "failures") } : {};
    put(view, "nodes", id, { ...node, ...patch, ...turn });
  } else if (NEEDED.every((field) => field in patch)) {
    put(view, "nodes", id, patch);
  }
}

function without(object, ...keys) {
  for (const key of keys) delete object[key];
  return object;
}

/** Numbers of `one` and `other` added, for usage and what limits count. */
function sum(one = {}, other = {}) {
  const total = { ...one };
  for (const [key, value] of Object.entries(other)) {
    total[key] = value !== null && typeof value === "object" ? sum(total[key], value) : (total[key] ?? 0) + value;
  }
  return total;
}

/** Changes of record. */
function change(view, event) {
  const { run } = view;
  const id = event.nodeId;
  switch (event.type) {
    case "run.patch": return patchRun(view, event.patch);
    case "run.mode":
      run.mode = event.mode;
      run.globalMode = event.globalMode;
      return;
    case "run.stalled":
      run.status = "paused";
      run.halted = { cause: "stalled", evidence: event.evidence };
      return;
    case "limit.reached":
      run.halted = { cause: "limit", nodeId: id, limit: event.limit, value: event.value, bound: event.bound };
      return;
    case "run.deleted":
      view.deleted = true;
      return;
    case "node.patch": return patchNode(view, id, event.patch);
    case "node.deleted": return deleteNode(view, id);
    case "edge.created": return put(view, "edges", event.edge.id, event.edge);
    case "edge.deleted": return drop(view, "edges", [event.edgeId]);
    case "handoff.sent":
      view.passed = { from: event.envelope.fromNodeId, to: event.envelope.toNodeId, seq: event.seq };
      return;
    case "telemetry.usage":
      run.usage = sum(run.usage, event.usage);
      if (run.nodes[id]) patchNode(view, id, { usage: sum(run.nodes[id].usage, event.usage) });
      return;
    case "artifact.created": return put(view, "artifacts", event.artifact.id, event.artifact);
    case "turn.status": return event.number ? endTurn(view, event) : undefined;
    case "step.started": return put(view, "steps", event.step.number, event.step);
    case "step.ended":
    case "step.routed": return patchStep(view, event);
    case "workspace.prepared": return put(view, "workspaces", event.workspace.name, event.workspace);
    default:
  }
  if (event.type.startsWith("approval.")) changeApproval(view, event);
  else if (/^(workspace|publish)\./.test(event.type) && run.workspaces[event.name]) {
    put(view, "workspaces", event.name, { ...run.workspaces[event.name], ...event.patch });
  }
}

function patchRun(view, patch) {
  const { run } = view;
  const resumed = patch.status === "running" && run.status !== "running";
  for (const [key, value] of Object.entries(patch)) {
    run[key] = MAPS.includes(key) ? { ...run[key], ...value } : value;
  }
  // A person resumed it: limits and loop safety count anew.
  if (resumed && run.id) {
    without(run, "halted", "spent");
    for (const [id, node] of Object.entries(run.nodes)) {
      if (node.spent) put(view, "nodes", id, without({ ...node }, "spent"));
    }
  }
}

function deleteNode(view, id) {
  const { nodes, nodeConfigs, approvals } = view.run;
  const alias = nodes[id]?.alias;
  drop(view, "nodes", [id]);
  if (nodeConfigs[id]) drop(view, "nodeConfigs", [id]);
  drop(view, "approvals", Object.keys(approvals).filter((key) => approvals[key].nodeId === id));
  if (alias) view.run.retired = [...(view.run.retired ?? []), alias].sort();
  delete view.live[id];
}

function endTurn(view, end) {
  const node = view.run.nodes[end.nodeId];
  view.run.spent = sum(view.run.spent, end.spent);
  if (node) {
    const last = node.turn;
    const failures = end.status === "completed" ? 0
      : (last?.failures ?? 0) + (end.status === "failed" && !end.excused ? 1 : 0);
    const unsaid = [...(end.status === "completed" ? [] : last?.unsaid ?? []), ...(end.unsaid ?? [])];
    const turn = { id: end.turnId, number: end.number, status: end.status, ...(failures && { failures }),
      ...(end.until && { until: end.until }), ...(unsaid.length && { unsaid }) };
    const spent = end.spent ? { spent: sum(node.spent, end.spent) } : {};
    // The server shows `running` while a lease is live; the ledger does not know that status.
    const status = node.status === "running" ? { status: "idle" } : {};
    put(view, "nodes", end.nodeId, { ...node, turn, ...spent, ...status });
  }
  for (const [key, one] of Object.entries(view.run.approvals)) {
    if (one.nodeId !== end.nodeId || !one.resolution || one.always) continue;
    if (end.status === "completed" || end.heard?.includes(key)) drop(view, "approvals", [key]);
    else if (one.heardBy === end.turnId) put(view, "approvals", key, without({ ...one }, "heardBy"));
  }
}

function patchStep(view, { type, number, outcome, evidence, record: left, route, ts, by }) {
  const step = view.run.steps[number];
  if (!step) return;
  const ended = { outcome, evidence, record: left, host: by?.runner?.runner, endedAt: ts };
  put(view, "steps", number, { ...step, ...(type === "step.ended" ? ended : { route }) });
}

function changeApproval(view, event) {
  const id = event.approvalId;
  const one = view.run.approvals[id];
  const set = (fields) => one && put(view, "approvals", id, { ...one, ...fields });
  switch (event.type) {
    case "approval.requested": {
      const { nodeId, tool, context, expiresAt, ts } = event;
      put(view, "approvals", id, { id, nodeId, tool, ...(context && { context }), requestedAt: ts,
        ...(expiresAt && { expiresAt }) });
      return;
    }
    case "approval.given": {
      const consent = { by: event.by, at: event.ts, ...(event.reason && { reason: event.reason }) };
      set({ consents: [...(one?.consents ?? []), consent] });
      return;
    }
    case "approval.resolved":
      set({ resolution: event.resolution, resolvedBy: event.by, ...(event.always && { always: event.always }) });
      return;
    case "approval.heard":
      set({ heardBy: event.turnId });
      return;
    case "approval.revoked":
      drop(view, "approvals", [id]);
  }
}

/** What this host sees of live turns. */
function observe(view, event) {
  const id = event.nodeId;
  if (event.type === "node.log") log(view, event);
  if (!id) return;
  const live = view.live[id];
  if (event.type === "turn.status" && event.status === "started") {
    view.past[id] = view.run.nodes[id]?.turn?.id === event.turnId;
    if (view.past[id]) return;
    view.live[id] = { turnId: event.turnId, startedAt: event.ts, seenAt: event.ts };
  } else if (event.type === "turn.status" && event.number) {
    delete view.live[id];
  } else if (event.type === "node.progress" && !event.commit) {
    if (view.past[id]) return;
    if (event.status === "running") view.live[id] = { startedAt: event.ts, ...live, seenAt: event.ts, summary: event.summary };
    else delete view.live[id];
  } else if (live && !event.commit) {
    const waiting = event.type === "turn.status" && event.status === "waiting" ? event.detail : undefined;
    view.live[id] = without({ ...live, seenAt: event.ts, ...(waiting && { waiting }) }, ...(waiting ? [] : ["waiting"]));
  }
}

function log(view, { nodeId, source = "provider", line, artifact, ts }) {
  // A long line is no part of its event.
  const text = line ?? `(a line of ${bytes(artifact?.size ?? 0)})`;
  const lines = [...(view.logs[nodeId] ?? []), { source, line: text, ts }];
  view.logs[nodeId] = lines.slice(-MOST_LINES);
}
