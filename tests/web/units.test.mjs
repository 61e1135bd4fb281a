// Words, numbers, command lines, folding of graphs, and patches. And the stream, with a socket of ours.
import { test } from "node:test";
import assert from "node:assert/strict";
import { command, graphCommands } from "../../src/server/web/app/commands.js";
import * as format from "../../src/server/web/app/format.js";
import { fold } from "../../src/server/web/app/groups.js";
import * as requests from "../../src/server/web/app/requests.js";
import { Stream, patience } from "../../src/server/web/app/stream.js";
import { cardWords, flowLacksRunner, flowWords, nodeLacksRunner, whyIdle, wordOf } from "../../src/server/web/app/status.js";
import { begin } from "../../src/server/web/app/state.js";

test("durations, ages and sizes are short", () => {
  assert.deepEqual([0, 59, 60, 3_661, 90_000, 86_400 * 3 + 5].map(format.duration), ["0 s", "59 s", "1 min", "1 h 1 min", "1 d 1 h", "3 d"]);
  assert.deepEqual([0, 12.4, 999, 1_000, 61_000].map(format.took), ["0 ms", "12 ms", "999 ms", "1 s", "1 min 1 s"]);
  assert.deepEqual([1, 2, 3, 4, 11, 22].map(format.ordinal), ["first", "2nd", "3rd", "4th", "11th", "22nd"]);
  const now = Date.parse("2026-01-01T12:00:00Z");
  assert.equal(format.ago("2026-01-01T11:57:10Z", now), "2 min ago");
  assert.equal(format.ago("2026-01-01T12:00:09Z", now), "now", "a clock that is ahead");
  assert.equal(format.ago(undefined, now), "");
  assert.deepEqual([0.0125, 1.5, 120, undefined].map(format.cost), ["$0.013", "$1.50", "$120", ""]);
  assert.deepEqual([999, 1_285, 250_000, 3_400_000].map(format.tokens), ["999", "1.3 k", "250 k", "3.4 M"]);
  assert.equal(format.firstLine("\n## Done\nmore"), "Done");
});

test("command lines are quoted for a shell", () => {
  const item = { approvalId: "0a1b2c3d-0000", slug: "028b0b9e", tool: { name: "Bash", args: {} } };
  assert.equal(command.deny(item, "it's `rm`"), `aynig orch deny 0a1b2c3d --reason 'it'\\''s \`rm\`'`);
  assert.equal(command.approve(item, { command: "npm ci" }), `aynig orch approve 0a1b2c3d --args '{"command":"npm ci"}'`);
  assert.equal(command.approveAlways(item, "call"), "aynig orch approve 0a1b2c3d --always");
  assert.equal(command.approveAlways(item, "tool"), "aynig orch approve 0a1b2c3d --always=tool");
  assert.equal(command.deny({ ...item, kind: "flow", tool: { name: "gate" } }, "no"), "aynig flow reject 028b0b9e --comment no");
  const lines = graphCommands({ label: "A pair", mode: "INTERACTIVE", nodes: [{ alias: "ada", role: "implementer", provider: "me", permissions: "gated", prompt: "Write $x" }], edges: [] });
  assert.equal(lines.at(-1), `aynig orch chat "$run" ada 'Write $x'`);
});

test("a gate is what the server calls one, not a tool with its name", () => {
  const tool = { name: "gate", args: { question: "Shall it go on?", command: "rm -rf ~" } };
  assert.deepEqual([{ kind: "flow" }, { kind: "graph" }, { kind: "graph", alias: "flow" }, { alias: "flow" }, { alias: "ada" }, {}].map(requests.isGate),
    [true, false, false, true, false, false]);
  assert.equal(requests.nameOf({ kind: "flow", tool }), "Shall it go on?");
  assert.equal(requests.nameOf({ kind: "flow", tool: { name: "gate", args: { question: {} } } }), "Gate");
  const item = { approvalId: "0a1b2c3d-0000", slug: "028b0b9e", kind: "graph", alias: "ada", tool };
  assert.equal(requests.nameOf(item), "gate");
  assert.equal(command.approve(item), "aynig orch approve 0a1b2c3d");
  assert.equal(command.deny(item, "no"), "aynig orch deny 0a1b2c3d --reason no");
});

