// A real browser for the tests of the page.
//
//   AYNIG_WEB_TOOLS   a directory whose node_modules has playwright-core, axe-core and ws
//   AYNIG_CHROMIUM    the browser (/usr/bin/chromium)
//   AYNIG_WEB_BASE    a server to test in place of the stand-in; its repository has the runs that fixtures.sh makes.
//                     real.sh sets this and the following
//   AYNIG_WEB_PROGRAM, AYNIG_WEB_REPOSITORY   the program and the repository of that server: tests ask the program for
//                     links, and let its agents work
//   AYNIG_WEB_TOKEN   a one-time token of a server without these two; tests in which agents work are skipped then
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import assert from "node:assert/strict";

const tools = process.env.AYNIG_WEB_TOOLS;
const load = tools && createRequire(join(tools, "package.json"));
export const skip = load ? false : "AYNIG_WEB_TOOLS is not set";
const axe = load && readFileSync(load.resolve("axe-core/axe.min.js"), "utf8");

const { AYNIG_WEB_BASE, AYNIG_WEB_TOKEN, AYNIG_WEB_PROGRAM, AYNIG_WEB_REPOSITORY } = process.env;
export const isReal = Boolean(AYNIG_WEB_BASE);

/** A wire between browser and server that can be cut. The browser uses the server's own address and is led here. */
class Wire {
  sockets = new Set();
  isCut = false;

  async to(base) {
    const { hostname, port } = new URL(base);
    this.server = createServer((near) => {
      if (this.isCut) return near.destroy();
      const far = connect(Number(port), hostname);
      for (const [one, other] of [[near, far], [far, near]]) {
        this.sockets.add(one);
        one.on("error", () => {});
        one.on("close", () => { this.sockets.delete(one); other.destroy(); });
        one.pipe(other);
      }
    });
    await new Promise((done) => this.server.listen(0, "127.0.0.1", done));
    return `MAP ${hostname}:${port} 127.0.0.1:${this.server.address().port}`;
  }

  cut() {
    this.isCut = true;
    for (const socket of this.sockets) socket.destroy();
  }

  mend() { this.isCut = false; }

  close() {
    this.cut();
    this.server?.close();
  }
}

export class Bench {
  wire = new Wire();
  pages = new Set();

  /** @param {{rules?: string}} [more] rules: more names that the browser resolves otherwise */
  static async begin({ rules = "" } = {}) {
    const bench = new Bench();
    if (!isReal) {
      const { Mock } = await import("./mock.mjs");
      bench.mock = new Mock();
    }
    bench.base = AYNIG_WEB_BASE ?? await bench.mock.listen();
    const { chromium, request } = load("playwright-core");
    const led = [await bench.wire.to(bench.base), rules].filter(Boolean).join(", ");
    bench.browser = await chromium.launch({ executablePath: process.env.AYNIG_CHROMIUM ?? "/usr/bin/chromium",
      args: ["--no-sandbox", "--js-flags=--expose-gc", "--enable-precise-memory-info", `--host-resolver-rules=${led}`] });
    const context = await bench.browser.newContext();
    const page = await context.newPage();
    await page.goto(await bench.link());
    await page.getByRole("heading", { name: "Runs", level: 1 }).waitFor();
    assert.equal(new URL(page.url()).hash, "", "the token is cleared from the address");
    bench.state = await context.storageState();
    const key = bench.state.origins.flatMap((one) => one.localStorage).find((one) => one.name === "aynig.key").value;
    bench.client = await request.newContext({ baseURL: bench.base, storageState: bench.state,
      extraHTTPHeaders: { "Aynig-Key": key } });
    const { runs } = await bench.get("runs?view=summary&limit=100");
    bench.runs = Object.fromEntries(runs.map((run) => [run.label, run]));
    await context.close();
    return bench;
  }

  async end() {
    await this.browser?.close();
    await this.client?.dispose();
    this.wire.close();
    this.mock?.close();
  }

  /** A link that begins a session. */
  async link() {
    if (this.mock) return `${this.base}/#t=${this.mock.token()}`;
    return AYNIG_WEB_PROGRAM ? (await this.program("serve", "--url")).trim() : `${this.base}/#t=${AYNIG_WEB_TOKEN}`;
  }

  /** Runs the program in the repository of the server. */
  async program(...args) {
    const { stdout } = await promisify(execFile)(AYNIG_WEB_PROGRAM, args, { cwd: AYNIG_WEB_REPOSITORY, maxBuffer: 1e8 });
    return stdout;
  }

  /** Runs git there. */
  async git(...args) {
    const { stdout } = await promisify(execFile)("git", args, { cwd: AYNIG_WEB_REPOSITORY });
    return stdout.trim();
  }

