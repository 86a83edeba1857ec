/** The critical path as tables: summed, and piece by piece. */

import { h } from "../../core/dom.js";
import { count } from "../../core/format.js";
import { at } from "../../core/lanes.js";
import { table } from "../../core/table.js";
import { valueOf } from "../../core/value.js";
import { LANE_KINDS, kindWords } from "./model.js";

/** @import { Model } from "./model.js" */
/** @typedef {{row: number, from: number, to: number}} Piece */
/** @typedef {{lanes: string, kind: string, program: string, pieces: number, cycles: number, share: number}} Sum */

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
    const sum = found.get(key) ?? { lanes: LANE_KINDS[lanes] ?? lanes, kind: kindWords(model.kindOf(row)), program: model.programLabel(program), pieces: 0, cycles: 0, share: 0 };
    sum.pieces++;
    sum.cycles += to - from;
    sum.share = all ? sum.cycles / all : 0;
    found.set(key, sum);
  }
  return [...found.values()].sort((a, b) => b.cycles - a.cycles);
}

/** @param {Model} model @param {import("./scene.js").Scene} scene @returns {HTMLElement[]} */
export function pathSection(model, scene) {
  const details = h("details", {}, h("summary", {}, `All pieces (${count(model.path.length)})`));
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) details.append(piecesTable(model, scene));
  });
  return [
    h("h2", {}, "Critical path: what decides the end"),
    words(model),
    table({
      label: "critical path by lane, kind and program",
      rows: sums(model),
      empty: "there are no events, so there is no critical path",
      columns: [
        { name: "lanes", of: (sum) => sum.lanes },
        { name: "kind", of: (sum) => sum.kind },
        { name: "program", of: (sum) => sum.program || null },
        { name: "time", unit: "cycles", origin: "execution.path", of: (sum) => sum.cycles },
        { name: "share", unit: "share", origin: "execution.path", of: (sum) => sum.share },
        { name: "pieces", unit: "count", origin: "execution.path", of: (sum) => sum.pieces },
      ],
    }),
    details,
  ];
}

/** @param {Model} model @returns {HTMLElement} */
function words(model) {
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
    all === 1 ? "1 piece decides the end: " : `${count(all)} pieces, one behind the other, decide the end: `,
    valueOf(cycles, "cycles", "execution.path"),
    ` in all. The table adds them up by lane, kind and program. The most, `,
    valueOf(first.cycles, "cycles", "execution.path"),
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
    open: ({ row }) => scene.select(row),
    columns: [
      { name: "lane", of: ({ row }) => model.laneOf(row).name },
      { name: "kind", of: ({ row }) => kindWords(model.kindOf(row)) },
      { name: "program", of: ({ row }) => model.programLabel(at(model.program, row)) || null },
      { name: "from", unit: "cycles", origin: "execution.path", of: ({ from }) => from },
      { name: "to", unit: "cycles", origin: "execution.path", of: ({ to }) => to },
      { name: "time", unit: "cycles", origin: "execution.path", of: ({ from, to }) => to - from },
    ],
  });
}
