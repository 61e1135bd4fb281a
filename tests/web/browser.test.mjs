// The page in a real browser; see browser.mjs for its environment.
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { Bench, heap, longestGap, skip, violations } from "./browser.mjs";

let bench;
before(async () => { if (!skip) bench = await Bench.begin(); }, { timeout: 60_000 });
after(() => bench?.end());

const check = (name, work, { mocked = false, timeout = 120_000 } = {}) =>
  test(name, { skip: skip || (mocked && process.env.AYNIG_WEB_BASE ? "needs the stand-in" : false), timeout }, work);
const run = (label) => `/runs/${bench.runs[label].id}`;
const main = (page) => page.locator("main");

check("a link opens a session once; without one the page says how to get it", async () => {
  const context = await bench.browser.newContext();
  const page = await context.newPage();
  await page.goto(`${bench.base}/inbox#t=used-before`);
  await page.getByRole("heading", { name: "No session" }).waitFor();
  assert.match(await main(page).innerText(), /aynig serve --url/);
  assert.equal(page.url(), `${bench.base}/inbox`);
  await context.close();
});

check("opening each screen writes nothing", async () => {
  const node = await bench.node("The greeting", "ada");
  for (const path of ["/", "/inbox", "/new", "/new?kind=flow", "/branches", run("The greeting"), `${run("The greeting")}?view=timeline`, run("greeting"), node, `${node}?tab=diff`, `${run("The greeting")}/events`]) {
    const page = await bench.open(path);
    await page.waitForTimeout(500);
    assert.deepEqual(page.writes, [], path);
    await bench.close(page);
  }
});

check("each screen has no violation of axe, at each width and in both themes, and does not scroll sideways", async () => {
  const node = await bench.node("The greeting", "ada");
  const paths = ["/", "/inbox", "/new", "/new?kind=flow", "/branches?runs=1", "/branches/run%2Fx%2Fada", run("The greeting"), `${run("A team")}?view=table`, `${run("Round and round")}?view=timeline`,
    run("greeting"), node, `${node}?tab=diff`, `${node}?tab=artifacts`, `${node}?tab=prompts`, `${node}?tab=log`, `${run("The greeting")}/events`, `${run("The greeting")}/events?at=100`];
  for (const path of paths) {
    for (const [width, theme] of [[1280, "light"], [1280, "dark"], [375, "light"]]) {
      const page = await bench.open(path, { width, theme, height: 800 });
      await page.waitForTimeout(350);
      assert.deepEqual(await violations(page), [], `${path} ${width} ${theme}`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `${path} scrolls sideways by ${wide} at ${width}`);
      await bench.close(page);
    }
  }
}, { timeout: 600_000 });

check("the list of runs has the five words, and its filter and search are in the address", async () => {
  const page = await bench.open("/");
  const rows = page.getByRole("row");
  await page.getByRole("link", { name: "A team" }).waitFor();
  const text = await main(page).innerText();
  for (const word of ["needs you", "finished"]) assert.ok(text.includes(word), word);
  await page.getByRole("button", { name: "finished", exact: true }).click();
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 1);
  assert.match(page.url(), /status=finished/);
  await page.reload();
  await page.getByRole("link", { name: "A team" }).waitFor();
  assert.equal(await rows.count(), 2);
  await page.getByRole("button", { name: "all", exact: true }).click();
  await page.getByRole("searchbox", { name: "Search runs" }).fill("round");
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 1);
  assert.match(page.url(), /q=round/);
  await bench.close(page);
});

check("the inbox is answered by keys, which are dead while one types and can be switched off", async () => {
  const page = await bench.open("/inbox");
  const request = page.getByRole("article", { name: "The request" });
  await page.getByRole("heading", { name: "ada wants to use Bash" }).waitFor();
  assert.match(await page.title(), /^\(\d+\) aynig$/);
  await page.keyboard.press("j");
  await page.getByRole("heading", { name: "Is the greeting good?" }).waitFor();
  await page.keyboard.press("k");
  await page.getByRole("heading", { name: "ada wants to use Bash" }).waitFor();
  await page.keyboard.press("Control+d");
  assert.equal(await request.getByRole("textbox").count(), 0, "another key is held");
  await page.keyboard.press("d");
  const reason = request.getByRole("textbox", { name: "The reason, which the agent reads" });
  await reason.waitFor();
  await page.keyboard.type("jade, not now");
  assert.equal(await reason.inputValue(), "jade, not now");
  await reason.fill("  ");
  assert.ok(await request.getByRole("button", { name: "Deny", exact: true }).isDisabled(), "a reason is needed");
  await page.getByRole("checkbox", { name: /Keys/ }).uncheck();
  await page.locator("h1").click();
  await page.keyboard.press("j");
  await page.getByRole("heading", { name: "ada wants to use Bash" }).waitFor();
  await page.reload();
  assert.equal(await page.getByRole("checkbox", { name: /Keys/ }).isChecked(), false, "it is remembered");
  assert.deepEqual(page.writes, []);
  await bench.close(page);
});

