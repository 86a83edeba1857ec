/** What fills the fullest tile, and who would free it? */

import { h } from "../core/dom.js";
import { get, link } from "../core/state.js";
import { freeing } from "./memory/freeing.js";
import { fullestTile, whyNotMore } from "./memory/fullest.js";
import { isKnown, programsOf } from "./memory/model.js";
import { chooser } from "./memory/select.js";
import { hostMemory, valuesTable } from "./memory/values.js";

/** @import { Known } from "./memory/model.js" */

/** @type {import("../core/page.js").View} */
export const memory = {
  name: "memory",
  title: "Memory",
  question: "What fills the fullest tile, and who would free it?",
  needs: "memory",
  absent: "No program was compiled in this recording, so nothing is known of memory.",
  async render(side) {
    return chooser(await programsOf(side), (program) => [
      h("h2", {}, "The fullest tile"),
      ...fullestTile(program),
      ...(isKnown(program) ? inDetail(program) : [whyNotMore(program)]),
      ...hostMemory(program),
    ]);
  },
};

/** @param {Known} program @returns {HTMLElement[]} */
function inDetail(program) {
  const when = (/** @type {number | null} */ tick) => link("liveness", { program: get("program") || null, tick });
  const open = (/** @type {number} */ life) => (location.hash = when(Number(program.detail.memory.first[life])));
  return [
    h("h2", {}, "Who would free it"),
    ...freeing(program, open),
    h("p", {}, h("a", { href: when(null) }, "When is memory full, and what is alive then?")),
    h("h2", {}, "Values"),
    h("p", { class: "note" }, "Enter or a click on a value shows what is alive in its first step. A step has its number behind its name."),
    valuesTable(program, open),
  ];
}
