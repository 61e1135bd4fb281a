// Calls of the REST interface.
import { signal } from "@preact/signals";
import { parse } from "./json.js";

/** Whether the server knows this browser: `checking`, `open` or `closed`. */
export const session = signal("checking");

/** An answer that is no success, with its cause and the next step for people. */
export class Problem extends Error {
  /** @param {string} message @param {{code?: string, hint?: string, status?: number}} [more] */
  constructor(message, { code = "unknown", hint, status = 0 } = {}) {
    super(message);
    Object.assign(this, { code, hint, status });
  }
}

const KEY = "aynig.key";

/** The second secret of this browser's session. No page of another port can read it, whatever cookies it gets. */
export const key = () => localStorage.getItem(KEY) ?? "";

const AWAY = "The server does not answer. It may have been stopped.";

async function asked(method, path, body) {
  try {
    const answer = await fetch(`/api/${path}`, { method, credentials: "same-origin",
      headers: { "Content-Type": "application/json", "Aynig-Key": key() },
      ...(body !== undefined && { body: JSON.stringify(body) }) });
    if (answer.status === 401) session.value = "closed";
    return answer;
  } catch {
    throw new Problem(AWAY, { code: "away", hint: "Start it again: aynig serve" });
  }
}

/**
 * @param {string} method @param {string} path below /api/ @param {any} [body]
 * @returns {Promise<any>} the JSON of the answer
 */
export async function call(method, path, body) {
  const answer = await asked(method, path, body);
  const json = await answer.text().then(parse).catch(() => null);
  if (answer.ok && json !== null) return json;
  const { error, code, hint } = json ?? {};
  throw new Problem(error ?? `The server answered with the status ${answer.status}.`, { code, hint, status: answer.status });
}

const query = (fields) => {
  const set = Object.entries(fields).filter(([, value]) => value !== undefined && value !== "" && value !== null);
  return set.length ? `?${new URLSearchParams(set.map(([key, value]) => [key, String(value)]))}` : "";
};

const of = (id) => `runs/${encodeURIComponent(id)}`;
const node = (run, id) => `${of(run)}/nodes/${encodeURIComponent(id)}`;

export const api = {
  runs: (fields) => call("GET", `runs${query({ view: "summary", ...fields })}`),
  run: (id) => call("GET", of(id)),
  events: (id, fields) => call("GET", `${of(id)}/events${query(fields)}`),
  flowOf: (id) => call("GET", `${of(id)}/flow`),
  diff: (id, fields) => call("GET", `${of(id)}/diff${query(fields)}`),
  artifact: (id, artifact) => call("GET", `${of(id)}/artifacts/${encodeURIComponent(artifact)}`),
  approvals: () => call("GET", "approvals"),
  /** The bytes of an artifact: a link could not send the key. */
  async bytes(id, artifact) {
    const path = `${of(id)}/artifacts/${encodeURIComponent(artifact)}`;
    const answer = await asked("GET", `${path}?raw=1`);
    // An error is JSON.
    return answer.ok ? answer.blob() : call("GET", path);
  },
  status: () => call("GET", "status"),
  top: () => call("GET", "fs/list"),
  log: (branch) => call("GET", `log${query({ branch })}`),
  providers: () => call("GET", "providers"),
  templates: () => call("GET", "templates"),
  template: (name) => call("GET", `templates/${encodeURIComponent(name)}`),
  flows: () => call("GET", "flows"),

  answerBranch: (fields) => call("POST", "branches/answer", fields),
  createRun: (fields) => call("POST", "runs", fields),
  startFlow: (fields) => call("POST", "flows", fields),
  patchRun: (id, patch) => call("PATCH", of(id), { patch }),
  deleteRun: (id) => call("DELETE", of(id)),
  steer: (id, verb, fields = {}) => call("POST", `${of(id)}/${verb}`, fields),
  addNode: (id, fields) => call("POST", `${of(id)}/nodes`, { node: fields }),
  patchNode: (run, id, fields) => call("PATCH", node(run, id), fields),
  removeNode: (run, id) => call("DELETE", node(run, id)),
  steerNode: (run, id, verb) => call("POST", `${node(run, id)}/${verb}`),
  addEdge: (id, edge) => call("POST", `${of(id)}/edges`, { edge }),
  removeEdge: (id, edge) => call("DELETE", `${of(id)}/edges/${encodeURIComponent(edge)}`),
  chat: (id, message) => call("POST", `${of(id)}/chat`, message),
  resolve: (id, resolution, runId, always) =>
    call("POST", `approvals/${encodeURIComponent(id)}/resolve`, { resolution, runId, ...(always && { always }) }),
};

/** Exchanges the one-time token of the address for a cookie and a key, and clears the address. */
export async function openSession() {
  const token = /^#t=([\w.-]+)$/.exec(location.hash)?.[1];
  if (token) {
    history.replaceState(null, "", location.pathname + location.search);
    // A token that was used before is no harm while the session is good.
    await call("POST", "session", { token }).then((begun) => localStorage.setItem(KEY, begun.key), () => {});
  }
  session.value = "checking";
  await api.runs({ limit: 1 }).then(() => (session.value = "open"), (problem) => {
    if (problem.status !== 401) session.value = "open";
  });
}
