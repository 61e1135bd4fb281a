import { html } from "../dom.js";
export function Branch() { return html`<h1>Branch</h1>`; }
export function Branches() { return html`<h1>Branches</h1>`; }
