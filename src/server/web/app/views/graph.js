// The graph of a run: nodes as cards, edges as curves. Cards can be dragged; the layout is kept by the server.
import { Component } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import { api } from "../api.js";
import { html, layoutWorker } from "../dom.js";
import { plural } from "../format.js";
import { LARGE, fold } from "../groups.js";
import { Copy, Empty, Fault, Loading, Said, Status } from "../parts.js";
import { nodePath, writePath } from "../route.js";
import { branches, now, view } from "../store.js";
import { canWrite, cardWords, doing, handedBack, isDue, statusOf } from "../status.js";
import { mends } from "./runner.js";

const [WIDTH, HEIGHT] = [190, 92];
const STEP = 20;
const ARROWS = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, -STEP], ArrowDown: [0, STEP] };

let worker;
let calls = 0;

/** Lays out by the worker. */
function layOut(nodes, edges) {
  worker ??= layoutWorker();
  const number = (calls += 1);
  return new Promise((done) => {
    const answer = ({ data }) => {
      if (data.number !== number) return;
      worker.removeEventListener("message", answer);
      done(data.positions);
    };
    worker.addEventListener("message", answer);
    worker.postMessage({ number, nodes, edges, width: WIDTH, height: HEIGHT });
  });
}

export function Graph() {
  const { run, passed } = view.value;
  const nodes = Object.values(run.nodes).sort((one, other) => one.number - other.number);
  const [folds, setFolds] = useState(nodes.length > LARGE);
  const { groups, edges } = useMemo(() => fold(nodes, Object.values(run.edges), folds), [run.nodes, run.edges, folds]);
  // It is laid out anew only when nodes or edges come or go.
  const topology = groups.map((one) => one.id).join() + edges.map((one) => one.id).join();
  const [laid, setLaid] = useState(null);
  const [error, fail] = useState(null);
  useEffect(() => {
    let isCurrent = true;
    layOut(groups.map((one) => one.id), edges.map((one) => [one.from, one.to])).then((positions) => isCurrent
      && setLaid(positions));
    return () => { isCurrent = false; };
  }, [topology]);
  const [moved, setMoved] = useState({});
  const kept = folds ? {} : run.layout?.positions ?? {};
  const latest = useRef(null);
  latest.current = { kept, moved, folds };
  const move = useCallback((id, position) => setMoved((before) => ({ ...before, [id]: position })), []);
  const keep = useCallback((id, position) => {
    const { kept: known, moved: own, folds: isFolded } = latest.current;
    if (isFolded) return;
    const positions = { ...known, ...own, [id]: position };
    api.patchRun(run.id, { layout: { positions, viewport: { x: 0, y: 0, zoom: 1 },
      updatedAt: new Date().toISOString() } }).then(() => fail(null), fail);
  }, [run.id]);
  if (!nodes.length) return html`<${Empty}>The run has no nodes yet.</${Empty}>`;
  if (!laid) return html`<${Loading} what="the layout" />`;
  const at = (id) => moved[id] ?? kept[id] ?? laid[id] ?? { x: 0, y: 0 };
  const [right, bottom] = groups.reduce(([x, y], { id }) => [Math.max(x, at(id).x + WIDTH), Math.max(y, at(id).y + HEIGHT)],
    [0, 0]);
  return html`<div class="graph-tools">
    <span class="muted">${plural(nodes.length, "node")}, ${plural(Object.keys(run.edges).length, "edge")}</span>
      ${nodes.length > LARGE && html`<button type="button" aria-pressed=${folds}
        onClick=${() => setFolds(!folds)}>Fold parallel nodes</button>`}
      <span class="muted small">Drag a card, or move it with Alt and the arrow keys.</span></div>
    ${error && html`<${Fault} error=${error} />`}
    <div class="graph" role="region" aria-label="Graph of nodes" tabindex="0">
      <div class="graph-all" style=${{ width: `${right + 24}px`, height: `${bottom + 24}px` }}>
      <svg width=${right} height=${bottom} aria-hidden="true">
        <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
        <path d="M0 0 L8 4 L0 8 Z" /></marker></defs>
        ${edges.map((one) => html`<path key=${one.id} d=${curve(at(one.from), at(one.to))} marker-end="url(#arrow)"
          marker-start=${one.both ? "url(#arrow)" : undefined}
          stroke-dasharray=${one.edge.type === "report" ? "5 4" : undefined}
            class=${isPassed(passed, one.edge) ? "passed" : ""} />`)}</svg>
      ${groups.map((group) => html`<${Card} key=${group.id} ...${shownOf(group)} at=${at(group.id)} move=${move}
        keep=${keep} />`)}
    </div></div>
    <details><summary>Edges in words</summary>
      <ul>${Object.values(run.edges).map((edge) =>
      html`<li key=${edge.id}>${run.nodes[edge.from]?.alias} ${edge.bidirectional ? "↔"
      : "→"} ${run.nodes[edge.to]?.alias} <span class="muted">${edge.label}</span></li>`)}</ul></details>`;
}

