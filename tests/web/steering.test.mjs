// What people do with the page in a real browser: answer, steer, write; and what is done to it. See browser.mjs for its
// environment. Each test that writes makes a run of its own.
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { Bench, isReal, skip, violations } from "./browser.mjs";

let bench;
before(async () => { if (!skip) bench = await Bench.begin(); }, { timeout: 60_000 });
after(() => bench?.end());

const noAgents = isReal && !process.env.AYNIG_WEB_PROGRAM ? "needs the program of the server" : false;
/** agents: agents have to work */
const check = (name, work, { agents = false, timeout = 120_000 } = {}) =>
  test(name, { skip: skip || (agents && noAgents), timeout }, (t) => bench.watch(t, work));
const main = (page) => page.locator("main");

check("requests are approved, denied with a reason, and changed; the second answer is refused with its cause", async () => {
  const run = await bench.make("Answers", "ada");
  const page = await bench.open("/inbox", { allow: [/409/, /ERR_FAILED/] });
  const opened = async (words) => {
    const id = await bench.ask(run, "ada", words);
    await page.goto(`${bench.base}/inbox?id=${id}`);
    await page.getByRole("button", { name: "Approve", exact: true }).waitFor();
    return id;
  };
  for (const [keys, status] of [[["a", "a"], "approved"], [["d"], "denied"], [["e"], "modified"], [["a", "Enter"], "approved"]]) {
    const id = await opened("edit: src/a.rs");
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
    await page.waitForFunction((gone) => !location.search.includes(gone), id);
    const resolution = await bench.resolution(run, id);
    assert.equal(resolution.status, status);
    await page.locator("[aria-live]").filter({ hasText: { approved: "Approved.", denied: "Denied.", modified: "Approved with other" }[status] })
      .waitFor();
    assert.equal(await page.getByText("This request was answered").count(), 0);
    if (status === "denied") assert.equal(resolution.reason, "use the other file");
    if (status === "modified") assert.deepEqual(resolution.modifiedArgs, { file_path: "src/b.rs" });
    await bench.work();
  }
  const late = await opened("ask: install");
  await page.deaf("/api/approvals");
  await bench.post(`approvals/${late}/resolve`, { resolution: { status: "denied", reason: "no" }, runId: run.id });
  // The page did not hear of it yet.
  await page.getByRole("button", { name: "Approve", exact: true }).click();
  await page.getByRole("alert").filter({ hasText: /answer/ }).first().waitFor();
  await page.unroute("**/api/approvals");
  await bench.work();
  // What was read is not replaced by another request while a finger is on its way.
  const read = await opened("ask: install");
  await bench.post(`approvals/${read}/resolve`, { resolution: { status: "approved" }, runId: run.id });
  await page.getByText("This request was answered").waitFor();
  await page.keyboard.press("a");
  assert.equal(await page.getByRole("button", { name: "Approve", exact: true }).count(), 0);
  await bench.close(page);
}, { agents: true });

check("after an answer the next request is shown, whenever it comes; a call is approved for good", async () => {
  const run = await bench.make("For good", "ada", "ben");
  const ids = { ada: await bench.ask(run, "ada", "ask: install"), ben: await bench.ask(run, "ben", "ask: install") };
  const page = await bench.open(`/inbox?id=${ids.ada}`);
  const short = ids.ada.slice(0, 8);
  await page.getByRole("button", { name: "Approve always…" }).click();
  await page.getByRole("button", { name: `Copy the command: aynig orch approve ${short} --always=tool` }).waitFor();
  await page.getByRole("button", { name: "Approve, and every call of Bash from now on" }).waitFor();
  const granted = page.waitForRequest((request) => request.method() === "POST");
  await page.getByRole("button", { name: "Approve, and this exact call from now on" }).click();
  assert.equal((await granted).postDataJSON().always, "call");
  await page.locator("[aria-live]").filter({ hasText: "Approved, and this exact call from now on." }).waitFor();
  await page.getByRole("heading", { name: "ben wants to use Bash" }).waitFor();
  assert.match(page.url(), new RegExp(ids.ben));
  await page.getByRole("button", { name: "Deny…" }).click();
  await page.getByRole("textbox", { name: /^Reason/ }).fill("not now");
  await page.getByRole("button", { name: "Deny", exact: true }).click();
  await page.locator("[aria-live]").filter({ hasText: "Denied. Bash of ben" }).waitFor();
  await page.waitForTimeout(500);
  assert.equal(await page.getByText("This request was answered").count(), 0);
  await bench.work();
  await page.goto(`${bench.base}${run.nodes.ada.path}`);
  await page.getByText(/one exact call of Bash/).waitFor();
  await page.getByRole("button", { name: `Copy the command: aynig orch revoke ${short}` }).waitFor();
  await bench.close(page);
}, { agents: true });

