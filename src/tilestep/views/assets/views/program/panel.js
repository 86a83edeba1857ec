/** All figures of one node. */

import { h } from "../../core/dom.js";
import { link } from "../../core/state.js";
import { valueOf } from "../../core/value.js";
import { CYCLE_KINDS, KIND, NAMES } from "../steps/read.js";
import { kindWords } from "./nodes.js";

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
  { words: "executions in one run", unit: "count", origin: "steps.executions_of_run", of: ({ leaf }) => (leaf ? some(leaf.of_run) : null) },
  { words: "time of one execution", unit: "cycles", origin: "steps.once", of: ({ leaf }) => (leaf?.priced ? leaf.once : null) },
  ...CYCLE_KINDS.map(([kind, words]) => ({ words: `· ${words}`, unit: /** @type {Unit} */ ("cycles"), origin: "steps.once", of: (/** @type {Node} */ { leaf }) => (leaf ? some(leaf[kind]) : null) })),
  { words: "· of it fixed cost", unit: "cycles", origin: "steps.overhead", of: ({ leaf }) => (leaf && leaf.overhead > 0 ? leaf.overhead : null) },
  { words: "flop of one execution", unit: "flops", origin: "steps.flops_once", of: ({ leaf }) => (leaf?.kind === KIND.SUPERSTEP ? leaf.flops : null) },
  { words: "flop in all runs", unit: "flops", origin: "steps.flops", of: (node, program) => (!node.leaf && program.runs ? some(node.flops) : null) },
  { words: "exchange bytes of one execution, busiest tile", unit: "bytes", origin: "steps.exchange_bytes_once", of: ({ leaf }) => (leaf?.kind === KIND.SUPERSTEP ? leaf.exchange_bytes : null) },
  { words: "temporary, fullest tile", unit: "bytes", origin: "steps.temporary", of: ({ leaf }) => (leaf?.kind === KIND.SUPERSTEP ? leaf.temporary_tile_bytes : null) },
  { words: "code of the codelet", unit: "bytes", origin: "steps.code", of: ({ leaf }) => (leaf ? some(leaf.codelet_bytes) : null) },
  { words: "code of the exchanges", unit: "bytes", origin: "steps.code", of: ({ leaf }) => (leaf ? some(leaf.exchange_code_bytes) : null) },
  { words: "vertex state", unit: "bytes", origin: "steps.code", of: ({ leaf }) => (leaf ? some(leaf.vertex_state_bytes) : null) },
  { words: "size on one IPU", unit: "bytes", origin: "steps.size", of: ({ leaf }) => (leaf?.kind === KIND.COLLECTIVE ? leaf.size_bytes : null) },
  { words: "to the host", unit: "bytes", origin: "steps.host", of: ({ leaf }) => (leaf?.kind === KIND.HOST_CALL ? leaf.to_host : null) },
  { words: "from the host", unit: "bytes", origin: "steps.host", of: ({ leaf }) => (leaf?.kind === KIND.HOST_CALL ? leaf.from_host : null) },
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

/** @param {Node} node @param {Program} program @returns {HTMLElement[]} */
export function nodePanel(node, program) {
  const { line, leaf, parent } = node;
  const row = (/** @type {string} */ words, /** @type {string} */ look, /** @type {import("../../core/dom.js").Children} */ shown) => h("tr", {}, h("th", { scope: "row" }, words), h("td", { class: look }, shown));
  const figures = FIGURES.map(({ words, unit, origin, of }) => {
    const value = of(node, program) ?? null;
    return value === null ? null : row(words, "number", valueOf(value, unit, origin));
  });
  const texts = TEXTS.map(({ words, of }) => (of(node) ? row(words, "long", of(node)) : null));
  const where = line ? row("line", "long", [h("a", { href: link("source", { file: line.file, line: line.line }) }, line.name), line.function ? ` in ${line.function}` : ""]) : null;
  return [
    h("h2", {}, `${kindWords(node, parent?.children.indexOf(node) ?? 0)} `, node.kind === KIND.ARM ? null : h("code", {}, node.name)),
    h("table", { class: "node-figures" }, h("tbody", {}, texts, where, figures)),
    ...(leaf ? [h("p", {}, h("a", { href: link("operations", { group: "none", operation: `${leaf.program} ${leaf.number}` }) }, "What limits it?"))] : []),
  ];
}
