/** What each line costs: the block `source` of a recording. */

import { objectsOf, once } from "../../core/data.js";

/** @import { Side } from "../../core/page.js" */
/** @typedef {"line" | "steps" | "executions" | "cycles" | "compute" | "exchange" | "sync" | "collective" | "host_call" | "flops" | "exchange_bytes"} Figures */
/** A line that has something: a row of `COLUMNS` of views/page/sections/source.py. @typedef {Record<Figures | "tile_bytes" | "dispatches" | "waits" | "reads" | "moved", number> & {file: string, function: string}} Cost */
/** @typedef {{file: string, code: string | null, why: string, cycles: number, costs: Map<number, Cost>}} SourceFile files of most cycles come first */
/** @typedef {{side: Side, files: Map<string, SourceFile>, cycles: number, in_turn: boolean, unknown_cycles: number, has_lives: boolean}} Source */
/** A line of a file, with what it costs. @typedef {{number: number, text: string | null, cost: Cost | undefined}} CodeLine */

/** The costs of a recording; read once. */
export const sourceOf = once(read);

/** @param {Side} side @returns {Promise<Source>} */
async function read(side) {
  const block = await side.block("source");
  const files = new Map(block.json.files.map((/** @type {any} */ file) => [file.file, { ...file, cycles: 0, costs: new Map() }]));
  for (const cost of objectsOf(block, "", ["file", "function"])) {
    const file = files.get(cost.file);
    file.costs.set(cost.line, cost);
    file.cycles += cost.cycles;
  }
  return { ...block.json, side, files };
}

/** The lines of a file: all of its code, if the recording has it, then others that cost something. @param {SourceFile} file @returns {CodeLine[]} */
export function linesOf({ code, costs }) {
  const texts = code === null ? [] : code.split(/\r\n|\r|\n|\f/);
  const others = [...costs].filter(([number]) => number < 1 || number > texts.length).sort(([one], [other]) => one - other);
  return [...texts.map((text, place) => ({ number: place + 1, text, cost: costs.get(place + 1) })), ...others.map(([number, cost]) => ({ number, text: null, cost }))];
}
