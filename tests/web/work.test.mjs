// Several answers at once, branches that wait, and the work of runs, in a real browser; see browser.mjs for its
// environment. Each test that writes makes a run of its own.
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { Bench, isReal, skip, violations } from "./browser.mjs";

let bench;
before(async () => { if (!skip) bench = await Bench.begin(); }, { timeout: 60_000 });
after(() => bench?.end());

const noAgents = isReal && !process.env.AYNIG_WEB_PROGRAM ? "needs the program of the server" : false;
const check = (name, work, { agents = false } = {}) =>
  test(name, { skip: skip || (agents && noAgents), timeout: 90_000 }, (t) => bench.watch(t, work));
const dialog = (page) => page.getByRole("dialog");

check("requests that were selected one by one are answered together, after their list was shown", async () => {
  const run = await bench.make("Batch", "ada", "ben", "cleo", "dan");
  const ids = {};
  for (const alias of Object.keys(run.nodes)) ids[alias] = await bench.ask(run, alias, "ask: install");
  const page = await bench.open("/inbox", { allow: [/409/] });
  const tick = (alias) => page.getByRole("checkbox", { name: `Select Bash of ${alias}, Batch` });
  await tick("ada").waitFor();
  assert.equal(await page.getByRole("button", { name: /the selected/ }).count(), 0);
  // By keyboard: the box of a row, and a dialog that Escape leaves without an answer.
  await tick("ada").focus();
  await page.keyboard.press("Space");
  await tick("ben").check();
  await page.getByText("2 requests selected").waitFor();
  await page.getByRole("button", { name: "Approve the selected…" }).click();
  await dialog(page).getByRole("heading", { name: "Approve 2 requests?" }).waitFor();
  assert.deepEqual((await dialog(page).getByRole("listitem").allInnerTexts()).map((text) => /ada|ben/.exec(text)[0]), ["ada", "ben"]);
  assert.match(await dialog(page).innerText(), /npm install/);
  await page.keyboard.press("Escape");
  await dialog(page).waitFor({ state: "detached" });
  assert.deepEqual(page.writes, []);
  await page.getByRole("button", { name: "Approve the selected…" }).click();
  // One was answered by somebody else meanwhile: that is said, and the other one is answered.
  await bench.post(`approvals/${ids.ada}/resolve`, { resolution: { status: "denied", reason: "no" }, runId: run.id });
  await dialog(page).getByRole("button", { name: "Approve these 2" }).click();
  await dialog(page).getByRole("alert").waitFor();
  await dialog(page).getByText("✓ approved").waitFor();
  await dialog(page).getByRole("button", { name: "Close", exact: true }).last().click();
  assert.equal((await bench.resolution(run, ids.ada)).status, "denied");
  assert.equal((await bench.resolution(run, ids.ben)).status, "approved");
  await tick("cleo").check();
  await tick("dan").check();
  await page.getByRole("button", { name: "Deny the selected…" }).click();
  const deny = dialog(page).getByRole("button", { name: "Deny these 2" });
  assert.ok(await deny.isDisabled(), "a reason is needed");
  await dialog(page).getByRole("textbox").fill("not today");
  await deny.click();
  await dialog(page).getByText("✓ denied").nth(1).waitFor();
  for (const alias of ["cleo", "dan"]) assert.deepEqual(await bench.resolution(run, ids[alias]), { status: "denied", reason: "not today" });
  await bench.close(page);
}, { agents: true });

check("the icon of the page has the number of open requests, and the policy allows it", async () => {
  const page = await bench.open("/");
  const icon = page.locator("link[rel=icon]");
  await page.waitForFunction(() => {
    const count = /^\((\d+)\)/.exec(document.title)?.[1];
    return count && decodeURIComponent(document.querySelector("link[rel=icon]").href).includes(`>${count}</text>`);
  });
  // The browser draws it: it is an image without a fault.
  const size = await page.evaluate((address) => new Promise((done, fail) => {
    const image = Object.assign(new Image(), { onload: () => done(image.naturalWidth), onerror: fail });
    image.src = address;
  }), await icon.getAttribute("href"));
  assert.ok(size > 0);
  await bench.close(page);
});

/** A branch that waits for somebody; its state. */
async function ask(branch, answers) {
  if (bench.mock) return bench.mock.addBranch(branch, answers);
  await bench.git("branch", "--force", branch, "main");
  await bench.program("set-state", "--branch", branch, "--state", "approval", "--subject", "May it go out?",
    "--trailer", "dwp-waits-for: ana", ...(answers ? ["--trailer", `dwp-answers: ${answers.join(", ")}`] : []));
}
const message = (branch) => bench.git("log", "-1", "--format=%B", branch);
const cardOf = (page, branch) => page.getByRole("listitem").filter({ has: page.getByRole("link", { name: branch, exact: true }) });

