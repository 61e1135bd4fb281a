// The reducer, against journals and states that the real program wrote.
import { readFileSync } from "node:fs";
import { test } from "node:test";
import assert from "node:assert/strict";
import { begin, fold, replay } from "../../src/server/web/app/state.js";

const read = (name) => readFileSync(new URL(`fixtures/${name}`, import.meta.url), "utf8");
const journal = (name) => read(`${name}.events.jsonl`).trim().split("\n").map((line) => JSON.parse(line).event);
const shown = (name) => JSON.parse(read(`${name}.state.json`)).run;
const RUNS = ["pair", "team", "loop", "failed", "flow"];

// What no event carries: numbers that only the ledger needs, and what loop safety compares.
const UNSENT = ["traces", "waits"];

function comparable(run) {
  const nodes = Object.fromEntries(Object.entries(run.nodes).map(([id, node]) => {
    const rest = { ...node };
    for (const field of UNSENT) delete rest[field];
    return [id, rounded(rest)];
  }));
  const { edges, nodeConfigs, approvals, status, mode, globalMode, label, waitingFor, limits, retired } = run;
  return { nodes, edges, nodeConfigs, approvals, status, mode, globalMode, label, waitingFor, limits, retired,
    halted: run.halted ?? null, usage: rounded(run.usage), spent: rounded(run.spent ?? {}),
    workspaces: run.workspaces, artifacts: Object.keys(run.artifacts).sort() };
}

/** Sums of decimals differ in their last digit with the order of addition. */
function rounded(value) {
  if (typeof value === "number") return Number(value.toPrecision(9));
  if (Array.isArray(value)) return value.map(rounded);
  if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, rounded(v)]));
  return value;
}

for (const name of RUNS) {
  const events = journal(name);
  const state = shown(name);

  test(`${name}: the state folded from all events is the one that the program shows`, () => {
    assert.deepEqual(comparable(fold(begin(), events).run), comparable(state));
  });

  test(`${name}: it does not matter in which portions events come, or whether they come twice`, () => {
    const whole = fold(begin(), events);
    for (const size of [1, 7, 100]) {
      let view = begin();
      for (let at = 0; at < events.length; at += size) {
        view = fold(view, events.slice(Math.max(0, at - 3), at + size));
      }
      assert.deepEqual(view, whole);
    }
  });

  test(`${name}: a fold changes nothing of the view before it`, () => {
    const half = fold(begin(), events.slice(0, events.length >> 1));
    const copy = structuredClone(half);
    fold(half, events.slice(events.length >> 1));
    assert.deepEqual(half, copy);
  });

  test(`${name}: a state with the events after it, and old pages replayed, is the same as all events`, () => {
    const whole = fold(begin(), events);
    const middle = events.length >> 1;
    const loaded = begin(fold(begin(), events.slice(0, middle)).run);
    const view = replay(fold(loaded, events.slice(middle)), events);
    assert.deepEqual(view.run, whole.run);
    assert.deepEqual(view.transcripts, whole.transcripts);
    assert.deepEqual(view.logs, whole.logs);
  });

  test(`${name}: nothing is being written when all turns have ended`, () => {
    const view = fold(begin(), events);
    assert.deepEqual(view.live, {});
    assert.ok(Object.values(view.transcripts).flat().every((item) => !item.open));
  });
}

const of = (name, alias) => {
  const view = fold(begin(), journal(name));
  const node = Object.values(view.run.nodes).find((one) => one.alias === alias);
  return view.transcripts[node.id];
};

test("a transcript has each message, call, request and answer once", () => {
  const items = of("pair", "ada");
  const count = (fits) => items.filter(fits).length;
  assert.equal(count((one) => one.kind === "user"), 5);
  assert.deepEqual(items.filter((one) => one.kind === "approval").map((one) => one.resolution?.status),
    ["approved", "denied", "modified", undefined]);
  assert.equal(count((one) => one.kind === "handoff" && one.way === "out"), 1);
  assert.equal(count((one) => one.kind === "assistant" && one.text.startsWith("I wrote `greeting.txt`")), 1);
  const done = items.find((one) => one.kind === "assistant" && one.text.startsWith("## Done"));
  assert.ok(done.text.includes("```sh\ncat greeting.txt\n```"), "deltas and final are one message");
  assert.ok(items.filter((one) => one.kind === "tool" && one.name === "Read").every((one) => one.state === "ok"));
  assert.equal(new Set(items.map((one) => one.kind + one.key)).size, items.length);
});

test("turns are running until they end, and keep why they failed", () => {
  const events = journal("failed");
  const started = events.findIndex((event) => event.status === "started");
  const view = fold(begin(), events.slice(0, started + 2));
  const [id] = Object.keys(view.run.nodes);
  assert.equal(view.live[id].summary, "reads 1 item");
  assert.equal(view.transcripts[id].at(-1).status, "running");
  const turns = of("failed", "eve").filter((one) => one.kind === "turn");
  assert.deepEqual(turns.map((one) => one.status), ["failed", "failed", "failed"]);
  assert.ok(turns[0].detail.includes("exit code 3"));
});