check("a new request is announced at once, in the title and to screen readers", async () => {
  const run = await bench.make("Announced", "ada");
  const page = await bench.open("/");
  const waits = (one) => page.waitForFunction((wanted) => document.title === (wanted ? `(${wanted}) repository · aynig` : "repository · aynig"), one);
  await page.getByText("live", { exact: true }).waitFor();
  await page.waitForTimeout(1_000);
  const count = Number(/\d+/.exec(await page.title())?.[0] ?? 0);
  const id = await bench.ask(run, "ada", "ask: install");
  await waits(count + 1);
  await page.locator("[aria-live]").filter({ hasText: "Bash npm install" }).first().waitFor({ state: "attached" });
  await bench.post(`approvals/${id}/resolve`, { resolution: { status: "approved" }, runId: run.id });
  await waits(count);
  await bench.close(page);
}, { agents: true });

check("whoever wishes is told by the browser, while the page is not in sight", async () => {
  const run = await bench.make("Told", "ada");
  const page = await bench.open("/inbox", { permissions: ["notifications"] });
  await page.context().addInitScript(() => {
    globalThis.told = [];
    Object.defineProperty(document, "hidden", { get: () => true });
    globalThis.Notification = Object.assign(class { constructor(title, { body }) { globalThis.told.push(`${title}: ${body}`); } },
      { requestPermission: async () => "granted" });
  });
  await page.reload();
  const ask = async () => {
    const id = await bench.ask(run, "ada", "ask: install");
    await page.locator("[aria-live]").filter({ hasText: "ada of Told asks" }).first().waitFor({ state: "attached", timeout: 30_000 });
    await bench.post(`approvals/${id}/resolve`, { resolution: { status: "approved" }, runId: run.id });
    await bench.work();
    return page.evaluate(() => globalThis.told.splice(0));
  };
  await page.getByText("live", { exact: true }).waitFor();
  assert.deepEqual(await ask(), [], "not without the wish");
  await page.getByRole("checkbox", { name: "Notify me" }).check();
  await page.reload();
  await page.getByText("live", { exact: true }).waitFor();
  const told = await ask();
  assert.equal(told.length, 1);
  assert.match(told[0], /^aynig needs you: ada of Told asks: Bash npm install( …)?$/);
  await bench.close(page);
}, { agents: true });

check("a run is steered; what stops it asks once more", async () => {
  const run = await bench.make("Steered", "ada");
  const page = await bench.open(run.path);
  await page.getByRole("button", { name: "Pause", exact: true }).click();
  await page.getByRole("button", { name: "Resume", exact: true }).waitFor();
  await page.getByText("paused by a person").first().waitFor();
  await page.getByRole("button", { name: "Resume", exact: true }).click();
  await page.getByRole("button", { name: "Pause", exact: true }).waitFor();
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await page.getByRole("button", { name: "Keep it" }).click();
  await page.getByRole("button", { name: "Copy the command: aynig orch run pause" }).click();
  assert.match(await page.evaluate(() => navigator.clipboard.readText()), /^aynig orch run pause [0-9a-f]{8}$/);
  assert.ok((await page.getByText("Why nodes are not working").count()) === 1);
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await page.getByRole("button", { name: "Stop the run?" }).click();
  await page.getByText("stopped by a person").first().waitFor();
  await bench.close(page);
});

check("a run is completed, and then has no composer that works", async () => {
  const run = await bench.make("Completed", "ada");
  const page = await bench.open(run.path);
  await page.getByRole("button", { name: `Copy the command: aynig orch run complete ${run.slug}` }).waitFor();
  await page.getByRole("button", { name: "Complete", exact: true }).click();
  await page.getByRole("button", { name: "Complete the run?" }).click();
  await page.locator(".status-finished").waitFor();
  await page.getByRole("button", { name: "Resume", exact: true }).waitFor();
  assert.equal(await page.getByRole("link", { name: "Write to ada" }).count(), 0);
  await bench.close(page);
});

