/** The look of each family of operations: the same in all views of a page. */

import { lookAt } from "../../core/colors.js";

/** @import { Steps } from "./read.js" */
/** @typedef {{color: string, hatch: import("../../core/colors.js").Hatch, shape: number}} FamilyLook */

/** Of what has steps of several families. @type {FamilyLook} */
export const SEVERAL = Object.freeze({ color: "#999999", hatch: "dots", shape: 0 });

/** Families of all recordings by their cycles, with a look each. @param {Steps[]} all @returns {Map<string, FamilyLook>} */
export function familyLooks(all) {
  /** @type {Map<string, number>} */
  const cycles = new Map();
  for (const { leaves } of all) for (const leaf of leaves) cycles.set(leaf.family, (cycles.get(leaf.family) ?? 0) + leaf.cycles);
  const names = [...cycles.keys()].sort((a, b) => (cycles.get(b) ?? 0) - (cycles.get(a) ?? 0) || (a < b ? -1 : 1));
  return new Map(names.map((name, place) => [name, { ...lookAt(place), shape: place % 6 }]));
}
