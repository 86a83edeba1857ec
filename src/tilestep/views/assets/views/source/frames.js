/** Trees of frames, whose widths are cycles: by Python stack, by named scope, and by program. */

import { KIND, ownStack, partsOf } from "../steps/read.js";

/** @import { Steps, Leaf, Node } from "../steps/read.js" */
/**
 * @typedef {object} Frame
 * @property {string} name
 * @property {number} cycles of itself and all below
 * @property {number} self of the steps directly below, or of itself if it stands for steps
 * @property {Frame[]} children those of most cycles first
 * @property {Frame | null} parent
 * @property {number} depth
 * @property {Map<string, number>} families cycles of each
 * @property {Map<string, Frame>} byName
 */
/** @typedef {"stack" | "scope" | "program"} Mode */

/** @type {[Mode, string][]} */
export const MODES = [
  ["stack", "by Python stack"],
  ["scope", "by jax.named_scope"],
  ["program", "by program"],
];

/** @param {Steps} steps @param {Mode} mode @returns {Frame} */
export function framesOf(steps, mode) {
  const root = frame("all steps", null);
  const all = [root]; // parents before their children
  const below = (/** @type {Frame} */ here, /** @type {string} */ name) => {
    let next = here.byName.get(name);
    if (!next) {
      next = frame(name, here);
      here.byName.set(name, next);
      here.children.push(next);
      all.push(next);
    }
    return next;
  };
  /** @type {Map<string[], Frame>} */
  const ends = new Map(); // of ways that several steps share
  for (const { path, leaf } of paths(steps, mode)) {
    if (leaf.cycles <= 0) continue;
    let around = ends.get(path);
    if (!around) {
      around = path.reduce(below, root);
      ends.set(path, around);
    }
    const here = below(around, operation(leaf));
    here.cycles += leaf.cycles;
    here.self += leaf.cycles;
    around.self += leaf.cycles;
    here.families.set(leaf.family, (here.families.get(leaf.family) ?? 0) + leaf.cycles);
  }
  for (let place = all.length - 1; place > 0; place--) {
    const here = /** @type {Frame} */ (all[place]);
    const parent = /** @type {Frame} */ (here.parent);
    parent.cycles += here.cycles;
    for (const [family, cycles] of here.families) parent.families.set(family, (parent.families.get(family) ?? 0) + cycles);
  }
  for (const each of all) each.children.sort((a, b) => b.cycles - a.cycles || (a.name < b.name ? -1 : 1));
  return root;
}

/** @param {Steps} steps @param {Mode} mode @returns {Iterable<{path: string[], leaf: Leaf}>} */
function* paths(steps, mode) {
  /** @type {Map<unknown, string[]>} */
  const known = new Map(); // a way is the same array for all its steps
  const shared = (/** @type {unknown} */ key, /** @type {() => string[]} */ make) => {
    const found = known.get(key) ?? make();
    known.set(key, found);
    return found;
  };
  for (const program of steps.programs) {
    if (mode !== "program") {
      for (const leaf of program.leaves) {
        const path = mode === "stack" ? shared(leaf.line, () => stackPath(steps, leaf)) : shared([program.label, ...leaf.named].join("\n"), () => [program.label, ...leaf.named]);
        yield { path, leaf };
      }
      continue;
    }
    /** @type {[Node, string[]][]} */
    const ahead = program.root ? [[program.root, [program.label]]] : [];
    for (let each = ahead.pop(); each; each = ahead.pop()) {
      const [node, path] = each;
      if (node.leaf) yield { path, leaf: node.leaf };
      node.children.forEach((child, place) => ahead.push([child, child.leaf ? path : [...path, nodeName(child, place)]]));
    }
  }
}

/** @param {Node} node @param {number} place @returns {string} */
function nodeName(node, place) {
  if (node.kind === KIND.ARM) return `arm ${place + 1}`;
  return `${node.kind === KIND.LOOP ? "loop" : "branch"} ${node.name}`;
}

/** Outermost first. @param {Steps} steps @param {Leaf} leaf @returns {string[]} */
function stackPath(steps, leaf) {
  const stack = ownStack(steps, leaf.line);
  if (!stack.length) return ["line unknown"];
  return stack.reverse().map((line) => `${line.function || "?"} (${line.name})`);
}

/** @param {Leaf} leaf @returns {string} */
function operation(leaf) {
  return `${leaf.family}: ${partsOf(leaf.scope).pop() || leaf.name}`;
}

/** @param {string} name @param {Frame | null} parent @returns {Frame} */
function frame(name, parent) {
  return { name, cycles: 0, self: 0, children: [], parent, depth: parent ? parent.depth + 1 : 0, families: new Map(), byName: new Map() };
}

/** The frame at the end of a way, null if there is none. @param {Frame} root @param {string[]} way @returns {Frame | null} */
export function frameAt(root, way) {
  /** @type {Frame | null} */
  let here = root;
  for (const name of way) here = here?.byName.get(name) ?? null;
  return here;
}

/** Names from below the root to a frame. @param {Frame} frame @returns {string[]} */
export function wayTo(frame) {
  const names = [];
  for (let here = frame; here.parent; here = here.parent) names.unshift(here.name);
  return names;
}

/** Frames that match, and the cycles of the outermost of them. @param {Frame} root @param {string} query @returns {{count: number, cycles: number}} */
export function matchesOf(root, query) {
  let [count, cycles] = [0, 0];
  /** @type {[Frame, boolean][]} */
  const ahead = [[root, false]];
  for (let each = ahead.pop(); each; each = ahead.pop()) {
    const [here, inside] = each;
    const match = here.parent !== null && here.name.toLowerCase().includes(query);
    if (match) count += 1;
    if (match && !inside) cycles += here.cycles;
    for (const child of here.children) ahead.push([child, inside || match]);
  }
  return { count, cycles };
}

/**
 * Frames of equal names together; a frame within one of its own name counts once.
 * @param {Frame} root
 * @returns {{name: string, self: number, total: number}[]}
 */
export function byName(root) {
  /** @type {Map<string, {name: string, self: number, total: number}>} */
  const found = new Map();
  /** @type {[Frame, ReadonlySet<string>][]} */
  const ahead = [[root, new Set()]];
  for (let each = ahead.pop(); each; each = ahead.pop()) {
    const [here, around] = each;
    const row = found.get(here.name) ?? { name: here.name, self: 0, total: 0 };
    row.self += here.self;
    if (!around.has(here.name)) row.total += here.cycles;
    found.set(here.name, row);
    const names = around.has(here.name) ? around : new Set([...around, here.name]);
    for (const child of here.children) ahead.push([child, names]);
  }
  return [...found.values()];
}
