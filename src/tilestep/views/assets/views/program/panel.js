/** All figures of one node. */

import { h } from "../../core/dom.js";
import { changeOf } from "../../core/pairs.js";
import { link } from "../../core/state.js";
import { ofSide, valueOf } from "../../core/value.js";
import { CYCLE_KINDS, KIND, NAMES } from "../steps/read.js";
import { either, kindWords } from "./pairs.js";

/** @import { Both } from "./pairs.js" */
/** @import { Node, Program } from "../steps/read.js" */
/** @import { Unit } from "../../core/value.js" */
/** @typedef {{words: string, unit: Unit, origin: string, of: (node: Node, program: Program) => number | null | undefined}} Figure */
/** @typedef {{words: string, of: (node: Node) => string}} Text */

const some = (/** @type {number} */ value) => value || null;

/** @type {Figure[]} */
const FIGURES = [
  { words: "runs of the program", unit: "count", origin: "steps.executions", of: (node, program) => (node.kind === KIND.ROOT ? program.runs : null) },
  { words: "time in all runs", unit: "cycles", origin: "steps.cycles", of: (node, program) => (program.runs ? node.cycles : null) },
  { words: NAMES.ofRun, unit: "cycles", origin: "steps.run", of: (node, program) => node.cycles / (program.runs || 1) },
  { words: "share of the program", unit: "share", origin: "steps.share_of_program", of: (node, program) => (program.cycles ? node.cycles / program.cycles : null) },
  { words: "trips, known to the compiler", unit: "count", origin: "steps.fixed_trips", of: (node) => (node.kind === KIND.LOOP && node.trips >= 0 ? node.trips : null) },
  { words: "trips in all runs", unit: "count", origin: "steps.trips", of: (node, program) => (node.kind === KIND.LOOP && program.runs ? node.times : null) },
  { words: "taken in all runs", unit: "count", origin: "steps.arm", of: (node, program) => (node.kind === KIND.ARM && program.runs && !node.assumed ? node.times : null) },
  { words: "executions in all runs", unit: "count", origin: "steps.executions", of: (node, program) => (node.leaf && program.runs ? node.leaf.executions : null) },
  { words: "executions in one run", unit: "count", origin: "steps.executions_of_run", of: ({ leaf }) => (leaf ? some(leaf.ofRun) : null) },
  { words: "time of one execution", unit: "cycles", origin: "steps.once", of: ({ leaf }) => (leaf?.priced ? leaf.onceTotal : null) },
  ...CYCLE_KINDS.map(([kind, words]) => ({ words: `· ${words}`, unit: /** @type {Unit} */ ("cycles"), origin: "steps.once", of: (/** @type {Node} */ { leaf }) => (leaf ? some(leaf.once[kind]) : null) })),
  { words: "· of it fixed cost", unit: "cycles", origin: "steps.overhead", of: ({ leaf }) => (leaf && leaf.overhead > 0 ? leaf.overhead : null) },
  { words: "flop of one execution", unit: "flops", origin: "steps.flops_once", of: ({ leaf }) => (leaf?.kind === KIND.SUPERSTEP ? leaf.flops : null) },
  { words: "flop in all runs", unit: "flops", origin: "steps.flops", of: (node, program) => (!node.leaf && program.runs ? some(node.flops) : null) },
  { words: "exchange bytes of one execution, busiest tile", unit: "bytes", origin: "steps.exchange_bytes_once", of: ({ leaf }) => (leaf?.kind === KIND.SUPERSTEP ? leaf.exchangeBytes : null) },
  { words: "temporary, fullest tile", unit: "bytes", origin: "steps.temporary", of: ({ leaf }) => (leaf?.kind === KIND.SUPERSTEP ? leaf.temporary : null) },
  { words: "code of the codelet", unit: "bytes", origin: "steps.code", of: ({ leaf }) => (leaf ? some(leaf.codeletBytes) : null) },
  { words: "code of the exchanges", unit: "bytes", origin: "steps.code", of: ({ leaf }) => (leaf ? some(leaf.exchangeCodeBytes) : null) },
  { words: "vertex state", unit: "bytes", origin: "steps.code", of: ({ leaf }) => (leaf ? some(leaf.vertexStateBytes) : null) },
  { words: "size on one IPU", unit: "bytes", origin: "steps.size", of: ({ leaf }) => (leaf?.kind === KIND.COLLECTIVE ? leaf.sizeBytes : null) },
  { words: "to the host", unit: "bytes", origin: "steps.host", of: ({ leaf }) => (leaf?.kind === KIND.HOST_CALL ? leaf.toHost : null) },
  { words: "from the host", unit: "bytes", origin: "steps.host", of: ({ leaf }) => (leaf?.kind === KIND.HOST_CALL ? leaf.fromHost : null) },
];
/** @type {Text[]} */
const TEXTS = [
  { words: "instruction", of: (node) => (node.kind === KIND.ROOT || node.kind === KIND.ARM ? "" : node.name) },
  { words: "operation", of: (node) => node.scope },
  { words: "family", of: ({ leaf }) => leaf?.family ?? "" },
  { words: "dtype", of: ({ leaf }) => leaf?.dtype ?? "" },
  { words: "codelet", of: ({ leaf }) => leaf?.codelet.trim() ?? "" },
  { words: "groups of IPUs", of: ({ leaf }) => leaf?.groups ?? "" },
  { words: "estimator", of: ({ leaf }) => (leaf?.fallback ? "none of its own: priced by a rough bound" : "") },
];

