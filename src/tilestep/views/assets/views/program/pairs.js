/** The tree of a program of A, of B, or of both with equal nodes together. */

import { cyclesOf } from "../../core/pairs.js";
import { KIND } from "../steps/read.js";

/** @import { Node, Program } from "../steps/read.js" */
/** @typedef {{a?: Node, b?: Node, children: Both[], parent: Both | null}} Both */

/** @param {{a?: Program, b?: Program}} pair @returns {Both | null} */
export function treeOf({ a, b }) {
  if (!a?.root && !b?.root) return null;
  return both(a?.root ?? undefined, b?.root ?? undefined, null);
}

/** @param {Node | undefined} a @param {Node | undefined} b @param {Both | null} parent @returns {Both} */
function both(a, b, parent) {
  /** @type {Both} */
  const here = { ...(a ? { a } : {}), ...(b ? { b } : {}), children: [], parent };
  here.children = joinedNodes(a?.children ?? [], b?.children ?? []).map(([one, other]) => both(one, other, here));
  return here;
}

/**
 * Children of A and B in one order: those of equal kind, scope and family belong together, in the order in which they come.
 * @param {Node[]} a
 * @param {Node[]} b
 * @returns {[Node | undefined, Node | undefined][]}
 */
export function joinedNodes(a, b) {
  if (!b.length) return a.map((node) => [node, undefined]);
  if (!a.length) return b.map((node) => [undefined, node]);
  /** @type {Map<string, Node[]>} */
  const open = new Map();
  for (const node of a) open.set(key(node), [...(open.get(key(node)) ?? []), node]);
  /** @type {Map<Node, Node>} */
  const partner = new Map(); // of a node of A, and of one of B
  for (const node of b) {
    const found = open.get(key(node))?.shift();
    if (found) partner.set(node, found).set(found, node);
  }
  // In the order of B; a node that A alone has stands behind the one before it in A.
  /** @type {Map<Node | null, Node[]>} */
  const alone = new Map();
  /** @type {Node | null} */
  let before = null;
  for (const node of a) {
    const other = partner.get(node);
    if (other) before = other;
    else alone.set(before, [...(alone.get(before) ?? []), node]);
  }
  const left = (/** @type {Node | null} */ node) => (alone.get(node) ?? []).map((one) => /** @type {[Node | undefined, Node | undefined]} */ ([one, undefined]));
  return [...left(null), ...b.flatMap((node) => [/** @type {[Node | undefined, Node | undefined]} */ ([partner.get(node), node]), ...left(node)])];
}

/** @param {Node} node @returns {string} */
function key({ kind, scope, name, leaf }) {
  return [kind, scope || name, leaf?.family ?? ""].join("\n");
}

/** The node of B, or of A if B has none. @param {Both} here @returns {Node} */
export function either(here) {
  return /** @type {Node} */ (here.b ?? here.a);
}

/** The way from the root to the most costly leaf, root first. @param {Both} root @returns {Both[]} */
export function dearestWay(root) {
  const way = [root];
  for (let here = root; here.children.length; ) {
    here = here.children.reduce((best, child) => (cyclesOf(child) > cyclesOf(best) ? child : best));
    way.push(here);
  }
  return way;
}

/** All nodes, in order. @param {Both} root @returns {Both[]} */
export function allOf(root) {
  const found = [];
  const ahead = [root];
  for (let here = ahead.pop(); here; here = ahead.pop()) {
    found.push(here);
    for (let place = here.children.length - 1; place >= 0; place--) ahead.push(/** @type {Both} */ (here.children[place]));
  }
  return found;
}

/** What a node is, in a word or two. @param {Node} node @param {number} place among its parent's children @returns {string} */
export function kindWords(node, place) {
  switch (node.kind) {
    case KIND.ROOT:
      return "program";
    case KIND.LOOP:
      return "loop";
    case KIND.BRANCH:
      return "branch";
    case KIND.ARM:
      return `arm ${place + 1}`;
    default:
      return node.leaf?.family ?? "";
  }
}
