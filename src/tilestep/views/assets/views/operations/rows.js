/** Rows of view Operations: steps of programs, or groups of them, each with what it reaches. */

import { count, plural } from "../../core/format.js";
import { shortScope } from "../steps/read.js";

/** @import { Steps, Leaf } from "../steps/read.js" */
/** @typedef {"none" | "family" | "line" | "scope"} Grouping */
/**
 * @typedef {object} Operation
 * @property {string} id in the URL
 * @property {Steps} steps
 * @property {Leaf[]} leaves
 * @property {string} name
 * @property {string} program
 * @property {string} scope
 * @property {string} family
 * @property {string} line
 * @property {number} executions
 * @property {number} cycles
 * @property {number} compute
 * @property {number} exchange
 * @property {number} sync
 * @property {number} collective
 * @property {number} host_call
 * @property {number} overhead the part of sync that is fixed cost; -1: unknown
 * @property {number} flops
 * @property {number} exchange_bytes
 * @property {number} roof row of the roofs that holds for all of it; -1: none
 */
/** @typedef {"compute" | "exchange" | "sync" | "overhead" | "collective" | "host_call"} Limit */

/** @type {[Grouping, string][]} */
export const GROUPINGS = [
  ["line", "line"], // first: a large program has hundreds of steps that are alike, of a few lines
  ["family", "family"],
  ["scope", "operation"],
  ["none", "nothing"],
];

/**
 * The operations of a recording, each a step or a group of steps that ran.
 * @param {Steps} steps
 * @param {Grouping} grouping
 * @param {(leaf: Leaf) => boolean} wanted
 * @returns {Operation[]}
 */
export function operationsOf(steps, grouping, wanted) {
  const leaves = steps.leaves.filter((leaf) => leaf.executions > 0 && wanted(leaf));
  if (grouping === "none") return leaves.map((leaf) => operation(steps, [leaf], `${leaf.program} ${leaf.number}`));
  /** @type {Map<string, Leaf[]>} */
  const groups = new Map();
  for (const leaf of leaves) {
    const key = grouping === "family" ? leaf.family : grouping === "line" ? (leaf.line?.name ?? "") : leaf.scope;
    const group = groups.get(key);
    if (group) group.push(leaf);
    else groups.set(key, [leaf]);
  }
  return [...groups].map(([key, group]) => operation(steps, group, key));
}

/** @param {Steps} steps @param {Leaf[]} leaves @param {string} id @returns {Operation} */
function operation(steps, leaves, id) {
  const sum = (/** @type {(leaf: Leaf) => number} */ of) => leaves.reduce((total, leaf) => total + leaf.executions * of(leaf), 0);
  const one = (/** @type {(leaf: Leaf) => string} */ of, /** @type {string} */ many) => {
    const found = new Set(leaves.map(of));
    return found.size === 1 ? ([...found][0] ?? "") : `${count(found.size)} ${many}`;
  };
  const roofs = new Set(leaves.filter(({ flops }) => flops).map(({ roof }) => roof));
  return {
    id,
    steps,
    leaves,
    name: leaves.length === 1 ? (leaves[0]?.name ?? "") : plural(leaves.length, "step"),
    program: one(({ program }) => steps.programs[program]?.label ?? "", "programs"),
    scope: one(({ scope }) => scope, "operations"),
    family: one(({ family }) => family, "families"),
    line: one(({ line }) => line?.name ?? "", "lines"),
    executions: sum(() => 1),
    cycles: sum(({ once }) => once),
    compute: sum(({ compute }) => compute),
    exchange: sum(({ exchange }) => exchange),
    sync: sum(({ sync }) => sync),
    collective: sum(({ collective }) => collective),
    host_call: sum((leaf) => leaf.host_call),
    overhead: leaves.every(({ overhead }) => overhead >= 0) ? sum(({ overhead }) => overhead) : -1,
    flops: sum(({ flops }) => flops),
    exchange_bytes: sum((leaf) => leaf.exchange_bytes),
    roof: roofs.size === 1 ? ([...roofs][0] ?? -1) : -1,
  };
}

/** Flop/s on one IPU, null without flops. @param {Operation} operation @returns {number | null} */
export function rateOf({ steps, flops, cycles }) {
  const clock = steps.side.head.clock_hz;
  return flops && cycles && clock ? (flops * clock) / cycles : null;
}

/** Part of the matrix unit's peak, null where no roof holds. @param {Operation} operation @returns {number | null} */
export function peakOf(operation) {
  const [rate, roof] = [rateOf(operation), operation.steps.roofs[operation.roof]];
  return rate !== null && roof && roof.rate ? rate / roof.rate : null;
}

/** Bytes that the busiest tile receives, by the cycles of the exchange. @param {Operation} operation @returns {number | null} */
export function bytesPerCycle({ exchange_bytes: bytes, exchange }) {
  return exchange && bytes ? bytes / exchange : null;
}

/** What takes how many cycles of an operation, the most first. @param {Operation} operation @returns {[Limit, number][]} */
export function limitsOf({ compute, exchange, sync, overhead, collective, host_call }) {
  /** @type {[Limit, number][]} */
  const parts = [
    ["compute", compute],
    ["exchange", exchange],
    ["sync", sync - Math.max(0, overhead)],
    ["overhead", Math.max(0, overhead)],
    ["collective", collective],
    ["host_call", host_call],
  ];
  return parts.filter(([, cycles]) => cycles > 0).sort((a, b) => b[1] - a[1]);
}

/** What an operation is called in a sentence. @param {Operation} operation @param {Grouping} grouping @returns {string} */
export function titleOf(operation, grouping) {
  if (grouping === "none") return `${operation.name} (${[operation.family, shortScope(operation.scope)].filter(Boolean).join(", ")})`;
  return operation.id || (grouping === "line" ? "steps without a line" : "steps without a name");
}
