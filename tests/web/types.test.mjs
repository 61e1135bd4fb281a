// The page's modules agree with the types in their comments. AYNIG_WEB_TOOLS has `typescript`.
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { test } from "node:test";
import assert from "node:assert/strict";

const compiler = join(process.env.AYNIG_WEB_TOOLS ?? ".", "node_modules/typescript/bin/tsc");

test("the page's modules have no type errors, and nothing unused", { skip: existsSync(compiler) ? false : "there is no typescript" }, () => {
  const app = fileURLToPath(new URL("../../src/server/web/app/", import.meta.url));
  // The worker names its library by a path that only a browser knows.
  const files = readdirSync(app, { recursive: true }).filter((name) => name.endsWith(".js") && name !== "layout.js").map((name) => join(app, name));
  const options = ["--allowJs", "--checkJs", "--noEmit", "--target", "es2023", "--lib", "es2023,dom,dom.iterable", "--module", "esnext", "--moduleResolution", "bundler",
    "--strict", "false", "--noUnusedLocals", "--types", ""];
  const { stdout } = spawnSync(process.execPath, [compiler, ...options, fileURLToPath(new URL("types.d.ts", import.meta.url)), ...files], { encoding: "utf8" });
  assert.equal(stdout, "");
});
