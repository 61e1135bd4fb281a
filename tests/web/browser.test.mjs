// What each screen shows in a real browser; see browser.mjs for its environment. screens.test.mjs has what holds for all
// screens, steering.test.mjs what changes runs.
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { Bench, skip } from "./browser.mjs";

let bench;
before(async () => { if (!skip) bench = await Bench.begin(); }, { timeout: 60_000 });
after(() => bench?.end());

const check = (name, work, { timeout = 120_000 } = {}) =>
  test(name, { skip, timeout }, (t) => bench.watch(t, work));
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

check("a number is shown and sent as the agent wrote it", async () => {
  const page = await bench.open("/");
  const [written, plain] = await page.evaluate(async () => {
    const { parse } = await import("/app/json.js");
    return ['{"id":12345678901234567891,"list":[-9007199254740993,1.5,2],"name":"9007199254740993"}',
      '{"seq":1234567890123456,"a":1}'].map((text) => [text, JSON.stringify(parse(text)), typeof parse(text).seq]);
  });
  assert.equal(written[1], written[0]);
  assert.deepEqual(plain.slice(1), [plain[0], "number"], "others stay numbers");
  await bench.close(page);
});

check("a run has a table and a timeline, what it costs, and an address by its short name", async () => {
  const { slug } = bench.runs["The greeting"];
  const page = await bench.open(`/runs/${slug}`);
  await page.getByRole("heading", { name: "The greeting", level: 1 }).waitFor();
  assert.match(await main(page).innerText(), /Cost \$0\.\d+[\s\S]*Tokens [\d.]+ k[\s\S]*Turns \d+/);
  await page.getByRole("link", { name: "Table" }).click();
  assert.match(await page.getByRole("row").filter({ hasText: "ada" }).innerText(), /blocked[\s\S]*Waits for your answer: Bash/);
  await page.getByRole("link", { name: "Graph" }).click();
  const card = page.locator(".graph-node").filter({ has: page.getByRole("link", { name: "ada", exact: true }) });
  await card.getByText("Waits for your answer: Bash").waitFor();
  await page.getByRole("link", { name: "Timeline" }).click();
  await page.getByRole("img", { name: /^turn \d+ completed/ }).first().waitFor();
  await page.getByText("In words").click();
  await page.getByText(/^ada: turn \d+ completed/).first().waitFor();
  await bench.close(page);
});

