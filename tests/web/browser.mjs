// A real browser for the tests of the page.
//
//   AYNIG_WEB_TOOLS   a directory whose node_modules has playwright-core, axe-core and ws
//   AYNIG_CHROMIUM    the browser (/usr/bin/chromium)
//   AYNIG_WEB_BASE, AYNIG_WEB_TOKEN   a server to test in place of the stand-in, and a one-time token of it; its
//                     repository has the runs that fixtures.sh makes
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import assert from "node:assert/strict";

const tools = process.env.AYNIG_WEB_TOOLS;
const load = tools && createRequire(join(tools, "package.json"));
export const skip = load ? false : "AYNIG_WEB_TOOLS is not set";
const axe = load && readFileSync(load.resolve("axe-core/axe.min.js"), "utf8");

export class Bench {
  static async begin() {
    const bench = new Bench();
    const { AYNIG_WEB_BASE: base, AYNIG_WEB_TOKEN: token } = process.env;
    if (!base) {
      const { Mock } = await import("./mock.mjs");
      bench.mock = new Mock();
    }
    bench.base = base ?? await bench.mock.listen();
    bench.browser = await load("playwright-core").chromium.launch({ executablePath: process.env.AYNIG_CHROMIUM ?? "/usr/bin/chromium",
      args: ["--no-sandbox", "--js-flags=--expose-gc", "--enable-precise-memory-info"] });
    const context = await bench.browser.newContext();
    const page = await context.newPage();
    await page.goto(`${bench.base}/#t=${token ?? bench.mock.token()}`);
    await page.getByRole("heading", { name: "Runs", level: 1 }).waitFor();
    assert.equal(new URL(page.url()).hash, "", "the token is cleared from the address");
    const answer = await page.request.get(`${bench.base}/api/runs?view=summary&limit=100`);
    bench.runs = Object.fromEntries((await answer.json()).runs.map((run) => [run.label, run]));
    bench.state = await context.storageState();
    await context.close();
    return bench;
  }

  async end() {
    await this.browser?.close();
    this.mock?.close();
  }

  /** The address of a node, by the label of its run and its alias. */
  async node(label, alias) {
    const page = await this.open("/");
    const { run } = await (await page.request.get(`${this.base}/api/runs/${this.runs[label].id}`)).json();
    await page.context().close();
    const node = Object.values(run.nodes).find((one) => one.alias === alias);
    return `/runs/${run.id}/nodes/${node.id}`;
  }

  /** Opens a page that must stay quiet: nothing in the console, and no request to another host. */
  async open(path, { width = 1280, height = 860, theme = "light", allow = [], ...more } = {}) {
    const context = await this.browser.newContext({ viewport: { width, height }, colorScheme: theme, storageState: this.state, permissions: ["clipboard-read", "clipboard-write"], ...more });
    const page = await context.newPage();
    const noise = [];
    const fits = (text) => allow.some((one) => one.test(text));
    page.on("console", (message) => !fits(message.text()) && noise.push(`${message.type()}: ${message.text()}`));
    page.on("pageerror", (error) => noise.push(error.stack));
    page.on("dialog", (dialog) => { noise.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (url.protocol !== "data:" && url.host !== new URL(this.base).host) noise.push(`request: ${request.url()}`);
    });
    page.writes = [];
    page.on("request", (request) => request.method() !== "GET" && page.writes.push(`${request.method()} ${new URL(request.url()).pathname}`));
    page.quiet = () => assert.deepEqual(noise, []);
    await page.goto(this.base + path);
    await page.locator("main h1").waitFor();
    return page;
  }

  /** Closes a page that was quiet. */
  async close(page) {
    page.quiet();
    await page.context().close();
  }
}

/** Rules of accessibility that the page breaks. */
export async function violations(page) {
  // A script tag would be against the page's policy; the debugger's own evaluation is not.
  await page.evaluate(axe);
  const { violations: found } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  return found.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`);
}

/** The longest time between two frames while `work` goes on, in milliseconds. */
export async function longestGap(page, work) {
  await page.evaluate(() => {
    const seen = (globalThis.frames_ = { last: performance.now(), longest: 0, on: true });
    const frame = (time) => {
      seen.longest = Math.max(seen.longest, time - seen.last);
      seen.last = time;
      if (seen.on) requestAnimationFrame(frame);
    };
    requestAnimationFrame((time) => { seen.last = time; frame(time); });
  });
  await work();
  return page.evaluate(() => {
    globalThis.frames_.on = false;
    return Math.round(globalThis.frames_.longest);
  });
}

export const heap = (page) => page.evaluate(() => {
  globalThis.gc?.();
  return Math.round(performance.memory.usedJSHeapSize / 1e6);
});