/**
 * @param {Both} node
 * @param {{a?: Program, b?: Program}} pair
 * @returns {HTMLElement[]}
 */
export function nodePanel(node, pair) {
  const here = either(node);
  const two = Boolean(pair.a && pair.b);
  const place = node.parent?.children.indexOf(node) ?? 0;
  /** @type {[Node, Program][]} */
  const of = [];
  if (node.a && pair.a) of.push([node.a, pair.a]);
  if (node.b && pair.b) of.push([node.b, pair.b]);
  const rows = FIGURES.map((figure) => {
    const at = (/** @type {Node | undefined} */ each, /** @type {Program | undefined} */ program) => (each && program ? (figure.of(each, program) ?? null) : null);
    const [a, b] = [at(node.a, pair.a), at(node.b, pair.b)];
    if (a === null && b === null) return null;
    const cell = (/** @type {number | null} */ value, /** @type {"a" | "b"} */ side) => h("td", { class: "number" }, valueOf(value, ofSide(figure.unit, side), figure.origin));
    return h("tr", {}, h("th", { scope: "row" }, figure.words), two ? [cell(a, "a"), cell(b, "b"), h("td", { class: "number" }, changeOf(a, b, figure.unit))] : cell(b ?? a, pair.b ? "b" : "a"));
  });
  const texts = TEXTS.map((row) => {
    const said = [...new Set(of.map(([each]) => row.of(each)))].filter(Boolean);
    return said.length ? h("tr", {}, h("th", { scope: "row" }, row.words), h("td", { class: "long", colspan: two ? 3 : 1 }, said.join(" → "))) : null;
  });
  const { line, leaf } = here;
  return [
    h("h2", {}, `${kindWords(here, place)} `, here.kind === KIND.ARM ? null : h("code", {}, here.name)),
    h(
      "table",
      { class: "node-figures" },
      two ? h("thead", {}, h("tr", {}, h("td", {}), ["A", "B", "B − A"].map((name) => h("th", { scope: "col", class: "number" }, name)))) : null,
      h(
        "tbody",
        {},
        texts,
        line ? h("tr", {}, h("th", { scope: "row" }, "line"), h("td", { class: "long", colspan: two ? 3 : 1 }, h("a", { href: link("source", { file: line.file, line: line.line }) }, line.name), line.function ? ` in ${line.function}` : "")) : null,
        rows,
      ),
    ),
    leaf ? h("p", {}, h("a", { href: link("operations", { group: "none", operation: `${node.b ? "b" : "a"} ${leaf.program} ${leaf.number}` }) }, "What limits it?")) : null,
  ].filter((part) => part !== null);
}
