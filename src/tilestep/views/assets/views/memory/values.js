/** The values in the tiles and in the host's memory. */

import { h } from "../../core/dom.js";
import { count, plural } from "../../core/format.js";
import { link } from "../../core/state.js";
import { table } from "../../core/table.js";
import { at, CATEGORIES, holds, lives } from "./lives.js";

/** @import { Program, Detail, Known } from "./model.js" */
/** A column of a table of values, which are numbers. @typedef {import("../../core/table.js").Column<number>} ValueColumn */

/** @param {Known} program @param {number} life @returns {string} */
export function categoryOf({ detail }, life) {
  return CATEGORIES[at(detail.memory.category, life)] ?? "";
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

/** What is known of a value wherever it stands: its name and category; its bytes on each tile; how many tiles; when it lives, and its line. @param {Known} program @returns {Record<"name" | "category" | "bytes" | "tiles" | "born" | "last" | "line", ValueColumn>} */
export function columnsOf(program) {
  const { detail } = program;
  const { memory } = detail;
  const figure = { origin: "memory.value" };
  const name = (/** @type {number} */ life) => detail.names[life] ?? "";
  const line = (/** @type {number} */ life) => detail.lines[life] ?? "";
  return {
    name: { name: "value", of: name, cell: (life) => long(name(life)) },
    category: { name: "category", of: (life) => categoryOf(program, life) },
    bytes: { ...figure, name: "on a tile", unit: "bytes", of: (life) => at(memory.tileBytes, life) },
    tiles: { ...figure, name: "tiles", unit: "count", of: (life) => at(memory.tiles, life) },
    born: { ...figure, name: "born in", unit: "count", of: (life) => at(memory.first, life), cell: (life) => long(stepName(detail, at(memory.first, life))) },
    last: { ...figure, name: "last used in", unit: "count", of: (life) => at(memory.last, life), cell: (life) => long(stepName(detail, at(memory.last, life))) },
    line: { name: "line", of: line, cell: (life) => lineLink(line(life)) },
  };
}

/** All values. @param {Known} program @param {(life: number) => void} open @returns {HTMLElement} */
export function valuesTable(program, open) {
  const { memory, peak, sizes } = program.detail;
  const { name, category, bytes, tiles, born, last, line } = columnsOf(program);
  const atPeak = (/** @type {number} */ life) => (lives(memory, life, peak.tick) && holds(memory, life, peak.tile) ? "yes" : "no");
  /** @type {ValueColumn} */
  const whole = { name: "whole array", unit: "bytes", origin: "memory.value", of: (life) => at(sizes, life) };
  const columns = [name, category, bytes, whole, tiles, born, last, line, { name: "on the fullest tile at the peak", of: atPeak }];
  return table({ label: "values", columns, rows: Array.from(memory.first, (_, life) => life), sortBy: 2, filter: true, open, empty: "no value takes memory on a tile" });
}

/** What the program keeps in the host's memory. @param {Program} program @returns {HTMLElement[]} */
export function hostMemory(program) {
  const { host, host_left_out: more } = program.facts;
  if (!host.length) return [];
  return [
    h("h3", {}, "in pinned_host, which needs no tile"),
    table({
      label: "in pinned_host",
      columns: [
        { name: "value", of: (row) => row[0], cell: (row) => long(row[0]) },
        { name: "bytes of one IPU", unit: "bytes", origin: "memory.host", of: (row) => row[1] },
      ],
      rows: host,
    }),
    more ? h("p", { class: "note" }, `The largest are here; ${plural(more, "more is", "more are")} in the recording.`) : null,
  ].filter((part) => part !== null);
}