test("the line of a call is its command as it is, and says what it leaves out", () => {
  const rows = [
    [{ command: "echo `id` *" }, "echo `id` *"],
    [{ command: "# rm\nrm -rf ~" }, "# rm …"],
    [{ command: "\n\n- a\n" }, "… - a"],
    [{ description: "List files", command: "rm -rf ~" }, "rm -rf ~ …"],
    [{ description: "List files", command: ["sh", "-c", "rm -rf ~"] }, "sh -c 'rm -rf ~' …"],
    [{ command: ["echo", "a", 1, ""] }, "echo a 1 ''"],
    [{ other: "x" }, "x"],
    [{ other: 1 }, "…"],
    [{}, ""],
    [undefined, ""],
    [{ command: `${"a".repeat(199)}😀b` }, `${"a".repeat(199)} …`],
  ];
  for (const [args, line] of rows) assert.equal(format.callLine(args), line, JSON.stringify(args));
});

test("what is not seen is shown as an escape", () => {
  const { pieces, visible } = requests;
  for (const code of [0, 0x08, 0x0b, 0x0d, 0x1b, 0x7f, 0x85, 0xad, 0x61c, 0x200b, 0x200f, 0x2028, 0x202a, 0x202e, 0x2060, 0x2069, 0xfeff, 0xd800, 0xdfff]) {
    const shown = `\\u${code.toString(16).padStart(4, "0")}`;
    for (const isBlock of [false, true]) {
      assert.deepEqual(pieces(`a${String.fromCharCode(code)}b`, isBlock), [{ text: "a", isEscape: false }, { text: shown, isEscape: true }, { text: "b", isEscape: false }]);
    }
  }
  assert.equal(visible("a\n\tb"), "a\\u000a\\u0009b");
  assert.equal(visible("a\n\tb", true), "a\n\tb");
  assert.equal(visible("é 😀 ☺\ufe0f 日本 \\u202e"), "é 😀 ☺\ufe0f 日本 \\u202e");
  assert.equal(visible("\u{e0041}"), "\\udb40\\udc41", "letters of tags");
  const args = { "a\u200b": "\u202e\u{e0041}\n" };
  assert.deepEqual(JSON.parse(visible(JSON.stringify(args, null, 2), true)), args, "arguments can be edited as they are shown");
  assert.equal(requests.cut("a".repeat(3_000)), `${"a".repeat(80)}…`);
  assert.equal(requests.upTo("a😀", 2), "a");
});

test("only what is drawn as a change is left out of the arguments", () => {
  const keys = (args) => requests.otherArgs(args).map(([key]) => key);
  assert.deepEqual(keys({ file_path: "run.sh", new_string: "# a comment", content: "#!/bin/sh" }), ["file_path", "content"]);
  assert.deepEqual(keys({ file_path: "a", old_string: "b", old_str: "c", new_string: "d", newText: "e" }), ["file_path", "old_str", "newText"]);
  assert.deepEqual(keys({ file_path: "a", old_string: ["b"], new_string: "d" }), ["file_path", "old_string"]);
  assert.deepEqual(keys({ file_path: "a", content: { b: 1 } }), ["file_path", "content"]);
  assert.deepEqual(keys({ path: "a", content: "b" }), ["path", "content"], "it is no edit");
  assert.deepEqual(keys(undefined), []);
});

test("only drivers name commands, and only plain ones of aynig", () => {
  const text = "`aynig flow approve 028b0b9e` or `aynig x; rm -rf ~` or `rm` or `aynig a\u202eb` or `aynig orch show 'a b'`";
  const named = ["aynig flow approve 028b0b9e", "aynig orch show 'a b'"];
  assert.deepEqual(requests.commandsIn(text), named);
  assert.deepEqual(requests.commandsIn(null), []);
  assert.deepEqual(requests.namedCommands({ branch: "x", waitsFor: text }), []);
  assert.deepEqual(requests.namedCommands({ branch: "x", runId: "r", waitsFor: text }), named);
  assert.deepEqual(requests.namedCommands({ branch: "x", runId: "r", note: "`aynig answer x` `aynig log x`" }), ["aynig log x"]);
});

