/** What fills the fullest tile, and who would free it? */

import { h } from "../core/dom.js";
import { get, link } from "../core/state.js";
import { freeing } from "./memory/freeing.js";
import { fullestTile, whyNotMore } from "./memory/fullest.js";
import { detailed, members, pairsOf } from "./memory/model.js";
import { chooser } from "./memory/select.js";
import { hostMemory, roomFor, valuesTable } from "./memory/values.js";

/** @import { Pair } from "./memory/model.js" */

/** @type {import("../core/page.js").View} */
export const memory = {
  name: "memory",
  title: "Memory",
  question: "What fills the fullest tile, and who would free it?",
  needs: "memory",
  absent: "No program was compiled in this recording, so nothing is known of memory.",
  async render(sides, page) {
    const pairs = await pairsOf(sides, page);
    return chooser(pairs, (pair) => program(pair, sides));
  },
};

/** @param {Pair} pair @param {import("../core/page.js").Side[]} sides @returns {HTMLElement[]} */
function program(pair, sides) {
  return [
    h("h2", {}, "The fullest tile"),
    ...fullestTile(pair),
    ...whyNotMore(pair),
    ...(detailed(pair).length ? inDetail(pair, sides) : []),
    h("h2", {}, "Room for a larger batch"),
    ...members(pair).flatMap((each) => roomFor(each, pair)),
    ...members(pair).flatMap((each) => hostMemory(each, pair)),
  ];
}

/** @param {Pair} pair @param {import("../core/page.js").Side[]} sides @returns {HTMLElement[]} */
function inDetail(pair, sides) {
  const programs = detailed(pair);
  const when = (/** @type {number | null} */ tick) => link("liveness", { program: get("program") || null, tick });
  const open = (/** @type {import("./memory/values.js").ValuePair} */ row) => {
    const value = row.a ?? row.b;
    if (value) location.hash = when(Number(value.program.detail.memory.first[value.life]));
  };
  return [
    h("h2", {}, "Who would free it"),
    ...programs.flatMap((each) => freeing(each, pair, open)),
    h("p", {}, h("a", { href: when(null) }, "When is memory full, and what is alive then?")),
    h("h2", {}, "Values"),
    h("p", { class: "note" }, "Enter or a click on a value shows what is alive in its first step. A step has its number behind its name."),
    valuesTable(programs, sides, open),
  ];
}
