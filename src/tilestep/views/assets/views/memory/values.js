/** The values in the tiles and in the host's memory, and how much larger a batch can be. */

import { h } from "../../core/dom.js";
import { count, plural } from "../../core/format.js";
import { columnsOf, either, joined } from "../../core/pairs.js";
import { link } from "../../core/state.js";
import { table } from "../../core/table.js";
import { at, CATEGORIES, holds, lives } from "./lives.js";
import { prefix } from "./model.js";

/** @import { Pair, Program, Detail } from "./model.js" */
/** @import { Side } from "../../core/page.js" */
/** @typedef {Program & {detail: Detail}} Known */
/** A value of a program. @typedef {{program: Known, life: number}} Value */
/** @typedef {import("../../core/pairs.js").Pair<Value>} ValuePair */
/** @typedef {import("../../core/table.js").Column<ValuePair>} ValueColumn */

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
export function wordColumns(columns) {
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
export function steps() {
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
