// A stand-in for `aynig serve`, for the development of the page and its browser tests: it serves
// the page with the server's headers, and runs that are folded from the fixtures.
//
//   AYNIG_WEB_TOOLS=DIR node tests/web/mock.mjs [PORT]     DIR has node_modules with `ws`
import { createServer } from "node:http";
import { createHash, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { begin, fold } from "../../src/server/web/app/state.js";
import { summaryOf, wordOf } from "../../src/server/web/app/status.js";
import { diff, scripted } from "./script.mjs";

const { WebSocketServer } = createRequire(join(process.env.AYNIG_WEB_TOOLS ?? ".", "package.json"))("ws");
const WEB = fileURLToPath(new URL("../../src/server/web/", import.meta.url));
const fixture = (name) => readFileSync(new URL(`fixtures/${name}`, import.meta.url), "utf8");
const json = (name) => JSON.parse(fixture(name));
const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".mjs": "text/javascript", ".css": "text/css",
  ".svg": "image/svg+xml" };

const importMap = /<script type="importmap">([^<]*)<\/script>/.exec(readFileSync(join(WEB, "index.html"), "utf8"))[1];
const hash = createHash("sha256").update(importMap).digest("base64");
const HEADERS = {
  "Content-Security-Policy": `default-src 'none'; script-src 'self' 'sha256-${hash}'; style-src 'self'; img-src 'self' data:; `
    + "connect-src 'self'; font-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    + "require-trusted-types-for 'script'; trusted-types aynig dompurify",
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "no-referrer",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Cache-Control": "no-cache",
};

class Refused extends Error {
  constructor(status, code, message, hint) {
    super(message);
    Object.assign(this, { status, code, hint });
  }
}

/** A run: its events, and the view that they make. */
class Run {
  constructor(mock, events) {
    Object.assign(this, { mock, events: [], journal: randomUUID(), view: begin() });
    for (const event of events) this.add(event);
  }

  add(event) {
    const seq = this.events.length + 1;
    const whole = { id: randomUUID(), runId: this.view.run.id, ts: new Date().toISOString(), ...event, seq };
    this.events.push(whole);
    this.view = fold(this.view, [whole]);
    return whole;
  }

  /** New events, which the sockets hear. */
  push(...events) {
    for (const event of events) this.mock.tell(this, this.add(event));
  }

  get ids() { return Object.keys(this.view.run.nodes); }
  get id() { return this.view.run.id; }
  get slug() { return this.view.run.slug; }

  node(id) {
    const { nodes } = this.view.run;
    const node = nodes[id] ?? Object.values(nodes).find((one) => one.alias === id);
    if (!node) throw new Refused(404, "unknown_node", `There is no node ${id} in this run.`, "aynig orch show RUN lists the nodes.");
    return node;
  }

  /** As readers see it: with the status that a live turn gives. */
  shown() {
    const { run, live } = this.view;
    const nodes = Object.fromEntries(Object.entries(run.nodes).map(([id, node]) =>
      [id, live[id] ? { ...node, status: "running" } : node]));
    return { ...run, nodes };
  }

  page({ limit = 200, before, after }) {
    const known = this.events.filter((one) => (!before || one.seq < before) && (!after || one.seq > after));
    const events = after ? known.slice(0, limit) : known.slice(-limit);
    const hasMore = events.length < known.length;
    return { events, page: { nextCursor: hasMore && !after ? String(events[0].seq) : null, hasMore } };
  }
}

export class Mock {
  constructor() {
    this.tokens = new Set();
    this.cookie = randomUUID();
    this.key = randomUUID();
    this.runs = ["pair", "team", "loop", "failed", "flow"].map((name) =>
      new Run(this, fixture(`${name}.events.jsonl`).trim().split("\n").map((line) => JSON.parse(line).event)));
    this.sockets = new Set();
    this.requests = [];
    this.pace = 40;
    this.waiting = json("statusall.json");
  }

