/** What fills the fullest tile, and who would free it? */

import { h, replace } from "../core/dom.js";
import { get, link, number, set } from "../core/state.js";
import { freeing } from "./memory/freeing.js";
import { fullestTile, whyNotMore } from "./memory/fullest.js";
import { heatMap, scaleLegend, scaleOf } from "./memory/heatmap.js";
import { detailed, members, pairsOf } from "./memory/model.js";
import { chooser, numberField, Selection } from "./memory/select.js";
import { chosenTiles, tileMap } from "./memory/tilemap.js";
import { hostMemory, roomFor, valuesTable } from "./memory/values.js";
import { stateChoice } from "./steps/controls.js";

/** @import { Pair, Program, Detail } from "./memory/model.js" */

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
  const selection = new Selection(pair);
  let scale = scaleOf(programs, get("scale", "range"));
  /** @type {import("./memory/values.js").ValuePair | null} */
  let marked = null;
  const value = (/** @type {Program} */ of) => marked?.[of.side]?.life ?? (marked ? -1 : number(`value${of.side}`, -1));
  const known = (/** @type {Program & {detail: Detail}} */ of) => (value(of) < of.detail.memory.first.length ? value(of) : -1);
  const maps = programs.map((each) => heatMap(each, pair, selection, () => ({ scale, value: known })));
  const high = () => Math.max(...programs.map(({ sram, detail }) => (get("scale") === "tile" ? Math.max(sram, detail.peak.bytes) * 1.05 : detail.peak.bytes * 1.12)));
  const tiles = programs.map((each) => tileMap(each, pair, selection, high));
  const chosen = programs.map(() => h("div"));
  const legend = h("div", {}, scaleLegend(programs, scale));
  const step = numberField("step", selection.cursor.tick, selection.ticks - 1, (tick) => selection.choose({ tick }));
  const tile = numberField("tile", selection.cursor.tile, selection.tiles - 1, (to) => selection.choose({ tile: to }));
  const peak = h("button", { type: "button", onclick: () => selection.choose({ tick: null, tile: null }) }, "the peak");
  const colors = stateChoice("scale", [["range", "from the least to the most"], ["tile", "from nothing to a whole tile"]], "scale", () => {
    scale = scaleOf(programs, get("scale", "range"));
    replace(legend, scaleLegend(programs, scale));
    update();
  });
  const none = h("button", { type: "button", onclick: () => mark(null) }, "mark no value");
  const noted = h("p", { class: "note", role: "status" });
  const lines = h("p", { class: "note" });

  /** @param {import("./memory/values.js").ValuePair | null} row */
  function mark(row) {
    marked = row ?? {};
    set({ valuea: marked.a?.life ?? null, valueb: marked.b?.life ?? null });
    const first = marked.a ?? marked.b;
    if (first) selection.reveal(Number(first.program.detail.memory.first[first.life]));
    update();
  }

  function update() {
    step.update(selection.cursor.tick);
    tile.update(selection.cursor.tile);
    for (const map of [...maps, ...tiles]) map.redraw();
    lines.textContent = `The dashed line is the mean of all tiles${programs.some(({ sram }) => sram <= high()) ? ", the thick one what a tile has" : ""}.`;
    programs.forEach((each, index) => replace(/** @type {HTMLElement} */ (chosen[index]), chosenTiles(each, pair, selection)));
    const names = programs.filter((each) => known(each) >= 0).map((each) => each.detail.names[known(each)]);
    noted.textContent = names.length ? `The dashed frame is the life of ${names[0]}.` : "";
    none.hidden = !names.length;
  }
  selection.onChange(update);
  update();
  const open = (/** @type {import("./memory/values.js").ValuePair} */ row) => {
    mark(row);
    maps[0]?.element.scrollIntoView({ block: "nearest" });
  };
  return [
    h("h2", {}, "Who would free it"),
    ...programs.flatMap((each) => freeing(each, pair, open)),
    h("h2", {}, "All tiles at all steps"),
    h("p", { class: "note" }, NOTE),
    h("div", { class: "controls" }, step.element, tile.element, peak, colors, none),
    legend,
    ...maps.map((map) => map.element),
    noted,
    h("h2", {}, "Tiles at the chosen step"),
    lines,
    ...programs.flatMap((_, index) => [/** @type {any} */ (tiles[index]).element, chosen[index]]),
    h("p", {}, h("a", { href: link("liveness", { program: get("program") || null }) }, "When is memory full, and what is alive then?")),
    h("h2", {}, "Values"),
    h("p", { class: "note" }, "Enter or a click on a value marks its life in the picture of all tiles. A step has its number behind its name."),
    valuesTable(programs, sides, open),
  ];
}

const NOTE =
  "The map is nearly flat, because of what the model does not know: weights and other arguments lie evenly on all tiles, and code and what a step itself needs are as large on each of them. Only blocks that a plan lays out, and arrays too small for all tiles, make a difference. Where on a tile a value lies is not known.";
