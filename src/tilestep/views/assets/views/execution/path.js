/** The critical path as tables: summed, and piece by piece. */

import { h } from "../../core/dom.js";
import { count } from "../../core/format.js";
import { at } from "../../core/lanes.js";
import { columnsOf, either, joined } from "../../core/pairs.js";
import { table } from "../../core/table.js";
import { valueOf } from "../../core/value.js";
import { LANE_KINDS, kindWords } from "./model.js";

/** @import { Model } from "./model.js" */
/** @typedef {{row: number, from: number, to: number}} Piece */
/** @typedef {{lanes: string, kind: string, program: string, row: number, pieces: number, cycles: number, share: number}} Sum row: of the program */

/** The pieces of a model's critical path, in order of time. @param {Model} model @returns {Piece[]} */
export function pieces(model) {
  let clock = model.json.path.begin;
  return Array.from(model.path, (row) => {
    const piece = { row, from: clock, to: at(model.end, row) };
    clock = piece.to;
    return piece;
  });
}

/** The path by kind of lane, kind and program, the longest first. @param {Model} model @returns {Sum[]} */
export function sums(model) {
  /** @type {Map<string, Sum>} */
  const found = new Map();
  const all = model.json.path.cycles;
  for (const { row, from, to } of pieces(model)) {
    const lanes = model.laneOf(row).kind;
    const program = at(model.program, row);
    const key = `${lanes} ${at(model.kind, row)} ${program}`;
    const sum = found.get(key) ?? { lanes: LANE_KINDS[lanes] ?? lanes, kind: kindWords(model.kindOf(row)), program: model.programLabel(program), row: program, pieces: 0, cycles: 0, share: 0 };
    sum.pieces++;
    sum.cycles += to - from;
    sum.share = all ? sum.cycles / all : 0;
    found.set(key, sum);
  }
  return [...found.values()].sort((a, b) => b.cycles - a.cycles);
}

/** @param {Model[]} models @param {import("./scene.js").Scene} scene @param {import("../../core/page.js").Page} page @returns {HTMLElement[]} */
export function pathSection(models, scene, page) {
  const sides = models.map((model) => ({ name: model.side.name, rows: sums(model) }));
  const programs = matchedPrograms(page);
  const rows = joined(sides, (sum, side) => `${sum.lanes}\n${sum.kind}\n${programs(sum.row, sum.program, side)}`);
  const parts = [h("h2", {}, "Critical path: what decides the end"), ...models.map((model) => words(model, models.length > 1))];
  parts.push(
    table({
      label: "critical path by lane, kind and program",
      rows,
      empty: "there are no events, so there is no critical path",
      columns: [
        { name: "lanes", of: either((sum) => sum.lanes) },
        { name: "kind", of: either((sum) => sum.kind) },
        { name: "program", of: either((sum) => sum.program || null) },
        ...columnsOf(models.map(({ side }) => side), { name: "time", unit: "cycles", origin: "execution.path", of: (/** @type {Sum} */ sum) => sum.cycles }),
        ...(models.length > 1 ? [] : columnsOf(models.map(({ side }) => side), { name: "share", unit: "share", origin: "execution.path", of: (/** @type {Sum} */ sum) => sum.share })),
        ...columnsOf(models.map(({ side }) => side), { name: "pieces", unit: "count", origin: "execution.path", of: (/** @type {Sum} */ sum) => sum.pieces }),
      ],
    }),
  );
  for (const model of models) {
    const title = models.length > 1 ? `All pieces of ${model.side.name.toUpperCase()}` : "All pieces";
    const details = h("details", {}, h("summary", {}, `${title} (${count(model.path.length)})`));
    details.addEventListener("toggle", () => {
      if (details.open && details.childElementCount === 1) details.append(piecesTable(model, scene));
    });
    parts.push(details);
  }
  return parts;
}

/** @param {Model} model @param {boolean} named whether to say which recording it is @returns {HTMLElement} */
function words(model, named) {
  const { complete, pieces: all, cycles } = model.json.path;
  const rows = sums(model);
  const [first] = rows;
  if (!first) return h("p", {}, "There are no events.");
  const incomplete = complete
    ? ""
    : " It is not complete: the recording did not keep the events before its first piece (autoReport.executionProfileProgramRunCount). "
      + "What came before that is not in these numbers.";
  const cut = all > model.path.length ? ` Its first ${count(all - model.path.length)} pieces are not on this page.` : "";
  return h(
    "p",
    {},
    named ? `${model.side.name.toUpperCase()}: ` : "",
    all === 1 ? "1 piece decides the end: " : `${count(all)} pieces, one behind the other, decide the end: `,
    valueOf(cycles, model.side.cycles, "execution.path"),
    ` in all. The table adds them up by lane, kind and program. The most, `,
    valueOf(first.cycles, model.side.cycles, "execution.path"),
    `, is ${first.kind}${first.program ? ` · ${first.program}` : ""} (${first.lanes}).`,
    incomplete,
    cut,
  );
}

/** @param {Model} model @param {import("./scene.js").Scene} scene @returns {HTMLElement} */
function piecesTable(model, scene) {
  return table({
    label: `pieces of the critical path of ${model.side.label}`,
    rows: pieces(model),
    filter: true,
    open: ({ row }) => scene.select(model, row),
    columns: [
      { name: "lane", of: ({ row }) => model.laneOf(row).name },
      { name: "kind", of: ({ row }) => kindWords(model.kindOf(row)) },
      { name: "program", of: ({ row }) => model.programLabel(at(model.program, row)) || null },
      { name: "from", unit: model.side.cycles, origin: "execution.path", of: ({ from }) => from },
      { name: "to", unit: model.side.cycles, origin: "execution.path", of: ({ to }) => to },
      { name: "time", unit: model.side.cycles, origin: "execution.path", of: ({ from, to }) => to - from },
    ],
  });
}

/** A key for a program that is equal in A and B where the comparison matches them. @param {import("../../core/page.js").Page} page @returns {(row: number, label: string, side: "a" | "b") => string} */
export function matchedPrograms(page) {
  /** @type {Map<string, string>} */
  const keys = new Map();
  (page.comparison?.programs ?? []).forEach((/** @type {[number | null, number | null]} */ [a, b], /** @type {number} */ index) => {
    if (a !== null) keys.set(`a${a}`, `matched ${index}`);
    if (b !== null) keys.set(`b${b}`, `matched ${index}`);
  });
  return (row, label, side) => keys.get(`${side}${row}`) ?? label;
}