  addRun(events) {
    const run = new Run(this, events);
    this.runs.push(run);
    for (const event of run.events.slice(0, 1)) this.tell(run, event);
    return run;
  }

  run(id) {
    const found = this.runs.find((one) => one.id === id || one.slug === id);
    if (!found) throw new Refused(404, "unknown_run", `There is no run ${id}.`, "aynig orch run list shows the runs there are.");
    return found;
  }

  token() {
    const token = randomUUID();
    this.tokens.add(token);
    return token;
  }

  tell(run, event) {
    for (const one of this.sockets) {
      if (one.runId ? one.runId === run.id : one.types.some((type) => type.test(event.type))) one.socket.send(JSON.stringify(event));
    }
  }

  /** Cuts all sockets. */
  cut(code) {
    for (const { socket } of this.sockets) code ? socket.close(code) : socket.terminate();
  }

  async listen(port = 0) {
    this.server = createServer((request, response) => this.answer(request, response));
    const upgrades = new WebSocketServer({ noServer: true });
    this.server.on("upgrade", (request, socket, head) => {
      const url = new URL(request.url, "http://mock");
      if (url.pathname !== "/ws" || !this.mayEnter(request)) return socket.destroy();
      upgrades.handleUpgrade(request, socket, head, (ws) => this.connect(ws, Object.fromEntries(url.searchParams)));
    });
    await new Promise((done) => this.server.listen(port, "127.0.0.1", done));
    this.base = `http://127.0.0.1:${this.server.address().port}`;
    return this.base;
  }

  close() {
    this.cut();
    this.server.closeAllConnections();
    this.server.close();
  }

  connect(socket, { runId, after, journal, types = "*" }) {
    const entry = { socket, runId, types: types.split(",").map((glob) => new RegExp(`^${glob.replaceAll(".", "\\.").replace("*", ".*")}$`)) };
    const say = (message) => socket.send(JSON.stringify(message));
    if (runId) {
      const run = this.run(runId);
      if (journal && journal !== run.journal) {
        say({ type: "stream.gap", journal: run.journal });
        return socket.close(4009);
      }
      say({ type: "stream.hello", seq: run.events.length, oldest: 1, journal: run.journal, contractVersion: "1" });
      for (const event of run.events.slice(Number(after ?? run.events.length))) say(event);
    } else {
      say({ type: "stream.hello", contractVersion: "1", runs: Object.fromEntries(this.runs.map((run) => [run.id, run.events.length])) });
    }
    this.sockets.add(entry);
    socket.on("close", () => this.sockets.delete(entry));
  }

  mayEnter(request) {
    const key = request.headers["aynig-key"] ?? request.headers["sec-websocket-protocol"]?.replace("aynig.", "");
    return (request.headers.cookie ?? "").includes(`aynig-mock=${this.cookie}`) && key === this.key;
  }

  async answer(request, response) {
    const url = new URL(request.url, "http://mock");
    this.requests.push(`${request.method} ${url.pathname}`);
    const send = (status, body, headers = {}) => {
      response.writeHead(status, { ...HEADERS, "Content-Type": "application/json", ...headers });
      response.end(JSON.stringify(body));
    };
    if (!url.pathname.startsWith("/api/")) return this.file(url.pathname, response);
    try {
      const chunks = [];
      for await (const chunk of request) chunks.push(chunk);
      const body = chunks.length ? JSON.parse(Buffer.concat(chunks).toString()) : {};
      const path = url.pathname.slice(5).split("/").map(decodeURIComponent);
      if (path[0] === "session" && request.method === "POST") {
        if (!this.tokens.delete(body.token)) throw new Refused(401, "bad_token", "This link was used before, or is older than 60 seconds.");
        return send(200, { ok: true, key: this.key }, { "Set-Cookie": `aynig-mock=${this.cookie}; HttpOnly; SameSite=Strict; Path=/` });
      }
      if (!this.mayEnter(request)) throw new Refused(401, "no_session", "This browser has no session.", "aynig serve --url prints a link that opens one.");
      send(200, this.handle(request.method, path, Object.fromEntries(url.searchParams), body));
    } catch (error) {
      if (!(error instanceof Refused)) console.error(error);
      send(error.status ?? 500, { error: error.message, code: error.code ?? "internal", hint: error.hint });
    }
  }

