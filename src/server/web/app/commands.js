// The command line of each control. Pure.
import { quoted } from "./format.js";
import { isGate } from "./requests.js";

const line = (...words) => ["aynig", ...words.filter((word) => word !== undefined && word !== "").map(quoted)].join(" ");
const short = (id) => id.slice(0, 8);

export const command = {
  runs: () => "aynig orch run list",
  show: (run) => line("orch", "show", run.slug),
  events: (run) => line("orch", "events", run.slug, "-f"),
  steerRun: (run, verb) => run.kind === "flow" ? line("flow", verb, run.slug) : line("orch", "run", verb, run.slug),
  setRun: (run, option, value) => line("orch", "run", "set", run.slug, `--${option}`, value),
  node: (run, node, verb) => line("orch", "node", verb, run.slug, node.alias),
  /** `run` is written as it is: a slug, or a variable of a shell. */
  addNode: (run, { alias, role, provider, permissions }) => `aynig orch node add ${run} ${quoted(alias || "ALIAS")} `
    + `--role ${quoted(role)} --provider ${quoted(provider)} --permissions ${permissions}`,
  setNode: (run, node, options) => line("orch", "node", "set", run.slug, node.alias, ...options),
  chat: (run, node, text, interrupt) => line("orch", "chat", run.slug, node.alias, text || "TEXT", interrupt ? "--interrupt"
    : ""),
  approve: (item, args) => isGate(item) ? line("flow", "approve", item.slug)
    : line("orch", "approve", short(item.approvalId), ...(args ? ["--args", JSON.stringify(args)] : [])),
  /** `always`: `call` or `tool` */
  approveAlways: (item, always) =>
    line("orch", "approve", short(item.approvalId), always === "tool" ? "--always=tool" : "--always"),
  revoke: (approval) => line("orch", "revoke", short(approval.id)),
  deny: (item, reason) => isGate(item) ? line("flow", "reject", item.slug, "--comment", reason || "TEXT")
    : line("orch", "deny", short(item.approvalId), "--reason", reason || "TEXT"),
  artifact: (run, artifact) => line("orch", "artifact", "show", run.slug, short(artifact.id)),
  diff: (run, workspace) => workspace ? `git diff ${workspace.baseSha.slice(0, 10)}...${workspace.branchName}` : "",
  publish: (run, { node, into, squash, draft }) => line("publish", run.slug, ...(node ? ["--node", node] : []),
    ...(into ? ["--into", into] : []), squash ? "--squash" : "", draft ? "--draft" : ""),
  rollback: (run, node) => node ? line("workspace", "rollback", `${run.slug}/${node.alias}`) : line("flow", "rollback", run.slug),
  undo: (run, node) => node ? line("workspace", "rollback", "--undo", `${run.slug}/${node.alias}`)
    : line("flow", "rollback", "--undo", run.slug),
  rescued: (ref) => `git log -p ${quoted(ref)}`,
  retry: (run, step) => line("flow", "resume", run.slug, "--from", step),
  fork: (run, step) => line("flow", "fork", run.slug, "--at", step),
  edge: (run, from, to) => line("orch", "edge", "add", run.slug, from, to),
  removeEdge: (run, edge) => line("orch", "edge", "remove", run.slug, short(edge.id)),
  waiting: () => "aynig status --waiting",
  provider: (name) => `git config aynig.provider.${quoted(name)}.command PROGRAM`,
  showFlow: (slug) => line("flow", "show", slug),
  status: () => "aynig status --all",
  log: (branch) => line("log", branch),
  request: (branch) => line("answer", branch),
  answer: ({ branch, state, comment, expect }) => line("answer", branch, state || "STATE",
    ...(comment ? ["--comment", comment] : []), ...(expect ? ["--expect", expect.slice(0, 10)] : [])),
};

/** The command lines that make a graph as a form describes it. */
export function graphCommands({ label, mode, doneWhen, nodes, edges }) {
  const made = line("orch", "run", "create", "--label", label || "TEXT", ...(mode === "AUTO" ? ["--mode", "AUTO"] : []),
    ...(doneWhen ? ["--done-when", doneWhen] : []));
  return [
    `run=$(${made} | cut -d' ' -f1)`,
    ...nodes.map((node) => command.addNode('"$run"', node)),
    ...edges.map((edge) => `aynig orch edge add "$run" ${quoted(edge.from)} ${quoted(edge.to)}`),
    ...nodes.filter((node) => node.prompt).map((node) => `aynig orch chat "$run" ${quoted(node.alias)} ${quoted(node.prompt)}`),
  ];
}
