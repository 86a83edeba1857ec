/** The programs of a recording with their memory. */

import { count } from "../../core/format.js";
import { fullest, runsOf } from "./peaks.js";

/** @import { Side } from "../../core/page.js" */
/** @import { Memory } from "./lives.js" */
/** @import { Hatch } from "../../core/colors.js" */
/**
 * One program; `detail` is null where the recording has only its peak.
 * @typedef {object} Facts
 * @property {any} facts its entry in the block, see views/page/sections/memory.py
 * @property {number} sram bytes of a tile
 * @property {string} edit what view What to do says of its memory; '' if nothing
 */
/**
 * @typedef {object} Detail
 * @property {Memory} memory
 * @property {string[]} steps names by tick
 * @property {ArrayLike<number>} leaves of the program's tree, by tick; -1: none
 * @property {string[]} names of values
 * @property {string[]} lines of values; '' if unknown
 * @property {ArrayLike<number>} sizes of whole arrays
 * @property {[string, number, number][]} code kind, bytes on each tile, whether it is fixed
 * @property {import("./peaks.js").Peak} peak as the reader says
 * @property {[string, number, number, number | null, number, string][]} loops name, first tick, last tick, trips, depth, 'loop' or 'branch'
 * @property {import("./peaks.js").Runs} runs worked out at the first use
 * @property {{bytes: Float64Array, tile: Int32Array}} fullest of each tick, likewise
 */
/** A program in detail. @typedef {Facts & {detail: Detail}} Known */
/** @typedef {Known | (Facts & {detail: null})} Program */

/** The looks of parts of a tile, those that always live first. @type {Readonly<Record<string, {color: string, hatch: Hatch, words: string}>>} */
export const PARTS = Object.freeze({
  code: { color: "#999999", hatch: "plain", words: "code and fixed parts" },
  resident: { color: "#0072B2", hatch: "plain", words: "resident values, which stay between runs" },
  constant: { color: "#56B4E9", hatch: "up", words: "constants" },
  argument: { color: "#E69F00", hatch: "plain", words: "arguments" },
  result: { color: "#009E73", hatch: "down", words: "results" },
  temporary: { color: "#CC79A7", hatch: "dots", words: "temporary values, and what the step itself needs" },
});
/** Names of the parts in the order in which they are stacked. */
export const ORDER = Object.freeze(Object.keys(PARTS));
/** The two parts of liveness. @type {Readonly<Record<string, {color: string, hatch: Hatch, words: string}>>} */
export const LIVENESS = Object.freeze({
  always: { color: "#0072B2", hatch: "plain", words: "always live: code, fixed parts, resident values, constants" },
  others: { color: "#E69F00", hatch: "up", words: "not always live: other values, and what the step itself needs" },
});

/** The programs of a recording, the fullest first. @param {Side} side @returns {Promise<Program[]>} */
export async function programsOf(side) {
  const { json, columns } = await side.block("memory");
  const found = side.has("findings") ? (await side.block("findings")).json.found : [];
  const about = (/** @type {any} */ facts) => found.find((/** @type {any} */ { kind, program, edit }) => kind === "memory" && program === facts.row && edit);
  return json.programs.map((/** @type {any} */ facts) => ({
    facts,
    sram: facts.sram_bytes,
    edit: about(facts)?.edit ?? "",
    detail: facts.why ? null : detailOf(json, columns, facts),
  }));
}

/** @param {any} json @param {Record<string, Float64Array>} columns @param {any} facts @returns {Detail} */
function detailOf(json, columns, facts) {
  const part = (/** @type {string} */ name, /** @type {[number, number]} */ [first, count]) =>
    /** @type {Float64Array} */ (columns[name]).subarray(first, first + count);
  const life = (/** @type {string} */ name) => part(`life_${name}`, facts.lives);
  const tick = (/** @type {string} */ name) => part(`tick_${name}`, facts.ticks);
  const words = (/** @type {Float64Array} */ numbers, /** @type {string[]} */ texts) => Array.from(numbers, (number) => texts[number] ?? "");
  const code = /** @type {[string, number, number][]} */ (facts.code);
  /** @type {Memory} */
  const memory = {
    numTiles: facts.num_tiles,
    numTicks: facts.ticks[1],
    always: code.reduce((sum, [, size]) => sum + size, 0),
    temporary: tick("temporary"),
    category: life("category"),
    first: life("first"),
    last: life("last"),
    tileBytes: life("tile_bytes"),
    tiles: life("tiles"),
    startTile: life("start_tile"),
  };
  const known = { runs: /** @type {any} */ (null), fullest: /** @type {any} */ (null) };
  return {
    memory,
    steps: words(tick("step"), json.names),
    leaves: tick("leaf"),
    names: words(life("name"), json.names),
    lines: words(life("line"), json.lines),
    sizes: life("size_bytes"),
    code,
    peak: facts.peak,
    loops: facts.loops,
    get runs() {
      return (known.runs ??= runsOf(memory));
    },
    get fullest() {
      return (known.fullest ??= fullest(memory, this.runs));
    },
  };
}

/** Whether a program is in detail. @param {Program} program @returns {program is Known} */
export function isKnown(program) {
  return program.detail !== null;
}

/** 'step 12, dot.3', or 'step 12 of 32, dot.3'. Steps are counted from 0. @param {Detail} detail @param {number} tick @param {boolean} [ofAll] @returns {string} */
export function stepWords(detail, tick, ofAll = false) {
  const all = ofAll ? ` of ${count(detail.memory.numTicks)}` : "";
  return `step ${count(tick)}${all}, ${detail.steps[tick] || "unnamed"}`;
}
