/** The block `steps` of a recording, as objects: programs, their trees and their steps. See views/page/sections/steps.py. */

import { once } from "../../core/data.js";

/** @import { Side } from "../../core/page.js" */
/** @typedef {{index: number, file: string, line: number, name: string, function: string, caller: number, whose: number}} Line */
/** @typedef {{compute: number, exchange: number, sync: number, collective: number, host_call: number}} Cycles */
/**
 * A step of a program; `once` is of one execution, `cycles` of all that are counted.
 * @typedef {object} Leaf
 * @property {number} index
 * @property {number} program
 * @property {number} number among the leaves of its program
 * @property {number} kind
 * @property {string} name
 * @property {string} scope
 * @property {string[]} named the scopes of `jax.named_scope` around it, outermost first
 * @property {string} family
 * @property {Line | null} line
 * @property {number} executions in all runs; in one run, if nothing ran
 * @property {number} ofRun in one run; 0 if they depend on data
 * @property {boolean} priced whether it may run at all
 * @property {Cycles} once
 * @property {number} onceTotal
 * @property {number} cycles
 * @property {number} overhead the part of sync that is fixed cost, of one execution; -1: unknown
 * @property {string} dtype
 * @property {number} roof row of the roofs; -1: none
 * @property {number} flops of one execution
 * @property {number} exchangeBytes likewise
 * @property {number} temporary
 * @property {boolean} fallback
 * @property {string} codelet
 * @property {number} codeletBytes
 * @property {number} exchangeCodeBytes
 * @property {number} vertexStateBytes
 * @property {number} sizeBytes
 * @property {string} groups
 * @property {number} toHost
 * @property {number} fromHost
 */
/**
 * A node of a tree.
 * @typedef {object} Node
 * @property {number} index
 * @property {number} kind
 * @property {string} name
 * @property {string} scope
 * @property {Line | null} line
 * @property {Leaf | null} leaf
 * @property {number} trips of a loop; -1: they depend on data
 * @property {number} times executions in all runs; of a loop those of its body
 * @property {number} ofRun executions in one run; 0: they depend on data
 * @property {boolean} assumed
 * @property {Node[]} children
 * @property {number} cycles of all leaves below, of all that is counted
 * @property {number} flops likewise
 * @property {number} exchangeBytes likewise
 */