check("requests are approved, denied with a reason, and changed; the second answer is refused with its cause", async () => {
  const pair = bench.mock.run(bench.runs["The greeting"].id);
  const node = Object.values(pair.view.run.nodes).find((one) => one.alias === "ada");
  const ask = (id, args) => pair.push({ type: "approval.requested", nodeId: node.id, approvalId: id, tool: { id, name: "Edit", args } });
  const page = await bench.open("/inbox", { allow: [/409/] });
  for (const [id, keys, status] of [["id-1", ["a", "a"], "approved"], ["id-2", ["d"], "denied"], ["id-3", ["e"], "modified"], ["id-4", ["a", "Enter"], "approved"]]) {
    ask(id, { file_path: "src/a.rs", old_string: "one word", new_string: "one other word" });
    await page.goto(`${bench.base}/inbox?id=${id}`);
    await page.getByText("src/a.rs").first().waitFor();
    assert.ok(await page.locator("figure mark").count() > 0, "the change is shown");
    for (const key of keys) await page.keyboard.press(key);
    if (status === "denied") {
      await page.keyboard.type("use the other file");
      await page.getByRole("button", { name: "Deny", exact: true }).click();
    }
    if (status === "modified") {
      await page.getByRole("textbox", { name: /arguments/ }).fill("no JSON");
      assert.ok(await page.getByRole("button", { name: /Approve with/ }).isDisabled());
      await page.getByRole("textbox", { name: /arguments/ }).fill('{"file_path":"src/b.rs"}');
      await page.getByRole("button", { name: /Approve with/ }).click();
    }
    await page.waitForFunction((gone) => ![...document.querySelectorAll(".inbox-row")].some((row) => row.textContent.includes(gone)) && !location.search.includes("id-"), "never");
    const { resolution } = pair.events.findLast((event) => event.type === "approval.resolved");
    assert.equal(resolution.status, status);
    if (status === "denied") assert.equal(resolution.reason, "use the other file");
    if (status === "modified") assert.deepEqual(resolution.modifiedArgs, { file_path: "src/b.rs" });
  }
  ask("id-5", { command: "ls" });
  await page.goto(`${bench.base}/inbox?id=id-5`);
  await page.getByRole("button", { name: "Approve", exact: true }).waitFor();
  pair.view.run.approvals["id-5"].resolution = { status: "denied" };
  await page.getByRole("button", { name: "Approve", exact: true }).click();
  await page.getByRole("alert").filter({ hasText: "before you" }).waitFor();
  // What was read is not replaced by another request while a finger is on its way.
  ask("id-7", { command: "ls" });
  await page.goto(`${bench.base}/inbox?id=id-7`);
  await page.getByRole("heading", { name: "ada wants to use Edit" }).waitFor();
  pair.push({ type: "approval.resolved", approvalId: "id-7", resolution: { status: "approved" } });
  await page.getByText("This request was answered").waitFor();
  await page.keyboard.press("a");
  assert.equal(await page.getByRole("button", { name: "Approve", exact: true }).count(), 0);
  await bench.close(page);
}, { mocked: true });

check("a new request is announced at once, in the title and to screen readers", async () => {
  const page = await bench.open("/");
  const team = bench.mock.run(bench.runs["A team"].id);
  const node = Object.values(team.view.run.nodes)[0];
  await page.waitForTimeout(600);
  const count = Number(/\d+/.exec(await page.title())[0]);
  team.push({ type: "approval.requested", nodeId: node.id, approvalId: "announced", tool: { id: "t", name: "Bash", args: { command: "make dist" } } });
  await page.waitForFunction((wanted) => document.title === `(${wanted}) aynig`, count + 1);
  await page.locator("[aria-live]").filter({ hasText: "Bash make dist" }).first().waitFor({ state: "attached" });
  team.push({ type: "approval.resolved", approvalId: "announced", resolution: { status: "approved" } });
  await page.waitForFunction((wanted) => document.title === `(${wanted}) aynig`, count);
  await bench.close(page);
}, { mocked: true });

