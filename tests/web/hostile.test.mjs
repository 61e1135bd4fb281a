// Pages of other origins, in the browser of a person with a session: each attempt is refused. Only the real server has
// these checks; see browser.mjs and real.sh.
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { connect, createServer as createRelay } from "node:net";
import { Bench, isReal, skip } from "./browser.mjs";

const options = { skip: skip || (!isReal && "needs the real server"), timeout: 60_000 };
const FORGED = JSON.stringify({ label: "forged", mode: "INTERACTIVE" });

let bench;
let server;
let port;
/** Where the name evil.test leads: to the evil page, and later to the server, as when a name is bound to another address. */
let leads;
let relay;
/** What the browser last sent to the evil page. */
let cookie;

const listen = (one) => new Promise((done) => one.listen(0, "127.0.0.1", () => done(one.address().port)));

before(async () => {
  if (options.skip) return;
  const own = Number(new URL(process.env.AYNIG_WEB_BASE).port);
  relay = createRelay((near) => {
    const far = connect(leads, "127.0.0.1");
    for (const [one, other] of [[near, far], [far, near]]) {
      one.on("error", () => {}).on("close", () => other.destroy());
      one.pipe(other);
    }
  });
  bench = await Bench.begin({ rules: `MAP evil.test:${own} 127.0.0.1:${await listen(relay)}` });
  server = createServer((request, response) => {
    cookie = request.headers.cookie ?? "";
    // A redirect keeps the method and the body, and hides the origin.
    if (request.url === "/redirect") return response.writeHead(307, { Location: `${bench.base}/api/runs` }).end();
    response.writeHead(200, { "Content-Type": "text/html" }).end("<!doctype html><title>Evil</title><body></body>");
  });
  port = leads = await listen(server);
}, { timeout: 60_000 });
after(async () => {
  await bench?.end();
  server?.closeAllConnections();
  server?.close();
  relay?.close();
});

/** All that a forged request could change. */
const written = async () => JSON.stringify([(await bench.get("runs?view=summary&limit=500")).runs.map((run) => [run.id, run.status, run.updatedAt]),
  await bench.get("approvals")]);

/** A page in a browser that has a session of the server. */
async function visit(address) {
  const context = await bench.browser.newContext({ storageState: bench.state });
  const page = await context.newPage();
  await page.goto(address);
  return { page, leave: () => context.close() };
}

