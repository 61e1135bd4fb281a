import { html } from "../dom.js";
export function RunScreen() { return html`<h1>RunScreen</h1>`; }