  file(path, response) {
    const place = normalize(join(WEB, path));
    const isFile = place.startsWith(WEB) && extname(place) && (path.startsWith("/app/") || path.startsWith("/style/") || path.startsWith("/vendor/") || path === "/favicon.svg");
    try {
      const content = readFileSync(isFile ? place : join(WEB, "index.html"));
      response.writeHead(200, { ...HEADERS, "Content-Type": isFile ? TYPES[extname(place)] ?? "text/plain" : TYPES[".html"] });
      response.end(content);
    } catch {
      response.writeHead(404, HEADERS).end();
    }
  }

  handle(method, path, query, body) {
    const [first, id, kind, sub, verb] = path;
    const reads = { providers: () => json("providerlist.json"), status: () => this.waiting, log: () => json("log.json"),
      flows: () => ({ commit: "0".repeat(40), flows: [{ path: "gate.yaml", workflowId: "greeting", version: 1,
        description: "An agent writes a greeting, and a person approves it.",
        inputs: [{ name: "issue", description: "What should be done.", required: true, default: null }], fault: null }] }),
      approvals: () => ({ approvals: this.approvals() }) };
    if (first === "fs") return { entries: [], parent: null, current: "/home/ana/repository" };
    if (method === "GET" && path.length === 1 && reads[first]) return reads[first]();
    if (first === "templates" && id) return { name: id, content: json("template.json").text, found: true };
    if (first === "templates") return { templates: json("orchtemplatelist.json").templates.map(({ role, source }) => ({ name: role, source: source === "base" ? "repo" : "system", path: null })) };
    if (first === "approvals") return this.resolve(id, body);
    if (first === "branches") return this.answerBranch(body);
    if (first === "flows") return { run: this.run(this.runs.find((run) => run.view.run.kind === "flow").id).shown() };
    if (first !== "runs") throw new Refused(404, "unknown_path", "There is no such path.");
    if (!id) return method === "POST" ? this.create(body) : this.list(query);
    const run = this.run(id);
    if (!kind) return this.ofRun(method, run, body);
    switch (kind) {
      case "events": return run.page({ limit: Number(query.limit ?? 200), before: Number(query.before), after: Number(query.after) });
      case "flow": return { graph: json("flowgraph.json"), show: json("flowshow.json") };
      case "diff": return diff(query);
      case "artifacts": return this.artifact(run, sub);
      case "chat": return this.chat(run, body);
      case "nodes": return sub ? this.ofNode(method, run, sub, verb, body) : this.addNode(run, body.node);
      case "edges": return this.edge(method, run, sub, body.edge);
      case "rollback": return this.rollBack(run, body);
      case "publish": return this.publish(run, body);
      default: return this.steer(run, kind, body);
    }
  }

  list({ q = "", status, limit = 50, before }) {
    const all = this.runs.map((run) => summaryOf({ ...run.view, run: run.shown() })).map((run) => {
      const { id, slug, kind: type, label, mode, globalMode, createdAt, updatedAt, waitingFor, usage, halted, counts, openApprovals, verdict, termination } = run;
      const nodes = Object.values(run.nodes).sort((one, other) => other.lastActivityAt.localeCompare(one.lastActivityAt));
      return { id, slug, kind: type, label, status: run.status, mode, globalMode, createdAt, updatedAt, waitingFor, usage, halted, counts,
        openApprovals, verdict, termination, lastWords: nodes[0]?.summary ?? "", step: null };
    }).sort((one, other) => other.updatedAt.localeCompare(one.updatedAt));
    const fits = all.filter((run) => (!q || `${run.label} ${run.slug} ${run.lastWords}`.toLowerCase().includes(q.toLowerCase()))
      && (!status || wordOf(run).word === status) && (!before || run.updatedAt < before));
    const runs = fits.slice(0, Number(limit));
    const hasMore = runs.length < fits.length;
    return { runs, page: { nextCursor: hasMore ? runs.at(-1).updatedAt : null, hasMore } };
  }