  /** Lets agents work until they have nothing to do. The stand-in's do so by themselves. */
  async work() {
    if (!this.mock) await this.program("run", "--drain", "--jobs", "1").catch(() => {});
  }

  async get(path) {
    const answer = await this.client.get(`/api/${path}`);
    assert.ok(answer.ok(), `GET ${path}: ${answer.status()} ${(await answer.text()).slice(0, 300)}`);
    return answer.json();
  }

  async post(path, data) {
    const answer = await this.client.post(`/api/${path}`, { data });
    assert.ok(answer.ok(), `POST ${path}: ${answer.status()} ${(await answer.text()).slice(0, 300)}`);
    return answer.json();
  }

  /** A new run for one test, with a node for each alias. */
  async make(label, ...aliases) {
    const { run } = await this.post("runs", { label, mode: "INTERACTIVE" });
    const made = { id: run.id, slug: run.slug, path: `/runs/${run.id}`, nodes: {} };
    for (const alias of aliases) {
      const { node } = await this.post(`runs/${run.id}/nodes`, { node: { label: alias, alias, roleTemplate: "implementer",
        provider: "scripted", permissions: { cliPermissionsMode: "gated" } } });
      made.nodes[alias] = { id: node.id, path: `/runs/${run.id}/nodes/${node.id}` };
    }
    return made;
  }

  chat(run, alias, content) {
    return this.post(`runs/${run.id}/chat`, { nodeId: run.nodes[alias].id, content });
  }

  /** Lets a node ask for a tool: `edit: PATH` or `ask: WORDS`. Gives the request's id. */
  async ask(run, alias, words) {
    const known = new Set((await this.approvals(run)).map((one) => one.approvalId));
    if (this.mock) this.mock.ask(run.id, run.nodes[alias].id, words);
    else {
      await this.chat(run, alias, words);
      await this.work();
    }
    const fresh = (await this.approvals(run)).find((one) => !known.has(one.approvalId));
    assert.ok(fresh, `${alias} asks: ${words}`);
    return fresh.approvalId;
  }

  async approvals(run) {
    return (await this.get("approvals")).approvals.filter((one) => one.runId === run.id).map((one) => one.approval);
  }

  /** How a request was answered. */
  async resolution(run, id) {
    const { events } = await this.get(`runs/${run.id}/events?limit=1000`);
    return events.findLast((event) => event.type === "approval.resolved" && event.approvalId === id)?.resolution;
  }

  /** The address of a node, by the label of its run and its alias. */
  async node(label, alias) {
    const { run } = await this.get(`runs/${this.runs[label].id}`);
    const node = Object.values(run.nodes).find((one) => one.alias === alias);
    return `/runs/${run.id}/nodes/${node.id}`;
  }

  /** Opens a page that must stay quiet: nothing in the console, and no request to another host. */
  async open(path, { width = 1280, height = 860, theme = "light", allow = [], ...more } = {}) {
    const context = await this.browser.newContext({ viewport: { width, height }, colorScheme: theme, storageState: this.state, permissions: ["clipboard-read", "clipboard-write"], ...more });
    const page = await context.newPage();
    this.pages.add(page);
    page.on("close", () => this.pages.delete(page));
    const noise = [];
    const fits = (text) => allow.some((one) => one.test(text));
    page.on("console", (message) => !fits(message.text()) && noise.push(`${message.type()}: ${message.text()}`));
    page.on("pageerror", (error) => noise.push(error.stack));
    page.on("dialog", (dialog) => { noise.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (url.protocol !== "data:" && url.host !== new URL(this.base).host) noise.push(`request: ${request.url()}`);
    });
    const underWay = new Set();
    page.on("request", (request) => underWay.add(request));
    for (const end of ["requestfinished", "requestfailed"]) page.on(end, (request) => underWay.delete(request));
    const has = (path) => [...underWay].some((request) => new URL(request.url()).pathname === path);
    /** From now on the page hears nothing new of this path: what it had asked for has come. */
    page.deaf = async (path) => {
      await page.route(`**${path}`, (route) => route.abort());
      while (has(path)) await page.waitForTimeout(20);
    };
    page.writes = [];
    page.on("request", (request) => request.method() !== "GET" && page.writes.push(`${request.method()} ${new URL(request.url()).pathname}`));
    page.quiet = () => assert.deepEqual(noise, []);
    await page.goto(this.base + path);
    await page.locator("main h1").waitFor();
    return page;
  }

  /** Does the work of a test. If it fails, it shows what the open pages showed, and closes them. */
  async watch(t, work) {
    try {
      await work(t);
    } catch (error) {
      for (const page of this.pages) {
        const text = await page.locator("main").innerText({ timeout: 2_000 }).catch(() => "");
        t.diagnostic(`${page.url()} showed:\n${text.slice(0, 2_000)}`);
        await page.context().close();
      }
      this.wire.mend();
      throw error;
    }
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
