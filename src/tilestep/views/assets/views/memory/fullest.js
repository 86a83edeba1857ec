/** The fullest tile of a program: what it holds, and what is left of it. */

import { bars } from "../../core/bars.js";
import { HATCHES, fillOf, lookAt, themeColor } from "../../core/colors.js";
import { h } from "../../core/dom.js";
import { figure } from "../../core/figure.js";
import { bytes, count, share } from "../../core/format.js";
import { changeOf } from "../../core/pairs.js";
import { exact, valueOf } from "../../core/value.js";
import { FONT, line } from "./axes.js";
import { byCategory, CATEGORIES } from "./lives.js";
import { detailed, members, PARTS, ORDER, prefix, stepWords } from "./model.js";

/** @import { Pair, Program } from "./model.js" */
/** @typedef {{name: string, words: string, bytes: number, color: string, hatch: import("../../core/colors.js").Hatch}} Part */

const BAR = 30; // pixels of one bar
const GAP = 26; // above each, for its words
const LEAST_APART = 4; // pixels from which a part has an edge

/** @param {Pair} pair @returns {HTMLElement[]} */
export function fullestTile(pair) {
  const programs = members(pair).filter((program) => program.facts.peak_bytes !== null);
  const sentences = members(pair).map((program) => sentence(program, pair));
  const together = members(pair).flatMap((program) => group(program, pair));
  if (!programs.length) return [...sentences, ...together];
  return [...sentences, ...together, bar(programs, pair), kinds(programs)];
}

/** @param {Program} program @param {Pair} pair @returns {HTMLElement} */
function sentence(program, pair) {
  const { facts, sram, detail } = program;
  if (facts.peak_bytes === null) return h("p", {}, `${prefix(program, pair)}The recording has no tree of ${facts.label}, so nothing is known of its memory.`);
  const left = sram - facts.peak_bytes;
  const where = detail ? stepWords(detail, detail.peak.tick) : `step ${facts.peak_step || "unnamed"}`;
  return h(
    "p",
    { class: "fullest" },
    prefix(program, pair),
    detail ? ["The fullest tile, ", h("strong", {}, count(detail.peak.tile)), ", of "] : "The fullest tile of ",
    h("span", { class: "mono" }, facts.label),
    " holds ",
    valueOf(facts.peak_bytes, "bytes", "memory.peak"),
    " of ",
    valueOf(sram, "bytes", "memory.sram"),
    ` (${share(facts.peak_bytes, sram)}) at `,
    h("span", { class: "step" }, where),
    left >= 0 ? [": ", valueOf(left, "bytes", "memory.peak"), " are left."] : [": ", h("strong", {}, valueOf(-left, "bytes", "memory.peak"), " too many"), "."],
    facts.num_ipus > 1 ? ` Each of its ${count(facts.num_ipus)} IPUs needs the same.` : null,
  );
}

/** What the programs of its group need together. @param {Program} program @param {Pair} pair @returns {HTMLElement[]} */
function group(program, pair) {
  const { facts, sram } = program;
  if (!facts.group) return [];
  const { label, ipu, bytes: size } = facts.group;
  return [
    h(
      "p",
      { class: "group" },
      `${prefix(program, pair)}The programs of ${label} share the tiles of IPU ${count(ipu)}. The fullest needs `,
      valueOf(size, "bytes", "memory.group"),
      " of ",
      valueOf(sram, "bytes", "memory.sram"),
      ` (${share(size, sram)}) for all of them`,
      size > sram ? [": ", h("strong", {}, valueOf(size - sram, "bytes", "memory.group"), " too many"), "."] : ".",
    ),
  ];
}