  approvals() {
    return this.runs.flatMap((run) => Object.values(run.view.run.approvals).filter((one) => !one.resolution).map((one) => {
      const { id: approvalId, ...rest } = one;
      const node = run.view.run.nodes[one.nodeId];
      return { runId: run.id, slug: run.slug, label: run.view.run.label, kind: run.view.run.kind,
        alias: run.view.run.kind === "flow" ? "flow" : node?.alias, approval: { approvalId, ...rest } };
    })).sort((one, other) => one.approval.requestedAt.localeCompare(other.approval.requestedAt));
  }

  /** A runner hands the turn of a node back. */
  handBack(runId, alias, runner, reason) {
    const branch = `run/${this.run(runId).slug}/${alias}`;
    this.waiting.branches.push({ branch, kind: "parked", state: "orch-turn", cause: "handedBack", unable: [{ runner, reason }] });
  }

  /** A node asks for a tool, as agent.py does for these words. */
  ask(runId, nodeId, words) {
    const [kind, subject] = words.split(": ");
    const edit = { file_path: subject, old_string: "one word", new_string: "one other word" };
    const tool = kind === "edit" ? { id: "t1", name: "Edit", args: edit } : { id: "t1", name: "Bash", args: { command: "npm install", description: subject } };
    this.run(runId).push({ type: "approval.requested", nodeId, approvalId: randomUUID(), tool });
  }

  /** A node says hostile things, as agent.py does. */
  hostile(runId, nodeId, words) {
    const escapes = `\u001b]0;title\u0007\u001b[2J\u001b[31mred\u001b[0m\u001b]8;;javascript:alert(1)\u0007link\u001b]8;;\u0007 ${words}`;
    const tool = (id, args) => ({ id, name: words, args: { command: words, ...args } });
    const events = [
      { type: "message.assistant.final", content: `big ${"word ".repeat(1_000_000)}` },
      { type: "message.assistant.final", content: words },
      { type: "tool.proposed", tool: tool("h", { __proto__x: escapes }) },
      { type: "tool.completed", toolId: "h", result: { ok: true, output: words + escapes } },
      { type: "node.log", source: "provider", line: escapes },
      { type: "node.patch", patch: { summary: words } },
      { type: "approval.requested", approvalId: randomUUID(), tool: tool("h2"), context: words },
    ];
    this.run(runId).push(...events.map((event) => ({ nodeId, ...event })));
  }

  /** A run's journal is made anew. */
  renew(runId) {
    this.run(runId).journal = randomUUID();
    this.cut();
  }

  resolve(id, { resolution }) {
    const run = this.runs.find((one) => one.view.run.approvals[id]);
    if (!run) throw new Refused(404, "unknown_approval", "There is no such request.");
    const known = run.view.run.approvals[id];
    if (known.resolution) throw new Refused(409, "answered", "Ben answered this request before you.", "aynig orch approvals --all shows the answer.");
    run.push({ type: "approval.resolved", approvalId: id, resolution, by: { person: { name: "Ana", email: "ana@example.com", runner: "vm" } } },
      { type: "node.patch", nodeId: known.nodeId, patch: { status: "idle" } });
    return { approvalId: id, resolution };
  }

  answerBranch({ branch, state, comment, expect }) {
    const one = this.waiting.branches.find((row) => row.branch === branch);
    if (!one) throw new Refused(404, "not_found", `there is no branch ${branch}`);
    if (one.commit !== expect) {
      throw new Refused(409, "conflict", `${branch} is not at ${expect} (--expect): it has the state ${one.state}; nothing was changed`,
        `Ben answered with ${one.state} 3 s ago`);
    }
    if (one.answers && !one.answers.includes(state)) throw new Refused(422, "invalid", `${state} is not one of the answers`);
    this.setBranch(branch, state, comment);
    return { answer: { branch, state, commit: one.commit, previousState: "approval", parent: expect }, warnings: [] };
  }

