/** What changed, and where? */

import { lookOf } from "../core/colors.js";
import { h } from "../core/dom.js";
import { bars } from "../core/bars.js";
import { plural } from "../core/format.js";
import { link } from "../core/state.js";
import { table } from "../core/table.js";
import { alike, changeOf, differenceOf, ofSide, valueOf } from "../core/value.js";
import { NAMES, shortScope } from "./steps/read.js";

/** @import { Unit } from "../core/value.js" */
/** @typedef {{a: number | null, b: number | null}} Change */

const MEAN = "mean time of a run"; // with its arguments, results and waits, so that it is more than its steps take
/** Figures of a program: key, words, unit, origin. @type {[string, string, Unit, string][]} */
const FIGURES = [
  ["cycles_per_run", MEAN, "cycles", "comparison.run"],
  ["runs", "runs", "count", "comparison.runs"],
  ["load_cycles", "time of loads", "cycles", "comparison.loads"],
  ["peak_tile_bytes", "fullest tile", "bytes", "comparison.bytes"],
  ["flops_per_run", "flop of one run", "flops", "comparison.flops"],
];

/** @type {import("../core/page.js").View} */
export const compare = {
  name: "compare",
  title: "Compare",
  question: "What changed, and where?",
  needs: "",
  render(_, page) {
    const [a, b] = page.sides;
    const found = page.comparison;
    if (!a || !b) return [h("p", { class: "absent" }, "One recording only: tilestep report html A B compares two.")];
    if (!found) return [h("p", { class: "absent" }, "One of the two recordings has no programs, so there is nothing to compare.")];
    return [...whole(found, a, b), ...machines(found), ...kinds(a, b), ...programs(found), ...steps(found)];
  },
};

/** The answer: how much, and what of it lies where. @param {any} found @param {import("../core/page.js").Side} a @param {import("../core/page.js").Side} b @returns {HTMLElement[]} */
function whole(found, a, b) {
  const { a: before, b: after } = found.whole;
  const equal = before === after && !found.steps.length && !found.machines.length && !found.changes.some(changed);
  const [more] = differenceOf(before, after, "cycles");
  const times = ["A ", valueOf(before, "cycles", "comparison.cycles"), ", B ", valueOf(after, "cycles of B", "comparison.cycles"), "."];
  const said =
    before === null || after === null
      ? ["Emulated time: "]
      : !more
        ? ["Both take the same emulated time: "]
        : [`B takes ${more < 0 ? "less" : "more"} emulated time than A: B − A is `, changeOf(before, after, "cycles"), "; "];
  const names = h("p", { class: "note" }, `A is ${a.label}, B is ${b.label}. The other views show one of them, which the field above chooses.`);
  return [h("p", { class: "whole" }, said, times), equal ? h("p", {}, "No cycle and no byte differs.") : h("p", { class: "where" }, where(found, a, b)), names];
}

/** The largest difference by kind, by step, and on the fullest tile. @param {any} found @param {import("../core/page.js").Side} a @param {import("../core/page.js").Side} b @returns {import("../core/dom.js").Child[]} */
function where(found, a, b) {
  const said = [];
  const [kind] = kindsOf(a, b);
  if (kind && differs({ a: kind.values[0] ?? null, b: kind.values[1] ?? null }, "cycles")) said.push(`By kind, ${kind.words} differs most: `, changeOf(kind.values[0] ?? null, kind.values[1] ?? null, "cycles"), ". ");
  const steps = [...found.steps].sort((one, other) => most(other.cycles_per_run, "cycles") - most(one.cycles_per_run, "cycles"));
  const [step] = steps;
  if (step) said.push(`Of steps, ${step.family}${step.line ? ` of ${step.line}` : ""} in ${step.program}: `, changeOf(step.cycles_per_run.a, step.cycles_per_run.b, "cycles"), " in one run. ");
  const tiles = found.changes.filter((/** @type {any} */ program) => !program.alone && program.peak_tile_bytes.a !== program.peak_tile_bytes.b);
  const [tile] = tiles.sort((/** @type {any} */ one, /** @type {any} */ other) => most(other.peak_tile_bytes, "bytes") - most(one.peak_tile_bytes, "bytes"));
  if (tile) said.push(`The fullest tile changes most in ${tile.label}: `, changeOf(tile.peak_tile_bytes.a, tile.peak_tile_bytes.b, "bytes"), ".");
  return said;
}

/** How far B is from A. @param {Change} change @param {Unit} unit @returns {number} */
function most({ a, b }, unit) {
  return Math.abs(differenceOf(a, b, unit)[0]);
}

/** @param {Change} change @param {Unit} unit @returns {boolean} */
function differs(change, unit) {
  const { a, b } = alike(change.a, change.b, unit);
  return a !== b;
}

/** @param {any} found @returns {HTMLElement[]} */
function machines(found) {
  if (!found.machines.length) return [];
  const words = `A is of ${found.names[0]} and B of ${found.names[1]}, which differ: cycles are not those of one machine.`;
  const columns = [
    { name: "field", of: (/** @type {any} */ row) => row[0] },
    { name: "A", of: (/** @type {any} */ row) => String(row[1]) },
    { name: "B", of: (/** @type {any} */ row) => String(row[2]) },
  ];
  return [h("h2", {}, "Machines"), h("p", {}, words), table({ label: "fields of the machines that differ", columns, rows: found.machines })];
}

