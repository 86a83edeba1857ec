/** What a chosen line became: its steps, and who called it. */

import { h } from "../../core/dom.js";
import { link } from "../../core/state.js";
import { table } from "../../core/table.js";
import { valueOf } from "../../core/value.js";
import { CYCLE_KINDS, NAMES, ownStack, shortScope } from "../steps/read.js";
import { CYCLES, figuresOf } from "./code.js";

/** @import { Steps, Leaf } from "../steps/read.js" */
/** @import { CodeLine, Source, SourceFile } from "./costs.js" */

/** @type {["dispatches" | "waits" | "reads", string][]} */
const CALLS_OF = [["dispatches", "runs of programs"], ["waits", "waits of the host"], ["reads", "reads of values"]];

/** @param {Source} source @param {Steps} steps @param {SourceFile} file @param {CodeLine} line @returns {HTMLElement[]} */
export function linePanel(source, steps, { file }, { number, text, cost }) {
  const leaves = cost ? steps.leaves.filter((leaf) => leaf.line?.file === file && leaf.line.line === number && leaf.executions > 0) : [];
  return [
    h("h3", {}, `${file}:${number}`, cost?.function ? [" in ", h("code", {}, cost.function)] : null),
    ...(text === null ? [] : [h("pre", { class: "line-text" }, text.trim())]),
    ...(cost ? [figuresLine(source, { number, text, cost })] : []),
    stepTable(steps, leaves),
    ...callers(steps, leaves),
  ];
}

/** @param {Source} source @param {CodeLine & {cost: import("./costs.js").Cost}} line @returns {HTMLElement} */
function figuresLine(source, line) {
  const { cost } = line;
  return h(
    "p",
    { class: "figures" },
    figuresOf(source, [line])
      .filter(({ of }) => of(cost) > 0)
      .map((figure) => h("span", { class: "figure" }, `${figure.name} `, valueOf(figure.of(cost), figure.unit, figure.origin), figure === CYCLES ? [" (", valueOf(cost.cycles / Math.max(source.cycles, 1), "share", "source.share"), ")"] : null)),
    CALLS_OF.filter(([key]) => cost[key] > 0).map(([key, words]) => h("span", { class: "figure" }, `${words} `, valueOf(cost[key], "count", "source.calls"))),
  );
}

/** @param {Steps} steps @param {Leaf[]} leaves @returns {HTMLElement} */
function stepTable({ programs }, leaves) {
  const time = { unit: /** @type {const} */ ("cycles"), origin: "steps.cycles" };
  /** @type {import("../../core/table.js").Column<Leaf>[]} */
  const columns = [
    { name: "step", of: (leaf) => leaf.name, cell: (leaf) => h("a", { href: link("program", { program: programs[leaf.program]?.row ?? 0, leaf: leaf.number }) }, leaf.name) },
    { name: "program", of: (leaf) => programs[leaf.program]?.label },
    { name: "operation", of: (leaf) => leaf.scope, cell: (leaf) => h("span", { "data-tip": leaf.scope || false }, shortScope(leaf.scope) || "–") },
    { name: "family", of: (leaf) => leaf.family },
    { ...time, name: NAMES.time, of: (leaf) => leaf.cycles },
    ...CYCLE_KINDS.map(([kind, name]) => ({ ...time, name, of: (/** @type {Leaf} */ leaf) => leaf.executions * leaf[kind] })),
    { name: NAMES.executions, unit: "count", origin: "steps.executions", of: (leaf) => leaf.executions },
  ];
  return table({ label: "steps of the line", columns, rows: leaves, sortBy: 4, empty: "No step of a program came from this line." });
}

/** @param {Steps} steps @param {Leaf[]} leaves @returns {HTMLElement[]} */
function callers(steps, leaves) {
  /** @type {Map<string, {stack: import("../steps/read.js").Line[], cycles: number}>} */
  const stacks = new Map();
  for (const leaf of leaves) {
    const stack = ownStack(steps, leaf.line).slice(1);
    const key = stack.map(({ index }) => index).join(" ");
    const entry = stacks.get(key) ?? { stack, cycles: 0 };
    entry.cycles += leaf.cycles;
    stacks.set(key, entry);
  }
  const sorted = [...stacks.values()].filter(({ stack }) => stack.length).sort((a, b) => b.cycles - a.cycles);
  if (!sorted.length) return [];
  const items = sorted.slice(0, 20).map(({ stack, cycles }) =>
    h(
      "li",
      {},
      valueOf(cycles, "cycles", "steps.cycles"),
      stack.map((each) => [" ← ", h("a", { href: link("source", { file: each.file, line: each.line }), "data-tip": each.name }, `${each.function || "?"}:${each.line}`)]).flat(),
    ),
  );
  return [
    h("h4", {}, "Who called it"),
    h("ul", { class: "callers" }, items),
    h("p", { class: "note" }, `Lines of JAX and of tilestep are left out.${sorted.length > 20 ? ` ${sorted.length - 20} further ways that take less time too.` : ""}`),
  ];
}