check("a run is steered; what stops it asks once more", async () => {
  const page = await bench.open(run("The greeting"));
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  await page.getByRole("button", { name: "Resume", exact: true }).waitFor();
  assert.match(await main(page).innerText(), /paused by a person/i);
  await page.getByRole("button", { name: "Resume", exact: true }).click();
  await page.getByRole("button", { name: "Pause", exact: true }).waitFor();
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await page.getByRole("button", { name: "Keep it" }).click();
  await page.getByRole("button", { name: "Copy the command: aynig orch run pause" }).click();
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^aynig orch run pause [0-9a-f]{8}$/);
  assert.ok((await page.getByText("Why nodes are idle").count()) === 1);
  await bench.close(page);
});

check("the graph is laid out, has links, and keeps where a card was dragged", async () => {
  const page = await bench.open(run("The greeting"));
  const card = page.locator(".graph-node").filter({ has: page.getByRole("link", { name: "rex" }) });
  await card.waitFor();
  const from = await card.boundingBox();
  await page.mouse.move(from.x + 150, from.y + 70);
  await page.mouse.down();
  await page.mouse.move(from.x + 350, from.y + 100, { steps: 5 });
  await page.mouse.up();
  await page.waitForTimeout(300);
  const to = await card.boundingBox();
  assert.ok(Math.abs(to.x - from.x) > 100, "it moved");
  const offset = (box) => page.locator(".graph-all").boundingBox().then((all) => [Math.round(box.x - all.x), Math.round(box.y - all.y)]);
  const place = await offset(to);
  await page.reload();
  await card.waitFor();
  assert.deepEqual(await offset(await card.boundingBox()), place);
  await card.getByRole("link", { name: "rex" }).click();
  await page.getByRole("heading", { name: "rex", level: 1 }).waitFor();
  await page.goBack();
  await page.getByRole("heading", { name: "The greeting" }).waitFor();
  await bench.close(page);
});

check("a flow is a track of steps with attempts", async () => {
  const page = await bench.open(run("greeting"));
  const steps = page.getByRole("listitem").filter({ has: page.getByRole("heading", { level: 2 }) });
  await steps.first().waitFor();
  assert.equal(await steps.count(), 4);
  assert.match(await steps.nth(0).innerText(), /write[\s\S]*completed[\s\S]*scripted completed the turn/);
  assert.match(await steps.nth(2).innerText(), /waits for you/);
  assert.match(await steps.nth(3).innerText(), /not begun/);
  await bench.close(page);
});

check("a node shows its transcript, artifacts, prompts, changes and log", async () => {
  const path = await bench.node("The greeting", "ada");
  const page = await bench.open(path);
  await page.getByText("I wrote greeting.txt and handed it to rex.").waitFor();
  const tool = page.locator(".item-tool").filter({ hasText: "greeting.txt" }).first();
  await page.locator(".transcript").hover();
  while (!(await tool.count())) {
    await page.mouse.wheel(0, -400);
    await page.waitForTimeout(50);
  }
  await tool.locator("summary").click();
  await tool.getByText("The file was changed.").waitFor();
  assert.ok(await tool.locator("tr.added").count() >= 1, "an edit is shown as a diff");
  assert.equal(await page.locator(".item-thinking details[open]").count(), 0, "thinking is folded");
  await page.getByRole("link", { name: "Changes" }).click();
  await page.locator(".file").first().waitFor();
  await page.getByRole("link", { name: /^Artifacts/ }).click();
  await page.getByText("transcript").first().click();
  await page.getByRole("link", { name: "Prompts" }).click();
  await page.getByText("prompt.full.txt").first().waitFor();
  await page.getByRole("link", { name: /^Log/ }).click();
  await page.getByText("model model-1").first().waitFor();
  await bench.close(page);
  const failed = await bench.open(`${await bench.node("It does not build", "eve")}?tab=log`);
  await failed.locator(".ansi-red-fg").first().waitFor();
  assert.match(await main(failed).innerText(), /A message or Start lets it try again/);
  await bench.close(failed);
});