/** What a page of another origin can make a browser send; each gives what it learned, or "refused". */
const attempts = async ({ base, body, run }) => {
  const learned = (work) => Promise.race([work().catch(() => "refused"), new Promise((done) => setTimeout(done, 4_000, "refused"))]);
  const read = (path, options) => learned(async () => {
    const answer = await fetch(base + path, { credentials: "include", ...options });
    return answer.type === "opaque" ? "refused" : `${answer.status} ${await answer.text()}`;
  });
  const element = (name, fields) => learned(() => new Promise((done, fail) => {
    const made = Object.assign(document.createElement(name), fields, { onload: () => done(`${name} loaded`), onerror: fail });
    document.body.append(made);
  }));
  const write = { method: "POST", body };
  const found = {
    get: await read("/api/runs"),
    getOpaque: await read("/api/runs", { mode: "no-cors" }),
    page: await read("/"),
    post: await read("/api/runs", { ...write, headers: { "Content-Type": "application/json" } }),
    postText: await read("/api/runs", { ...write, headers: { "Content-Type": "text/plain" } }),
    postOpaque: await read("/api/runs", { ...write, mode: "no-cors" }),
    stop: await read(`/api/runs/${run}/stop`, { method: "POST", mode: "no-cors" }),
    remove: await read(`/api/runs/${run}`, { method: "DELETE" }),
    session: await read("/api/session", { method: "POST", body: '{"token":"guessed"}', mode: "no-cors" }),
    redirect: await learned(async () => {
      const answer = await fetch("/redirect", { ...write, mode: "no-cors", credentials: "include" });
      return answer.type === "opaque" ? "refused" : answer.text();
    }),
    script: await element("script", { src: `${base}/api/runs` }),
    module: await element("script", { src: `${base}/app/main.js`, type: "module", crossOrigin: "use-credentials" }),
    image: await element("img", { src: `${base}/favicon.svg` }),
    socket: await learned(() => new Promise((done, fail) => {
      const socket = new WebSocket(`${base.replace("http", "ws")}/ws`);
      socket.onopen = () => done("open");
      socket.onmessage = ({ data }) => done(data);
      socket.onclose = fail;
    })),
    stream: await learned(() => new Promise((done, fail) => {
      const stream = new EventSource(`${base}/api/runs/${run}/events/stream?after=0`, { withCredentials: true });
      stream.onopen = () => done("open");
      stream.onmessage = ({ data }) => done(data);
      stream.onerror = () => { stream.close(); fail(); };
    })),
    window: await learned(async () => {
      const opened = open(base);
      await new Promise((done) => setTimeout(done, 800));
      const text = opened.document.body.innerText;
      return text;
    }),
  };
  // These are sent without an answer that a page could see.
  navigator.sendBeacon(`${base}/api/runs`, new Blob([body], { type: "text/plain" }));
  try {
    navigator.sendBeacon(`${base}/api/runs`, new Blob([body], { type: "application/json" }));
  } catch {
    // Older browsers refuse this type by themselves.
  }
  for (const enctype of ["text/plain", "application/x-www-form-urlencoded"]) {
    const frame = Object.assign(document.createElement("iframe"), { name: enctype });
    const form = Object.assign(document.createElement("form"), { method: "POST", action: `${base}/api/runs`, target: enctype, enctype });
    form.append(Object.assign(document.createElement("input"), { name: '{"label":"forged","mode":"INTERACTIVE","x":"', value: '"}' }));
    document.body.append(frame, form);
    form.submit();
  }
  document.body.append(Object.assign(document.createElement("iframe"), { src: `${base}/`, name: "framed" }));
  // A frame without an origin of its own: its requests say "null".
  const sandbox = Object.assign(document.createElement("iframe"), { sandbox: "allow-scripts" });
  const told = new Promise((done) => addEventListener("message", ({ data }) => done(data), { once: true }));
  sandbox.srcdoc = `<script>fetch(${JSON.stringify(`${base}/api/runs`)}, { method: "POST", mode: "no-cors", credentials: "include", `
    + `body: ${JSON.stringify(body)} }).catch(() => {}).then(() => fetch(${JSON.stringify(`${base}/api/runs`)}, { credentials: "include" }))`
    + `.then((answer) => answer.text()).catch(() => "refused").then((text) => parent.postMessage(text, "*"))</script>`;
  document.body.append(sandbox);
  found.sandboxed = await learned(() => told);
  await new Promise((done) => setTimeout(done, 500));
  return found;
};

for (const host of ["127.0.0.1", "localhost"]) {
  test(`a page of ${host} with another port reads nothing, writes nothing, and shows nothing of the server`, options, async () => {
    const before = await written();
    const { page, leave } = await visit(`http://${host}:${port}/`);
    const run = bench.runs["The greeting"].id;
    const found = await page.evaluate(attempts, { base: bench.base, body: FORGED, run });
    for (const [name, what] of Object.entries(found)) assert.equal(what, "refused", `${name}: ${String(what).slice(0, 200)}`);
    // The browser shows an error of its own in place of a page that may not be framed.
    for (const frame of page.frames().slice(1)) {
      const text = await frame.locator("body").innerText({ timeout: 1_000 }).catch(() => "");
      assert.doesNotMatch(text, /Runs|Inbox|The greeting|"runs"/, frame.name());
    }
    assert.equal(await written(), before);
    await leave();
  });
}