check("a branch that waits shows what it asks, and the commands that answer", async () => {
  const page = await bench.open("/inbox");
  const card = cardOf(page, "release");
  await card.getByText("May version 2 go out?").waitFor();
  assert.match(await card.innerText(), /It waits for ana/);
  const expect = (await bench.get("status")).branches.find((one) => one.branch === "release").commit.slice(0, 10);
  for (const [state, words] of [["approved", ""], ["rejected", "Not yet."]]) {
    await card.getByRole("textbox", { name: "Comment" }).fill(words);
    const line = `aynig answer release ${state}${words && ` --comment '${words}'`} --expect ${expect}`;
    await card.getByRole("button", { name: `Copy the command: ${line}` }).click();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), line);
  }
  assert.deepEqual(page.writes, []);
  await card.getByRole("link", { name: "release" }).click();
  await page.getByRole("heading", { name: "release", level: 1 }).waitFor();
  const asked = page.getByRole("region", { name: "What it waits for" });
  await asked.getByText("May version 2 go out?").waitFor();
  await asked.getByRole("button", { name: "Answer approved" }).waitFor();
  await bench.close(page);
});

check("a branch is answered from the inbox, by keyboard alone, and with a comment", async () => {
  await ask("release-3", ["approved", "rejected"]);
  const page = await bench.open("/inbox");
  const card = cardOf(page, "release-3");
  await card.getByRole("textbox", { name: "Comment" }).focus();
  await page.keyboard.type("a good jade"); // These are keys of the inbox, and words here.
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.innerText), "Answer approved");
  assert.deepEqual(await violations(page), []);
  await page.keyboard.press("Enter");
  await page.getByRole("status").getByText("release-3 was answered with approved.").waitFor();
  await page.waitForFunction(() => document.activeElement.matches("[role=status]")); // The focus is not lost.
  await card.waitFor({ state: "detached", timeout: 30_000 });
  assert.deepEqual(page.writes, ["POST /api/branches/answer"]);
  assert.deepEqual(await violations(page), []);
  await bench.close(page);
  if (bench.mock) assert.deepEqual(bench.mock.answers["release-3"], { state: "approved", comment: "a good jade" });
  else assert.match(await message("release-3"), /a good jade[\s\S]*dwp-state: approved/);
}, { agents: true });

check("a branch that takes any answer; and one that somebody else has answered meanwhile", async () => {
  await ask("release-4");
  await ask("release-5", ["approved", "rejected"]);
  const page = await bench.open("/inbox", { width: 375, allow: [/409/, /ERR_FAILED/] });
  const any = cardOf(page, "release-4");
  assert.ok(await any.getByRole("button", { name: /^Answer/ }).isDisabled(), "an answer is needed");
  await any.getByRole("textbox", { name: "The state that answers" }).fill("next-week");
  await any.getByRole("button", { name: "Answer next-week" }).click();
  await page.getByRole("status").getByText("release-4 was answered with next-week.").waitFor();
  const late = cardOf(page, "release-5");
  // The page does not hear of it.
  await page.deaf("/api/status");
  if (bench.mock) bench.mock.setBranch("release-5", "rejected");
  else await bench.program("answer", "release-5", "rejected");
  await late.getByRole("button", { name: "Answer approved" }).click();
  await late.getByRole("alert").filter({ hasText: /release-5 is not at[\s\S]*answered with rejected/ }).waitFor();
  assert.deepEqual(await violations(page), []);
  await bench.close(page);
  if (!bench.mock) assert.match(await message("release-5"), /dwp-state: rejected/);
}, { agents: true });

check("a step of a flow is tried again after a question; its command is shown", async () => {
  let { id, slug } = bench.runs.greeting;
  if (isReal) {
    // Other tests look at the run of the fixtures.
    ({ run: { id, slug } } = await bench.post("flows", { path: "gate.yaml", inputs: { issue: "Say it again" } }));
    await bench.work();
  }
  const page = await bench.open(`/runs/${id}`);
  const step = (name) => page.getByRole("listitem").filter({ has: page.getByRole("heading", { name, level: 2 }) });
  await step("write").getByText("Retry from here").click();
  await step("write").getByRole("button", { name: `Copy the command: aynig flow resume ${slug} --from write` }).waitFor();
  await step("write").getByRole("button", { name: "Retry from write" }).click();
  await step("write").getByRole("button", { name: "Keep it" }).click();
  assert.deepEqual(page.writes, []);
  // A step that has not begun has nothing to be tried again.
  assert.equal(await step("undo").getByText("Retry from here").count(), 0);
  await step("write").getByRole("button", { name: "Retry from write" }).click();
  assert.deepEqual(await violations(page), []);
  await step("write").getByRole("button", { name: "Yes, from write" }).click();
  await page.waitForFunction(() => !document.querySelector("button.danger") && !document.querySelector("details button:disabled"));
  assert.deepEqual(page.writes, [`POST /api/runs/${id}/resume`]);
  if (bench.mock) assert.equal(bench.mock.resumedFrom, "write");
  else {
    await bench.work();
    await step("write").getByText("2nd visit").waitFor();
    const { run } = await bench.get(`runs/${id}`);
    assert.deepEqual(Object.values(run.steps).map((one) => one.id).slice(-3), ["write", "check", "approval"]);
  }
  await bench.close(page);
}, { agents: true });

