// What the stand-in's agents say, and what they have changed.

const ANSWER = `I looked at it. **Two things** stand out:

1. \`parse()\` accepts an empty line.
2. The table below is out of date.

| file | lines |
|---|---|
| greeting.txt | 2 |

\`\`\`rust
fn main() { println!("Hello, world"); }
\`\`\`
`;

/** A turn that answers a message: deltas, a tool, the final text. */
export function scripted(run, nodeId, messageId, content, pace) {
  const turnId = crypto.randomUUID();
  const tool = { id: crypto.randomUUID(), name: "Bash", args: { command: "cargo test", description: "Runs the tests" } };
  const answer = content.startsWith("say: ") ? content.slice(5) : ANSWER;
  const at = (fields) => ({ nodeId, ...fields });
  const deltas = answer.length > 10_000 ? [answer] : answer.match(/[\s\S]{1,24}/g) ?? [];
  const events = [
    at({ type: "turn.status", turnId, status: "started" }),
    at({ type: "node.progress", status: "running", summary: "reads 1 item" }),
    at({ type: "message.assistant.thinking.delta", delta: "What is asked here? " }),
    at({ type: "message.assistant.thinking.final", content: "What is asked here? I should run the tests." }),
    at({ type: "tool.proposed", tool }),
    at({ type: "node.progress", status: "running", summary: "uses Bash" }),
    at({ type: "tool.started", tool }),
    at({ type: "node.log", source: "provider", line: "\u001b[32m   Compiling\u001b[0m greeting v0.1.0" }),
    at({ type: "tool.completed", toolId: tool.id, result: { ok: true, output: "running 3 tests\ntest result: ok. 3 passed" } }),
    ...deltas.map((delta) => at({ type: "message.assistant.delta", delta })),
    at({ type: "telemetry.usage", provider: "custom", model: "model-1", usage: { promptTokens: 900, completionTokens: 80, totalTokens: 980, costUsd: 0.01 } }),
    at({ type: "message.assistant.final", content: answer, turnId }),
    at({ type: "turn.status", turnId, number: run.events.length, status: "completed", startedAt: new Date().toISOString(), consumed: [messageId] }),
    at({ type: "node.patch", patch: { status: "idle", inboxCount: 0, summary: answer.split("\n")[0], lastActivityAt: new Date().toISOString() } }),
  ];
  const step = () => {
    const next = events.shift();
    if (!next) return;
    run.push(next);
    setTimeout(step, pace).unref();
  };
  setTimeout(step, pace).unref();
}

/** The changes of a workspace, as the server cuts them from git's output. */
export function diff({ node = "flow", from = "base", to = "head" }) {
  return { from, to, node, files: [
    { path: "greeting.txt", old: null, status: "added", binary: false, hunks: [
      { header: "", oldStart: 0, oldLines: 0, newStart: 1, newLines: 2, lines: ["+Good morning.", "+Good evening."] }] },
    { path: "src/parser.rs", old: "src/parse.rs", status: "renamed", binary: false, hunks: [
      { header: "fn parse(line: &str) -> Item {", oldStart: 10, oldLines: 4, newStart: 10, newLines: 5,
        lines: [" fn parse(line: &str) -> Item {", "-    let word = line.split(' ').next();", "+    let word = line.split_whitespace().next();",
          "+    assert!(!line.is_empty());", "     Item::of(word)", " }"] }] },
    { path: "logo.png", old: null, status: "modified", binary: true, hunks: [] },
  ] };
}

diff.patch = `diff --git a/greeting.txt b/greeting.txt
new file mode 100644
index 0000000..86e041d
--- /dev/null
+++ b/greeting.txt
@@ -0,0 +1,2 @@
+Good morning.
+Good evening.
`;
