// What was said and done in a node, as a list of items that events make and change.

/** @typedef {Record<string, any>} Json */
/**
 * An item. `kind` is user, assistant, thinking, tool, handoff, notice, approval or turn; the other
 * fields depend on it. `open` items are still being written.
 * @typedef {{key: string, kind: string, ts: string, seq: number, open?: boolean} & Json} Item
 */

/** How far back an item that a later event changes is looked for. */
const REACH = 400;

/**
 * What a list has, so that nothing is looked for in vain: a turn may have thousands of items. `calls` may have more.
 * @type {WeakMap<Item[], {assistant: number, thinking: number, late: number, calls: Set<string>}>}
 */
const contents = new WeakMap();

function contentOf(list) {
  let content = contents.get(list);
  if (!content) {
    content = { assistant: 0, thinking: 0, late: 0, calls: new Set() };
    contents.set(list, content);
    for (const one of list) count(content, one, 1);
  }
  return content;
}

function count(content, one, by) {
  if (one.open) content[one.kind] += by;
  if (one.isLate) content.late += by;
  if (one.kind === "tool") content.calls.add(one.key);
}

/** Puts an item in the place of another one, or with `removed` = 0 before it. */
function put(list, at, one, removed = 1) {
  const content = contentOf(list);
  if (removed) count(content, list[at], -1);
  count(content, one, 1);
  if (removed) list[at] = one;
  else if (at === list.length) list.push(one);
  else list.splice(at, 0, one);
}

/** A list that may be changed. */
function copied(list) {
  const copy = list.slice();
  contents.set(copy, { ...contentOf(list) });
  return copy;
}

/**
 * Applies an event to the transcripts. Lists in `owned` were copied for this fold and may be changed.
 * @param {Record<string, Item[]>} transcripts @param {Set<Item[]>} owned @param {Json} event
 */
export function record(transcripts, owned, event) {
  const of = (id) => {
    let list = transcripts[id] ?? [];
    if (!owned.has(list)) {
      list = copied(list);
      owned.add(list);
      transcripts[id] = list;
    }
    return list;
  };
  const item = (kind, key, fields) => ({ key, kind, ts: event.ts, seq: event.seq, ...fields });
  const { nodeId: id, type } = event;
  switch (type) {
    case "message.user": {
      const { message } = event;
      of(message.nodeId).push(item("user", message.id, { text: message.content, interrupt: message.interrupt, by: event.by }));
      return;
    }
    case "message.assistant.delta": return append(of(id), "assistant", event, item);
    case "message.assistant.thinking.delta": return append(of(id), "thinking", event, item);
    case "message.assistant.final":
    case "message.assistant.thinking.final": return finish(of(id), event, item);
    case "tool.proposed":
    case "tool.started":
    case "tool.completed": return tool(of(id), event, item);
    case "approval.requested": {
      const { approvalId, context } = event;
      of(id).push(item("approval", approvalId, { tool: event.tool, context }));
      return;
    }
    case "approval.resolved":
      for (const list of Object.values(transcripts)) {
        const found = last(list, (one) => one.key === event.approvalId);
        if (found >= 0) {
          const mine = of(Object.keys(transcripts).find((key) => transcripts[key] === list));
          mine[found] = { ...mine[found], resolution: event.resolution, by: event.by, answeredAt: event.ts };
        }
      }
      return;
    case "handoff.sent": {
      const { envelope } = event;
      const { fromNodeId: from, toNodeId: to, payload } = envelope;
      of(from).push(item("handoff", envelope.id, { way: "out", other: to, payload }));
      of(to).push(item("handoff", envelope.id, { way: "in", other: from, payload }));
      return;
    }
    case "node.notice":
      of(event.notice.nodeId).push(item("notice", event.notice.id, { text: event.notice.content, about: event.notice.kind }));
      return;
    case "node.progress": return id && progress(of(id), event);
    case "turn.status": return turn(of(id), event, item);
    default:
  }
}

/** The place of the newest item that `fits`, not farther back than REACH. */
function last(list, fits) {
  for (let at = list.length - 1; at >= Math.max(0, list.length - REACH); at--) if (fits(list[at])) return at;
  return -1;
}

const openOf = (list, kind) => contentOf(list)[kind] ? last(list, (one) => one.open === true && one.kind === kind) : -1;

/** Closes what is being written: something else follows it. */
function close(list, kind) {
  const at = openOf(list, kind);
  if (at >= 0) put(list, at, { ...list[at], open: false });
}