check("a message is answered as it streams, queued or at once", async () => {
  const page = await bench.open(await bench.node("The greeting", "rex"));
  bench.mock.pace = 150;
  const box = page.getByRole("textbox", { name: "Message to rex" });
  await box.fill("Is it right?");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.locator(".item-user").filter({ hasText: "Is it right?" }).waitFor();
  assert.equal(await box.inputValue(), "");
  await page.locator(".caret").first().waitFor();
  await page.getByRole("button", { name: "Queue" }).waitFor();
  await page.locator(".markdown table").waitFor();
  await page.locator(".caret").waitFor({ state: "detached" });
  assert.equal(await page.locator(".item-user").filter({ hasText: "Is it right?" }).count(), 1, "not twice");
  bench.mock.pace = 10;
  await box.fill("say At once.");
  await page.getByRole("button", { name: "Interrupt now" }).click();
  await page.getByText("interrupts", { exact: true }).waitFor();
  await page.getByText("At once.", { exact: true }).waitFor();
  await bench.close(page);
}, { mocked: true });

check("a node's settings are changed, and it is stopped and started", async () => {
  const page = await bench.open(await bench.node("The greeting", "rex"));
  await page.getByRole("button", { name: "Change settings…" }).click();
  await page.getByRole("textbox", { name: "Label" }).fill("Rex, who reads");
  await page.getByRole("checkbox", { name: "May change code" }).uncheck();
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("heading", { name: "Rex, who reads", level: 1 }).waitFor();
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await page.getByText("A person stopped it.").waitFor();
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.getByRole("button", { name: "Stop", exact: true }).waitFor();
  await bench.close(page);
});

check("events are filtered, linked to, and the state as of one is shown", async () => {
  const path = `${run("The greeting")}/events`;
  const page = await bench.open(`${path}?type=approval.resolved`);
  await page.locator(".event-row").first().waitFor();
  const shown = await page.locator(".event-row").allInnerTexts();
  assert.ok(shown.length >= 3 && shown.every((text) => text.includes("approval.resolved")));
  await page.getByRole("combobox", { name: "Type" }).selectOption("");
  await page.getByRole("searchbox", { name: "Search events" }).fill("npm ci");
  await page.waitForFunction(() => document.querySelectorAll(".event-row").length < 10);
  await bench.close(page);
  const at = await bench.open(`${path}?at=15`);
  const state = at.getByRole("region", { name: "State as of event 15" });
  await state.waitFor();
  assert.match(await state.innerText(), /needs you[\s\S]*ada\s*!\s*blocked/);
  await state.getByRole("button", { name: "Back" }).click();
  await at.getByRole("region", { name: "State as of event 14" }).waitFor();
  assert.match(at.url(), /at=14/);
  await bench.close(at);
  const here = await bench.open(`${path}#50`);
  await here.locator(".event-row.here").filter({ hasText: "50" }).waitFor();
  await bench.close(here);
});

check("branches are listed with what they wait for, and a branch has its story", async () => {
  const page = await bench.open("/branches?runs=1");
  await page.getByRole("button", { name: "waits-for-you" }).click();
  await page.getByText("waits for an approval").first().waitFor();
  await page.getByRole("link", { name: /^run\/.*ada$/ }).click();
  await page.getByRole("listitem").first().waitFor();
  assert.match(page.url(), /\/branches\/run\/[0-9a-f]+\/ada$/);
  await page.reload();
  await page.getByRole("heading", { name: /ada$/, level: 1 }).waitFor();
  await bench.close(page);
});

check("a run is made from a pattern", async () => {
  const page = await bench.open("/new");
  await page.getByRole("textbox", { name: "Label" }).fill("The parser");
  await page.getByRole("combobox", { name: "Pattern" }).selectOption("one");
  await page.getByRole("textbox", { name: "Alias" }).fill("zoe");
  await page.getByRole("textbox", { name: "First message" }).fill("Write the parser.");
  await page.getByText("In a terminal").click();
  assert.match(await page.locator(".commands").innerText(), /aynig orch node add "\$run" zoe --role implementer/);
  await page.getByRole("button", { name: "Create the run" }).click();
  await page.getByRole("heading", { name: "The parser", level: 1 }).waitFor();
  await page.getByRole("link", { name: "zoe" }).first().waitFor();
  page.quiet();
  await page.getByRole("button", { name: "More…" }).click();
  await page.getByRole("button", { name: "Delete the run" }).click();
  await page.getByRole("button", { name: "Delete The parser?" }).click();
  await page.getByRole("heading", { name: "Runs", level: 1 }).waitFor();
  await bench.close(page);
}, { mocked: true });

