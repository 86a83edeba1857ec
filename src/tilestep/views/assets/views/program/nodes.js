/** What nodes of a program's tree are called, and where most of its time goes. */

import { KIND } from "../steps/read.js";

/** @import { Node } from "../steps/read.js" */

/** The way from the root to the most costly leaf, root first. @param {Node} root @returns {Node[]} */
export function dearestWay(root) {
  const way = [root];
  for (let here = root; here.children.length; ) {
    here = here.children.reduce((best, child) => (child.cycles > best.cycles ? child : best));
    way.push(here);
  }
  return way;
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
