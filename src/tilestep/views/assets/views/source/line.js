/** What a chosen line became: its steps, and who called it. */

import { h } from "../../core/dom.js";
import { columnsOf, either, joined } from "../../core/pairs.js";
import { link } from "../../core/state.js";
import { table } from "../../core/table.js";
import { ofSide, valueOf } from "../../core/value.js";
import { CYCLE_KINDS, NAMES, ownStack, pairNumbers, programPairs, shortScope } from "../steps/read.js";
import { CYCLES, figuresOf } from "./code.js";

/** @import { Steps, Leaf } from "../steps/read.js" */
/** @import { CodeLine, Source } from "./costs.js" */

/**
 * @param {import("../../core/page.js").Page} page
 * @param {Source[]} sources
 * @param {Steps[]} all
 * @param {string} file
 * @param {CodeLine} line
 * @returns {HTMLElement[]}
 */
export function linePanel(page, sources, all, file, line) {
  const leavesOf = (/** @type {Steps} */ steps) => {
    const cost = line[steps.side.name];
    return cost ? steps.leaves.filter((leaf) => leaf.line?.file === cost.file && leaf.line.line === cost.line && leaf.executions > 0) : [];
  };
  const found = all.map((steps) => ({ steps, leaves: leavesOf(steps) }));
  const name = (line.b ?? line.a)?.function ?? "";
  return [
    h("h3", {}, `${file}:${line.number}`, name ? [" in ", h("code", {}, name)] : null),
    line.text === null ? null : h("pre", { class: "line-text" }, line.text.trim()),
    ...sources.map((source) => figuresLine(source, line, sources)),
    stepTable(page, all, found),
    ...found.flatMap(({ steps, leaves }) => callers(steps, leaves, all.length > 1)),
  ].filter((part) => part !== null);
}

/** @param {Source} source @param {CodeLine} line @param {Source[]} sources @returns {HTMLElement | null} */
function figuresLine(source, line, sources) {
  const cost = line[source.side.name];
  const before = sources.length > 1 ? h("strong", {}, `${source.side.name.toUpperCase()}${cost && cost.line !== line.number ? ` (line ${cost.line})` : ""}: `) : null;
  if (!cost) return sources.length > 1 ? h("p", {}, before, "no cost") : null;
  const parts = figuresOf([source], [line]).filter(({ of }) => of(cost) > 0);
  return h(
    "p",
    { class: "figures" },
    before,
    parts.map((figure) => h("span", { class: "figure" }, `${figure.name} `, valueOf(figure.of(cost), ofSide(figure.unit, source.side.name), figure.origin), figure === CYCLES ? [" (", valueOf(cost.cycles / Math.max(source.cycles, 1), "share", "source.share"), ")"] : null)),
    CALLS_OF.filter(([key]) => cost[key] > 0).map(([key, words]) => h("span", { class: "figure" }, `${words} `, valueOf(cost[key], "count", "source.calls"))),
  );
}

/** @type {["dispatches" | "waits" | "reads", string][]} */
const CALLS_OF = [["dispatches", "runs of programs"], ["waits", "waits of the host"], ["reads", "reads of values"]];

/**
 * @param {import("../../core/page.js").Page} page
 * @param {Steps[]} all
 * @param {{steps: Steps, leaves: Leaf[]}[]} found
 * @returns {HTMLElement}
 */
function stepTable(page, all, found) {
  const pairOf = pairNumbers(programPairs(page, all));
  const rows = joined(
    found.map(({ steps, leaves }) => ({ name: steps.side.name, rows: leaves })),
    (leaf, side) => [pairOf.get(`${side} ${leaf.program}`), leaf.scope, leaf.family].join("\n"),
  );
  const label = (/** @type {import("../../core/pairs.js").Pair<Leaf>} */ pair) => {
    const steps = all.find(({ side }) => side.name === (pair.b ? "b" : "a"));
    return steps?.programs[(pair.b ?? pair.a)?.program ?? -1]?.label ?? "";
  };
  const sides = all.map(({ side }) => side);
  /** @type {import("../../core/table.js").Column<import("../../core/pairs.js").Pair<Leaf>>[]} */
  const columns = [
    { name: "step", of: either((leaf) => leaf.name), cell: (pair) => stepLink(all, pair) },
    { name: "program", of: label },
    { name: "operation", of: either((leaf) => leaf.scope), cell: either((leaf) => h("span", { "data-tip": leaf.scope || false }, shortScope(leaf.scope) || "–")) },
    { name: "family", of: either((leaf) => leaf.family) },
    ...columnsOf(sides, { name: NAMES.time, unit: "cycles", origin: "steps.cycles", of: (/** @type {Leaf} */ leaf) => leaf.cycles }),
    ...(sides.length > 1 ? [] : CYCLE_KINDS.flatMap(([kind, words]) => columnsOf(sides, { name: words, unit: "cycles", origin: "steps.cycles", of: (/** @type {Leaf} */ leaf) => leaf.executions * leaf.once[kind] }))),
    ...columnsOf(sides, { name: NAMES.executions, unit: "count", origin: "steps.executions", of: (/** @type {Leaf} */ leaf) => leaf.executions }),
  ];
  return table({ label: "steps of the line", columns, rows, sortBy: 4, empty: "No step of a program came from this line." });
}

/** @param {Steps[]} all @param {import("../../core/pairs.js").Pair<Leaf>} pair @returns {HTMLElement} */
function stepLink(all, pair) {
  const side = pair.b ? "b" : "a";
  const leaf = /** @type {Leaf} */ (pair.b ?? pair.a);
  const program = all.find((steps) => steps.side.name === side)?.programs[leaf.program];
  return h("a", { href: link("program", { program: `${side}${program?.row ?? 0}`, leaf: leaf.number }) }, leaf.name);
}

/** @param {Steps} steps @param {Leaf[]} leaves @param {boolean} two @returns {HTMLElement[]} */
function callers(steps, leaves, two) {
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
      valueOf(cycles, steps.side.cycles, "steps.cycles"),
      stack.map((each) => [" ← ", h("a", { href: link("source", { file: each.file, line: each.line }), "data-tip": each.name }, `${each.function || "?"}:${each.line}`)]).flat(),
    ),
  );
  return [
    h("h4", {}, two ? `Who called it in ${steps.side.name.toUpperCase()}` : "Who called it"),
    h("ul", { class: "callers" }, items),
    h("p", { class: "note" }, `Lines of JAX and of tilestep are left out.${sorted.length > 20 ? ` ${sorted.length - 20} further ways that take less time too.` : ""}`),
  ];
}