const isPassed = (passed, edge) => passed
  && ((edge.from === passed.from && edge.to === passed.to)
  || (edge.bidirectional && edge.from === passed.to && edge.to === passed.from));

/** From the border of one card to the border of another, by their nearer sides. */
function curve(one, other) {
  const [x1, x2] = [one.x + WIDTH / 2, other.x + WIDTH / 2];
  const down = other.y > one.y + HEIGHT / 2;
  const up = other.y + HEIGHT / 2 < one.y;
  if (!down && !up) {
    const right = other.x > one.x;
    const [a, b] = [one.x + (right ? WIDTH : 0), other.x + (right ? 0 : WIDTH)];
    const [y1, y2] = [one.y + HEIGHT / 2, other.y + HEIGHT / 2];
    const bend = (b - a) / 2;
    return `M${a} ${y1} C${a + bend} ${y1} ${b - bend} ${y2} ${b} ${y2}`;
  }
  const [y1, y2] = down ? [one.y + HEIGHT, other.y] : [one.y, other.y + HEIGHT];
  const bend = (y2 - y1) / 2;
  return `M${x1} ${y1} C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}`;
}

/** What a card shows, as values that can be compared. */
function shownOf({ members }) {
  const [node] = members;
  const count = members.length;
  const statuses = members.map((one) => statusOf(view.value, one));
  const status = ["blocked", "failed", "running", "idle"].find((word) => statuses.includes(word)) ?? "idle";
  const words = count > 1 ? members.map((one) => one.alias).join(", ")
    : cardWords(view.value, node, now.peek(), branches.value);
  const back = count === 1 && isDue(view.value, node, now.peek()) && handedBack(branches.value, view.value.run, node);
  return { id: node.id, href: nodePath(view.value.run.id, node.id), name: count > 1 ? `${count} × ${node.roleTemplate}`
    : node.alias, status, words,
    label: count > 1 ? counted(statuses) : status, unread: count > 1 ? 0 : node.inboxCount,
    write: count === 1 && canWrite(view.value.run) ? writePath(view.value.run.id, node.id) : undefined,
    title: count > 1 ? undefined : doing(view.value, node, now.peek(), branches.value),
    line: back ? mends(back.reason)[0] : undefined };
}

/** A card. It is drawn anew only if what it shows has changed: a graph may have hundreds. */
class Card extends Component {
  drag = null;

  shouldComponentUpdate(next) {
    const { at, ...rest } = this.props;
    return at.x !== next.at.x || at.y !== next.at.y || Object.keys(rest).some((key) => rest[key] !== next[key]);
  }

  place({ clientX, clientY }) {
    const { at, x, y } = this.drag;
    return { x: Math.max(0, at.x + clientX - x), y: Math.max(0, at.y + clientY - y) };
  }

  begin = (event) => {
    if (event.button !== 0 || event.target.closest("a, button")) return;
    event.currentTarget.setPointerCapture(event.pointerId);
    this.drag = { x: event.clientX, y: event.clientY, at: this.props.at };
  };

  end = (event) => {
    const { id, keep } = this.props;
    if (this.drag && (event.clientX !== this.drag.x || event.clientY !== this.drag.y)) keep(id, this.place(event));
    this.drag = null;
  };

  press = (event) => {
    const by = event.altKey && ARROWS[event.key];
    if (!by) return;
    event.preventDefault();
    const { id, at, move, keep } = this.props;
    const position = { x: Math.max(0, at.x + by[0]), y: Math.max(0, at.y + by[1]) };
    move(id, position);
    keep(id, position);
  };

  render() {
    const { id, href, name, status, label, words, unread, write, line, title, at, move } = this.props;
    return html`<div class="graph-node ${status}" style=${{ left: `${at.x}px`, top: `${at.y}px`, height: `${HEIGHT}px` }}
      onPointerDown=${this.begin}
        onPointerMove=${(event) => this.drag && move(id, this.place(event))} onPointerUp=${this.end} onKeyDown=${this.press}>
      <div class="top-row"><a href=${href}>${name}</a>${unread > 0
        && html`<span class="count" title="unread">${unread}<span class="unseen"> unread</span></span>`}</div>
      <div class="row"><${Status} word=${status} label=${label} />${line
        && html`<${Copy} text=${line} label="Copy the command" />`}
        ${write && html`<a class="write" href=${write}>Write<span class="unseen"> to ${name}</span></a>`}</div>
      <p title=${title}><${Said} text=${words} /></p></div>`;
  }
}

function counted(statuses) {
  const counts = new Map();
  for (const one of statuses) counts.set(one, (counts.get(one) ?? 0) + 1);
  return [...counts].map(([word, count]) => `${count} ${word}`).join(", ");
}
