/** Bytes of every tile at every step. */

import { themeColor } from "../../core/colors.js";
import { h } from "../../core/dom.js";
import { figure } from "../../core/figure.js";
import { bytes, count, plural, share } from "../../core/format.js";
import { table } from "../../core/table.js";
import { below, boxOf, FONT, label, line } from "./axes.js";
import { colorAt, grid, partAt, picture } from "./heat.js";
import { at, spans, tileBytes } from "./lives.js";
import { prefix, stepWords } from "./model.js";

/** @import { Pair, Program, Detail } from "./model.js" */
/** @import { Selection } from "./select.js" */
/** @typedef {Program & {detail: Detail}} Known */

const HEIGHT = 330;
export const LOOPS = 16; // pixels of a row of loops
const MOST_DEPTH = 4; // rows of loops
const CROSSED = 24; // pixels between crossed lines: the colours below decide

/**
 * The scale of colours: from 0 to what a tile has, or from the least to the most that there is.
 * @param {Known[]} programs @param {string} kind 'tile' or 'range' @returns {[number, number]}
 */
export function scaleOf(programs, kind) {
  if (kind === "tile") return [0, Math.max(...programs.map((program) => program.sram))];
  let low = Infinity;
  let high = 0;
  for (const { detail } of programs) {
    const least = grid(detail.memory, detail.runs, 0, detail.memory.numTicks, 1, 1).bytes;
    high = Math.max(high, ...least);
    low = Math.min(low, detail.memory.always);
  }
  return [low, high];
}

/**
 * @param {Known} program @param {Pair} pair @param {Selection} selection
 * @param {() => {scale: [number, number], value: ((program: Known) => number)}} shown scale of colours; and the value whose life is marked, -1 for none
 * @returns {import("../../core/figure.js").FigureHandle}
 */