  /** Somebody answers a branch: it waits no longer. */
  setBranch(branch, state, comment) {
    Object.assign(this.waiting.branches.find((row) => row.branch === branch), { state, kind: "resting", commit: "3".repeat(40) });
    this.answers = { ...this.answers, [branch]: { state, comment } };
  }

  /** A branch that waits, as `release` does. */
  addBranch(branch, answers) {
    const like = json("statusall.json").branches.find((row) => row.branch === "release");
    this.waiting.branches.push({ ...like, branch, answers, commit: createHash("sha1").update(branch).digest("hex") });
  }

  create({ label = "", mode = "INTERACTIVE", globalMode = "IMPLEMENTATION", doneWhen = null }) {
    const id = randomUUID();
    const now = new Date().toISOString();
    const run = this.addRun([{ runId: id, type: "run.patch", patch: { id, slug: id.slice(0, 8), kind: "graph", contractVersion: "1", label, mode,
      globalMode, doneWhen, status: "running", createdAt: now, updatedAt: now, baseRef: "refs/heads/main", baseSha: "0".repeat(40),
      limits: {}, usage: { promptTokens: 0, completionTokens: 0, totalTokens: 0 } } }]);
    return { run: run.shown() };
  }

  ofRun(method, run, { patch }) {
    if (method === "PATCH") run.push({ type: "run.patch", patch: { ...patch, updatedAt: new Date().toISOString() } });
    if (method === "DELETE") {
      run.push({ type: "run.deleted" });
      this.runs = this.runs.filter((one) => one !== run);
      return { runId: run.id };
    }
    return { run: run.shown(), journal: run.journal };
  }

  steer(run, verb, { from } = {}) {
    const status = { pause: "paused", resume: "running", stop: "stopped" }[verb];
    if (from) this.resumedFrom = from;
    run.push({ type: "run.patch", patch: { status, updatedAt: new Date().toISOString() } });
    return { run: run.shown() };
  }

  rollBack(run, { node }) {
    const name = node ?? "flow";
    const workspace = run.view.run.workspaces[name];
    run.push({ type: "workspace.rolledBack", name, patch: { headSha: workspace.baseSha, generation: 1, rolledBackAfter: 0 } });
    return { run: run.shown(), changed: true, rescueRefs: [`refs/aynig/rescue/${run.slug}/${name}`], keptPath: null, warnings: [],
      undo: `aynig workspace rollback --undo ${run.slug}/${name}` };
  }

  publish(run, { node = Object.keys(run.view.run.workspaces)[0], into = "main", squash = false, draft = false }) {
    if (into === "nowhere") throw new Refused(422, "rule", "origin has no branch nowhere", "Name a branch that it has.");
    this.published = { node, into, squash, draft };
    return { run: run.id, slug: run.slug, name: node, remote: "origin", branch: `work/${run.slug}/${node}`, base: into, commit: "1".repeat(40),
      head: "2".repeat(40), pushed: true, proposal: null, compareUrl: null, uncommitted: false, notes: ["no forge is set"] };
  }