/** @param {Program[]} programs @param {Pair} pair @returns {HTMLElement} */
function bar(programs, pair) {
  const all = programs.map((program) => ({ program, parts: partsOf(program) }));
  const high = Math.max(...programs.map((program) => Math.max(program.sram, program.facts.peak_bytes))) * 1.02;
  let cursor = -1;
  const flat = all.flatMap(({ program, parts: found }) => found.map((part) => ({ program, part })));
  const words = (/** @type {{program: Program, part: Part}} */ { program, part }) =>
    `${prefix(program, pair)}${part.words}: ${exact(part.bytes, "bytes")}, ${share(part.bytes, program.sram)} of a tile`;
  /** @type {{x0: number, x1: number, y0: number, y1: number, index: number}[]} */
  let places = [];
  const shown = figure({
    label: `what fills the fullest tile: ${all.map(({ program, parts: found }) => `${prefix(program, pair)}${found.map((part) => `${part.words} ${bytes(part.bytes)}`).join(", ")}`).join("; ")}`,
    height: programs.length * (BAR + GAP) + 22,
    keys: "left and right go from part to part",
    draw({ context, width }) {
      places = [];
      let index = 0;
      const scale = (width - 24) / high;
      all.forEach(({ program, parts: found }, number) => {
        const y = number * (BAR + GAP) + GAP;
        let sum = 0;
        for (const part of found) {
          const [x0, x1] = [12 + sum * scale, 12 + (sum + part.bytes) * scale];
          context.fillStyle = fillOf(context, part);
          context.fillRect(x0, y, x1 - x0, BAR);
          context.fillStyle = themeColor("ground");
          if (x1 - x0 > LEAST_APART) context.fillRect(x1 - 1, y, 1, BAR); // it would hide a narrow part
          places.push({ x0, x1, y0: y, y1: y + BAR, index });
          if (index === cursor) outline(context, x0, y, x1 - x0);
          sum += part.bytes;
          index++;
        }
        const edge = 12 + program.sram * scale;
        context.strokeStyle = themeColor("ink");
        context.lineWidth = 1;
        context.strokeRect(12, y, program.sram * scale, BAR);
        context.lineWidth = 3;
        line(context, edge, y - 6, edge, y + BAR + 6);
        context.lineWidth = 1;
        context.font = FONT;
        context.fillStyle = themeColor("ink");
        context.textBaseline = "bottom";
        context.textAlign = "left";
        const name = program.detail ? `tile ${count(program.detail.peak.tile)}` : "the fullest tile";
        context.fillText(`${prefix(program, pair)}${name}`, 12, y - 7);
        context.textAlign = "right";
        context.fillText(`a tile has ${bytes(program.sram)}`, edge - 6, y - 7);
      });
    },
    describe(x, y) {
      const place = places.find((each) => x >= each.x0 && x <= each.x1 && y >= each.y0 && y <= each.y1);
      const found = place && flat[place.index];
      return found ? words(found) : null;
    },
    onKey(key) {
      if (key !== "ArrowLeft" && key !== "ArrowRight") return undefined;
      cursor = Math.min(Math.max(cursor + (key === "ArrowRight" ? 1 : -1), 0), flat.length - 1);
      shown.redraw();
      const found = flat[cursor];
      return found ? words(found) : null;
    },
    table: () => kinds(programs),
  });
  return shown.element;
}

/** @param {CanvasRenderingContext2D} context @param {number} x @param {number} y @param {number} width */
function outline(context, x, y, width) {
  context.strokeStyle = themeColor("ink");
  context.lineWidth = 3;
  context.strokeRect(x + 1.5, y + 1.5, Math.max(2, width - 3), BAR - 3);
  context.lineWidth = 1;
}

/** The same parts as bars, the largest first. @param {Program[]} programs @returns {HTMLElement} */
function kinds(programs) {
  const names = programs.length > 1 ? programs.map((program) => program.side.toUpperCase()) : [""];
  /** @type {Map<string, {key: string, words: string, color: string, hatch: import("../../core/colors.js").Hatch, values: (number | null)[]}>} */
  const rows = new Map();
  programs.forEach((program, index) => {
    for (const { name, words, color, hatch, bytes: size } of partsOf(program).sort((one, other) => other.bytes - one.bytes)) {
      const row = rows.get(name) ?? { key: name, color, hatch, words, values: programs.map(() => null) };
      row.values[index] = size;
      rows.set(name, row);
    }
  });
  const [first] = programs;
  const whole = programs.length === 1 && first ? first.sram : undefined;
  const table = bars({ label: "what fills the fullest tile", rows: [...rows.values()], unit: "bytes", origin: "memory.category", names, ...(whole ? { whole } : {}) });
  if (programs.length < 2) return h("div", { class: "kinds" }, table);
  const [a, b] = programs.map((program) => program.facts.peak_bytes);
  return h("div", { class: "kinds" }, h("p", {}, "The fullest tile, B − A: ", changeOf(a, b, "bytes")), table);
}

/** What fills the fullest tile, as parts that add up to the peak: what always lives first. @param {Program} program @returns {Part[]} */
function partsOf({ detail, facts }) {
  if (!detail) {
    return facts.kinds.map((/** @type {[string, number]} */ [words, size], /** @type {number} */ index) => ({ name: words, words, bytes: size, ...lookAt(index) }));
  }
  const sizes = byCategory(detail.memory, detail.peak.tick, detail.peak.tile);
  const look = (/** @type {string} */ name) => /** @type {any} */ (PARTS[name]);
  return [
    ...detail.code.map(([kind, size, fixed], index) => ({
      ...look("code"),
      name: kind,
      words: fixed ? `${kind} (no program can use them)` : kind,
      hatch: HATCHES[index % HATCHES.length],
      bytes: size,
    })),
    ...ORDER.slice(1).map((name) => ({ ...look(name), name, bytes: sizes[CATEGORIES.indexOf(name)] ?? 0 })),
  ].filter((part) => part.bytes > 0);
}

/** Why there is no more to see of some of the programs. @param {Pair} pair @returns {HTMLElement[]} */
export function whyNotMore(pair) {
  const known = new Set(detailed(pair));
  return members(pair)
    .filter((program) => !known.has(/** @type {any} */ (program)))
    .map((program) => h("p", { class: "absent" }, `${prefix(program, pair)}${program.facts.why}`));
}
