/** What changed, and where? */

import { lookOf } from "../core/colors.js";
import { h } from "../core/dom.js";
import { bars } from "../core/bars.js";
import { changeOf } from "../core/pairs.js";
import { link } from "../core/state.js";
import { table } from "../core/table.js";
import { valueOf } from "../core/value.js";

/** @typedef {import("../core/value.js").Unit} Unit */
/** @typedef {{a: number | null, b: number | null}} Change */

/** Figures of a program: key, words, unit, origin. @type {[string, string, Unit, string][]} */
const FIGURES = [
  ["cycles_per_run", "one run", "cycles", "comparison.run"],
  ["runs", "runs", "count", "comparison.runs"],
  ["load_cycles", "loads", "cycles", "comparison.loads"],
  ["peak_tile_bytes", "fullest tile", "bytes", "comparison.bytes"],
  ["flops_per_run", "operations of one run", "flops", "comparison.flops"],
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
    if (!a || !b || !found) return [h("p", { class: "absent" }, "One of the two recordings has no programs, so there is nothing to compare.")];
    return [...whole(found, a, b), ...machines(found), ...kinds(a, b), ...programs(found), ...steps(found)];
  },
};

/** @param {any} found @param {import("../core/page.js").Side} a @param {import("../core/page.js").Side} b @returns {HTMLElement[]} */
function whole(found, a, b) {
  const { a: before, b: after } = found.whole;
  const equal = before === after && !found.steps.length && !found.machines.length && !found.changes.some(differs);
  const figures = h(
    "p",
    { class: "whole" },
    "Emulated time: A ",
    valueOf(before, "cycles", "comparison.cycles"),
    ", B ",
    valueOf(after, "cycles", "comparison.cycles"),
    ", B − A ",
    before === null || after === null ? "–" : changeOf(before, after, "cycles"),
  );
  const names = h("p", {}, `A is ${a.label}, B is ${b.label}. Every view shows both, and what differs.`);
  return [figures, names, equal ? h("p", {}, "No cycle and no byte differs.") : null].filter((part) => part !== null);
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

/** @param {import("../core/page.js").Side} a @param {import("../core/page.js").Side} b @returns {HTMLElement[]} */
function kinds(a, b) {
  const names = [...new Set([...Object.keys(a.head.cycles_by_kind), ...Object.keys(b.head.cycles_by_kind)])];
  const rows = names.map((name) => ({ ...lookOf(name), key: name, values: [a.head.cycles_by_kind[name] ?? 0, b.head.cycles_by_kind[name] ?? 0] }));
  rows.sort((one, other) => Math.abs((other.values[1] ?? 0) - (other.values[0] ?? 0)) - Math.abs((one.values[1] ?? 0) - (one.values[0] ?? 0)));
  if (!rows.length) return [];
  return [
    h("h2", {}, "Time by kind"),
    h("p", { class: "note" }, `Of the busiest IPU: IPU ${a.head.busiest_ipu} in A, IPU ${b.head.busiest_ipu} in B. The largest difference comes first.`),
    bars({ label: "time by kind, A and B", rows, unit: "cycles", origin: "head.kinds", names: ["A", "B"] }),
  ];
}

/** @param {any} found @returns {HTMLElement[]} */
function programs(found) {
  const rows = found.changes.flatMap((/** @type {any} */ program) =>
    FIGURES.map(([key, words, unit, origin]) => ({ program, words, unit, origin, change: /** @type {Change} */ (program[key]) })).filter(
      ({ change, words }) => change.a !== change.b || (program.alone && words === "one run"),
    ),
  );
  const equal = found.changes.filter((/** @type {any} */ program) => !differs(program) && !program.alone).length;
  /** @type {import("../core/table.js").Column<any>[]} */
  const columns = [
    { name: "program", of: (row) => row.program.label },
    { name: "matched by", of: (row) => (row.program.alone ? `only in ${row.program.alone}` : row.program.matched) },
    { name: "figure", of: (row) => row.words },
    { name: "A", of: (row) => row.change.a, cell: (row) => valueOf(row.change.a, row.unit, row.origin), unit: "number", origin: "comparison.cycles" },
    { name: "B", of: (row) => row.change.b, cell: (row) => valueOf(row.change.b, row.unit, row.origin), unit: "number", origin: "comparison.cycles" },
    {
      name: "B − A",
      of: (row) => (row.change.b ?? 0) - (row.change.a ?? 0),
      cell: (row) => changeOf(row.change.a, row.change.b, row.unit),
      unit: "number",
      origin: "comparison.cycles",
    },
  ];
  const note = equal ? `${equal} ${equal === 1 ? "program is" : "programs are"} equal in both.` : "";
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
    { name: "operation", of: (row) => row.scope.split("/").slice(-2).join("/") || "–" },
    { name: "family", of: (row) => row.family },
    { name: "program", of: (row) => row.program },
    { name: "A", unit: "cycles", origin: "comparison.step", of: (row) => row.cycles_per_run.a },
    { name: "B", unit: "cycles", origin: "comparison.step", of: (row) => row.cycles_per_run.b },
    {
      name: "B − A",
      unit: "cycles",
      origin: "comparison.step",
      of: (row) => (row.cycles_per_run.b ?? 0) - (row.cycles_per_run.a ?? 0),
      cell: (row) => changeOf(row.cycles_per_run.a, row.cycles_per_run.b, "cycles"),
    },
  ];
  const more = found.left_out ? [h("p", { class: "note" }, `${found.left_out} further rows with smaller differences are left out; tilestep report compare --all prints them.`)] : [];
  return [
    h("h2", {}, "Steps that differ"),
    h("p", { class: "note" }, "Cycles of one run. Steps are matched by line, operation and family. ", h("a", { href: link("source") }, "Source"), " shows them in the code."),
    table({ label: "steps that differ", columns, rows: found.steps, filter: true, empty: "no step differs" }),
    ...more,
  ];
}

/** @param {any} program @returns {boolean} */
function differs(program) {
  return FIGURES.some(([key]) => program[key].a !== program[key].b);
}
