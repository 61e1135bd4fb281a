// The one WebSocket of this tab: it resumes by itself, for ever, without a gap or a double.

import { parse } from "./json.js";

/** @typedef {{runId?: string, after?: number, journal?: string, types?: string}} Place */
/**
 * @typedef {object} Listener
 * @property {(events: any[]) => void} events   a portion of events, in their order
 * @property {(hello: any) => void} hello       the server has answered
 * @property {() => void} gap                   events are lost: the state has to be fetched anew
 * @property {(state: "connecting" | "live" | "stale") => void} state
 */

const SLOW = 4008;
const OTHER_JOURNAL = 4009;
const MOST_PATIENCE = 30_000;

/** How long to wait before the attempt with this number, from 0: longer each time, and never as others do. */
export function patience(attempt, random = Math.random()) {
  return Math.min(MOST_PATIENCE, 500 * 2 ** attempt) * (0.5 + random / 2);
}

export class Stream {
  /** @param {Listener} listener
   * @param {{Socket?: any, base?: string, key?: () => string, soon?: (work: () => void) => void}} [outside] */
  constructor(listener, { Socket = globalThis.WebSocket, base, key, soon } = {}) {
    this.listener = listener;
    this.Socket = Socket;
    this.base = base ?? location.origin.replace(/^http/, "ws");
    // A hidden page gets no animation frames.
    this.soon = soon ?? ((work) => (document.hidden ? setTimeout(work, 200) : requestAnimationFrame(work)));
    this.key = key ?? (() => "");
    this.attempt = 0;
    this.waiting = [];
  }

  /** @param {Place} place */
  open(place) {
    this.close();
    this.place = { ...place };
    this.attempt = 0;
    this.connect();
  }

  close() {
    clearTimeout(this.timer);
    this.waiting = [];
    const socket = this.socket;
    this.socket = undefined;
    socket?.close();
  }

  /** Tries again at once. */
  retry() {
    if (this.place && !this.isLive) {
      this.attempt = 0;
      this.open(this.place);
    }
  }

  connect() {
    const { runId, after, journal, types } = this.place;
    const fields = Object.entries({ runId, after, journal, types }).filter(([, value]) => value !== undefined);
    const query = new URLSearchParams(fields.map(([name, value]) => [name, String(value)]));
    const socket = new this.Socket(`${this.base}/ws?${query}`, [`aynig.${this.key()}`]);
    this.socket = socket;
    this.isLive = false;
    this.listener.state(this.attempt ? "stale" : "connecting");
    const isOurs = () => this.socket === socket;
    socket.onmessage = ({ data }) => isOurs() && this.read(parse(data));
    socket.onclose = ({ code }) => isOurs() && this.closed(code);
  }

  read(event) {
    if (event.type === "stream.hello") {
      this.isLive = true;
      this.attempt = 0;
      if (this.place.runId) this.place.journal = event.journal;
      this.listener.state("live");
      this.listener.hello(event);
    } else if (event.type === "stream.gap") {
      // One run of all: the socket stays, and what is shown of all runs is fetched anew.
      if (this.place.runId) this.lost();
      else this.listener.hello(event);
    } else {
      if (this.place.runId) {
        if (event.seq <= this.place.after) return;
        this.place.after = event.seq;
      }
      if (this.waiting.push(event) === 1) this.soon(() => this.flush());
    }
  }

  flush() {
    const events = this.waiting;
    this.waiting = [];
    if (events.length) this.listener.events(events);
  }

  lost() {
    this.close();
    this.listener.state("stale");
    this.listener.gap();
  }

  closed(code) {
    this.flush();
    this.isLive = false;
    if (code === OTHER_JOURNAL) return this.lost();
    this.listener.state("stale");
    // Too slow for the server: what is missing comes with the next connection.
    const delay = code === SLOW ? 0 : patience(this.attempt);
    this.attempt += 1;
    this.timer = setTimeout(() => this.connect(), delay);
  }
}