/** Time by kind, idle time too, so that both add up to the whole; the largest difference first. @param {import("../core/page.js").Side} a @param {import("../core/page.js").Side} b @returns {import("../core/bars.js").Bar[]} */
function kindsOf(a, b) {
  const [before, after] = [a, b].map(({ head }) => {
    const spent = Object.values(head.cycles_by_kind).reduce((sum, cycles) => sum + Number(cycles), 0);
    return { ...head.cycles_by_kind, idle: Math.max(0, head.emulated_cycles - spent) };
  });
  const rows = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])].map((name) => ({ ...lookOf(name), key: name, values: [before?.[name] ?? 0, after?.[name] ?? 0] }));
  const change = (/** @type {import("../core/bars.js").Bar} */ { values: [one, other] }) => most({ a: one ?? null, b: other ?? null }, "cycles");
  return rows.filter(({ values }) => values.some((value) => value > 0)).sort((one, other) => change(other) - change(one));
}

/** @param {import("../core/page.js").Side} a @param {import("../core/page.js").Side} b @returns {HTMLElement[]} */
function kinds(a, b) {
  const rows = kindsOf(a, b);
  if (!rows.length) return [];
  return [
    h("h2", {}, "Time by kind"),
    h("p", { class: "note" }, `Of the busiest IPU: IPU ${a.head.busiest_ipu} in A, IPU ${b.head.busiest_ipu} in B. The largest difference comes first.`),
    bars({ label: "time by kind, A and B", rows, unit: "cycles", origin: "head.kinds", names: ["A", "B"], difference: true }),
  ];
}

/** @param {any} found @returns {HTMLElement[]} */
function programs(found) {
  const rows = found.changes.flatMap((/** @type {any} */ program) =>
    FIGURES.map(([key, words, unit, origin]) => ({ program, words, unit, origin, change: /** @type {Change} */ (program[key]) })).filter(
      ({ change, unit, words }) => differs(change, unit) || (program.alone && words === MEAN),
    ),
  );
  const equal = found.changes.filter((/** @type {any} */ program) => !changed(program) && !program.alone).length;
  /** @type {import("../core/table.js").Column<any>[]} */
  const columns = [
    { name: "program", of: (row) => row.program.label },
    { name: "matched by", of: (row) => (row.program.alone ? `only in ${row.program.alone}` : row.program.matched) },
    { name: "figure", of: (row) => row.words },
    { name: "A", of: (row) => row.change.a, unit: (row) => row.unit, origin: (row) => row.origin },
    { name: "B", of: (row) => row.change.b, unit: (row) => ofSide(row.unit, "b"), origin: (row) => row.origin },
    {
      name: "B − A",
      of: (row) => differenceOf(row.change.a, row.change.b, row.unit)[0],
      cell: (row) => changeOf(row.change.a, row.change.b, row.unit),
      unit: (row) => alike(null, null, row.unit).unit,
      origin: (row) => row.origin,
    },
  ];
  const note = equal ? `${plural(equal, "program is", "programs are")} equal in both.` : "";
  return [
    h("h2", {}, "Programs that differ"),
    note ? h("p", { class: "note" }, note) : null,
    table({ label: "programs that differ", columns, rows, filter: rows.length > 20, empty: "no program differs" }),
  ].filter((part) => part !== null);
}

/** @param {any} found @returns {HTMLElement[]} */
function steps(found) {
  /** @type {import("../core/table.js").Column<any>[]} */
  const columns = [
    { name: "line", of: (row) => row.line || "–" },
    { name: "operation", of: (row) => shortScope(row.scope) || "–" },
    { name: "family", of: (row) => row.family },
    { name: "program", of: (row) => row.program },
    { name: `${NAMES.ofRun}, A`, unit: "cycles", origin: "comparison.step", of: (row) => row.cycles_per_run.a },
    { name: `${NAMES.ofRun}, B`, unit: ofSide("cycles", "b"), origin: "comparison.step", of: (row) => row.cycles_per_run.b },
    {
      name: "B − A",
      unit: alike(null, null, "cycles").unit,
      origin: "comparison.step",
      of: (row) => differenceOf(row.cycles_per_run.a, row.cycles_per_run.b, "cycles")[0],
      cell: (row) => changeOf(row.cycles_per_run.a, row.cycles_per_run.b, "cycles"),
    },
  ];
  const more = found.left_out ? [h("p", { class: "note" }, `${plural(found.left_out, "further row")} with smaller differences ${found.left_out === 1 ? "is" : "are"} left out; tilestep report compare --all prints them.`)] : [];
  return [
    h("h2", {}, "Steps that differ"),
    h("p", { class: "note" }, "Steps are matched by line, operation and family. ", h("a", { href: link("source") }, "Source"), " shows them in the code."),
    table({ label: "steps that differ", columns, rows: found.steps, filter: true, empty: "no step of a program that both have differs" }),
    ...more,
  ];
}

/** @param {any} program @returns {boolean} */
function changed(program) {
  return FIGURES.some(([key, , unit]) => differs(program[key], unit));
}
