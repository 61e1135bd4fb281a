// The beginning of the page.
import "./process.js";
import { html, render } from "./dom.js";
import { followLinks } from "./route.js";
import { start } from "./store.js";
import { announce } from "./notices.js";
import { Shell } from "./views/shell.js";

followLinks();
render(html`<${Shell} />`, document.getElementById("app"));
start();
announce();