test("events of the contract that this program does not send change the same fields", () => {
  const node = { id: "n", runId: "r", label: "N", roleTemplate: "x", provider: "custom", status: "idle", summary: "",
    lastActivityAt: "t", capabilities: {}, permissions: {}, session: { sessionId: "a" } };
  const at = (seq, fields) => ({ seq, id: `e${seq}`, runId: "r", ts: `t${seq}`, ...fields });
  const view = fold(begin({ id: "r", nodes: { n: node } }), [
    at(1, { type: "node.patch", nodeId: "unknown", patch: { status: "idle" } }),
    at(2, { type: "run.patch", patch: { nodes: { m: { ...node, id: "m" } }, layout: { positions: {} } } }),
    at(3, { type: "node.patch", nodeId: "n", patch: { session: { resetCommands: [] } } }),
    at(4, { type: "node.progress", nodeId: "n", status: "running", summary: "works" }),
    at(5, { type: "node.heartbeat", nodeId: "n" }),
    at(6, { type: "tool.completed", nodeId: "n", toolId: "never-proposed", result: { ok: false }, error: { message: "no" } }),
    at(7, { type: "message.assistant.thinking.delta", nodeId: "n", delta: "hm" }),
    at(8, { type: "message.assistant.delta", nodeId: "n", delta: "a" }),
    at(9, { type: "of.a.later.version", nodeId: "n" }),
    at(10, { type: "turn.status", nodeId: "n", status: "waiting", detail: "busy" }),
    at(11, { type: "node.deleted", nodeId: "m" }),
  ]);
  assert.deepEqual(Object.keys(view.run.nodes), ["n"]);
  assert.deepEqual(view.run.nodes.n.session, { resetCommands: [] }, "objects are replaced whole");
  assert.deepEqual(view.live.n, { startedAt: "t4", seenAt: "t10", summary: "works", waiting: "busy" });
  assert.deepEqual(view.transcripts.n.map((one) => [one.kind, one.state ?? one.text, one.open ?? null]),
    [["tool", "failed", null], ["thinking", "hm", false], ["assistant", "a", true]]);
});

test("a long event of this host, whose content became an artifact, is a text that can be asked for", () => {
  const artifact = { id: "f", mediaType: "application/json", size: 20_000, sha256: "0" };
  const events = [
    { type: "message.assistant.delta", artifact },
    { type: "message.assistant.final", content: "the end" },
    { type: "tool.proposed", tool: { id: "t", name: "Bash", args: { command: "cat" } } },
    { type: "tool.completed", artifact },
    { type: "tool.proposed", artifact },
    { type: "tool.started", artifact },
    { type: "tool.completed", toolId: "u", result: { ok: false } },
    { type: "message.assistant.final", artifact },
    { type: "node.log", source: "provider", artifact },
  ].map((event, index) => ({ id: `e${index}`, seq: index + 1, ts: "2026-01-01T00:00:00Z", nodeId: "n", ...event }));
  const { transcripts, logs } = fold(begin({ nodes: { n: { id: "n" } } }), events);
  const shown = transcripts.n.map(({ kind, key, text, state, whole }) => ({ kind, key, text, state, whole: whole?.id }));
  assert.deepEqual(shown, [
    { kind: "assistant", key: "e0", text: "the end", state: undefined, whole: "f" },
    { kind: "tool", key: "t", text: undefined, state: "ok", whole: "f" },
    { kind: "tool", key: "u", text: undefined, state: "failed", whole: "f" },
    { kind: "assistant", key: "e7", text: "", state: undefined, whole: "f" },
  ]);
  assert.equal(logs.n[0].line, "(a line of 20.0 kB)");
});

test("a short turn whose own events come after its end is over, and they are shown in it", () => {
  const events = [
    { type: "message.user", commit: "c", message: { id: "m", nodeId: "n", content: "hello" } },
    { type: "message.assistant.final", commit: "c", content: "Done.", turnId: "t" },
    { type: "turn.status", commit: "c", turnId: "t", number: 1, status: "completed", startedAt: "2026-01-01T00:00:00Z" },
    { type: "turn.status", turnId: "t", status: "started" },
    { type: "node.progress", status: "running", summary: "reads 1 item" },
    { type: "message.assistant.thinking.final", content: "Hm." },
    { type: "tool.proposed", tool: { id: "x", name: "Bash", args: {} } },
    { type: "node.progress", status: "running", summary: "uses Bash" },
    { type: "tool.completed", toolId: "x", result: { ok: true } },
    { type: "message.assistant.delta", delta: "Done." },
  ].map((event, index) => ({ id: `e${index}`, seq: index + 1, ts: "2026-01-01T00:00:00Z", nodeId: "n", ...event }));
  const kinds = (view) => view.transcripts.n.map((one) => one.kind);
  const view = fold(begin({ nodes: { n: { id: "n" } } }), events);
  assert.deepEqual(kinds(view), ["user", "turn", "thinking", "tool", "assistant"]);
  assert.deepEqual(view.live, {});
  assert.equal(view.transcripts.n[1].read, 1, "its items are counted although it consumed none");
  const next = fold(view, [{ id: "f", seq: 11, ts: "2026-01-01T00:01:00Z", nodeId: "n", type: "turn.status", turnId: "u", status: "started" },
    { id: "g", seq: 12, ts: "2026-01-01T00:01:01Z", nodeId: "n", type: "message.assistant.delta", delta: "More" }]);
  assert.deepEqual(kinds(next).slice(-2), ["turn", "assistant"]);
  assert.ok(next.live.n);
});
