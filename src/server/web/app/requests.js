// What a request asks for, in words that hide nothing of it. Pure.

/** Whether a request is a gate of a flow. The server says it: an agent names its tools as it likes. */
export const isGate = (one) => (one.kind === undefined || one.kind === null ? one.alias === "flow" : one.kind === "flow");

/** What a request is about: the question of a gate, or the name of a tool. */
export const nameOf = (one) => (!isGate(one) ? String(one.tool.name)
  : typeof one.tool.args?.question === "string" ? one.tool.args.question : "Gate");

/** The properties of an element with the whole name: a long one is scrolled, also by keyboard. */
export const nameBox = (one) => (nameOf(one).length > 200 ? { class: "name long", tabIndex: 0 } : { class: "name" });

/** The beginning of a text, which ends between two characters. */
export function upTo(text, most) {
  const isSplit = text.length > most && /[\ud800-\udbff]/.test(text[most - 1]) && /[\udc00-\udfff]/.test(text[most]);
  return text.slice(0, isSplit ? most - 1 : most);
}

/** A name for a list, where a long one would fill it. */
export const cut = (text = "", most = 80) => (text.length > most ? `${upTo(text, most)}…` : text);

/** What is not seen, or changes the order of what is seen. A mark that makes an emoji of a character is neither. */
const UNSEEN = /(?!\ufe0f)[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\ufff9-\ufffb]/gu;

/** As in JSON, so that a value written as JSON stays the same value. */
const escape = (text) => text.split("").map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`).join("");

/**
 * The parts of a text: what is shown as it is, and escapes of what would not be seen. In a block, lines and tabs are seen.
 * @returns {{text: string, isEscape: boolean}[]}
 */
export function pieces(text, isBlock = false) {
  const out = [];
  let plain = 0;
  const add = (part, isEscape) => { if (part) out.push({ text: part, isEscape }); };
  for (const { 0: found, index } of text.matchAll(UNSEEN)) {
    if (isBlock && (found === "\n" || found === "\t")) continue;
    add(text.slice(plain, index), false);
    add(escape(found), true);
    plain = index + found.length;
  }
  add(text.slice(plain), false);
  return out;
}

/** As `pieces`, for places that take no elements. */
export const visible = (text, isBlock = false) => pieces(text, isBlock).map((one) => one.text).join("");

const BEFORE = ["old_string", "old_str", "oldText"];
const AFTER = ["new_string", "new_str", "newText", "content"];

/** The two keys whose texts are drawn as a change, the first of which may be missing. Nothing if the call is no edit. */
export function drawnKeys(args) {
  const first = (keys) => keys.find((key) => typeof args?.[key] === "string");
  const [before, after] = [first(BEFORE), first(AFTER)];
  if (after === undefined || (before === undefined && typeof args.file_path !== "string")) return null;
  return { before, after };
}

/** The arguments that are not drawn as a change: all the others. */
export function otherArgs(args) {
  const drawn = drawnKeys(args);
  return Object.entries(args ?? {}).filter(([key]) => !drawn || (key !== drawn.before && key !== drawn.after));
}

const COMMAND = /^aynig [A-Za-z0-9 ._/'=:-]+$/;

/** The commands that a text of aynig names between backticks. */
export const commandsIn = (text) => [...(text ?? "").matchAll(/`([^`]*)`/g)].map(([, line]) => line)
  .filter((line) => COMMAND.test(line));

/** The commands that answer a driver of a run. Any other branch is answered by a state, whatever its text says. */
export function namedCommands(one) {
  if (!one.runId && !one.branch?.startsWith("run/")) return [];
  const named = commandsIn(one.waitsFor);
  return named.length ? named : commandsIn(one.note).filter((line) => !line.startsWith("aynig answer"));
}
