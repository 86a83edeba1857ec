/** Which operation takes long, and how far is it from what the machine can do? */

import { h, replace } from "../core/dom.js";
import { plural, shortPath } from "../core/format.js";
import { get, set } from "../core/state.js";
import { table } from "../core/table.js";
import { valueOf } from "../core/value.js";
import { bytesPerCycle, GROUPINGS, operationsOf, peakOf, rateOf } from "./operations/rows.js";
import { verdict } from "./operations/verdict.js";
import { choice, searchField } from "./steps/controls.js";
import { CYCLE_KINDS, NAMES, shortScope, stepsOf } from "./steps/read.js";

/** @import { Operation, Grouping } from "./operations/rows.js" */
/** @import { Steps, Leaf } from "./steps/read.js" */

const MOST_FAMILIES = 4; // that are named first
const MOST_OF_LINE = 32; // characters, in a column

/** @type {import("../core/page.js").View} */
export const operations = {
  name: "operations",
  title: "Operations",
  question: "Which operation takes long, and how far is it from what the machine can do?",
  needs: "steps",
  absent: "The recording has no programs.",
  async render(side) {
    const steps = await stepsOf(side);
    const place = h("div");
    const said = h("section", { class: "verdicts", "aria-live": "polite", "aria-label": "the chosen operation" });
    const note = h("span", { class: "note", role: "status" });

    function draw() {
      const grouping = groupingOf(get("group"));
      const [family, program, words] = [get("family"), get("program"), get("q").toLowerCase().split(/\s+/).filter(Boolean)];
      const wanted = (/** @type {Leaf} */ leaf) => {
        if ((family && leaf.family !== family) || (program && String(leaf.program) !== program)) return false;
        const text = [leaf.name, leaf.scope, leaf.family, leaf.line?.name, leaf.dtype, leaf.codelet, steps.programs[leaf.program]?.label].join("\n").toLowerCase();
        return words.every((word) => text.includes(word));
      };
      const rows = operationsOf(steps, grouping, wanted).sort((one, other) => other.cycles - one.cycles);
      const choose = (/** @type {Operation | undefined} */ row) => replace(said, row ? verdict(row, grouping) : h("p", {}, "No operation is left."));
      const open = (/** @type {Operation} */ row) => {
        set({ operation: row.id });
        choose(row);
      };
      choose(rows.find((row) => row.id && row.id === get("operation")) ?? rows[0]);
      note.textContent = `${plural(rows.length, "row")} of ${plural(rows.reduce((sum, row) => sum + row.leaves.length, 0), "step")}`;
      replace(place, operationTable(rows, grouping, open));
    }

    const change = (/** @type {string} */ key, /** @type {string} */ none) => (/** @type {string} */ value) => {
      set({ [key]: value === none ? null : value, operation: null });
      draw();
    };
    const families = [...new Set(steps.leaves.map(({ family }) => family))].sort().map((name) => /** @type {[string, string]} */ ([name, name]));
    const names = steps.programs.map(({ label }, index) => /** @type {[string, string]} */ ([String(index), label]));
    draw();
    return [
      ...answer(steps),
      h(
        "div",
        { class: "controls" },
        choice("grouped by", GROUPINGS, groupingOf(get("group")), change("group", "line")),
        choice("family", [["", "all"], ...families], get("family"), change("family", "")),
        names.length > 1 ? choice("program", [["", "all"], ...names], get("program"), change("program", "")) : null,
        searchField("search in the operations", get("q"), change("q", "")),
        note,
      ),
      ...notes(steps),
      said,
      place,
    ];
  },
};

