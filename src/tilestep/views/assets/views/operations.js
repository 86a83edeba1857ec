/** Which operation takes long, and how far is it from what the machine can do? */

import { h, replace } from "../core/dom.js";
import { plural, shortPath } from "../core/format.js";
import { columnsOf, cyclesOf, either } from "../core/pairs.js";
import { get, set } from "../core/state.js";
import { table } from "../core/table.js";
import { valueOf } from "../core/value.js";
import { bytesPerCycle, GROUPINGS, operationsOf, pairsOf, peakOf, rateOf } from "./operations/rows.js";
import { verdict } from "./operations/verdict.js";
import { choice, searchField } from "./steps/controls.js";
import { CYCLE_KINDS, NAMES, pairNumbers, programPairs, shortScope, stepsOf } from "./steps/read.js";

/** @import { Operation, OperationPair, Grouping } from "./operations/rows.js" */
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
  async render(sides, page) {
    const all = await Promise.all(sides.map(stepsOf));
    const two = all.length > 1;
    const programs = programPairs(page, all);
    const pairOf = pairNumbers(programs);
    const place = h("div");
    const said = h("section", { class: "verdicts", "aria-live": "polite", "aria-label": "the chosen operation" });
    const note = h("span", { class: "note", role: "status" });

    function draw() {
      const grouping = groupingOf(get("group"));
      const [family, program, words] = [get("family"), get("program"), get("q").toLowerCase().split(/\s+/).filter(Boolean)];
      const wanted = (/** @type {Steps} */ steps) => (/** @type {Leaf} */ leaf) => {
        if (family && leaf.family !== family) return false;
        if (program && String(pairOf.get(`${steps.side.name} ${leaf.program}`)) !== program) return false;
        if (!words.length) return true;
        const text = [leaf.name, leaf.scope, leaf.family, leaf.line?.name, leaf.dtype, leaf.codelet, steps.programs[leaf.program]?.label].join("\n").toLowerCase();
        return words.every((word) => text.includes(word));
      };
      const rows = all.map((steps) => ({ name: steps.side.name, rows: operationsOf(steps, grouping, wanted(steps)) }));
      const pairs = pairsOf(rows, pairOf, grouping).sort((one, other) => cyclesOf(other) - cyclesOf(one));
      const idOf = (/** @type {OperationPair} */ pair) => (pair.b ? `b ${pair.b.id}` : `a ${pair.a?.id}`);
      let chosen = pairs.find((pair) => idOf(pair) === get("operation")) ?? pairs[0] ?? null;
      const say = () => replace(said, chosen ? [chosen.a, chosen.b].flatMap((operation) => (operation ? [verdict(operation, grouping, two)] : [])) : h("p", {}, "No operation is left."));
      const choose = (/** @type {OperationPair} */ pair) => {
        chosen = pair;
        set({ operation: idOf(pair) });
        say();
      };
      say();
      const steps = rows.reduce((sum, side) => sum + side.rows.reduce((found, row) => found + row.leaves.length, 0), 0);
      note.textContent = `${plural(pairs.length, "row")} of ${plural(steps, "step")}`;
      replace(place, operationTable(all, pairs, grouping, choose));
    }

    const change = (/** @type {string} */ key, /** @type {string} */ none) => (/** @type {string} */ value) => {
      set({ [key]: value === none ? null : value, operation: null });
      draw();
    };
    const families = [...new Set(all.flatMap(({ leaves }) => leaves.map(({ family }) => family)))].sort().map((name) => /** @type {[string, string]} */ ([name, name]));
    const names = programs.map(({ a, b }, index) => /** @type {[string, string]} */ ([String(index), (b ?? a)?.label ?? ""]));
    draw();
    return [
      ...all.flatMap((steps) => answer(steps, two)),
      h(
        "div",
        { class: "controls" },
        choice("grouped by", GROUPINGS, groupingOf(get("group")), change("group", "line")),
        choice("family", [["", "all"], ...families], get("family"), change("family", "")),
        programs.length > 1 ? choice("program", [["", "all"], ...names], get("program"), change("program", "")) : null,
        searchField("search in the operations", get("q"), change("q", "")),
        note,
      ),
      ...all.flatMap((steps) => notes(steps, two)),
      said,
      place,
    ];
  },
};

/** Where the time goes, by family. @param {Steps} steps @param {boolean} two @returns {HTMLElement[]} */
function answer(steps, two) {
  const rows = operationsOf(steps, "family", () => true).sort((one, other) => other.cycles - one.cycles);
  if (!steps.cycles) return [];
  const named = rows.slice(0, MOST_FAMILIES).flatMap((row, place) => [place ? ", " : "", `${row.family} `, valueOf(row.cycles / steps.cycles, "share", "steps.share")]);
  const whose = two ? h("strong", {}, `${steps.side.name.toUpperCase()}: `) : null;
  return [h("p", { class: "answer" }, whose, `${steps.ran ? "All steps take" : "One run of each program takes"} `, valueOf(steps.cycles, steps.side.cycles, steps.ran ? "steps.cycles" : "steps.once"), ". By family: ", named, rows.length > MOST_FAMILIES ? " and others." : ".")];
}

