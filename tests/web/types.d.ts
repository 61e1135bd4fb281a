// The vendored libraries are not type-checked: the page's own modules are.
declare module "preact" {
  export const h: any, render: any;
  export class Component {
    props: any;
    state: any;
  }
}
declare module "preact/hooks" {
  export const useCallback: any, useEffect: any, useLayoutEffect: any, useMemo: any, useReducer: any, useRef: any;
  export function useState<T>(initial: T | (() => T)): [T, (next: T) => void];
}
declare module "@preact/signals" {
  export interface Signal<T> { value: T; peek(): T }
  export function signal<T>(value: T): Signal<T>;
  export function computed<T>(work: () => T): Signal<T>;
  export function effect(work: () => unknown): () => void;
  export function batch(work: () => void): void;
}
declare module "htm";
declare module "marked";
declare module "dompurify" {
  export type Config = any;
  const purify: any;
  export default purify;
}
declare module "ansi_up";
declare module "diff/word";
declare module "@tanstack/virtual-core" {
  export class Virtualizer {
    constructor(options: any);
    [name: string]: any;
  }
  export const elementScroll: any, observeElementOffset: any, observeElementRect: any;
}
declare var process: any;
declare var trustedTypes: any;