test("the attempts are good ones: the server's own page may do what it offers", options, async () => {
  const { page, leave } = await visit(bench.base);
  const status = await page.evaluate(async () => {
    const headers = { "Aynig-Key": localStorage.getItem("aynig.key") };
    return (await fetch("/api/runs?view=summary", { headers })).status;
  });
  assert.equal(status, 200);
  await leave();
});

test("a name that was bound to the server's address shows and reads nothing", options, async () => {
  const own = new URL(bench.base);
  const { page, leave } = await visit(`http://evil.test:${own.port}/`);
  assert.equal(await page.title(), "Evil");
  leads = Number(own.port);
  server.closeAllConnections();
  const { status, json, socket } = await page.evaluate(async () => {
    const reply = await fetch("/api/runs");
    const opened = await new Promise((done) => {
      const stream = new WebSocket(`${location.origin.replace("http", "ws")}/ws`);
      stream.onopen = () => done("open");
      stream.onclose = () => done("refused");
    });
    return { status: reply.status, json: await reply.json(), socket: opened };
  });
  assert.deepEqual([status, json.code, json.runs, socket], [421, "wrong_host", undefined, "refused"]);
  assert.equal((await page.goto(`http://evil.test:${own.port}/`)).status(), 421);
  assert.doesNotMatch(await page.content(), /<script/);
  await leave();
  // The server's other name is its own, but has no session.
  const other = await visit(`http://localhost:${own.port}/`);
  await other.page.getByRole("heading", { name: "No session" }).waitFor();
  await other.leave();
});

test("another port of this host gets the cookie, and can do nothing with it", options, async () => {
  const { page, leave } = await visit(`http://127.0.0.1:${port}/`);
  assert.match(cookie, /^aynig-/, "the browser sends it there");
  assert.deepEqual(await page.evaluate(() => ({ ...localStorage })), {}, "and nothing else");
  const own = { Cookie: cookie, Origin: bench.base, "Content-Type": "application/json" };
  const key = cookie.split("=")[1];
  for (const more of [{}, { "Aynig-Key": "" }, { "Aynig-Key": key }, { "Sec-WebSocket-Protocol": "aynig." }]) {
    const read = await fetch(`${bench.base}/api/runs`, { headers: { ...own, ...more } });
    const write = await fetch(`${bench.base}/api/runs`, { method: "POST", body: FORGED, headers: { ...own, ...more } });
    assert.deepEqual([read.status, write.status], [401, 401], JSON.stringify(more));
  }
  await leave();
});

test("a link begins one session: a stolen one begins none, and of many at once one does", options, async () => {
  const link = await bench.link();
  const context = await bench.browser.newContext();
  const page = await context.newPage();
  await page.goto(link);
  await page.getByRole("heading", { name: "Runs", level: 1 }).waitFor();
  const thief = await bench.browser.newContext();
  const stolen = await thief.newPage();
  await stolen.goto(link);
  await stolen.getByRole("heading", { name: "No session" }).waitFor();
  assert.deepEqual(await thief.cookies(), []);
  const again = await fetch(`${bench.base}/api/session`, { method: "POST", headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token: link.split("#t=")[1] }) });
  assert.deepEqual([again.status, again.headers.get("set-cookie")], [401, null]);
  const token = (await bench.link()).split("#t=")[1];
  const many = await Promise.all(Array.from({ length: 8 }, () => fetch(`${bench.base}/api/session`, { method: "POST",
    headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token }) })));
  assert.equal(many.filter((one) => one.ok).length, 1);
  await thief.close();
  await context.close();
});

test("a cookie is for this server's pages alone, and scripts cannot read it", options, async () => {
  const { page, leave } = await visit(bench.base);
  assert.equal(await page.evaluate(() => document.cookie), "");
  const [cookie] = (await page.context().cookies()).filter((one) => one.name.startsWith("aynig-"));
  assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.domain], [true, "Strict", "127.0.0.1"]);
  await leave();
});