  addNode(run, { alias, label, roleTemplate, provider, permissions, capabilities }) {
    if (Object.values(run.view.run.nodes).some((one) => one.alias === alias)) throw new Refused(409, "taken", `The alias ${alias} is taken.`, "Choose another alias.");
    const id = randomUUID();
    const capable = { edgeManagement: "none", writeCode: true, writeDocs: true, runCommands: true, delegateOnly: false, ...capabilities };
    const allowed = { cliPermissionsMode: "gated", agentManagementRequiresApproval: true, ...permissions };
    const node = { id, runId: run.id, alias, number: 1, depth: 0, label: label ?? alias, roleTemplate, provider: "custom", status: "idle", summary: "",
      lastActivityAt: new Date().toISOString(), capabilities: capable, permissions: allowed, limits: {}, inboxCount: 0,
      session: { sessionId: "pending", resetCommands: ["/new", "/clear"] }, usage: { promptTokens: 0, completionTokens: 0, totalTokens: 0 } };
    run.push({ type: "node.patch", nodeId: id, patch: node },
      { type: "run.patch", patch: { nodeConfigs: { [id]: { label: node.label, alias, provider: "custom", providerName: provider, roleTemplate,
        customSystemPrompt: "You review.", capabilities: capable, permissions: allowed } } } });
    return { node };
  }

  ofNode(method, run, id, verb, { patch, config }) {
    const node = run.node(id);
    if (method === "DELETE") {
      for (const edge of Object.values(run.view.run.edges)) if ([edge.from, edge.to].includes(id)) run.push({ type: "edge.deleted", edgeId: edge.id });
      run.push({ type: "node.deleted", nodeId: id });
      return { nodeId: id };
    }
    if (method === "PATCH") {
      if (patch) run.push({ type: "node.patch", nodeId: node.id, patch });
      if (config) run.push({ type: "run.patch", patch: { nodeConfigs: { [node.id]: { ...run.view.run.nodeConfigs[node.id], ...config } } } });
      return { node: run.node(id) };
    }
    const changes = { start: { hold: null, status: "idle" }, stop: { hold: "stopped" }, interrupt: { hold: "interrupted" }, reset: { session: { sessionId: "pending", resetCommands: [] } } };
    run.push({ type: "node.patch", nodeId: node.id, patch: changes[verb] });
    return { ok: true };
  }

  edge(method, run, id, edge) {
    if (method === "DELETE") {
      run.push({ type: "edge.deleted", edgeId: id });
      return { edgeId: id };
    }
    const made = { id: randomUUID(), bidirectional: true, type: "handoff", label: "task", ...edge };
    [made.from, made.to] = [run.node(edge.from).id, run.node(edge.to).id];
    run.push({ type: "edge.created", edge: made });
    return { edge: made };
  }

  chat(run, { nodeId, content, interrupt = false }) {
    const node = run.node(nodeId);
    const id = randomUUID();
    run.push({ type: "message.user", message: { id, runId: run.id, nodeId: node.id, role: "user", content, interrupt, createdAt: new Date().toISOString() },
      by: { person: { name: "Ana", email: "ana@example.com", runner: "vm" } } },
      { type: "node.patch", nodeId: node.id, patch: { inboxCount: (node.inboxCount ?? 0) + 1, hold: null } });
    scripted(run, node.id, id, content, this.pace);
    if (!run.view.run.workspaces[node.alias]) {
      run.push({ type: "workspace.prepared", workspace: { name: node.alias, branchName: `work/${run.slug}/${node.alias}`, status: "ready",
        baseRef: "refs/heads/main", baseSha: "0".repeat(40), headSha: "1".repeat(40) } });
    }
    return { messageId: id };
  }

  artifact(run, id) {
    const artifact = run.view.run.artifacts[id];
    if (!artifact) throw new Refused(404, "unknown_artifact", "There is no such artifact.");
    const contents = { "prompt.blocks.json": '{"blocks":[{"name":"system","text":"You are an agent."},{"name":"task","text":"Write greeting.txt."}]}',
      "diff.patch": diff.patch };
    return { artifact, content: contents[artifact.name] ?? `The content of ${artifact.name}.\n` };
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const mock = new Mock();
  const base = await mock.listen(Number(process.argv[2] ?? 4174));
  console.log(`${base}/#t=${mock.token()}`);
  // Development only: each line on standard input asks for a fresh link.
  process.stdin.on("data", () => console.log(`${base}/#t=${mock.token()}`));
}