export function heatMap(program, pair, selection, shown) {
  const { detail } = program;
  const { memory } = detail;
  const depth = depthOf(detail);
  const above = 8 + depth * LOOPS;
  /** @type {{key: string, image: HTMLCanvasElement, cells: import("./heat.js").Grid} | null} */
  let drawn = null;
  let box = { left: 0, top: 0, right: 1, bottom: 1 };
  const ends = () => ({ from: selection.from, to: Math.max(selection.from + 1, Math.min(selection.to, memory.numTicks)) });
  const tickAt = (/** @type {number} */ x) => Math.floor(selection.from + ((x - box.left) / (box.right - box.left)) * (selection.to - selection.from));
  const tileAt = (/** @type {number} */ y) => Math.floor(((y - box.top) / (box.bottom - box.top)) * memory.numTiles);
  const xOf = (/** @type {number} */ tick) => box.left + ((tick - selection.from) / (selection.to - selection.from)) * (box.right - box.left);
  const yOf = (/** @type {number} */ tile) => box.top + (tile / memory.numTiles) * (box.bottom - box.top);
  const isIn = (/** @type {number} */ x, /** @type {number} */ y) =>
    x >= box.left && x < box.right && y >= box.top && y < box.bottom && tickAt(x) < memory.numTicks;
  const words = (/** @type {number} */ tick, /** @type {number} */ tile) => {
    const size = at(tileBytes(memory, tick), tile);
    return `${prefix(program, pair)}${stepWords(detail, tick)}\ntile ${count(tile)}: ${plural(size, "byte")} (${bytes(size)}), ${share(size, program.sram)} of a tile`;
  };

  const handle = figure({
    label: `${prefix(program, pair)}bytes of every tile at every step of ${program.facts.label}`,
    height: HEIGHT + depth * LOOPS,
    keys: "left and right choose a step, up and down a tile, with Shift ten at once; PageUp and PageDown go a tenth, Home and End to the ends, p to the peak; + and − show fewer or more steps, 0 all",
    draw(drawing) {
      const { context, scale } = drawing;
      const { scale: [low, high], value } = shown();
      box = boxOf(drawing, above);
      const { from, to } = ends();
      const columns = Math.max(1, Math.round(((xOf(to) - box.left) * scale)));
      const rows = Math.max(1, Math.round((box.bottom - box.top) * scale));
      const key = [from, to, columns, rows, low, high].join(" ");
      if (drawn?.key !== key) {
        const cells = from < memory.numTicks ? grid(memory, detail.runs, from, to, columns, rows) : { columns: 1, rows: 1, bytes: new Float64Array(1) };
        drawn = { key, cells, image: picture(cells, low, high) };
      }
      context.imageSmoothingEnabled = false;
      if (from < memory.numTicks) context.drawImage(drawn.image, box.left, box.top, xOf(to) - box.left, box.bottom - box.top);
      if (program.facts.peak.bytes > program.sram) tooMany(context, drawn.cells, box, xOf(to), program.sram);
      below(context, box, selection.from, selection.to, "step");
      tiles(context, memory.numTiles);
      drawLoops(context, detail, box, xOf, depth);
      const life = value(program);
      if (life >= 0) mark(context, life);
      cursor(context);
    },
    describe(x, y) {
      if (isIn(x, y)) return words(tickAt(x), tileAt(y));
      return x >= box.left ? loopAt(detail, tickAt(x), y) : null;
    },
    onPress: choose,
    onDrag: choose,
    onWheel(x, y, delta) {
      if (!isIn(x, y) || selection.ticks <= 8) return false;
      selection.zoomAround(tickAt(x), delta > 0 ? 1.25 : 0.8);
      return true;
    },
    onKey(key, event) {
      if (key === "p") {
        selection.choose({ tick: null, tile: null });
        selection.reveal(selection.tick(detail));
      } else if (!selection.press(key, event, detail, true, true)) return undefined;
      return words(selection.tick(detail), selection.tile(detail));
    },
    table: () => rowsOf(program, selection),
  });

  /** @param {number} x @param {number} y */
  function choose(x, y) {
    if (isIn(x, y)) selection.choose({ tick: tickAt(x), tile: tileAt(y) });
  }

  /** @param {CanvasRenderingContext2D} context @param {number} number of tiles */
  function tiles(context, number) {
    context.font = FONT;
    context.fillStyle = themeColor("faint");
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const tile of [0, Math.floor(number / 4), Math.floor(number / 2), Math.floor((3 * number) / 4), number - 1]) {
      context.fillText(`tile ${count(tile)}`, box.left - 6, Math.min(Math.max(yOf(tile + 0.5), box.top + 6), box.bottom - 6));
    }
  }

  /** The life of a value, as a frame around its steps and tiles. @param {CanvasRenderingContext2D} context @param {number} life */
  function mark(context, life) {
    const [x0, x1] = [Math.max(xOf(at(memory.first, life)), box.left), Math.min(xOf(at(memory.last, life) + 1), box.right)];
    if (x1 <= x0) return;
    for (const [begin, end] of spans(memory, life)) {
      const [y0, y1] = [yOf(begin), yOf(end)];
      context.lineWidth = 4;
      context.strokeStyle = "#000000";
      context.strokeRect(x0, y0, Math.max(x1 - x0, 2), Math.max(y1 - y0, 2));
      context.setLineDash([6, 5]);
      context.lineWidth = 2;
      context.strokeStyle = "#ffffff";
      context.strokeRect(x0, y0, Math.max(x1 - x0, 2), Math.max(y1 - y0, 2));
      context.setLineDash([]);
      context.lineWidth = 1;
    }
  }

  /** @param {CanvasRenderingContext2D} context */
  function cursor(context) {
    const [tick, tile] = [selection.tick(detail), selection.tile(detail)];
    const [x, y] = [xOf(tick + 0.5), yOf(tile + 0.5)];
    if (x < box.left || x > box.right) return;
    for (const [width, color] of /** @type {[number, string][]} */ ([[3, "#000000"], [1, "#ffffff"]])) {
      context.lineWidth = width;
      context.strokeStyle = color;
      line(context, x, box.top, x, box.bottom);
      line(context, box.left, y, box.right, y);
    }
    const size = at(tileBytes(memory, tick), tile);
    label(context, box, `step ${count(tick)}, tile ${count(tile)}: ${bytes(size)}`, x, y < box.top + 24 ? y + 16 : y - 16);
  }
  return handle;
}

/** Rows of loops above a picture. @param {Detail} detail @returns {number} */
export function depthOf({ loops }) {
  return Math.min(MOST_DEPTH, Math.max(0, ...loops.map(([, , , , level]) => level + 1)));
}

/** The loop whose bar is at a place, in words. @param {Detail} detail @param {number} tick @param {number} y @returns {string | null} */
export function loopAt({ loops }, tick, y) {
  const found = loops.find(([, first, last, , level]) => y >= 2 + level * LOOPS && y < 2 + (level + 1) * LOOPS && tick >= first && tick <= last);
  return found ? loopWords(found) : null;
}

/** @param {[string, number, number, number | null, number, string]} loop @returns {string} */
function loopWords([name, first, last, trips, , kind]) {
  const steps = `steps ${count(first)} to ${count(last)}`;
  if (kind === "branch") return `branch ${name}, ${steps}: its arms stand one after the other, and one of them runs`;
  const times = trips === null ? "as often as its data say" : plural(trips, "trip");
  return `loop ${name}, ${steps}: ${times}; its body stands here once, because each trip needs the same memory`;
}

/**
 * Bars of loops and branches above a picture.
 * @param {CanvasRenderingContext2D} context @param {Detail} detail @param {{left: number, right: number}} box @param {(tick: number) => number} xOf @param {number} depth
 */
