/** The values that are alive at a step, and what is born and gone between two steps. */

import { h } from "../../core/dom.js";
import { bytes } from "../../core/format.js";
import { columnsOf } from "../../core/pairs.js";
import { link } from "../../core/state.js";
import { table } from "../../core/table.js";
import { valueOf } from "../../core/value.js";
import { alive, at, difference, holds } from "./lives.js";
import { prefix, stepWords } from "./model.js";
import { categoryOf, lineOf, nameOf, pairedValues, steps, wordColumns } from "./values.js";

/** @import { Pair } from "./model.js" */
/** @import { Known, Value } from "./values.js" */
/** @import { Selection } from "./select.js" */
/** @import { Side } from "../../core/page.js" */
/** @import { Curve } from "./curve.js" */

/** What is alive at the chosen step. @param {Known[]} programs @param {Side[]} sides @param {Pair} pair @param {Selection} selection @param {(program: Known) => number | null} tileOf null: all tiles @param {(program: Known) => Curve} curveOf @returns {HTMLElement[]} */
export function aliveAt(programs, sides, pair, selection, tileOf, curveOf) {
  const sentences = programs.map((program) => {
    const { detail } = program;
    const tick = selection.tick(detail);
    const curve = curveOf(program);
    const parts = curve.areas.flatMap((area, index) => [index ? ", " : "", `${area.words.split(":")[0]} `, valueOf(at(area.bytes, tick), "bytes", "memory.step")]);
    const [own, leaf] = [at(detail.memory.temporary, tick), at(detail.leaves, tick)];
    return h(
      "p",
      { class: "at-step" },
      `${prefix(program, pair)}${stepWords(detail, tick)}, ${curve.where}: `,
      valueOf(at(curve.total, tick), "bytes", "memory.step"),
      " (",
      parts,
      "). The step itself needs ",
      valueOf(own, "bytes", "memory.step"),
      " on each tile; code and fixed parts are ",
      valueOf(detail.memory.always, "bytes", "memory.step"),
      " on each. ",
      leaf < 0 ? null : h("a", { href: link("program", { program: `${program.side}${program.facts.row}`, leaf }) }, "The step in its program"),
    );
  });
  const rows = (/** @type {Known} */ program) => onTile(program, alive(program.detail.memory, selection.tick(program.detail)), tileOf(program));
  return [h("h2", {}, "Alive at the chosen step"), ...sentences, values("values that are alive", programs, sides, rows, tileOf)];
}

/** What differs between the marked and the chosen step. @param {Known[]} programs @param {Side[]} sides @param {Pair} pair @param {Selection} selection @param {number} mark @param {(program: Known) => number | null} tileOf @returns {HTMLElement[]} */
export function between(programs, sides, pair, selection, mark, tileOf) {
  const found = new Map(
    programs.map((program) => {
      const last = program.detail.memory.numTicks - 1;
      const [one, other] = [Math.min(mark, last), selection.tick(program.detail)];
      const [before, after] = one < other ? [one, other] : [other, one];
      return [program, { before, after, ...difference(program.detail.memory, before, after) }];
    }),
  );
  const of = (/** @type {Known} */ program) => /** @type {{before: number, after: number, born: number[], gone: number[], temporary: number}} */ (found.get(program));
  const sentences = programs.map((program) => {
    const { before, after, temporary } = of(program);
    const more = temporary > 0 ? `${bytes(temporary)} more` : temporary < 0 ? `${bytes(-temporary)} less` : "as much";
    return h("p", {}, `${prefix(program, pair)}from ${stepWords(program.detail, before)}, to ${stepWords(program.detail, after)}: the step itself needs ${more} on each tile.`);
  });
  return [
    h("h2", {}, "Between the two steps"),
    ...sentences,
    h("h3", {}, "born: alive at the later step, not at the earlier"),
    values("values that were born", programs, sides, (program) => onTile(program, of(program).born, tileOf(program)), tileOf),
    h("h3", {}, "gone: alive at the earlier step, not at the later"),
    values("values that are gone", programs, sides, (program) => onTile(program, of(program).gone, tileOf(program)), tileOf),
  ];
}

/** @param {Known} program @param {number[]} found @param {number | null} tile @returns {number[]} */
function onTile({ detail }, found, tile) {
  const here = found.filter((life) => at(detail.memory.tileBytes, life) > 0 && (tile === null || holds(detail.memory, life, tile)));
  return tile === null ? here : here.sort((one, other) => at(detail.memory.tileBytes, other) - at(detail.memory.tileBytes, one) || one - other);
}

/** @param {string} label @param {Known[]} programs @param {Side[]} sides @param {(program: Known) => number[]} of @param {(program: Known) => number | null} tileOf @returns {HTMLElement} */
function values(label, programs, sides, of, tileOf) {
  const all = programs[0] ? tileOf(programs[0]) === null : true;
  const size = (/** @type {Value} */ { program: { detail }, life }) => at(detail.memory.tileBytes, life) * (all ? at(detail.memory.tiles, life) : 1);
  const shown = sides.filter((side) => programs.some((program) => program.side === side.name));
  return table({
    label,
    columns: [
      ...wordColumns([["value", nameOf], ["category", categoryOf]]),
      ...columnsOf(shown, { name: all ? "on all tiles" : "on the tile", unit: "bytes", origin: "memory.value", of: size }),
      ...columnsOf(shown, { name: "tiles", unit: "count", origin: "memory.value", of: (/** @type {Value} */ { program, life }) => at(program.detail.memory.tiles, life) }),
      ...steps(),
      ...wordColumns([["line", lineOf]]),
    ],
    rows: pairedValues(programs, of),
    filter: true,
    empty: "none",
  });
}
