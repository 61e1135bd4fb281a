// What the page knows, as signals, and how it comes to know it.
import { batch, computed, effect, signal } from "@preact/signals";
import { api, key, openSession, session } from "./api.js";
import { route } from "./route.js";
import { begin, fold, replay } from "./state.js";
import { isDue } from "./status.js";
import { Stream } from "./stream.js";

/** A clock for ages. */
export const now = signal(Date.now());
setInterval(() => (now.value = Date.now()), 5_000);

/** The connection: `connecting`, `live` or `stale`, and since when. */
export const connection = signal({ state: "connecting", since: Date.now() });
/** @type {import("@preact/signals").Signal<any[] | null>} */
export const summaries = signal(null);
export const moreRuns = signal(null);
/** @type {import("@preact/signals").Signal<any[] | null>} */
export const approvals = signal(null);
/** @type {import("@preact/signals").Signal<any | null>} */
export const branches = signal(null);
/** The name of the repository: the last part of its path. */
export const repository = signal("");
/** @type {import("@preact/signals").Signal<import("./state.js").View | null>} */
export const view = signal(null);
/** The known events of the run, the oldest first, and the cursor of the page before them. */
export const journal = signal({ events: [], cursor: null, busy: false });
/** @type {import("@preact/signals").Signal<any | null>} */
export const flow = signal(null);
/** @type {import("@preact/signals").Signal<Error | null>} */
export const problem = signal(null);

/** Branches that wait for somebody and are no drivers of runs: those are in the list of approvals. */
export const waitingBranches = computed(() =>
  (branches.value?.branches ?? []).filter((one) => one.kind === "waits-for-you" && !one.branch.startsWith("run/")));
export const needed = computed(() => (approvals.value?.length ?? 0) + waitingBranches.value.length);

const PAGE = 1_000;
/** Events that are kept for the screen Events; the oldest go first. */
const MOST_EVENTS = 60_000;
/** All runs are watched without what is said and done in them. */
const OVERVIEW = "run.*,node.patch,node.deleted,node.progress,approval.*,turn.status,step.*";

const caught = (work) => work.catch((error) => { problem.value = error; });

/** Calls at most once in a while, and once more if it was asked for meanwhile. */
function seldom(work, pause) {
  let timer;
  let again = false;
  return function ask() {
    if (timer) again = true;
    else {
      caught(work());
      timer = setTimeout(() => {
        timer = undefined;
        if (again) ask();
        again = false;
      }, pause);
    }
  };
}

export const loadApprovals = seldom(async () => (approvals.value = (await api.approvals()).approvals.map(flat)), 300);
export const loadBranches = seldom(async () => (branches.value = await api.status()), 2_000);
const loadFlow = seldom(async () => {
  const run = view.value?.run;
  if (run?.kind === "flow") flow.value = await api.flowOf(run.id);
}, 500);
export const loadRuns = seldom(async () => {
  const { q, status } = Object.fromEntries(route.value.screen === "runs" ? route.value.query : []);
  const { runs, page } = await api.runs({ q, status, limit: 100 });
  batch(() => {
    summaries.value = runs;
    moreRuns.value = page?.hasMore ? page.nextCursor : null;
  });
}, 1_500);

export async function loadMoreRuns() {
  const { q, status } = Object.fromEntries(route.value.query);
  const { runs, page } = await api.runs({ q, status, limit: 100, before: moreRuns.value });
  summaries.value = [...summaries.value, ...runs];
  moreRuns.value = page?.hasMore ? page.nextCursor : null;
}

/** An approval with its run beside it. */
function flat({ runId, approval, ...more }) {
  return { runId, slug: runId.slice(0, 8), ...approval, ...more };
}

const stream = new Stream({
  events: heard,
  hello: () => {
    problem.value = null;
    if (!stream.place.runId) loadRuns();
    loadApprovals();
  },
  gap: () => followRun(route.value.run),
  state: (state) => {
    if (connection.value.state !== state) connection.value = { state, since: Date.now() };
    if (state === "stale") caught(api.approvals());
  },
}, { key });

export const reconnect = () => stream.retry();