/** @param {string} value @returns {Grouping} */
function groupingOf(value) {
  return GROUPINGS.find(([name]) => name === value)?.[0] ?? "line";
}

/** What is not there, and why. @param {Steps} steps @param {boolean} two @returns {HTMLElement[]} */
function notes(steps, two) {
  const whose = two ? `${steps.side.name.toUpperCase()}: ` : "";
  const found = [];
  if (!steps.ran && steps.leaves.length) found.push(`${whose}Nothing ran, so these are the figures of one run of each program. Steps whose number depends on data are left out.`);
  const out = steps.programs.filter(({ leftOut, runs }) => leftOut && runs);
  if (out.length) found.push(`${whose}${plural(out.length, "program is", "programs are")} left out. ${[...new Set(out.map(({ leftOut }) => leftOut))].join(" ")}`);
  return found.map((words) => h("p", { class: "note" }, words));
}

/**
 * @param {Steps[]} all
 * @param {OperationPair[]} pairs
 * @param {Grouping} grouping
 * @param {(pair: OperationPair) => void} choose
 * @returns {HTMLElement}
 */
function operationTable(all, pairs, grouping, choose) {
  const sides = all.map(({ side }) => side);
  const two = sides.length > 1;
  const any = (/** @type {(operation: Operation) => number} */ of) => pairs.some(({ a, b }) => (a && of(a)) || (b && of(b)));
  const share = (/** @type {Operation} */ row) => (row.steps.cycles ? row.cycles / row.steps.cycles : null);
  /** @type {import("../core/table.js").Column<OperationPair>[]} */
  const words = [
    { name: "step", of: either((/** @type {Operation} */ row) => row.name), cell: either((/** @type {Operation} */ row) => tipped(row.name)) },
    { name: "program", of: either((/** @type {Operation} */ row) => row.program), cell: either((/** @type {Operation} */ row) => tipped(row.program)) },
    { name: "operation", of: either((/** @type {Operation} */ row) => row.scope), cell: either((/** @type {Operation} */ row) => tipped(row.scope, shortScope(row.scope))) },
    { name: "family", of: either((/** @type {Operation} */ row) => row.family), cell: either((/** @type {Operation} */ row) => tipped(row.family)) },
    { name: "line", of: either((/** @type {Operation} */ row) => row.line), cell: either((/** @type {Operation} */ row) => tipped(row.line, shortPath(row.line, MOST_OF_LINE))) },
  ];
  const lead = grouping === "none" ? 0 : words.findIndex(({ name }) => name === (grouping === "scope" ? "operation" : grouping));
  const leading = words.splice(lead, 1);
  /** @typedef {{name: string, unit: import("../core/value.js").Unit, origin: string, of: (row: Operation) => number | null}} Figure */
  /** @type {Figure} */
  const time = { name: NAMES.time, unit: "cycles", origin: "steps.cycles", of: (row) => row.cycles };
  /** @type {Figure} */
  const executions = { name: NAMES.executions, unit: "count", origin: "steps.executions", of: (row) => row.executions };
  /** @type {Figure} */
  const rate = { name: "flop/s", unit: "flop/s", origin: "steps.rate", of: rateOf };
  /** @type {Figure[]} */
  const kinds = CYCLE_KINDS.filter(([kind]) => any((row) => row[kind])).map(([kind, name]) => ({ ...time, name, of: (row) => row[kind] }));
  // What says how good an operation is stands first, so that a narrow window shows it; what its time is made of is last.
  /** @type {[Figure[], Figure[]]} */
  const [first, last] = two
    ? [[time], [executions, rate]]
    : [
        [
          time,
          { name: "share", unit: "share", origin: "steps.share", of: share },
          { name: NAMES.flop, unit: "flops", origin: "steps.flops", of: (row) => row.flops },
          { name: "of peak", unit: "share", origin: "steps.peak", of: peakOf },
        ],
        [
          ...kinds,
          executions,
          rate,
          { name: NAMES.exchanged, unit: "bytes", origin: "steps.exchange_bytes", of: (row) => row.exchangeBytes },
          { name: "bytes/cycle", unit: "B/cycle", origin: "steps.per_cycle", of: bytesPerCycle },
        ],
      ];
  const columns = [...leading, ...first.flatMap((figure) => columnsOf(sides, figure)), ...words, ...last.flatMap((figure) => columnsOf(sides, figure))];
  const list = table({ label: "operations", columns, rows: pairs, sortBy: two ? 3 : 1, open: choose, empty: "nothing ran" });
  list.classList.add("operation-table");
  return list;
}

/** A name that may be cut, whole in its tip. @param {string} whole @param {string} [short] @returns {HTMLElement} */
function tipped(whole, short = whole) {
  return h("span", { "data-tip": whole || false }, short || "–");
}
