// Makes a picture of each screen, for documents: PNG files with a palette, 1280 pixels wide, in the light theme.
//
//   AYNIG_WEB_PICTURES=DIR AYNIG_WEB_TOOLS=DIR real.sh AYNIG pictures.mjs       from the real server
//   AYNIG_WEB_PICTURES=DIR AYNIG_WEB_TOOLS=DIR node pictures.mjs                from the stand-in
//
// The first DIR is an absolute path. The pictures show the directory of the repository: with
// AYNIG_WEB_DIRECTORY=/srv/work that of real.sh is this one. See browser.mjs for the rest of the environment.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { crc32, deflateSync, inflateSync } from "node:zlib";
import { Bench } from "./browser.mjs";

const out = process.env.AYNIG_WEB_PICTURES;
if (!out) throw new Error("AYNIG_WEB_PICTURES is not set");

/** The pixels of a PNG with eight bits a channel, as a browser writes it. */
function decoded(png) {
  const data = [];
  let [width, height, channels] = [0, 0, 0];
  for (let at = 8; at < png.length;) {
    const [length, type] = [png.readUInt32BE(at), png.toString("latin1", at + 4, at + 8)];
    const chunk = png.subarray(at + 8, at + 8 + length);
    if (type === "IHDR") [width, height, channels] = [chunk.readUInt32BE(0), chunk.readUInt32BE(4), chunk[9] === 6 ? 4 : 3];
    if (type === "IDAT") data.push(chunk);
    at += length + 12;
  }
  const raw = inflateSync(Buffer.concat(data));
  const line = width * channels;
  const pixels = Buffer.alloc(line * height);
  for (let y = 0; y < height; y += 1) {
    const filter = raw[y * (line + 1)];
    for (let x = 0; x < line; x += 1) {
      const left = x < channels ? 0 : pixels[y * line + x - channels];
      const up = y ? pixels[(y - 1) * line + x] : 0;
      const corner = y && x >= channels ? pixels[(y - 1) * line + x - channels] : 0;
      const near = left + up - corner;
      const [a, b, c] = [Math.abs(near - left), Math.abs(near - up), Math.abs(near - corner)];
      const guess = [0, left, up, (left + up) >> 1, a <= b && a <= c ? left : b <= c ? up : corner][filter];
      pixels[y * line + x] = raw[y * (line + 1) + 1 + x] + guess;
    }
  }
  return { width, height, channels, pixels };
}

/** The same picture with its 256 most frequent colours; each other colour becomes the nearest of them. */
function withPalette(png) {
  const { width, height, channels, pixels } = decoded(png);
  const counts = new Map();
  const colours = new Uint32Array(width * height);
  for (let at = 0; at < colours.length; at += 1) {
    const [r, g, b] = pixels.subarray(at * channels, at * channels + 3);
    colours[at] = (r << 16) | (g << 8) | b;
    counts.set(colours[at], (counts.get(colours[at]) ?? 0) + 1);
  }
  const palette = [...counts].sort((one, other) => other[1] - one[1]).slice(0, 256).map(([colour]) => colour);
  const parts = (colour) => [colour >> 16, (colour >> 8) & 255, colour & 255];
  const distance = (one, other) => parts(one).reduce((sum, part, index) => sum + (part - parts(other)[index]) ** 2, 0);
  const places = new Map(palette.map((colour, place) => [colour, place]));
  for (const colour of counts.keys()) {
    if (places.has(colour)) continue;
    let best = 0;
    for (let place = 1; place < palette.length; place += 1) {
      if (distance(colour, palette[place]) < distance(colour, palette[best])) best = place;
    }
    places.set(colour, best);
  }
  const lines = Buffer.alloc((width + 1) * height);
  for (let at = 0; at < colours.length; at += 1) lines[at + Math.floor(at / width) + 1] = places.get(colours[at]);
  const chunk = (type, content) => {
    const body = Buffer.concat([Buffer.from(type, "latin1"), content]);
    const whole = Buffer.alloc(body.length + 8);
    whole.writeUInt32BE(content.length, 0);
    body.copy(whole, 4);
    whole.writeUInt32BE(crc32(body), body.length + 4);
    return whole;
  };
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 3, 0, 0, 0], 8);
  return Buffer.concat([png.subarray(0, 8), chunk("IHDR", header), chunk("PLTE", Buffer.from(palette.flatMap(parts))),
    chunk("IDAT", deflateSync(lines, { level: 9 })), chunk("IEND", Buffer.alloc(0))]);
}

/** A run with something to see: who waits, who has worked, who has unread messages. */
async function team(bench) {
  const run = await bench.make("A parser for the notes", "lead", "ada", "ben", "rex");
  for (const [from, to] of [["lead", "ada"], ["lead", "ben"], ["ada", "rex"], ["ben", "rex"]]) {
    await bench.post(`runs/${run.id}/edges`, { edge: { from: run.nodes[from].id, to: run.nodes[to].id } });
  }
  for (const alias of ["lead", "ada"]) await bench.chat(run, alias, "Read the notes.");
  await bench.work();
  await bench.ask(run, "ben", "edit: src/parser.rs");
  await bench.chat(run, "rex", "Look at the parser when ada has written it.");
  return run;
}

const bench = await Bench.begin();
try {
  mkdirSync(out, { recursive: true });
  const run = await team(bench);
  const greeting = `/runs/${bench.runs["The greeting"].id}`;
  const [request] = await bench.approvals(run);
  const screens = { inbox: `/inbox?id=${request.approvalId}`, runs: "/", run: run.path, node: await bench.node("The greeting", "ada"),
    flow: `/runs/${bench.runs.greeting.id}`, events: `${greeting}/events`, branches: "/branches?runs=1" };
  const page = await bench.open("/", { width: 1280, height: 800 });
  for (const [name, path] of Object.entries(screens)) {
    await page.goto(bench.base + path);
    await page.locator("main h1").waitFor();
    await page.getByText("live", { exact: true }).waitFor();
    await page.waitForTimeout(1_000);
    const picture = withPalette(await page.screenshot());
    writeFileSync(join(out, `${name}.png`), picture);
    console.log(`${name}.png: ${Math.round(picture.length / 1_000)} kB`);
  }
  await bench.close(page);
} finally {
  await bench.end();
}