test("the five words do not contradict each other", () => {
  const rows = [
    [{ status: "failed", openApprovals: 1 }, "failed"],
    [{ status: "completed" }, "finished"],
    [{ status: "completed", verdict: "failed" }, "failed"],
    [{ status: "stopped" }, "finished"],
    [{ status: "running", openApprovals: 1, counts: { running: 2 } }, "needs you"],
    [{ status: "paused", halted: "limit" }, "needs you"],
    [{ status: "paused" }, "waiting"],
    [{ status: "running", counts: { running: 1, failed: 1 } }, "working"],
    [{ status: "running", counts: { failed: 1 } }, "needs you"],
    [{ status: "running", counts: { unread: 3 } }, "waiting"],
    [{ status: "queued" }, "waiting"],
  ];
  for (const [run, word] of rows) assert.equal(wordOf(run).word, word, JSON.stringify(run));
});

test("each idle node has a reason", () => {
  const node = { id: "n", alias: "ada", status: "idle", inboxCount: 0 };
  const why = (run, fields = {}) => whyIdle(begin({ status: "running", nodes: {}, ...run }), { ...node, ...fields }, 0);
  assert.match(why({}), /waits for a message/);
  assert.match(why({}, { inboxCount: 2 }), /2 messages unread, waiting for a runner/);
  assert.match(why({}, { hold: "stopped" }), /Start lets it go on/);
  assert.match(why({}, { status: "failed", summary: "exit code 3" }), /exit code 3/);
  assert.match(why({}, { turn: { until: "1970-01-01T00:05:00Z" } }), /limit ends in 5 min/);
  assert.match(why({ status: "paused" }), /paused by a person/);
  assert.match(why({ status: "completed" }), /has ended/);
  assert.match(why({ approvals: { a: { nodeId: "n", tool: { name: "Bash" } } } }), /your answer: Bash/);
  assert.match(why({ nodes: { m: { alias: "rex" } } }, { waitingFor: "h", waits: { h: { to: "m" } } }), /an answer from rex/);
});

test("a node that is due says whether a runner is at work, and why one handed its turn back", () => {
  const node = { id: "n", alias: "ada", status: "idle", inboxCount: 1, summary: "I was not allowed to.", lastActivityAt: "1970-01-01T00:00:00Z" };
  const of = (run = {}) => begin({ status: "running", slug: "0a1b2c3d", nodes: { n: node }, ...run });
  const host = (kind, unable = []) => ({ branches: [{ branch: "run/0a1b2c3d/ada", kind, unable }, { branch: "main", kind: "rests", unable: [] }] });
  const reason = "the program claude is not in PATH; `git config aynig.provider.claude.command PROGRAM`";
  assert.equal(nodeLacksRunner(of(), node, 9_000, host("ready")), false, "a runner looks every 10 seconds");
  assert.match(whyIdle(of(), node, 11_000, host("ready")), /1 message unread. No runner is at work here./);
  const twice = { ...of(), transcripts: { n: [{ kind: "user", ts: "1970-01-01T00:00:01Z" }, { kind: "user", ts: "1970-01-01T00:00:10Z" }] } };
  assert.equal(nodeLacksRunner(twice, { ...node, inboxCount: 2 }, 12_000, host("ready")), true, "another message begins no other wait");
  assert.match(whyIdle(of(), node, 11_000, host("working")), /waiting for a runner/);
  assert.match(whyIdle(of(), node, 11_000, null), /waiting for a runner/, "it is not known yet");
  const back = host("parked", [{ runner: "vm", reason: "an older one" }, { runner: "vm", reason }]);
  assert.equal(whyIdle(of(), node, 11_000, back), `vm cannot take the turn: ${reason}.`);
  assert.equal(nodeLacksRunner(of(), node, 11_000, back), false);
  assert.equal(cardWords(of(), node, 11_000, back), "Handed back: the program claude is not in PATH");
  assert.equal(cardWords(of(), { ...node, inboxCount: 0 }, 11_000, back), "I was not allowed to.");
  const asked = of({ approvals: { a: { nodeId: "n", tool: { name: "Bash" } } } });
  assert.equal(cardWords(asked, { ...node, inboxCount: 0 }, 11_000, null), "Waits for your answer: Bash", "not its last message");
});

