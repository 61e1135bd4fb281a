// A large run in a real browser, with the stand-in: how long frames take, and how much memory is used.
import { test } from "node:test";
import assert from "node:assert/strict";
import { Bench, heap, isReal, longestGap, skip } from "./browser.mjs";

test("a transcript of 20,000 items and a graph of 500 nodes stay smooth", { skip: skip || (isReal && "needs the stand-in"), timeout: 120_000 }, async (t) => {
  const bench = await Bench.begin();
  t.after(() => bench.end());
  const { events, id, first } = large();
  bench.mock.addRun(events);
  const page = await bench.open(`/runs/${id}/nodes/${first}`);
  const list = page.getByRole("region", { name: "Transcript of node-0" });
  await list.locator(".virtual-row").first().waitFor();
  const load = page.getByRole("button", { name: "Load older events" });
  while (await load.count()) {
    await load.click().catch(() => {});
    await page.waitForTimeout(50);
  }
  const size = await list.locator(".virtual-row").first().getAttribute("aria-setsize").catch(() => "");
  assert.ok(Number(size) >= 20_000, `${size} items`);
  const scrolled = await longestGap(page, async () => {
    await list.hover();
    for (let count = 0; count < 60; count += 1) await page.mouse.wheel(0, count % 3 ? -1_500 : 2_500);
    await page.waitForTimeout(300);
  });
  const rows = await list.locator(".virtual-row").count();
  assert.ok(rows < 120, `${rows} rows in the page`);
  const whole = bench.mock.run(id);
  const streamed = await longestGap(page, async () => {
    for (let count = 0; count < 200; count += 1) whole.push({ type: "message.assistant.delta", nodeId: first, delta: "more words " });
    await page.waitForTimeout(800);
  });
  const used = await heap(page);
  await page.goto(`${bench.base}/runs/${id}`);
  await page.locator(".graph-node").first().waitFor({ timeout: 30_000 });
  const folded = await page.locator(".graph-node").count();
  await page.getByRole("button", { name: "Fold parallel nodes" }).click();
  await page.waitForFunction(() => document.querySelectorAll(".graph-node").length === 500, null, { timeout: 60_000 });
  const moved = await longestGap(page, async () => {
    for (let count = 0; count < 60; count += 1) whole.push({ type: "node.progress", nodeId: whole.ids[count * 7], status: "running", summary: `step ${count}` });
    await page.locator(".graph").evaluate(async (graph) => {
      for (let count = 0; count < 40; count += 1) {
        graph.scrollTop += 60;
        graph.scrollLeft += 60;
        await new Promise(requestAnimationFrame);
      }
    });
  });
  t.diagnostic(`20,000 items: heap ${used} MB, longest frame gap ${scrolled} ms scrolling, ${streamed} ms streaming, ${rows} rows`);
  t.diagnostic(`500 nodes: ${folded} cards when folded, heap ${await heap(page)} MB, longest frame gap ${moved} ms`);
  assert.ok(used < 150, `${used} MB`);
  await bench.close(page);
});

/** A run with 500 nodes, of which the first has said 20,000 things. */
function large() {
  const id = crypto.randomUUID();
  const now = new Date().toISOString();
  const ids = Array.from({ length: 500 }, () => crypto.randomUUID());
  const at = (fields) => ({ runId: id, ...fields });
  const events = [at({ type: "run.patch", patch: { id, slug: id.slice(0, 8), kind: "graph", label: "Large", status: "running", mode: "INTERACTIVE", globalMode: "IMPLEMENTATION",
    createdAt: now, updatedAt: now, usage: {}, limits: {}, baseRef: "refs/heads/main", baseSha: "0".repeat(40) } })];
  ids.forEach((node, index) => events.push(at({ type: "node.patch", nodeId: node, patch: { id: node, runId: id, alias: `node-${index}`, number: index + 1, label: `node-${index}`,
    roleTemplate: index % 10 ? "implementer" : "orchestrator", provider: "custom", status: "idle", summary: `works on part ${index}`, lastActivityAt: now, usage: {}, inboxCount: 0, limits: {},
    capabilities: { edgeManagement: "none" }, permissions: { cliPermissionsMode: "gated" }, session: { sessionId: "pending", resetCommands: [] } } })));
  ids.forEach((node, index) => index && events.push(at({ type: "edge.created", edge: { id: `e${index}`, from: ids[index % 10 ? index - (index % 10) : Math.max(0, index - 10)], to: node, bidirectional: false, type: "handoff", label: "task" } })));
  for (let count = 0; count < 10_000; count += 1) {
    events.push(at({ type: "message.assistant.final", nodeId: ids[0], content: `Message ${count} with **some** words and \`code\`.` }),
      at({ type: "tool.proposed", nodeId: ids[0], tool: { id: `t${count}`, name: "Bash", args: { command: `echo ${count}` } } }));
  }
  return { id, events, first: ids[0] };
}
