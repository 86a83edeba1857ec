/** The values in the tiles: all of them, those that fill the fullest tile, and how much larger a batch can be. */

import { h } from "../../core/dom.js";
import { bytes, count, plural } from "../../core/format.js";
import { columnsOf, either, joined } from "../../core/pairs.js";
import { link } from "../../core/state.js";
import { table } from "../../core/table.js";
import { valueOf } from "../../core/value.js";
import { at, CATEGORIES, holds, lives } from "./lives.js";
import { prefix } from "./model.js";
import { without } from "./peaks.js";

/** @typedef {import("./model.js").Pair} Pair */
/** @typedef {import("./model.js").Program} Program */
/** @typedef {import("./model.js").Detail} Detail */
/** @typedef {import("../../core/page.js").Side} Side */
/** @typedef {Program & {detail: Detail}} Known */
/** A value of a program. @typedef {{program: Known, life: number}} Value */
/** @typedef {import("../../core/pairs.js").Pair<Value>} ValuePair */
/** @typedef {import("../../core/table.js").Column<ValuePair>} ValueColumn */

const MOST_WITHOUT = 200; // values that the peak is worked out without
const MOST_LINES = 50; // likewise

/** @param {Value} value @returns {string} */
export function nameOf({ program, life }) {
  return program.detail.names[life] ?? "";
}

/** @param {Value} value @returns {string} */
export function categoryOf({ program, life }) {
  return CATEGORIES[at(program.detail.memory.category, life)] ?? "";
}

/** @param {Value} value @returns {string} */
export function lineOf({ program, life }) {
  return program.detail.lines[life] ?? "";
}

/** 'dot.3 (12)'. @param {Detail} detail @param {number} tick @returns {string} */
export function stepName(detail, tick) {
  return `${detail.steps[tick] || "unnamed"} (${count(tick)})`;
}

/** A name with the whole of it as its tip. @param {string} words @returns {HTMLElement} */
export function long(words) {
  return h("span", { class: "long", "data-tip": words.length > 40 ? words : false }, words || "–");
}

/** A line of code as a link to it. @param {string} words such as 'train.py:41' @returns {HTMLElement} */
export function lineLink(words) {
  const place = words.lastIndexOf(":");
  if (place < 0) return long(words);
  const href = link("source", { file: words.slice(0, place), line: words.slice(place + 1) });
  return h("a", { class: "long", href, "data-tip": words.length > 40 ? words : false, onclick: (/** @type {Event} */ event) => event.stopPropagation() }, words);
}

/** Values of two recordings side by side, by name, line and category. @param {Known[]} programs @param {(program: Known) => number[]} of @returns {ValuePair[]} */
export function pairedValues(programs, of) {
  const rows = programs.map((program) => ({ name: program.side, rows: of(program).map((life) => ({ program, life })) }));
  const [only] = rows;
  if (only && rows.length === 1) return only.rows.map((value) => ({ [only.name]: value }));
  return joined(rows, (value) => JSON.stringify([nameOf(value), lineOf(value), categoryOf(value)]));
}

/** Columns with words that a value of either recording gives. @param {[string, (value: Value) => string][]} columns @returns {ValueColumn[]} */
function wordColumns(columns) {
  return columns.map(([name, of]) => ({ name, of: either(of), cell: (pair) => (name === "line" ? lineLink : long)(either(of)(pair)) }));
}

/**
 * All values.
 * @param {Known[]} programs @param {Side[]} sides @param {(pair: ValuePair) => void} open
 * @returns {HTMLElement}
 */
export function valuesTable(programs, sides, open) {
  const rows = pairedValues(programs, (program) => Array.from(program.detail.memory.first, (_, life) => life));
  const shown = sides.filter((side) => programs.some((program) => program.side === side.name));
  const atPeak = (/** @type {Value} */ { program: { detail }, life }) =>
    lives(detail.memory, life, detail.peak.tick) && holds(detail.memory, life, detail.peak.tile) ? "yes" : "no";
  /** @type {ValueColumn[]} */
  const columns = [
    ...wordColumns([["value", nameOf], ["category", categoryOf]]),
    ...columnsOf(shown, { name: "on a tile", unit: "bytes", origin: "memory.value", of: (/** @type {Value} */ { program, life }) => at(program.detail.memory.tileBytes, life) }),
    ...columnsOf(shown, { name: "whole array", unit: "bytes", origin: "memory.value", of: ({ program, life }) => at(program.detail.sizes, life) }),
    ...columnsOf(shown, { name: "tiles", unit: "count", origin: "memory.value", of: ({ program, life }) => at(program.detail.memory.tiles, life) }),
    ...steps(),
    ...wordColumns([["line", lineOf], ["on the fullest tile at the peak", atPeak]]),
  ];
  return table({ label: "values", columns, rows, sortBy: 2, filter: true, open, empty: "no value takes memory on a tile" });
}