test("a flow that is due waits for a runner", () => {
  const show = { words: "implement is due; a runner begins it", since: "1970-01-01T00:00:00Z" };
  assert.equal(flowWords(show), "`implement` is next; waiting for a runner");
  assert.equal(flowWords({ words: "ended: succeeded" }), "ended: succeeded");
  assert.equal(flowLacksRunner(show, 11_000, { branches: [] }), true);
  assert.equal(flowLacksRunner(show, 11_000, { branches: [{ kind: "working" }] }), false);
  assert.equal(flowLacksRunner({ ...show, words: "waits at gate" }, 11_000, { branches: [] }), false);
  assert.equal(flowLacksRunner(undefined, 11_000, null), false);
});

test("parallel nodes fold into one group", () => {
  const node = (id, roleTemplate) => ({ id, roleTemplate });
  const nodes = [node("a", "orchestrator"), node("b", "implementer"), node("c", "implementer"), node("d", "tester")];
  const edges = ["b", "c", "d"].map((to) => ({ id: to, from: "a", to, bidirectional: false }));
  assert.deepEqual(fold(nodes, edges, true).groups.map((one) => one.members.length), [1, 2, 1]);
  assert.equal(fold(nodes, edges, true).edges.length, 2);
  assert.equal(fold(nodes, edges, false).groups.length, 4);
});

class Socket {
  static all = [];
  constructor(url) {
    this.url = new URL(url);
    Socket.all.push(this);
  }
  say(message) { this.onmessage({ data: JSON.stringify(message) }); }
  close(code = 1000) { this.onclose?.({ code }); }
  get asked() { return Object.fromEntries(this.url.searchParams); }
}

function listening() {
  Socket.all = [];
  const seen = { events: [], states: [], gaps: 0, hellos: 0 };
  const stream = new Stream({ events: (events) => seen.events.push(...events.map((one) => one.seq)), hello: () => (seen.hellos += 1), gap: () => (seen.gaps += 1), state: (state) => seen.states.push(state) },
    { Socket, base: "ws://host", soon: (work) => work() });
  return { stream, seen, newest: () => Socket.all.at(-1) };
}

test("a stream resumes after its last event, and drops doubles", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { stream, seen, newest } = listening();
  stream.open({ runId: "r", after: 10, journal: "j" });
  assert.deepEqual(newest().asked, { runId: "r", after: "10", journal: "j" });
  newest().say({ type: "stream.hello", journal: "j" });
  for (const seq of [11, 12, 12, 11, 13]) newest().say({ type: "run.patch", seq });
  newest().close(1006);
  t.mock.timers.tick(600);
  assert.deepEqual(newest().asked, { runId: "r", after: "13", journal: "j" });
  newest().say({ type: "stream.hello", journal: "j" });
  newest().say({ type: "run.patch", seq: 14 });
  assert.deepEqual(seen.events, [11, 12, 13, 14]);
  assert.deepEqual(seen.states, ["connecting", "live", "stale", "stale", "live"]);
});

test("a stream that was too slow comes again at once; one of another journal asks for the state", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { stream, seen, newest } = listening();
  stream.open({ runId: "r", after: 1 });
  newest().say({ type: "stream.hello", journal: "j" });
  newest().close(4008);
  t.mock.timers.tick(1);
  assert.equal(Socket.all.length, 2);
  newest().say({ type: "stream.gap" });
  assert.equal(seen.gaps, 1);
  stream.open({ runId: "r", after: 1 });
  newest().close(4009);
  assert.equal(seen.gaps, 2);
  stream.open({ types: "run.*" });
  newest().say({ type: "stream.hello" });
  newest().say({ type: "stream.gap", runId: "r" });
  assert.deepEqual([seen.gaps, seen.hellos], [2, 3], "of all runs one is fetched anew, and the socket stays");
  newest().say({ type: "run.patch", seq: 7 });
  assert.deepEqual(seen.events, [7]);
});

test("a stream tries for ever, less and less often, and a closed one does not", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { stream, newest } = listening();
  stream.open({ types: "run.*" });
  for (let attempt = 0; attempt < 40; attempt += 1) {
    newest().close(1006);
    t.mock.timers.tick(30_000);
  }
  assert.equal(Socket.all.length, 41);
  assert.ok(patience(0, 0) === 250 && patience(30, 1) === 30_000);
  newest().close(1006);
  stream.close();
  t.mock.timers.tick(60_000);
  assert.equal(Socket.all.length, 41);
});