function heard(events) {
  const types = new Set(events.map((event) => event.type));
  const any = (prefix) => [...types].some((type) => type.startsWith(prefix));
  batch(() => {
    if (view.value && stream.place.runId) {
      view.value = fold(view.value, events);
      journal.value = { ...journal.value, ...bounded(journal.value.events.concat(events)) };
    }
  });
  if (any("approval.") || types.has("node.deleted")) loadApprovals();
  if (any("step.") || any("approval.") || types.has("run.patch")) loadFlow();
  if (!stream.place.runId) {
    loadRuns();
    if (route.value.screen.startsWith("branch") && (any("turn.") || any("step.") || any("approval."))) loadBranches();
  }
}

/** The newest events if there are too many. Older ones can be loaded again. */
function bounded(events) {
  if (events.length <= MOST_EVENTS) return { events };
  const kept = events.slice(-MOST_EVENTS / 2);
  return { events: kept, cursor: String(kept[0].seq) };
}

/** Fetches a run, and follows it. */
async function openRun(id) {
  const { run, journal: name } = await api.run(id);
  const page = await api.events(run.id, { limit: PAGE });
  if (wanted(run) !== id) return;
  const known = page.events.filter((event) => event.seq <= run.lastSeq);
  batch(() => {
    problem.value = null;
    view.value = replay(begin(run), known);
    journal.value = { events: known, cursor: page.page.nextCursor, busy: false };
  });
  loadFlow();
  stream.open({ runId: run.id, after: run.lastSeq, journal: name });
}

/** The same, again and again while the server is away. */
function followRun(id) {
  openRun(id).catch((error) => {
    problem.value = error;
    if (error.code === "away") setTimeout(() => route.value.run === id && followRun(id), 3_000);
  });
}

/** The id in the address, if it still means this run. */
const wanted = (run) => [run.id, run.slug].find((one) => one === route.value.run);

/** Reads the page of events before those that are known. */
export async function loadOlder() {
  const { cursor, busy } = journal.value;
  const run = view.value?.run;
  if (!cursor || busy || !run) return;
  journal.value = { ...journal.value, busy: true };
  const page = await api.events(run.id, { limit: PAGE, before: cursor }).catch((error) => {
    problem.value = error;
    return { events: [], page: { nextCursor: cursor } };
  });
  if (view.value?.run.id !== run.id) return;
  batch(() => {
    const events = page.events.concat(journal.value.events);
    journal.value = { events, cursor: page.page.hasMore === false ? null : page.page.nextCursor, busy: false };
    view.value = replay(view.value, events);
  });
}

/** Reads all events of the run. */
export async function loadAll() {
  while (journal.value.cursor && !problem.value) await loadOlder();
}

let shown = "";

/** Follows the run of the address, or all runs. */
function follow() {
  const { run = "" } = route.value;
  if (session.value !== "open" || shown === (run || "all")) return;
  shown = run || "all";
  batch(() => {
    view.value = null;
    flow.value = null;
    problem.value = null;
    journal.value = { events: [], cursor: null, busy: false };
  });
  if (run) followRun(run);
  else stream.open({ types: OVERVIEW });
}

/** Other runs are not heard while one is followed. */
function ask() {
  if (session.value !== "open" || document.hidden) return;
  loadApprovals();
  loadBranches();
}

/** How often the server is asked about runners while the shown run needs one, in milliseconds. */
const LOOKS = 5_000;

/** No event says that a runner came, or that it handed a turn back. */
function lookForRunners() {
  const known = view.value;
  if (session.value !== "open" || document.hidden || !known) return;
  if (known.run.kind === "flow" && ["due", "parked", "stuck"].includes(flow.value?.show.place)) loadFlow();
  else if (!Object.values(known.run.nodes).some((node) => isDue(known, node, Date.now()))) return;
  loadBranches();
}

export async function start() {
  await openSession();
  effect(follow);
  effect(() => {
    if (session.value !== "open") return;
    if (route.value.screen === "runs") loadRuns();
    if (["branches", "inbox"].includes(route.value.screen)) loadBranches();
  });
  effect(() => session.value === "open" && ask());
  effect(() => {
    if (session.value === "open" && !repository.peek()) {
      // A page without the name is as good.
      api.top().then(({ current }) => (repository.value = current.split("/").pop()), () => {});
    }
  });
  setInterval(ask, 20_000);
  setInterval(lookForRunners, LOOKS);
  addEventListener("online", reconnect);
}
