// Words and numbers for people. Pure.
import { upTo } from "./requests.js";

/** @type {[number, string][]} */
const UNITS = [[86_400, "d"], [3_600, "h"], [60, "min"], [1, "s"]];

/** A duration with its two largest units: `2 h 5 min`. */
export function duration(seconds) {
  let left = Math.max(0, Math.round(seconds));
  if (left < 1) return "0 s";
  const parts = [];
  for (const [size, word] of UNITS) {
    const count = Math.floor(left / size);
    left -= count * size;
    if (count) parts.push(`${count} ${word}`);
    else if (parts.length) break;
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}

/** A measured time, also one below a second. */
export const took = (millis) => (millis >= 1_000 ? duration(millis / 1_000) : `${Math.max(0, Math.round(millis))} ms`);

/** `first`, `2nd`, `11th` */
export function ordinal(number) {
  if (number === 1) return "first";
  const ending = [11, 12, 13].includes(number % 100) ? "th" : ["th", "st", "nd", "rd"][number % 10] ?? "th";
  return `${number}${ending}`;
}

/** How long ago: `3 min ago`, in its largest unit. */
export function ago(time, now) {
  const seconds = (now - Date.parse(time)) / 1000;
  if (Number.isNaN(seconds)) return "";
  if (seconds < 5) return "now";
  return `${duration(seconds).replace(/ (d|h|min|s) .*/, " $1")} ago`;
}

/** The time of day, and the date unless it is of today. */
export function moment(time, now = Date.now()) {
  const date = new Date(time);
  const clock = date.toLocaleTimeString("en-GB");
  return date.toDateString() === new Date(now).toDateString() ? clock
    : `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${clock}`;
}

export function cost(usd) {
  if (usd === undefined || usd === null) return "";
  return `$${usd >= 100 ? usd.toFixed(0) : usd >= 0.995 ? usd.toFixed(2) : usd.toFixed(3)}`;
}

export function tokens(count = 0) {
  if (count < 1_000) return String(count);
  if (count < 999_500) return `${(count / 1_000).toFixed(count < 99_950 ? 1 : 0)} k`;
  return `${(count / 1_000_000).toFixed(1)} M`;
}

export function bytes(count) {
  if (count < 1_000) return `${count} B`;
  if (count < 1_000_000) return `${(count / 1_000).toFixed(1)} kB`;
  return `${(count / 1_000_000).toFixed(1)} MB`;
}

export const plural = (count, word, words = `${word}s`) => `${count} ${count === 1 ? word : words}`;

/** The first line of a text, without marks of markdown, at most `most` characters. */
export function firstLine(text = "", most = 160) {
  const line = text.slice(0, 4 * most).split("\n").find((one) => one.trim()) ?? "";
  const plain = line.replace(/^[#>\s*-]+/, "").replace(/[*`]/g, "").trim();
  return plain.length > most ? `${plain.slice(0, most - 1)}…` : plain;
}

/** Who did something, in words. */
export function who(by) {
  if (!by) return "";
  if (by.person) return by.person.name;
  if (by.node) return "the agent";
  return by.policy ? "a rule" : "aynig";
}

const KNOWN = ["command", "cmd", "file_path", "path", "pattern", "url", "query", "alias", "description"];

/** What a call does, in one line: its command, path or first argument as it is, and `…` for all that is left out. */
export function callLine(args) {
  const all = args ?? {};
  const textOf = (key) => {
    const value = all[key];
    if (typeof value === "string") return value;
    return Array.isArray(value) && (key === "command" || key === "cmd") ? value.map(wordOf).join(" ") : undefined;
  };
  const keys = Object.keys(all);
  const key = [...KNOWN, ...keys].find((one) => textOf(one) !== undefined);
  if (key === undefined) return keys.length ? "…" : "";
  const lines = textOf(key).split("\n");
  const at = Math.max(0, lines.findIndex((line) => line.trim()));
  const line = upTo(lines[at], 200);
  const isCut = line.length < lines[at].length || lines.slice(at + 1).some((one) => one.trim());
  const hasMore = isCut || keys.length > 1;
  return `${at > 0 ? "… " : ""}${line}${hasMore ? " …" : ""}`;
}

const wordOf = (value) => quoted(typeof value === "string" ? value : JSON.stringify(value));

/** Writes a word so that a shell reads it as one. */
export function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${String(word).replaceAll("'", `'\\''`)}'`;
}
