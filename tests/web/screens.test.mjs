// What holds for all screens, in a real browser: they write nothing, can be used by everybody, with any keyboard and at any
// width. See browser.mjs for its environment.
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { Bench, skip, violations } from "./browser.mjs";

let bench;
before(async () => { if (!skip) bench = await Bench.begin(); }, { timeout: 60_000 });
after(() => bench?.end());

const check = (name, work, { timeout = 120_000 } = {}) =>
  test(name, { skip, timeout }, (t) => bench.watch(t, work));
const run = (label) => `/runs/${bench.runs[label].id}`;
const main = (page) => page.locator("main");

/** Each screen, and each of its tabs. */
async function screens() {
  const node = await bench.node("The greeting", "ada");
  return ["/", "/inbox", "/new", "/new?kind=flow", "/branches?runs=1", "/branches/release", run("The greeting"),
    `${run("A team")}?view=table`, `${run("Round and round")}?view=timeline`, run("greeting"), node, `${node}?tab=diff`,
    `${node}?tab=artifacts`, `${node}?tab=prompts`, `${node}?tab=log`, `${run("The greeting")}/events`,
    `${run("The greeting")}/events?at=100`];
}

check("opening each screen writes nothing", async () => {
  const page = await bench.open("/");
  for (const path of await screens()) {
    await page.goto(bench.base + path);
    await main(page).getByRole("heading", { level: 1 }).waitFor();
    await page.waitForTimeout(400);
    assert.deepEqual(page.writes, [], path);
  }
  await bench.close(page);
});

/** The page as it is now, wide and narrow, light and dark. */
async function fits(page, name) {
  for (const [width, colorScheme] of [[1280, "light"], [1280, "dark"], [375, "dark"], [375, "light"]]) {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme });
    await page.waitForTimeout(100);
    assert.deepEqual(await violations(page), [], `${name} ${width} ${colorScheme}`);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `${name} scrolls sideways by ${wide} at ${width}`);
  }
  await page.setViewportSize({ width: 1280, height: 860 });
}

check("each screen has no violation of axe, at each width and in both themes, and does not scroll sideways", async () => {
  const page = await bench.open("/");
  for (const path of await screens()) {
    await page.goto(bench.base + path);
    await main(page).getByRole("heading", { level: 1 }).waitFor();
    await page.waitForTimeout(300);
    await fits(page, path);
  }
  await bench.close(page);
}, { timeout: 300_000 });

check("neither have dialogs and open forms", async () => {
  const page = await bench.open("/inbox");
  for (const name of ["Deny…", "Edit arguments…", "Approve always…"]) {
    await page.getByRole("button", { name }).click();
    await fits(page, name);
  }
  await page.getByRole("checkbox", { name: /^Select/ }).first().check();
  await page.getByRole("button", { name: "Deny the selected…" }).click();
  await fits(page, "selected");
  await page.goto(bench.base + run("The greeting"));
  await page.getByRole("button", { name: "More…" }).click();
  await page.getByRole("dialog").getByRole("combobox", { name: "Provider" }).waitFor();
  await fits(page, "More…");
  await page.goto(bench.base + await bench.node("The greeting", "ada"));
  await page.getByRole("button", { name: "Change settings…" }).click();
  await fits(page, "settings");
  await page.getByRole("button", { name: "Roll back…" }).click();
  await fits(page, "Roll back…");
  assert.deepEqual(page.writes, []);
  await bench.close(page);
});

check("each screen can be used by keyboard alone: every control is reached, and seen when it is", async () => {
  const page = await bench.open("/", { width: 375 });
  for (const path of await screens()) {
    await page.goto(bench.base + path);
    await main(page).getByRole("heading", { level: 1 }).waitFor();
    await page.waitForTimeout(300);
    const wanted = await page.evaluate(() => {
      document.activeElement?.blur();
      const controls = [...document.querySelectorAll("a[href], button:not(:disabled), input, select, textarea, summary")];
      const shown = controls.filter((one) => one.checkVisibility({ visibilityProperty: true }) && !one.closest(".virtual-row"));
      shown.forEach((one) => { one.dataset.wanted = "yes"; });
      return shown.length;
    });
    let unseen = 0;
    for (let count = 0; count < 200 && await page.locator("[data-wanted]").count(); count += 1) {
      await page.keyboard.press("Tab");
      unseen += await page.evaluate(() => {
        const one = document.activeElement;
        const isNew = Boolean(one.dataset.wanted);
        delete one.dataset.wanted;
        const { outlineStyle, outlineWidth } = getComputedStyle(one);
        return Number(isNew && !one.matches(".skip") && (outlineStyle === "none" || outlineWidth === "0px"));
      });
    }
    const left = await page.locator("[data-wanted]").evaluateAll((all) => all.map((one) => one.outerHTML.slice(0, 120)));
    assert.ok(wanted > 5);
    assert.deepEqual([left, unseen], [[], 0], path);
  }
  await bench.close(page);
}, { timeout: 180_000 });

check("a repository without runs and flows says how to make them", async () => {
  const page = await bench.open("/inbox");
  await page.route(/\/api\/runs\?/, (route) => route.fulfill({ json: { runs: [], page: { hasMore: false, nextCursor: null } } }));
  await page.route("**/api/flows", (route) => route.fulfill({ json: { commit: "0".repeat(40), flows: [] } }));
  await page.route("**/api/approvals", (route) => route.fulfill({ json: { approvals: [] } }));
  await page.route("**/api/status", (route) => route.fulfill({ json: { branches: [], runners: [], unmanaged: 1, workspaces: 0 } }));
  await page.reload();
  await page.getByText("Nothing is waiting for you.").waitFor();
  await page.goto(bench.base);
  await page.getByText("There is no run yet.").getByRole("link", { name: "New run" }).click();
  await page.getByRole("link", { name: "Flow", exact: true }).click();
  await page.getByRole("button", { name: "Copy the command: aynig install orchestration --apply" }).waitFor();
  await fits(page, "no flow");
  await page.goto(`${bench.base}/branches`);
  await page.getByText("1 branch has no state.").waitFor();
  await bench.close(page);
});

check("a theme is chosen, and remembered", async () => {
  const page = await bench.open("/", { theme: "dark" });
  const ground = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  const dark = await ground();
  await page.getByRole("button", { name: "Theme: auto" }).click();
  await page.getByRole("button", { name: "Theme: light" }).waitFor();
  const light = await ground();
  assert.notEqual(light, dark);
  await page.reload();
  await main(page).getByRole("heading", { level: 1 }).waitFor();
  assert.equal(await ground(), light);
  await page.getByRole("button", { name: "Theme: light" }).click();
  await page.getByRole("button", { name: "Theme: dark" }).waitFor();
  assert.equal(await ground(), dark);
  await bench.close(page);
});

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