/** Where the time goes, by family. @param {Steps} steps @returns {HTMLElement[]} */
function answer(steps) {
  const rows = operationsOf(steps, "family", () => true).sort((one, other) => other.cycles - one.cycles);
  if (!steps.cycles) return [];
  const named = rows.slice(0, MOST_FAMILIES).flatMap((row, place) => [place ? ", " : "", `${row.family} `, valueOf(row.cycles / steps.cycles, "share", "steps.share")]);
  return [h("p", { class: "answer" }, `${steps.ran ? "All steps take" : "One run of each program takes"} `, valueOf(steps.cycles, "cycles", steps.ran ? "steps.cycles" : "steps.once"), ". By family: ", named, rows.length > MOST_FAMILIES ? " and others." : ".")];
}

/** @param {string} value @returns {Grouping} */
function groupingOf(value) {
  return GROUPINGS.find(([name]) => name === value)?.[0] ?? "line";
}

/** What is not there, and why. @param {Steps} steps @returns {HTMLElement[]} */
function notes(steps) {
  const found = [];
  if (!steps.ran && steps.leaves.length) found.push("Nothing ran, so these are the figures of one run of each program. Steps whose number depends on data are left out.");
  const out = steps.programs.filter(({ left_out: why, runs }) => why && runs);
  if (out.length) found.push(`${plural(out.length, "program is", "programs are")} left out. ${[...new Set(out.map((program) => program.left_out))].join(" ")}`);
  return found.map((words) => h("p", { class: "note" }, words));
}

/** @param {Operation[]} rows @param {Grouping} grouping @param {(row: Operation) => void} open @returns {HTMLElement} */
function operationTable(rows, grouping, open) {
  /** @type {import("../core/table.js").Column<Operation>[]} */
  const words = [
    { name: "step", of: (row) => row.name, cell: (row) => tipped(row.name) },
    { name: "program", of: (row) => row.program, cell: (row) => tipped(row.program) },
    { name: "operation", of: (row) => row.scope, cell: (row) => tipped(row.scope, shortScope(row.scope)) },
    { name: "family", of: (row) => row.family, cell: (row) => tipped(row.family) },
    { name: "line", of: (row) => row.line, cell: (row) => tipped(row.line, shortPath(row.line, MOST_OF_LINE)) },
  ];
  const lead = grouping === "none" ? 0 : words.findIndex(({ name }) => name === (grouping === "scope" ? "operation" : grouping));
  const leading = words.splice(lead, 1);
  const time = { name: NAMES.time, unit: /** @type {const} */ ("cycles"), origin: "steps.cycles" };
  // What says how good an operation is stands first, so that a narrow window shows it; what its time is made of is last.
  /** @type {import("../core/table.js").Column<Operation>[]} */
  const columns = [
    ...leading,
    { ...time, of: (row) => row.cycles },
    { name: "share", unit: "share", origin: "steps.share", of: (row) => (row.steps.cycles ? row.cycles / row.steps.cycles : null) },
    { name: NAMES.flop, unit: "flops", origin: "steps.flops", of: (row) => row.flops },
    { name: "of peak", unit: "share", origin: "steps.peak", of: peakOf },
    ...words,
    ...CYCLE_KINDS.filter(([kind]) => rows.some((row) => row[kind])).map(([kind, name]) => ({ ...time, name, of: (/** @type {Operation} */ row) => row[kind] })),
    { name: NAMES.executions, unit: "count", origin: "steps.executions", of: (row) => row.executions },
    { name: "flop/s", unit: "flop/s", origin: "steps.rate", of: rateOf },
    { name: NAMES.exchanged, unit: "bytes", origin: "steps.exchange_bytes", of: (row) => row.exchange_bytes },
    { name: "bytes/cycle", unit: "B/cycle", origin: "steps.per_cycle", of: bytesPerCycle },
  ];
  const list = table({ label: "operations", columns, rows, sortBy: 1, open, empty: "nothing ran" });
  list.classList.add("operation-table");
  return list;
}

/** A name that may be cut, whole in its tip. @param {string} whole @param {string} [short] @returns {HTMLElement} */
function tipped(whole, short = whole) {
  return h("span", { "data-tip": whole || false }, short || "–");
}