check("a message is answered as it streams, queued or at once", async () => {
  const run = await bench.make("Talk", "rex");
  const page = await bench.open(run.nodes.rex.path);
  const box = page.getByRole("textbox", { name: "Message to rex" });
  await page.getByText("live", { exact: true }).waitFor();
  if (bench.mock) bench.mock.pace = 150;
  await box.fill("Is it right? Look slowly.");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.locator(".item-user").filter({ hasText: "Is it right?" }).waitFor();
  assert.equal(await box.inputValue(), "");
  const working = bench.work();
  await page.locator(".caret").first().waitFor();
  await page.getByRole("button", { name: "Queue" }).waitFor();
  await page.locator(".markdown table").waitFor();
  await page.locator(".caret").waitFor({ state: "detached" });
  await working;
  assert.equal(await page.locator(".item-user").filter({ hasText: "Is it right?" }).count(), 1, "not twice");
  assert.equal(await page.locator(".markdown table").count(), 1, "not twice");
  if (bench.mock) bench.mock.pace = 10;
  await box.fill("say: At once.");
  await page.getByRole("button", { name: "Interrupt now" }).click();
  await page.getByText("interrupts", { exact: true }).waitFor();
  await bench.work();
  await page.getByText("At once.", { exact: true }).waitFor();
  await bench.close(page);
}, { agents: true });

check("where nobody works the page says how to start a runner, and why a turn was handed back", async () => {
  const run = await bench.make("Nobody", "tom");
  if (bench.mock) bench.mock.pace = 1e8;
  const page = await bench.open(run.nodes.tom.path);
  await page.getByText("live", { exact: true }).waitFor();
  await page.getByRole("textbox", { name: "Message to tom" }).fill("hello");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.getByText("Sent. Waiting for a runner.").waitFor();
  await page.getByText("Sent. No runner is at work here.").waitFor({ timeout: 30_000 });
  await page.getByText("aynig serve --run").waitFor();
  await page.goto(bench.base + run.path);
  await page.getByText("aynig run --watch").waitFor();
  await page.locator(".graph-node").getByText("1 message unread. No runner is at work here.").waitFor();
  const reason = "the program gone is not in PATH; install it, or name the program: `git config aynig.provider.gone.command PROGRAM`";
  if (bench.mock) bench.mock.handBack(run.id, "tom", "vm", reason);
  else {
    await bench.git("config", "aynig.provider.gone.kind", "claude");
    await bench.git("config", "aynig.provider.gone.command", "gone");
    await bench.program("orch", "node", "add", run.slug, "eve", "--role", "implementer", "--provider", "gone");
    await bench.program("orch", "chat", run.slug, "eve", "hello");
    await bench.work();
  }
  const alias = bench.mock ? "tom" : "eve";
  const card = page.locator(".graph-node").filter({ has: page.getByRole("link", { name: alias, exact: true }) });
  await card.getByText("Handed back: the program gone is not in PATH").waitFor({ timeout: 30_000 });
  await card.getByRole("button", { name: "Copy the command: git config aynig.provider.gone.command PROGRAM" }).waitFor();
  await page.getByRole("region", { name: "Why nodes are not working" }).getByText("git config aynig.provider.gone.command PROGRAM").waitFor();
  await card.getByRole("link", { name: alias, exact: true }).click();
  await page.getByText(/cannot take the turn: the program gone/).waitFor();
  await page.getByRole("button", { name: "Copy the command: git config aynig.provider.gone.command PROGRAM" }).waitFor();
  await bench.close(page);
}, { agents: true });

check("a node's settings are changed, and it is stopped and started", async () => {
  const run = await bench.make("Settings", "rex");
  const page = await bench.open(run.nodes.rex.path);
  await page.getByRole("button", { name: "Change settings…" }).click();
  await page.getByRole("textbox", { name: "Label" }).fill("Rex, who reads");
  await page.getByRole("checkbox", { name: "May change code" }).uncheck();
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("heading", { name: "Rex, who reads", level: 1 }).waitFor();
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await page.getByText("A person stopped it.").waitFor();
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.getByRole("button", { name: "Stop", exact: true }).waitFor();
  await page.reload();
  await page.getByText("change documents, run commands").waitFor();
  await bench.close(page);
});

