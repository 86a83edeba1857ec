/** What the page holds: one recording, or two to compare, and the shape of a view. */

import { block, hasBlock } from "./data.js";

/** @import { Block } from "./data.js" */
/** @typedef {"a" | "b"} SideName */
/**
 * One recording.
 * @typedef {object} Side
 * @property {SideName} name
 * @property {string} label for people: the file's or the folder's name
 * @property {any} head block `head` of it: see views/page/sections/head.py
 * @property {(name: string) => boolean} has whether it has a block
 * @property {(name: string) => Promise<Block>} block a block of it
 */
/**
 * One view. It draws one recording.
 * @typedef {object} View
 * @property {string} name in the URL
 * @property {string} title in the navigation
 * @property {string} question that the view answers
 * @property {string} needs name of the block without which it has nothing to show; '' for none
 * @property {string | ((side: Side) => string)} [absent] a sentence: why that may be missing
 * @property {string} [picture] what its first picture is called, where more than pictures is on top
 * @property {(side: Side, page: Page) => Promise<HTMLElement[]> | HTMLElement[]} render
 */
/**
 * @typedef {object} Page
 * @property {Side[]} sides one or two
 * @property {Record<string, string>} origins sentences that say where numbers come from
 * @property {Record<string, string>} terms words of the machine, and what they mean
 * @property {any} comparison block of the comparison's JSON; null with one recording
 */

/** The recordings of the page. @returns {Promise<Page>} */
export async function openPage() {
  const shell = JSON.parse(document.getElementById("page")?.textContent ?? "{}");
  /** @type {Side[]} */
  const sides = [];
  for (const name of /** @type {SideName[]} */ (["a", "b"])) {
    if (!hasBlock(`${name}-head`)) continue;
    sides.push({
      name,
      label: shell.labels[name],
      head: (await block(`${name}-head`)).json,
      has: (part) => hasBlock(`${name}-${part}`),
      block: (part) => block(`${name}-${part}`),
    });
  }
  return { sides, origins: shell.origins, terms: shell.terms, comparison: hasBlock("comparison") ? (await block("comparison")).json : null };
}