export function drawLoops(context, detail, box, xOf, depth) {
  context.font = FONT;
  context.textAlign = "left";
  context.textBaseline = "middle";
  for (const [name, first, last, trips, level, kind] of detail.loops) {
    if (level >= depth) continue;
    const [x0, x1] = [Math.max(xOf(first), box.left), Math.min(xOf(last + 1), box.right)];
    if (x1 <= x0) continue;
    const y = 2 + level * LOOPS;
    context.fillStyle = themeColor("panel");
    context.fillRect(x0, y, x1 - x0, LOOPS - 3);
    context.strokeStyle = themeColor("edge");
    context.strokeRect(x0 + 0.5, y + 0.5, Math.max(1, x1 - x0 - 1), LOOPS - 4);
    const times = trips === null ? "" : ` ×${count(trips)}`;
    const choices =
      kind === "branch"
        ? [`branch ${name}`, "branch"]
        : [`loop ${name}, ${trips === null ? "trips depend on data" : plural(trips, "trip")}: its body once`, `loop ${name}${times}`, `loop${times}`, times.trim()];
    const words = choices.find((each) => context.measureText(each).width < x1 - x0 - 8);
    context.fillStyle = themeColor("ink");
    if (words) context.fillText(words, x0 + 4, y + (LOOPS - 3) / 2);
  }
}

/**
 * Crosses the cells that have more than a tile.
 * @param {CanvasRenderingContext2D} context @param {import("./heat.js").Grid} cells @param {{left: number, top: number, bottom: number}} box @param {number} right @param {number} most
 */
function tooMany(context, cells, box, right, most) {
  context.fillStyle = crossed(context);
  const height = (box.bottom - box.top) / cells.rows;
  const width = (right - box.left) / cells.columns;
  for (let column = 0; column < cells.columns; column++) {
    for (let row = 0; row < cells.rows; row++) {
      const first = row;
      while (row < cells.rows && at(cells.bytes, row * cells.columns + column) > most) row++;
      if (row > first) context.fillRect(box.left + column * width, box.top + first * height, width, (row - first) * height);
    }
  }
}

/** Crossed lines that show what is below. @param {CanvasRenderingContext2D} context @returns {CanvasPattern | string} */
function crossed(context) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = CROSSED;
  const pen = /** @type {CanvasRenderingContext2D} */ (tile.getContext("2d"));
  for (const [color, width] of /** @type {[string, number][]} */ ([["#000000", 2.5], ["#ffffff", 1]])) {
    pen.strokeStyle = color;
    pen.lineWidth = width;
    for (const [x0, y0, x1, y1] of /** @type {[number, number, number, number][]} */ ([[-2, -2, CROSSED + 2, CROSSED + 2], [-2, CROSSED + 2, CROSSED + 2, -2]])) line(pen, x0, y0, x1, y1);
  }
  return context.createPattern(tile, "repeat") ?? "#D55E00";
}

/** The scale of colours, with the bytes at its ends. @param {Known[]} programs @param {[number, number]} scale @returns {HTMLElement} */
export function scaleLegend(programs, [low, high]) {
  const canvas = h("canvas", { class: "heat-scale", width: 512, height: 14, "aria-hidden": "true" });
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  for (let x = 0; x < 512; x++) {
    context.fillStyle = `#${colorAt(x / 511).toString(16).padStart(6, "0")}`;
    context.fillRect(x, 0, 1, 14);
  }
  const over = programs.some((program) => program.facts.peak.bytes > program.sram);
  return h("p", { class: "heat-legend" }, `dark: ${bytes(low)} `, canvas, ` light: ${bytes(high)}`, over ? "; crossed: more than a tile has" : "");
}

/** The same as a table: some steps and some tiles, the fullest tile of each. @param {Known} program @param {Selection} selection @returns {HTMLElement} */
function rowsOf(program, selection) {
  const { detail } = program;
  const { memory } = detail;
  const rows = Array.from({ length: memory.numTicks }, (_, tick) => tick);
  const whole = Math.min(memory.numTiles, 4);
  const parts = Array.from({ length: whole }, (_, part) => part);
  const cells = grid(memory, detail.runs, 0, memory.numTicks, memory.numTicks, whole);
  const name = (/** @type {number} */ part) => `tiles ${count(partAt(part, whole, memory.numTiles))} to ${count(partAt(part + 1, whole, memory.numTiles) - 1)}`;
  return table({
    label: "bytes of the fullest tile of each quarter of the tiles, at every step",
    columns: [
      { name: "step", unit: "count", origin: "memory.tile", of: (tick) => tick },
      { name: "name", of: (tick) => detail.steps[tick] },
      { name: "fullest", unit: "bytes", origin: "memory.tile", of: (tick) => at(detail.fullest.bytes, tick) },
      { name: "on tile", unit: "count", origin: "memory.tile", of: (tick) => at(detail.fullest.tile, tick) },
      ...parts.map((part) => ({ name: name(part), unit: /** @type {const} */ ("bytes"), origin: "memory.tile", of: (/** @type {number} */ tick) => at(cells.bytes, part * cells.columns + tick) })),
    ],
    rows,
    open: (tick) => selection.choose({ tick, tile: at(detail.fullest.tile, tick) }),
  });
}