check("after a cut nothing is missing, and nothing is there twice", async () => {
  const page = await bench.open(await bench.node("Round and round", "tom"), { allow: [/WebSocket/, /ERR_/] });
  const loop = bench.mock.run(bench.runs["Round and round"].id);
  const node = Object.values(loop.view.run.nodes).find((one) => one.alias === "tom");
  const say = (text) => loop.push({ type: "message.assistant.final", nodeId: node.id, content: text });
  await page.getByText("live", { exact: true }).waitFor();
  say("before the cut");
  await page.getByText("before the cut").waitFor();
  bench.mock.isAway = true;
  bench.mock.cut();
  await page.getByText(/stale since/).waitFor();
  for (let count = 1; count <= 5; count += 1) say(`while it was away ${count}`);
  await page.waitForTimeout(1_500);
  bench.mock.isAway = false;
  await page.getByText("live", { exact: true }).waitFor({ timeout: 15_000 });
  await page.getByText("while it was away 5").waitFor();
  for (let count = 1; count <= 5; count += 1) assert.equal(await page.getByText(`while it was away ${count}`).count(), 1);
  bench.mock.cut(4008);
  say("after slowness");
  await page.getByText("after slowness").waitFor();
  loop.journal = "another";
  bench.mock.cut();
  say("in another journal");
  await page.getByText("in another journal").waitFor({ timeout: 15_000 });
  assert.equal(await page.getByText("after slowness").count(), 1);
  await bench.close(page);
}, { mocked: true });

check("hostile texts are texts", async () => {
  const page = await bench.open(await bench.node("The greeting", "rex"));
  const pair = bench.mock.run(bench.runs["The greeting"].id);
  const node = Object.values(pair.view.run.nodes).find((one) => one.alias === "rex");
  const hostile = '<img src=x onerror="globalThis.hit=1"><script>globalThis.hit=1</script> [link](javascript:globalThis.hit=1) ![pic](http://elsewhere.example/a.png) <svg/onload=alert(1)>';
  const escapes = "\u001b]0;title\u0007\u001b[2J\u001b[31mred\u001b[0m\u001b]8;;javascript:alert(1)\u0007link\u001b]8;;\u0007 <img src=x onerror=alert(1)>";
  pair.push(
    { type: "message.assistant.final", nodeId: node.id, content: hostile },
    { type: "tool.proposed", nodeId: node.id, tool: { id: "h", name: hostile, args: { command: hostile, __proto__x: escapes } } },
    { type: "tool.completed", nodeId: node.id, toolId: "h", result: { ok: true, output: hostile + escapes } },
    { type: "node.log", nodeId: node.id, source: "provider", line: escapes },
    { type: "node.patch", nodeId: node.id, patch: { summary: hostile } },
    { type: "approval.requested", nodeId: node.id, approvalId: "hostile", tool: { id: "h2", name: hostile, args: { command: hostile } }, context: hostile },
    { type: "message.assistant.final", nodeId: node.id, content: `big ${"word ".repeat(1_000_000)}` },
  );
  await page.getByText(/^big word/).first().waitFor();
  await page.getByRole("button", { name: /Show more \(5\.0 MB left\)/ }).waitFor();
  await page.getByRole("link", { name: /^Log/ }).click();
  await page.locator(".ansi-red-fg").last().waitFor();
  for (const path of ["/inbox?id=hostile", run("The greeting"), `${run("The greeting")}/events`, "/"]) {
    await page.goto(bench.base + path);
    await page.waitForTimeout(400);
  }
  assert.equal(await page.evaluate(() => globalThis.hit), undefined);
  assert.equal(await page.locator("main img, main script, main [onerror]").count(), 0);
  pair.push({ type: "approval.resolved", approvalId: "hostile", resolution: { status: "denied" } });
  await bench.close(page);
}, { mocked: true });

check("everything can be reached without a mouse", async () => {
  const page = await bench.open("/");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to the content");
  const stops = [];
  for (let count = 0; count < 40; count += 1) {
    await page.keyboard.press("Tab");
    stops.push(await page.evaluate(() => document.activeElement.textContent.trim() || document.activeElement.getAttribute("aria-label") || document.activeElement.type));
  }
  for (const wanted of ["New run", "finished", "A team"]) assert.ok(stops.some((text) => text.includes(wanted)), wanted);
  await page.getByRole("link", { name: "The greeting" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "The greeting", level: 1 }).waitFor();
  await page.waitForFunction(() => document.activeElement.tagName === "H1");
  await page.getByRole("button", { name: "More…" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await bench.close(page);
});

check("a transcript of 20,000 items and a graph of 500 nodes stay smooth", async (t) => {
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
}, { mocked: true });

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
