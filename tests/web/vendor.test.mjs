// The vendored files are the published ones: their checksums are those of vendor.lock.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { test } from "node:test";
import assert from "node:assert/strict";

const root = new URL("../../src/server/web/", import.meta.url);

/** Reads vendor.lock as a map from paths below vendor/ to checksums. */
function locked() {
  const files = new Map();
  let directory = "";
  for (const line of readFileSync(new URL("vendor.lock", root), "utf8").split("\n")) {
    const [kind, first, second] = line.split(" ");
    if (kind === "package") directory = `${first}@${second}`;
    if (kind === "file") files.set(`${directory}/${first}`, second);
  }
  return files;
}

test("each vendored file has the checksum of the lock, and none is unlisted", () => {
  const directory = new URL("vendor/", root);
  const entries = readdirSync(directory, { recursive: true, withFileTypes: true });
  const found = entries.filter((entry) => entry.isFile()).map((entry) => {
    const path = `${entry.parentPath ?? entry.path}/${entry.name}`;
    return path.slice(directory.pathname.length).replace(/^\//, "");
  });
  const files = locked();
  assert.deepEqual(found.sort(), [...files.keys()].sort());
  for (const [path, sum] of files) {
    const actual = createHash("sha256").update(readFileSync(new URL(`vendor/${path}`, root))).digest("hex");
    assert.equal(actual, sum, path);
  }
});

test("the import map names vendored files", () => {
  const page = readFileSync(new URL("index.html", root), "utf8");
  const map = JSON.parse(/<script type="importmap">([^<]*)<\/script>/.exec(page)[1]);
  const files = locked();
  for (const path of Object.values(map.imports)) assert.ok(files.has(path.replace("/vendor/", "")), path);
});

test("the page's modules are short, and so are their lines", () => {
  const app = new URL("app/", root);
  for (const name of readdirSync(app, { recursive: true }).filter((one) => one.endsWith(".js"))) {
    const lines = readFileSync(new URL(name, app), "utf8").split("\n");
    assert.ok(lines.length <= 300, `${name} has ${lines.length} lines`);
    lines.forEach((line, index) => assert.ok(line.length <= 130, `${name}:${index + 1} has ${line.length} characters`));
  }
});