/** The turn whose own events come after its end: a short one may be over before this host has written them. */
function lateTurn(list, event) {
  const at = event.commit || !contentOf(list).late ? -1 : last(list, (one) => one.kind === "turn");
  return at >= 0 && list[at].isLate ? at : -1;
}

/** Adds an item, and gives its place. What comes late is put before the last words of its turn. */
function add(list, one, event) {
  const begin = lateTurn(list, event);
  const words = begin < 0 ? -1 : list.findIndex((other, at) => at > begin && other.kind === "assistant");
  const at = words < 0 ? list.length : words;
  put(list, at, one, 0);
  return at;
}

function append(list, kind, event, item) {
  // The last words are of record already.
  if (kind === "assistant" && lateTurn(list, event) >= 0) return;
  const at = openOf(list, kind);
  if (kind === "assistant") close(list, "thinking");
  const text = (at >= 0 ? list[at].text : "") + (event.delta ?? "");
  if (at >= 0) put(list, at, { ...list[at], text, ...whole(event) });
  else add(list, item(kind, event.id, { text, open: true, ...whole(event) }), event);
}

/** The content of a long event of this host is no part of it: it is an artifact. */
const whole = (event) => event.artifact && { whole: event.artifact };

function finish(list, event, item) {
  const kind = event.type === "message.assistant.final" ? "assistant" : "thinking";
  const { content: text, status } = event;
  if (kind === "assistant" && lateTurn(list, event) >= 0) return;
  const more = { ...(status && { status }), ...whole(event) };
  // Deltas of this host came before the final of record, perhaps in parts with tools between them.
  let at = openOf(list, kind);
  if (at < 0 && kind === "assistant") {
    const newest = last(list, (one) => one.kind === "assistant" || one.kind === "turn");
    if (newest >= 0 && list[newest].kind === "assistant" && list[newest].text.trim() === text?.trim()) at = newest;
  }
  if (at >= 0) put(list, at, { ...list[at], text: text ?? list[at].text, open: false, ...more });
  else if (text || more.whole) add(list, item(kind, event.id, { text: text ?? "", ...more }), event);
}

function tool(list, event, item) {
  const id = event.toolId ?? event.tool?.id;
  close(list, "assistant");
  let at = id === undefined || !contentOf(list).calls.has(id) ? -1 : last(list, (one) => one.kind === "tool" && one.key === id);
  // A long event does not name its call: it is the newest one that is not over.
  if (at < 0 && event.type !== "tool.proposed") {
    at = last(list, (one) => one.kind === "tool" && !one.endedAt && (id === undefined || one.isUnnamed));
  }
  if (at < 0) {
    const { name = "tool", args = {} } = event.tool ?? {};
    const call = { name, args, state: "proposed", ...(id === undefined && { isUnnamed: true }) };
    at = add(list, item("tool", id ?? event.id, call), event);
  }
  const known = { ...list[at], ...whole(event) };
  if (known.isUnnamed && id !== undefined) Object.assign(known, { key: id, isUnnamed: false }, event.tool);
  if (event.type === "tool.started") put(list, at, { ...known, state: "running", startedAt: event.ts });
  else if (event.type === "tool.completed") {
    const { ok = true, output } = event.result ?? {};
    put(list, at, { ...known, state: ok ? "ok" : "failed", output, error: event.error?.message, endedAt: event.ts });
  } else put(list, at, known);
}

/** How many items a turn reads is in its first progress. */
function progress(list, event) {
  const items = /^reads (\d+) items?$/.exec(event.summary ?? "")?.[1];
  const at = items ? last(list, (one) => one.kind === "turn") : -1;
  if (at >= 0) put(list, at, { ...list[at], read: Number(items) });
}

function turn(list, event, item) {
  const { turnId, status, number, detail, startedAt, consumed, spent } = event;
  const at = last(list, (one) => one.kind === "turn" && one.key === turnId);
  if (!number) {
    if (status !== "started") return;
    if (at < 0) put(list, list.length, item("turn", turnId, { status: "running", startedAt: event.ts }), 0);
    else if (list[at].number) {
      // A turn stands before what was said in it.
      const [known] = list.splice(at, 1);
      count(contentOf(list), known, -1);
      put(list, list[at - 1]?.kind === "assistant" ? at - 1 : at, { ...known, isLate: true }, 0);
    }
    return;
  }
  for (const kind of ["assistant", "thinking"]) close(list, kind);
  const ended = { status, number, detail, startedAt, endedAt: event.ts, consumed, spent };
  if (at >= 0) put(list, at, { ...list[at], ...ended });
  else put(list, list.length, item("turn", turnId, ended), 0);
}