check("a run is made from a pattern, and deleted", async () => {
  const page = await bench.open("/new");
  await page.getByRole("textbox", { name: "Label" }).fill("The parser");
  await page.getByText("ada ↔ rex", { exact: true }).waitFor();
  await page.getByRole("combobox", { name: "Pattern" }).selectOption("team");
  await page.getByText("lead ↔ ada, lead ↔ ben, ada ↔ rex, ben ↔ rex", { exact: true }).waitFor();
  await page.getByRole("combobox", { name: "Pattern" }).selectOption("one");
  await page.getByRole("textbox", { name: "Alias" }).fill("zoe");
  await page.getByRole("combobox", { name: "Provider" }).selectOption("codex");
  const line = "git config aynig.provider.codex.command PROGRAM";
  if (await page.getByText("It cannot be used on this host").count()) {
    await page.getByRole("button", { name: `Copy the command: ${line}` }).waitFor();
    await page.getByText("aynig provider list").waitFor();
  } else assert.ok(isReal, "the stand-in has no codex");
  await page.getByRole("combobox", { name: "Provider" }).selectOption("scripted");
  await page.getByRole("textbox", { name: "First message" }).fill("Write the parser.");
  await page.getByRole("combobox", { name: "Tool use" }).selectOption({ label: "ask me first" });
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
  assert.ok(!(await bench.get("runs?view=summary&limit=100")).runs.some((one) => one.label === "The parser"));
  await bench.close(page);
});

check("after a cut nothing is missing, and nothing is there twice", async () => {
  const run = await bench.make("Cut", "tom");
  // Nobody answers.
  if (bench.mock) bench.mock.pace = 1e8;
  const page = await bench.open(run.nodes.tom.path, { allow: [/WebSocket/, /ERR_/] });
  const say = (text) => bench.chat(run, "tom", text);
  const said = (text) => page.locator(".item-user").filter({ hasText: text });
  await page.getByText("live", { exact: true }).waitFor();
  await say("before the cut");
  await said("before the cut").waitFor();
  bench.wire.cut();
  await page.getByText(/stale for/).waitFor();
  for (let count = 1; count <= 5; count += 1) await say(`while it was away ${count}`);
  await page.waitForTimeout(1_500);
  assert.equal(await said("while it was away").count(), 0, "it is cut");
  bench.wire.mend();
  await page.getByText("live", { exact: true }).waitFor({ timeout: 20_000 });
  await said("while it was away 5").waitFor();
  for (let count = 1; count <= 5; count += 1) assert.equal(await said(`while it was away ${count}`).count(), 1);
  if (bench.mock) bench.mock.cut(4008);
  await say("after slowness");
  await said("after slowness").waitFor();
  // Its journal is made anew: the page fetches the run again.
  if (bench.mock) bench.mock.renew(run.id);
  else await bench.program("orch", "rebuild", run.slug);
  await say("in another journal");
  await said("in another journal").waitFor({ timeout: 20_000 });
  assert.equal(await said("after slowness").count(), 1);
  assert.equal(await said("before the cut").count(), 1);
  await bench.close(page);
}, { agents: true });

check("hostile texts are texts", async () => {
  const run = await bench.make("Hostile", "mal");
  const hostile = '<img src=x onerror="globalThis.hit=1"><script>globalThis.hit=1</script> [link](javascript:globalThis.hit=1) '
    + "![pic](http://elsewhere.example/a.png) <svg/onload=alert(1)>";
  const page = await bench.open(run.nodes.mal.path);
  if (bench.mock) bench.mock.hostile(run.id, run.nodes.mal.id, hostile);
  else {
    await bench.chat(run, "mal", "big: 1000000");
    await bench.work();
    await bench.chat(run, "mal", `hostile: ${hostile}`);
    await bench.work();
  }
  // The ledger keeps the end of a message of 5 MB, and this host all of it.
  await page.getByText(bench.mock ? /^big word/ : "[the beginning is left out]").first().waitFor();
  await page.getByRole("button", { name: bench.mock ? "Show more (5.0 MB left)" : "Show the whole text (5.0 MB)" }).waitFor();
  await page.getByRole("link", { name: /^Log/ }).click();
  await page.locator(".ansi-red-fg").last().waitFor();
  const [request] = await bench.approvals(run);
  for (const path of [`/inbox?id=${request.approvalId}`, run.path, `${run.path}/events`, "/", `${run.nodes.mal.path}?tab=prompts`]) {
    await page.goto(bench.base + path);
    await page.waitForTimeout(400);
  }
  assert.equal(await page.evaluate(() => globalThis.hit), undefined);
  assert.equal(await page.locator("main img, main script, main [onerror]").count(), 0);
  await bench.post(`approvals/${request.approvalId}/resolve`, { resolution: { status: "denied", reason: "no" }, runId: run.id });
  await bench.close(page);
}, { agents: true });

