// A list of which only what is seen is in the page.
import { Virtualizer, elementScroll, observeElementOffset, observeElementRect } from "@tanstack/virtual-core";
import { useEffect, useLayoutEffect, useReducer, useRef } from "preact/hooks";
import { html } from "./dom.js";

/** So near to its end a list follows what is added. */
const NEAR = 80;

/**
 * @param {{items: any[], keyOf: (item: any) => string, row: (item: any, index: number) => any, estimate?: number,
 *   label: string, follow?: boolean, onTop?: () => void, at?: number, empty?: any, class?: string}} props
 *   follow: stay at the end; onTop: the beginning is in sight; at: the index to show at first
 */
export function VirtualList({ items, keyOf, row, estimate = 60, label, follow = false, onTop, at, empty, class: extra = "" }) {
  const box = useRef(null);
  const [, redraw] = useReducer((count) => count + 1, 0);
  const follows = useRef(follow);
  const virtual = useRef(/** @type {Virtualizer | null} */ (null));
  const options = {
    count: items.length,
    getScrollElement: () => box.current,
    estimateSize: () => estimate,
    getItemKey: (index) => keyOf(items[index]),
    overscan: 8,
    scrollToFn: elementScroll,
    observeElementRect,
    observeElementOffset,
    onChange: () => redraw(0),
  };
  virtual.current ??= new Virtualizer(options);
  virtual.current.setOptions(options);

  useLayoutEffect(() => virtual.current._didMount(), []);
  useLayoutEffect(() => virtual.current._willUpdate());
  useEffect(() => {
    if (at !== undefined && at >= 0) {
      follows.current = false;
      virtual.current.scrollToIndex(at, { align: "center" });
    }
  }, [at]);
  const size = virtual.current.getTotalSize();
  useLayoutEffect(() => {
    if (follows.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [size, items.length]);

  // Items that are put before the first one must not move what is read.
  const first = items.length ? keyOf(items[0]) : "";
  const before = useRef({ first, size });
  useLayoutEffect(() => {
    const was = before.current;
    if (was.first && first !== was.first && !follows.current && box.current.scrollTop < 5_000) {
      box.current.scrollTop += size - was.size;
    }
    before.current = { first, size };
  }, [first, size]);

  const onScroll = () => {
    const { scrollTop, scrollHeight, clientHeight } = box.current;
    follows.current = follow && scrollHeight - scrollTop - clientHeight < NEAR;
    if (scrollTop < 200) onTop?.();
  };
  const rows = virtual.current.getVirtualItems();
  return html`<div class="virtual ${extra}" ref=${box} onScroll=${onScroll} tabindex="0" role="region" aria-label=${label}>
    ${items.length === 0 && empty}
    <div class="virtual-all" style=${{ height: `${size}px` }} role="list">
      ${rows.map((one) => items[one.index] && html`<div class="virtual-row" key=${one.key} data-index=${one.index} role="listitem"
        aria-setsize=${items.length} aria-posinset=${one.index + 1}
        ref=${(element) => element && virtual.current.measureElement(element)}
        style=${{ transform: `translateY(${one.start}px)` }}>${row(items[one.index], one.index)}</div>`)}
    </div>
  </div>`;
}