/** Columns of birth and death: sorted by their steps. @returns {ValueColumn[]} */
function steps() {
  return [
    step("born in", ({ program, life }) => at(program.detail.memory.first, life)),
    step("last used in", ({ program, life }) => at(program.detail.memory.last, life)),
  ];
}

/** @param {string} name @param {(value: Value) => number} of @returns {ValueColumn} */
function step(name, of) {
  const words = either((/** @type {Value} */ value) => stepName(value.program.detail, of(value)));
  return { name, unit: "count", origin: "memory.value", of: either(of), cell: (pair) => long(words(pair)) };
}

/**
 * The values on the fullest tile at the peak, with the peak that is left without each.
 * @param {Known} program @param {Pair} pair @param {(pair: ValuePair) => void} open
 * @returns {HTMLElement[]}
 */
export function freeing(program, pair, open) {
  const { detail } = program;
  const { memory, peak } = detail;
  const here = Array.from(memory.first, (_, life) => life)
    .filter((life) => lives(memory, life, peak.tick) && holds(memory, life, peak.tile) && at(memory.tileBytes, life) > 0)
    .sort((one, other) => at(memory.tileBytes, other) - at(memory.tileBytes, one) || one - other);
  const looked = here.slice(0, MOST_WITHOUT);
  const left = new Map(without(memory, detail.runs, detail.fullest, looked.map((life) => [life])).map((found, index) => [at(looked, index), found]));
  const rows = looked.map((life) => ({ [program.side]: { program, life } }));
  const then = (/** @type {ValuePair} */ row) => /** @type {import("./peaks.js").Peak} */ (left.get(either((/** @type {Value} */ value) => value.life)(row)));
  const lessOf = (/** @type {ValuePair} */ row) => peak.bytes - then(row).bytes;
  const where = (/** @type {ValuePair} */ row) => `tile ${count(then(row).tile)}, ${stepName(detail, then(row).tick)}`;
  const [best] = [...rows].sort((one, other) => lessOf(other) - lessOf(one));
  const temporary = at(memory.temporary, peak.tick);
  /** @type {ValueColumn[]} */
  const columns = [
    ...wordColumns([["value", nameOf]]),
    { name: "less", unit: "bytes", origin: "memory.without", of: lessOf, cell: (row) => less(lessOf(row)) },
    { name: "the peak without it", unit: "bytes", origin: "memory.without", of: (row) => then(row).bytes },
    { name: "on a tile", unit: "bytes", origin: "memory.value", of: either(({ life }) => at(memory.tileBytes, life)) },
    ...wordColumns([["category", categoryOf], ["line", lineOf]]),
    step("last used in", ({ life }) => at(memory.last, life)),
    { name: "then the fullest", of: where, cell: (row) => long(where(row)) },
  ];
  const sentence = temporary
    ? `The step itself needs ${bytes(temporary)} on each tile, for operands from other tiles, partial sums and the like: no value's end frees that.`
    : "The step itself needs nothing beside its values.";
  return [
    best && lessOf(best) > 0 ? h("p", { class: "answer frees" }, `${prefix(program, pair)}Without `, h("span", { class: "mono" }, either(nameOf)(best)), " the peak falls by ", valueOf(lessOf(best), "bytes", "memory.without"), " to ", valueOf(then(best).bytes, "bytes", "memory.without"), ". No other value below frees more.") : null,
    h("p", { class: "note" }, `${prefix(program, pair)}On tile ${count(peak.tile)} at the peak: ${plural(here.length, "value")}. Without one of them another step or tile may be the fullest, so the peak falls by less than the value has. ${sentence}`),
    here.length > looked.length ? h("p", { class: "note" }, `The largest ${count(looked.length)} are here: the peak is worked out anew for each.`) : null,
    table({ label: `${prefix(program, pair)}who would free the fullest tile`, columns, rows, sortBy: 1, filter: true, open, empty: "No value is there: code and the step itself fill the tile." }),
    ...lines(program, pair, here),
  ].filter((part) => part !== null);
}

