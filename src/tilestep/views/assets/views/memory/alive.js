/** The values that are alive at a step. */

import { h } from "../../core/dom.js";
import { link } from "../../core/state.js";
import { table } from "../../core/table.js";
import { valueOf } from "../../core/value.js";
import { alive, at, holds } from "./lives.js";
import { stepWords } from "./model.js";
import { columnsOf } from "./values.js";

/** @import { Known } from "./model.js" */
/** @import { Curve } from "./curve.js" */

/** What is alive at a step. @param {Known} program @param {Curve} curve @param {number} tick @param {number | null} tile null: all tiles @returns {HTMLElement[]} */
export function aliveAt(program, curve, tick, tile) {
  const { detail, facts } = program;
  const { memory } = detail;
  const parts = curve.areas.flatMap((area, index) => [index ? ", " : "", `${area.words.split(":")[0]} `, valueOf(at(area.bytes, tick), "bytes", "memory.step")]);
  const leaf = at(detail.leaves, tick);
  const size = (/** @type {number} */ life) => at(memory.tileBytes, life) * (tile === null ? at(memory.tiles, life) : 1);
  const rows = alive(memory, tick).filter((life) => size(life) > 0 && (tile === null || holds(memory, life, tile)));
  const { name, category, bytes, tiles, born, last, line } = columnsOf(program);
  const columns = [name, category, { ...bytes, name: tile === null ? "on all tiles" : "on the tile", of: size }, tiles, born, last, line];
  return [
    h("h2", {}, "Alive at the chosen step"),
    h(
      "p",
      { class: "at-step" },
      `${stepWords(detail, tick)}, ${curve.where}: `,
      valueOf(at(curve.total, tick), "bytes", "memory.step"),
      " (",
      parts,
      "). The step itself needs ",
      valueOf(at(memory.temporary, tick), "bytes", "memory.step"),
      " on each tile; code and fixed parts are ",
      valueOf(memory.always, "bytes", "memory.step"),
      " on each. ",
      leaf < 0 ? null : h("a", { href: link("program", { program: facts.row, leaf }) }, "The step in its program"),
    ),
    table({ label: "values that are alive", columns, rows: rows.sort((one, other) => size(other) - size(one) || one - other), filter: true, empty: "none" }),
  ];
}
