/** Bytes on each tile at one step. */

import { bars } from "../../core/bars.js";
import { themeColor } from "../../core/colors.js";
import { h } from "../../core/dom.js";
import { figure } from "../../core/figure.js";
import { bytes, count, plural, share } from "../../core/format.js";
import { table } from "../../core/table.js";
import { valueOf } from "../../core/value.js";
import { below, boxOf, bytesAxis, label, limit, line } from "./axes.js";
import { at, byCategory, CATEGORIES, tileBytes } from "./lives.js";
import { ORDER, PARTS, prefix, stepWords } from "./model.js";

/** @import { Pair, Program, Detail } from "./model.js" */
/** @import { Selection } from "./select.js" */
/** @typedef {Program & {detail: Detail}} Known */

const COLOR = "#0072B2";

/** What all tiles have in common. @param {Float64Array} sizes @returns {{least: number, mean: number, most: number, emptiest: number, fullest: number}} */
export function summary(sizes) {
  let [emptiest, fullest, sum] = [0, 0, 0];
  for (let tile = 0; tile < sizes.length; tile++) {
    if (at(sizes, tile) < at(sizes, emptiest)) emptiest = tile;
    if (at(sizes, tile) > at(sizes, fullest)) fullest = tile;
    sum += at(sizes, tile);
  }
  return { least: at(sizes, emptiest), mean: sum / sizes.length, most: at(sizes, fullest), emptiest, fullest };
}

/** @param {Known} program @param {Pair} pair @param {Selection} selection @param {() => number} scale its bytes @returns {import("../../core/figure.js").FigureHandle} */
export function tileMap(program, pair, selection, scale) {
  const { memory } = program.detail;
  let box = { left: 0, top: 0, right: 1, bottom: 1 };
  const sizes = () => tileBytes(memory, selection.tick(program.detail));
  const tileAt = (/** @type {number} */ x) => Math.floor(((x - box.left) / (box.right - box.left)) * memory.numTiles);
  const words = (/** @type {number} */ tile) => {
    const size = at(sizes(), tile);
    return `${prefix(program, pair)}tile ${count(tile)}: ${plural(size, "byte")} (${bytes(size)}), ${share(size, program.sram)} of a tile`;
  };
  return figure({
    label: `${prefix(program, pair)}bytes on each tile at one step of ${program.facts.label}`,
    height: 210,
    keys: "left and right choose a tile, with Shift ten at once; PageUp and PageDown go a tenth, Home and End to the ends",
    draw(drawing) {
      const { context } = drawing;
      box = boxOf(drawing, 20);
      const found = sizes();
      const { mean } = summary(found);
      const high = scale();
      const yOf = (/** @type {number} */ size) => box.bottom - (size / high) * (box.bottom - box.top);
      bytesAxis(context, box, high);
      context.fillStyle = COLOR;
      const pixels = Math.max(1, Math.floor(box.right - box.left));
      for (let pixel = 0; pixel < pixels; pixel++) {
        const from = Math.floor((pixel * memory.numTiles) / pixels);
        const to = Math.max(from + 1, Math.floor(((pixel + 1) * memory.numTiles) / pixels));
        let most = 0;
        for (let tile = from; tile < to; tile++) most = Math.max(most, at(found, tile));
        context.fillRect(box.left + pixel, yOf(most), 1.5, box.bottom - yOf(most));
      }
      below(context, box, 0, memory.numTiles, "tile");
      if (program.sram <= high) limit(context, box, yOf(program.sram), `a tile has ${bytes(program.sram)}`);
      context.strokeStyle = themeColor("ink");
      context.setLineDash([6, 4]);
      line(context, box.left, yOf(mean), box.right, yOf(mean));
      context.setLineDash([]);
      const tile = selection.tile(program.detail);
      const x = box.left + ((tile + 0.5) / memory.numTiles) * (box.right - box.left);
      context.strokeStyle = themeColor("ink");
      context.lineWidth = 2;
      line(context, x, box.top, x, box.bottom);
      context.lineWidth = 1;
      label(context, box, `tile ${count(tile)}: ${bytes(at(found, tile))}`, x, Math.max(box.top + 12, yOf(at(found, tile)) - 14));
    },
    describe: (x, y) => (x >= box.left && x < box.right && y <= box.bottom ? words(tileAt(x)) : null),
    onPress: (x) => x >= box.left && x < box.right && selection.choose({ tile: tileAt(x) }),
    onDrag: (x) => x >= box.left && x < box.right && selection.choose({ tile: tileAt(x) }),
    onKey(key, event) {
      if (!selection.press(key, event, program.detail, false, true)) return undefined;
      return words(selection.tile(program.detail));
    },
    table: () => tiles(program, selection),
  });
}

/** @param {Known} program @param {Selection} selection @returns {HTMLElement} */
function tiles(program, selection) {
  const sizes = tileBytes(program.detail.memory, selection.tick(program.detail));
  return table({
    label: "bytes on each tile",
    columns: [
      { name: "tile", unit: "count", origin: "memory.tile", of: (tile) => tile },
      { name: "bytes", unit: "bytes", origin: "memory.tile", of: (tile) => at(sizes, tile) },
    ],
    rows: Array.from(sizes, (_, tile) => tile),
    open: (tile) => selection.choose({ tile }),
  });
}

/** Least, mean and most of all tiles, and what the chosen, the fullest and the emptiest hold. @param {Known} program @param {Pair} pair @param {Selection} selection @returns {HTMLElement} */
export function chosenTiles(program, pair, selection) {
  const { detail } = program;
  const tick = selection.tick(detail);
  const found = summary(tileBytes(detail.memory, tick));
  const chosen = [
    { words: "chosen", tile: selection.tile(detail) },
    { words: "fullest", tile: found.fullest },
    { words: "emptiest", tile: found.emptiest },
  ];
  const sizes = chosen.map(({ tile }) => byCategory(detail.memory, tick, tile));
  const rows = ORDER.map((name) => {
    const look = /** @type {{color: string, hatch: import("../../core/colors.js").Hatch, words: string}} */ (PARTS[name]);
    return { key: name, ...look, values: sizes.map((size) => (name === "code" ? detail.memory.always : (size[CATEGORIES.indexOf(name)] ?? 0))) };
  });
  const names = chosen.map(({ words, tile }) => `${words}, tile ${count(tile)}`);
  return h(
    "div",
    { class: "chosen-tiles" },
    h("p", {}, `${prefix(program, pair)}At ${stepWords(detail, tick)}, the fullest tile has `, valueOf(found.most, "bytes", "memory.tile"), ", the emptiest ",
      valueOf(found.least, "bytes", "memory.tile"), ", and the mean of all is ", valueOf(Math.round(found.mean), "bytes", "memory.tile"), "."),
    bars({ label: "what tiles hold", rows: rows.filter(({ values }) => values.some(Boolean)), unit: "bytes", origin: "memory.category", names }),
  );
}