check("the list of runs has the five words, and its filter and search are in the address", async () => {
  const page = await bench.open("/");
  const rows = page.getByRole("row");
  await page.getByRole("link", { name: "A team" }).waitFor();
  const text = await main(page).innerText();
  for (const word of ["needs you", "finished"]) assert.ok(text.includes(word), word);
  await rows.filter({ hasText: "The greeting" }).getByText("Waits for your answer: Bash").waitFor();
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

check("the header names the repository, and /runs is the list of runs", async () => {
  const page = await bench.open("/runs");
  await page.getByRole("heading", { name: "Runs", level: 1 }).waitFor();
  await page.getByRole("link", { name: "A team" }).waitFor();
  await page.getByRole("banner").getByText("repository", { exact: true }).waitFor();
  assert.match(await page.title(), /repository · aynig$/);
  assert.ok(!(await page.content()).includes("/repository"), "not its path");
  await bench.close(page);
});

check("the inbox is answered by keys, which are dead while one types and can be switched off", async () => {
  const page = await bench.open("/inbox");
  const request = page.getByRole("article", { name: "The request" });
  await page.getByRole("heading", { name: "ada wants to use Bash" }).waitFor();
  await page.waitForFunction(() => /^\(\d+\) repository · aynig$/.test(document.title));
  await page.keyboard.press("j");
  await page.getByRole("heading", { name: "Is the greeting good?" }).waitFor();
  await page.keyboard.press("k");
  await page.getByRole("heading", { name: "ada wants to use Bash" }).waitFor();
  await page.keyboard.press("Control+d");
  assert.equal(await request.getByRole("textbox").count(), 0, "another key is held");
  await page.keyboard.press("d");
  const reason = request.getByRole("textbox", { name: "Reason (required; the agent reads it)" });
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

check("a gate is rejected, not denied, and names the commands that list and show it", async () => {
  const page = await bench.open("/inbox");
  await page.getByRole("button", { name: /Is the greeting good/ }).click();
  const request = page.getByRole("article", { name: "The request" });
  const { slug } = bench.runs.greeting;
  await page.getByText("aynig status --waiting", { exact: true }).waitFor();
  await request.getByRole("button", { name: `Copy the command: aynig flow show ${slug}` }).waitFor();
  await request.getByText("Approve: the run ends · Reject: undo (rollback) · No answer in time: the run ends").waitFor();
  assert.equal(await request.getByRole("button", { name: /Deny|always/ }).count(), 0);
  await request.getByRole("button", { name: "Reject…" }).click();
  await request.getByRole("textbox").fill("say good night too");
  assert.ok(await request.getByRole("button", { name: "Reject", exact: true }).isEnabled());
  await request.getByText(`aynig flow reject ${slug} --comment 'say good night too'`).waitFor();
  assert.deepEqual(page.writes, []);
  await bench.close(page);
});

check("the graph is laid out, has links, and keeps where a card was dragged", async () => {
  const page = await bench.open(run("The greeting"));
  const card = page.locator(".graph-node").filter({ has: page.getByRole("link", { name: "rex", exact: true }) });
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
  await card.getByRole("link", { name: "rex", exact: true }).click();
  await page.getByRole("heading", { name: "rex", level: 1 }).waitFor();
  await page.goBack();
  await page.getByRole("heading", { name: "The greeting" }).waitFor();
  await bench.close(page);
});

check("each card and each row leads to a message to its node", async () => {
  const page = await bench.open(run("The greeting"));
  await page.locator(".graph-node").getByRole("link", { name: "Write to ada" }).click();
  await page.getByRole("heading", { name: "ada", level: 1 }).waitFor();
  await page.waitForFunction(() => document.activeElement.tagName === "TEXTAREA");
  await page.keyboard.type("hello");
  assert.equal(await page.getByRole("textbox", { name: "Message to ada" }).inputValue(), "hello");
  await page.goto(`${bench.base}${run("The greeting")}?view=table`);
  await page.getByRole("row").getByRole("link", { name: "Write to rex" }).click();
  await page.getByRole("textbox", { name: "Message to rex" }).waitFor();
  await page.waitForFunction(() => document.activeElement.tagName === "TEXTAREA");
  assert.deepEqual(page.writes, []);
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
  await page.getByRole("combobox", { name: "Changes of" }).selectOption({ index: 1 });
  await page.locator(".file tr.added").first().waitFor();
  await page.reload();
  await page.locator(".file").first().waitFor();
  await page.getByRole("checkbox", { name: "Seen" }).first().check();
  await page.reload();
  await page.locator(".file").first().waitFor();
  assert.equal(await page.locator(".file").first().getAttribute("open"), null, "a file that was seen stays closed");
  await page.getByRole("link", { name: /^Artifacts/ }).click();
  await page.locator("summary").filter({ hasText: "transcript" }).first().click();
  const [saved] = await Promise.all([page.waitForEvent("download"),
    page.locator("details[open]").getByRole("button", { name: "Download" }).first().click()]);
  assert.equal(`${await saved.failure()}`, "null");
  assert.ok((await readFile(await saved.path())).length > 0, saved.suggestedFilename());
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
  // The number depends on what this host saw of the turn before.
  const { events } = await bench.get(`${path.slice(1)}?limit=1000`);
  const { seq } = events.find((event) => event.type === "approval.requested");
  const at = await bench.open(`${path}?at=${seq}`);
  const state = at.getByRole("region", { name: `State as of event ${seq}` });
  await state.waitFor();
  assert.match(await state.innerText(), /needs you[\s\S]*ada\s*!\s*blocked/);
  await state.getByRole("button", { name: "Back" }).click();
  await at.getByRole("region", { name: `State as of event ${seq - 1}` }).waitFor();
  assert.match(at.url(), new RegExp(`at=${seq - 1}$`));
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