/** The peak that is left without all values that a line makes, of the lines whose values are there. @param {Known} program @param {Pair} pair @param {number[]} here values on the fullest tile at the peak @returns {HTMLElement[]} */
function lines(program, pair, here) {
  const { detail } = program;
  const { memory, peak } = detail;
  const named = [...new Set(here.map((life) => detail.lines[life] ?? ""))].filter(Boolean).slice(0, MOST_LINES);
  if (!named.length) return [];
  /** @type {Map<string, number[]>} */
  const groups = new Map(named.map((name) => [name, []]));
  detail.lines.forEach((name, life) => groups.get(name)?.push(life));
  const left = without(memory, detail.runs, detail.fullest, named.map((name) => groups.get(name) ?? []));
  const rows = named.map((name, index) => {
    const then = /** @type {import("./peaks.js").Peak} */ (left[index]);
    const there = here.filter((life) => detail.lines[life] === name);
    return { name, values: groups.get(name)?.length ?? 0, there: there.reduce((sum, life) => sum + at(memory.tileBytes, life), 0), then };
  });
  const where = (/** @type {any} */ row) => `tile ${count(row.then.tile)}, ${stepName(detail, row.then.tick)}`;
  return [
    h("p", { class: "note" }, `${prefix(program, pair)}All values of a line together: an unrolled loop makes many, and without one of them the next has the peak.`),
    table({
      label: `${prefix(program, pair)}lines that would free the fullest tile`,
      columns: [
        { name: "line", of: (row) => row.name, cell: (row) => lineLink(row.name) },
        { name: "less", unit: "bytes", origin: "memory.without", of: (row) => peak.bytes - row.then.bytes, cell: (row) => less(peak.bytes - row.then.bytes) },
        { name: "the peak without them", unit: "bytes", origin: "memory.without", of: (row) => row.then.bytes },
        { name: "on the tile at the peak", unit: "bytes", origin: "memory.value", of: (row) => row.there },
        { name: "values that it makes", unit: "count", origin: "memory.value", of: (row) => row.values },
        { name: "then the fullest", of: where, cell: (row) => long(where(row)) },
      ],
      rows,
      sortBy: 1,
    }),
  ];
}

/** @param {number} size @returns {string} */
function less(size) {
  return size ? bytes(size) : "nothing";
}

/** How much larger the batch can be. @param {Program} program @param {Pair} pair @returns {HTMLElement[]} */
export function roomFor(program, pair) {
  const { room, room_why: why } = program.facts;
  if (!room) return [h("p", { class: "absent" }, `${prefix(program, pair)}${why}`)];
  const { batch, most_times: most, least_too_many: tooMany, tried } = room;
  const names = `${room.arguments.join(", ")}${room.arguments_left_out ? ` and ${count(room.arguments_left_out)} more` : ""}`;
  const next = tooMany === null ? "; larger ones were not tried" : tooMany === most + 1 ? `; ${count(batch * tooMany)} does not` : `; ${count(batch * tooMany)} does not fit, and what is between was not tried`;
  const words = `A batch of ${count(batch * most)} fits, ${count(most)} times the ${count(batch)} of now${next}.`;
  return [
    h("p", { class: "room" }, `${prefix(program, pair)}${words}`),
    h("p", { class: "note" }, `The batch is that of ${names}. Each size was planned again from the program's HLO.`),
    table({
      label: `${prefix(program, pair)}batches that were planned`,
      columns: [
        { name: "batch", unit: "count", origin: "memory.room", of: (row) => row.batch },
        { name: "times", unit: "count", origin: "memory.room", of: (row) => row.times },
        { name: "fullest tile", unit: "bytes", origin: "memory.room", of: (row) => row.peak_bytes },
        { name: "of a tile", unit: "share", origin: "memory.room", of: (row) => row.peak_bytes / program.sram },
        { name: "fits", of: (row) => (row.fits ? "yes" : "no") },
      ],
      rows: tried,
    }),
  ];
}

/** What the program keeps in the host's memory. @param {Program} program @param {Pair} pair @returns {HTMLElement[]} */
export function hostMemory(program, pair) {
  const { host, host_left_out: more } = program.facts;
  if (!host.length) return [];
  return [
    h("h3", {}, `${prefix(program, pair)}in pinned_host, which needs no tile`),
    table({
      label: `${prefix(program, pair)}in pinned_host`,
      columns: [
        { name: "value", of: (row) => row[0], cell: (row) => long(row[0]) },
        { name: "bytes of one IPU", unit: "bytes", origin: "memory.host", of: (row) => row[1] },
      ],
      rows: host,
    }),
    more ? h("p", { class: "note" }, `The largest are here; ${plural(more, "more is", "more are")} in the recording.`) : null,
  ].filter((part) => part !== null);
}