/** @typedef {{place: number, row: number, label: string, runs: number, numIpus: number, leftOut: string, root: Node | null, cycles: number, leaves: Leaf[]}} Program */
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
  const { json, columns } = await side.block("steps");
  /** @type {string[]} */
  const texts = json.texts;
  const at = (/** @type {string} */ name, /** @type {number} */ row) => /** @type {number} */ (/** @type {Float64Array} */ (columns[name])[row]);
  const text = (/** @type {string} */ name, /** @type {number} */ row) => texts[at(name, row)] ?? "";
  /** @type {Line[]} */
  const lines = json.lines.map((/** @type {number[]} */ [file = 0, line = 0, name = 0, caller = -1, whose = 0], /** @type {number} */ index) => ({
    index,
    file: texts[file] ?? "",
    line,
    name: `${texts[file] ?? ""}:${line}`,
    function: texts[name] ?? "",
    caller,
    whose,
  }));
  const ran = json.programs.some((/** @type {any} */ program) => program.runs > 0);
  /** @type {Leaf[]} */
  const leaves = [];
  for (let row = 0; row < (columns.leaf_program?.length ?? 0); row++) {
    const once = { compute: at("leaf_compute", row), exchange: at("leaf_exchange", row), sync: at("leaf_sync", row), collective: at("leaf_collective", row), host_call: at("leaf_host_call", row) };
    const onceTotal = once.compute + once.exchange + once.sync + once.collective + once.host_call;
    const executions = at(ran ? "leaf_executions" : "leaf_of_run", row);
    leaves.push({
      index: row,
      program: at("leaf_program", row),
      number: at("leaf_number", row),
      kind: at("leaf_kind", row),
      name: text("leaf_name", row),
      scope: text("leaf_scope", row),
      named: text("leaf_named", row).split("\n").filter(Boolean),
      family: text("leaf_family", row),
      line: lines[at("leaf_line", row)] ?? null,
      executions,
      ofRun: at("leaf_of_run", row),
      priced: at("leaf_priced", row) === 1,
      once,
      onceTotal,
      cycles: executions * onceTotal,
      overhead: at("leaf_overhead", row),
      dtype: text("leaf_dtype", row),
      roof: at("leaf_roof", row),
      flops: at("leaf_flops", row),
      exchangeBytes: at("leaf_exchange_bytes", row),
      temporary: at("leaf_temporary_tile_bytes", row),
      fallback: at("leaf_fallback", row) === 1,
      codelet: text("leaf_codelet", row),
      codeletBytes: at("leaf_codelet_bytes", row),
      exchangeCodeBytes: at("leaf_exchange_code_bytes", row),
      vertexStateBytes: at("leaf_vertex_state_bytes", row),
      sizeBytes: at("leaf_size_bytes", row),
      groups: text("leaf_groups", row),
      toHost: at("leaf_to_host", row),
      fromHost: at("leaf_from_host", row),
    });
  }
  /** @type {Program[]} */
  const programs = json.programs.map((/** @type {any} */ program, /** @type {number} */ place) => ({
    place,
    row: program.row,
    label: program.label,
    runs: program.runs,
    numIpus: program.num_ipus,
    leftOut: program.left_out,
    root: null,
    cycles: 0,
    leaves: [],
  }));
  for (const leaf of leaves) programs[leaf.program]?.leaves.push(leaf);
  /** @type {Node[]} */
  const way = [];
  for (let row = 0; row < (columns.node_program?.length ?? 0); row++) {
    const depth = at("node_depth", row);
    /** @type {Node} */
    const node = {
      index: row,
      kind: at("node_kind", row),
      name: text("node_name", row),
      scope: text("node_scope", row),
      line: lines[at("node_line", row)] ?? null,
      leaf: leaves[at("node_leaf", row)] ?? null,
      trips: at("node_trips", row),
      times: at("node_times", row),
      ofRun: at("node_of_run", row),
      assumed: at("node_assumed", row) === 1,
      children: [],
      cycles: 0,
      flops: 0,
      exchangeBytes: 0,
    };
    way.length = depth;
    way.push(node);
    const parent = way[depth - 1];
    const program = programs[at("node_program", row)];
    if (parent) parent.children.push(node);
    else if (program) program.root = node;
  }
  for (const program of programs) {
    const below = program.root ? walked(program.root) : [];
    for (const node of below.reverse()) {
      // From the last to the first: children are complete before their parents.
      const { leaf } = node;
      if (leaf) {
        // A program that never ran shows what one run of it would take.
        const executions = program.runs ? leaf.executions : leaf.ofRun;
        [node.cycles, node.flops, node.exchangeBytes] = [executions * leaf.onceTotal, executions * leaf.flops, executions * leaf.exchangeBytes];
      }
      for (const child of node.children) {
        node.cycles += child.cycles;
        node.flops += child.flops;
        node.exchangeBytes += child.exchangeBytes;
      }
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

/** A line and its callers, innermost first. @param {Steps} steps @param {Line | null} line @returns {Line[]} */
export function stackOf(steps, line) {
  const found = [];
  for (let each = line ?? undefined; each; each = steps.lines[each.caller]) found.push(each);
  return found;
}

/** The same without the lines of JAX and of this package. @param {Steps} steps @param {Line | null} line @returns {Line[]} */
export function ownStack(steps, line) {
  return stackOf(steps, line).filter(({ whose }) => whose > 0);
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

/** Numbers of pairs of programs: 'a 3' is the third program of A. @param {{a?: Program, b?: Program}[]} pairs @returns {Map<string, number>} */
export function pairNumbers(pairs) {
  return new Map(pairs.flatMap((pair, number) => /** @type {const} */ (["a", "b"]).flatMap((side) => (pair[side] ? [/** @type {[string, number]} */ ([`${side} ${pair[side].place}`, number])] : []))));
}

/**
 * Pairs of programs of A and B, as the page's comparison has them.
 * @param {import("../../core/page.js").Page} page
 * @param {Steps[]} all one or two
 * @returns {{a?: Program, b?: Program}[]}
 */
export function programPairs(page, all) {
  const [first, second] = all;
  if (!first) return [];
  if (!second) return first.programs.map((program) => ({ [first.side.name]: program }));
  const rows = (/** @type {Steps} */ steps) => new Map(steps.programs.map((program) => [program.row, program]));
  const [ofA, ofB] = [rows(first), rows(second)];
  /** @type {[number | null, number | null, string][]} */
  const pairs = page.comparison?.programs ?? [];
  return pairs.map(([a, b]) => {
    const [inA, inB] = [a === null ? undefined : ofA.get(a), b === null ? undefined : ofB.get(b)];
    return { ...(inA ? { a: inA } : {}), ...(inB ? { b: inB } : {}) };
  });
}
