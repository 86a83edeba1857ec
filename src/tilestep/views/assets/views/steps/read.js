/** The block `steps` of a recording, as objects: programs, their trees and their steps. See views/page/sections/steps.py. */

import { objectsOf, once } from "../../core/data.js";

/** @import { Side } from "../../core/page.js" */
/** @typedef {{index: number, file: string, line: number, name: string, function: string, caller: number, whose: number}} Line */
/** Cycles of one execution. @typedef {Record<"compute" | "exchange" | "sync" | "collective" | "host_call", number>} Cycles */
/** @typedef {"program" | "number" | "kind" | "of_run" | "priced" | "overhead" | "roof" | "flops" | "exchange_bytes" | "temporary_tile_bytes"} Figures */
/** @typedef {"fallback" | "codelet_bytes" | "exchange_code_bytes" | "vertex_state_bytes" | "size_bytes" | "to_host" | "from_host"} MoreFigures */
/** @typedef {Record<"name" | "scope" | "family" | "dtype" | "codelet" | "groups", string>} LeafTexts */
/**
 * A step of a program: a row of `Leaf` there. Its figures are of one execution; `once` are all its cycles.
 * `executions` are those in all runs, or in one run if nothing ran, and `cycles` all of theirs.
 * @typedef {Cycles & Record<Figures | MoreFigures | "executions" | "once" | "cycles", number> & LeafTexts & {line: Line | null}} Leaf
 */
/**
 * A node of a tree: a row of `Node` there. Its cycles, flops and exchange_bytes are of all leaves below, of all that is counted.
 * @typedef {Record<"kind" | "trips" | "times" | "of_run" | "assumed" | "cycles" | "flops" | "exchange_bytes", number>
 *   & {index: number, name: string, scope: string, line: Line | null, leaf: Leaf | null, children: Node[], parent: Node | null}} Node
 */
/** @typedef {{place: number, row: number, label: string, runs: number, num_ipus: number, left_out: string, root: Node | null, cycles: number, leaves: Leaf[]}} Program */
/**
 * @typedef {object} Steps
 * @property {Side} side
 * @property {Line[]} lines
 * @property {Program[]} programs
 * @property {Leaf[]} leaves
 * @property {{words: string, rate: number}[]} roofs of the matrix unit
 * @property {boolean} ran whether anything ran; else one run of each program is counted
 * @property {number} cycles of all leaves
 */

export const KIND = Object.freeze({ ROOT: 0, LOOP: 1, BRANCH: 2, ARM: 3, SUPERSTEP: 4, COLLECTIVE: 5, HOST_CALL: 6 });
/** What columns and figures of steps are called, in all views. */
export const NAMES = Object.freeze({ time: "time", ofRun: "time of steps in a run", executions: "executions", flop: "flop", exchanged: "exchange bytes" });
/** Kinds of cycles of a step, in words. @type {readonly [keyof Cycles, string][]} */
export const CYCLE_KINDS = Object.freeze([
  ["compute", "compute"],
  ["exchange", "exchange"],
  ["sync", "sync"],
  ["collective", "between IPUs"],
  ["host_call", "host call"],
]);

/** The steps of a recording; read once. */
export const stepsOf = once(read);

/** @param {Side} side @returns {Promise<Steps>} */
async function read(side) {
  const block = await side.block("steps");
  const { json } = block;
  /** @type {Line[]} */
  const lines = json.lines.map((/** @type {number[]} */ [file = 0, line = 0, name = 0, caller = -1, whose = 0], /** @type {number} */ index) => ({
    index,
    file: json.texts[file] ?? "",
    line,
    name: `${json.texts[file] ?? ""}:${line}`,
    function: json.texts[name] ?? "",
    caller,
    whose,
  }));
  const ran = json.programs.some((/** @type {any} */ program) => program.runs > 0);
  const leaves = objectsOf(block, "leaf_", ["name", "scope", "family", "dtype", "codelet", "groups"]).map((row) => {
    const once = row.compute + row.exchange + row.sync + row.collective + row.host_call;
    const executions = ran ? row.executions : row.of_run;
    return /** @type {Leaf} */ ({ ...row, line: lines[row.line] ?? null, once, executions, cycles: executions * once });
  });
  const programs = json.programs.map((/** @type {any} */ program, /** @type {number} */ place) => /** @type {Program} */ ({ ...program, place, root: null, cycles: 0, leaves: [] }));
  for (const leaf of leaves) programs[leaf.program].leaves.push(leaf);
  /** @type {Node[]} */
  const way = [];
  objectsOf(block, "node_", ["name", "scope"]).forEach((row, index) => {
    const parent = way[row.depth - 1] ?? null;
    const node = /** @type {Node} */ ({ ...row, index, line: lines[row.line] ?? null, leaf: leaves[row.leaf] ?? null, children: [], parent, cycles: 0, flops: 0, exchange_bytes: 0 });
    way.length = row.depth;
    way.push(node);
    if (parent) parent.children.push(node);
    else programs[row.program].root = node;
  });
  for (const program of programs) {
    // From the last to the first: children are complete before their parents.
    for (const node of program.root ? walked(program.root).reverse() : []) {
      const { leaf, parent } = node;
      if (leaf) {
        // A program that never ran shows what one run of it would take.
        const executions = program.runs ? leaf.executions : leaf.of_run;
        [node.cycles, node.flops, node.exchange_bytes] = [executions * leaf.once, executions * leaf.flops, executions * leaf.exchange_bytes];
      }
      if (!parent) continue;
      parent.cycles += node.cycles;
      parent.flops += node.flops;
      parent.exchange_bytes += node.exchange_bytes;
    }
    program.cycles = program.root?.cycles ?? 0;
  }
  return { side, lines, programs, leaves, roofs: json.roofs, ran, cycles: leaves.reduce((sum, leaf) => sum + leaf.cycles, 0) };
}

/** A node and all below it, in order. @param {Node} root @returns {Node[]} */
export function walked(root) {
  const found = [];
  const ahead = [root];
  for (let node = ahead.pop(); node; node = ahead.pop()) {
    found.push(node);
    for (let place = node.children.length - 1; place >= 0; place--) ahead.push(/** @type {Node} */ (node.children[place]));
  }
  return found;
}

/** A line and its callers, innermost first, without the lines of JAX and of this package. @param {Steps} steps @param {Line | null} line @returns {Line[]} */
export function ownStack(steps, line) {
  const found = [];
  for (let each = line ?? undefined; each; each = steps.lines[each.caller]) if (each.whose > 0) found.push(each);
  return found;
}

/** The last parts of an operation's path, which tell it from others. @param {string} scope @returns {string} */
export function shortScope(scope) {
  return partsOf(scope).slice(-2).join("/");
}

/** The parts of an operation's path: a "/" inside of parentheses ends none. @param {string} scope @returns {string[]} */
export function partsOf(scope) {
  /** @type {string[]} */
  const parts = [];
  let depth = 0;
  for (const piece of scope.split("/")) {
    if (depth) parts.push(`${parts.pop()}/${piece}`);
    else parts.push(piece);
    depth += piece.split("(").length - piece.split(")").length;
    if (depth < 0) break;
  }
  return depth ? scope.split("/") : parts;
}