check("a flow that succeeded has no Resume, and names what comes next", async () => {
  const { id, slug } = bench.runs.greeting;
  const page = await bench.open("/");
  const change = (patch) => async (answer) => {
    const response = await answer.fetch();
    await answer.fulfill({ response, json: patch(await response.json()) });
  };
  const ended = { status: "completed", verdict: "succeeded", termination: "completed" };
  await page.route(/\/api\/runs\?/, change(({ runs, ...more }) => ({ ...more,
    runs: runs.map((one) => (one.id === id ? { ...one, ...ended, openApprovals: 0, step: "approval" } : one)) })));
  await page.route(`**/api/runs/${id}`, change(({ run, ...more }) => ({ ...more, run: { ...run, ...ended, approvals: {} } })));
  await page.route(`**/api/runs/${id}/flow`, change(({ graph, show }) =>
    ({ graph, show: { ...show, place: "ended", words: "ended: succeeded", next: ["aynig flow log"] } })));
  await page.reload();
  const row = page.getByRole("row").filter({ hasText: slug });
  await row.getByText("succeeded").waitFor();
  assert.doesNotMatch(await row.innerText(), /at approval/);
  await row.getByRole("link", { name: "greeting", exact: true }).click();
  await page.getByText("Next:", { exact: true }).waitFor();
  assert.equal(await page.getByRole("button", { name: /^(Resume|Complete|Stop)$/ }).count(), 0);
  await bench.close(page);
});

check("the work of a node is put back after a question, and kept", async () => {
  const run = await bench.make("Put back", "ada");
  await bench.chat(run, "ada", "hello");
  await bench.work();
  const page = await bench.open(run.nodes.ada.path);
  await page.getByRole("button", { name: `Copy the command: aynig workspace rollback ${run.slug}/ada` }).waitFor();
  await page.getByRole("button", { name: "Roll back…" }).click();
  await dialog(page).getByText("The work is kept under a rescue ref").waitFor();
  await dialog(page).getByRole("button", { name: `Copy the command: aynig workspace rollback ${run.slug}/ada` }).waitFor();
  await dialog(page).getByRole("button", { name: "Leave it" }).click();
  await dialog(page).waitFor({ state: "detached" });
  assert.deepEqual(page.writes, []);
  await page.getByRole("button", { name: "Roll back…" }).click();
  await dialog(page).getByRole("button", { name: "Put it back" }).click();
  await dialog(page).getByText("The work was put back.").waitFor();
  assert.match(await dialog(page).innerText(), /git log -p refs\/aynig\/[\s\S]*rollback --undo/);
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Roll back…" }).click();
  await dialog(page)
    .getByRole("button", { name: `Copy the command: aynig workspace rollback --undo ${run.slug}/ada` }).waitFor();
  if (isReal) assert.deepEqual((await bench.get(`runs/${run.id}/diff?node=ada`)).files, []);
  await bench.close(page);
}, { agents: true });

check("work is published with the fields of the form; a refusal says why", async () => {
  const run = await bench.make("Published", "ada", "ben");
  for (const alias of ["ada", "ben"]) await bench.chat(run, alias, "hello");
  await bench.work();
  const page = await bench.open(run.path, { allow: [/4\d\d \(/] });
  await page.getByRole("button", { name: "More…" }).click();
  await dialog(page).getByRole("combobox", { name: "Work of" }).selectOption("ben");
  await dialog(page).getByRole("textbox", { name: "Into the branch" }).fill("nowhere");
  await dialog(page).getByRole("checkbox", { name: "As one commit" }).check();
  const publish = dialog(page).getByRole("button", { name: "Publish the work" });
  await dialog(page).getByRole("button", { name: `Copy the command: aynig publish ${run.slug} --node ben --into nowhere --squash` }).waitFor();
  await publish.click();
  await dialog(page).getByRole("alert").filter({ hasText: "nowhere" }).waitFor();
  await dialog(page).getByRole("textbox", { name: "Into the branch" }).fill("main");
  await publish.click();
  await dialog(page).getByText(/^Published as/).waitFor();
  if (bench.mock) assert.deepEqual(bench.mock.published, { node: "ben", into: "main", squash: true, draft: false });
  await bench.close(page);
}, { agents: true });
