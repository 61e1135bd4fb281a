// The address says what is shown, so that everything can be linked to.
import { signal } from "@preact/signals";

/** @typedef {{screen: string, run?: string, node?: string, branch?: string, query: URLSearchParams, hash: string}} Route */

/** @type {[RegExp, (found: RegExpExecArray) => any][]} */
const SHAPES = [
  [/^\/(runs\/?)?$/, () => ({ screen: "runs" })],
  [/^\/inbox\/?$/, () => ({ screen: "inbox" })],
  [/^\/new\/?$/, () => ({ screen: "new" })],
  [/^\/branches\/?$/, () => ({ screen: "branches" })],
  [/^\/branches\/(.+)$/, ([, branch]) => ({ screen: "branch", branch: decodeURIComponent(branch) })],
  [/^\/runs\/([^/]+)\/?$/, ([, run]) => ({ screen: "run", run })],
  [/^\/runs\/([^/]+)\/events\/?$/, ([, run]) => ({ screen: "events", run })],
  [/^\/runs\/([^/]+)\/nodes\/([^/]+)\/?$/, ([, run, node]) => ({ screen: "node", run, node })],
];

/** @param {{pathname: string, search: string, hash: string}} address @returns {Route} */
export function parse({ pathname, search, hash }) {
  const more = { query: new URLSearchParams(search), hash: hash.slice(1) };
  for (const [shape, make] of SHAPES) {
    const found = shape.exec(pathname);
    if (found) return { ...make(found), ...more };
  }
  return { screen: "unknown", ...more };
}

/** @type {import("@preact/signals").Signal<Route>} */
export const route = signal({ screen: "runs", query: new URLSearchParams(), hash: "" });

/** Whether a link has led to a screen whose heading has not had the focus yet. */
export const arrival = { isNew: false };

/** Opens an address of this page. */
export function go(address, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", address);
  route.value = parse(location);
  if (!replace) {
    scrollTo(0, 0);
    arrival.isNew = true;
  }
}

/** Changes fields of the query; an empty value removes its field. */
export function setQuery(fields) {
  const query = new URLSearchParams(route.value.query);
  for (const [key, value] of Object.entries(fields)) {
    if (value) query.set(key, value);
    else query.delete(key);
  }
  const text = query.toString();
  go(location.pathname + (text ? `?${text}` : ""), { replace: true });
}

/** Follows links of this page without loading it again. */
export function followLinks() {
  route.value = parse(location);
  addEventListener("popstate", () => (route.value = parse(location)));
  addEventListener("hashchange", () => (route.value = parse(location)));
  document.addEventListener("click", (event) => {
    const link = /** @type {Element} */ (event.target).closest?.("a[href]");
    const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!link || !isPlain || event.defaultPrevented || link.hasAttribute("download") || link.getAttribute("target")) return;
    const url = new URL(link.getAttribute("href"), location.href);
    if (url.origin !== location.origin || url.pathname.startsWith("/api/")) return;
    event.preventDefault();
    go(url.pathname + url.search + url.hash);
  });
}

export const runPath = (run) => `/runs/${run}`;
export const nodePath = (run, node, tab) => `/runs/${run}/nodes/${node}${tab ? `?tab=${tab}` : ""}`;
/** The composer of a node, ready to be typed into. */
export const writePath = (run, node) => `${nodePath(run, node, "transcript")}#write`;
export const eventsPath = (run, seq) => `/runs/${run}/events${seq ? `#${seq}` : ""}`;
export const branchPath = (branch) => `/branches/${branch.split("/").map(encodeURIComponent).join("/")}`;