check("a request is shown as it is, whatever it is called and whatever its text hides", async () => {
  if (!bench.mock) return; // An agent of the server's repository asks for fewer things.
  const run = await bench.make("Hides", "ada");
  const ask = async (name, args) => {
    const known = new Set((await bench.approvals(run)).map((one) => one.approvalId));
    bench.mock.run(run.id).push({ type: "approval.requested", nodeId: run.nodes.ada.id, approvalId: crypto.randomUUID(), tool: { id: "t", name, args }, context: "con\u202etext" });
    return (await bench.approvals(run)).find((one) => !known.has(one.approvalId)).approvalId;
  };
  const ids = [await ask("gate", { question: "Is it good?", command: "rm -rf ~" }),
    await ask("Write", { file_path: "run\u202ehs.sh", new_string: "# a comment", content: `#!/bin/sh\n${"x".repeat(3_000)}`, "k\u200bey": 1 }),
    await ask("n".repeat(3_000), { description: "List files", command: "# rm\necho `id` \u200b\nlast" }),
    await ask("Write", { file_path: "long", content: "y".repeat(2_500) })];
  const page = await bench.open("/inbox");
  const request = page.getByRole("article", { name: "The request" });
  const shown = async (id) => { await page.goto(`${bench.base}/inbox?id=${id}`); await request.waitFor(); return request.innerText(); };
  const gate = await shown(ids[0]);
  for (const words of ["ada wants to use gate", "rm -rf ~", "Deny…", "con\\u202etext"]) assert.ok(gate.includes(words), words);
  const write = await shown(ids[1]);
  for (const words of ["#!/bin/sh", "# a comment", "run\\u202ehs.sh", "k\\u200bey", "x".repeat(3_000)]) assert.ok(write.includes(words), words);
  assert.ok(!write.includes("\u202e"));
  const long = await shown(ids[2]);
  for (const words of ["n".repeat(3_000), "echo `id` \\u200b", "last", "List files"]) assert.ok(long.includes(words), words);
  assert.match(await shown(ids[3]), /y… 500 more characters/);
  await request.getByRole("button", { name: "… 500 more characters" }).click();
  await request.getByText("y".repeat(2_500), { exact: true }).waitFor();
  const rows = page.locator(".inbox-list li").filter({ hasText: "Hides" });
  assert.deepEqual(await rows.locator("code").allInnerTexts(), ["rm -rf ~ …", "run\\u202ehs.sh …", "# rm …", "long …"]);
  assert.ok((await rows.nth(2).boundingBox()).height < 150, "a name does not fill the list");
  for (let at = 0; at < 4; at += 1) await rows.nth(at).getByRole("checkbox").check();
  if (process.env.SHOT) await page.screenshot({ path: `${process.env.SHOT}1.png` });
  await page.getByRole("button", { name: "Approve the selected…" }).click();
  const dialog = await page.getByRole("dialog").innerText();
  for (const words of ["rm -rf ~", "#!/bin/sh", "# a comment", "echo `id` \\u200b\nlast", "aynig orch approve"]) assert.ok(dialog.includes(words), words);
  assert.ok(!dialog.includes("aynig flow approve"));
  assert.deepEqual(await violations(page), []);
  if (process.env.SHOT) await page.screenshot({ path: `${process.env.SHOT}2.png` });
  await page.keyboard.press("Escape");
  for (const id of ids) await bench.post(`approvals/${id}/resolve`, { resolution: { status: "denied", reason: "no" }, runId: run.id });
  await page.goto(`${bench.base}${run.nodes.ada.path}?tab=transcript`);
  await page.getByText("con\\u202etext").first().waitFor({ state: "attached" });
  await page.locator("main").getByText("echo `id` \\u200b").first().waitFor({ state: "attached" });
  if (process.env.SHOT) await page.screenshot({ path: `${process.env.SHOT}3.png` });
  await bench.close(page);
}, { agents: true });
