import { html } from "../dom.js";
export function NewRun() { return html`<h1>NewRun</h1>`; }
