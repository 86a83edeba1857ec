/** When is memory full, and what is alive then? */

import { h, replace } from "../core/dom.js";
import { legend } from "../core/legend.js";
import { get, link } from "../core/state.js";
import { valueOf } from "../core/value.js";
import { aliveAt } from "./memory/alive.js";
import { curveFigure, curveOf } from "./memory/curve.js";
import { whyNotMore } from "./memory/fullest.js";
import { at } from "./memory/lives.js";
import { isKnown, LIVENESS, ORDER, PARTS, programsOf, stepWords } from "./memory/model.js";
import { chooser, numberField, Selection } from "./memory/select.js";
import { stateChoice } from "./steps/controls.js";

/** @import { Known } from "./memory/model.js" */
/** @import { Curve } from "./memory/curve.js" */

/** @type {import("../core/page.js").View} */
export const liveness = {
  name: "liveness",
  title: "Liveness",
  question: "When is memory full, and what is alive then?",
  needs: "memory",
  absent: "No program was compiled in this recording, so nothing is known of memory.",
  async render(side) {
    return chooser(await programsOf(side), (program) => (isKnown(program) ? inDetail(program) : [whyNotMore(program)]));
  },
};

/** @param {Known} program @returns {HTMLElement[]} */
function inDetail(program) {
  const selection = new Selection(program.detail);
  const [heads, keys, lists] = [h("div"), h("div"), h("div")];
  const isAll = () => get("on") === "all";
  const isByCategory = () => get("by") === "category";
  let known = { key: "", curve: /** @type {Curve | null} */ (null) };
  const curve = () => {
    const tile = isAll() ? null : selection.tile;
    const key = `${tile} ${isByCategory()}`;
    if (known.key !== key) known = { key, curve: curveOf(program, tile, isByCategory()) };
    return /** @type {Curve} */ (known.curve);
  };
  const figure = curveFigure(program, selection, () => {
    const shown = curve();
    const most = at(shown.total, shown.top);
    return { curve: shown, high: (get("scale") === "tile" ? Math.max(most, shown.room) : most) * 1.12 || 1 };
  });
  const on = stateChoice("memory of", [["tile", "one tile"], ["all", "all tiles together"]], "on", update);
  const by = stateChoice("areas", [["life", "always live and not"], ["category", "categories"]], "by", update);
  const scale = stateChoice("height", [["peak", "up to the peak"], ["tile", "up to what there is"]], "scale", update);
  const step = numberField("step", selection.tick, selection.ticks - 1, (tick) => selection.choose({ tick }));
  const tile = numberField("tile", selection.tile, selection.tiles - 1, (to) => selection.choose({ tile: to }));
  const peak = h("button", { type: "button", onclick: () => selection.choose({ tick: null, tile: null }) }, "the peak");
  const soon = lightly(() => replace(lists, aliveAt(program, curve(), selection.tick, isAll() ? null : selection.tile)));

  function update() {
    step.update(selection.tick);
    tile.update(selection.tile);
    tile.element.hidden = isAll();
    replace(heads, head(program, curve()));
    replace(keys, legend(isByCategory() ? ORDER.map((name) => /** @type {any} */ (PARTS[name])) : Object.values(LIVENESS)));
    figure.redraw();
    soon();
  }
  selection.listeners.add(update);
  update();
  return [
    heads,
    h("div", { class: "controls" }, on, by, scale, step.element, tile.element, peak),
    keys,
    figure.element,
    h("p", { class: "note" }, NOTE),
    lists,
    h("p", {}, h("a", { href: link("memory", { program: get("program") || null }) }, "What fills the fullest tile, and who would free it?")),
  ];
}

/** @param {Known} program @param {Curve} curve @returns {HTMLElement} */
function head(program, curve) {
  const most = at(curve.total, curve.top);
  return h(
    "p",
    { class: "fullest" },
    `${curve.where[0]?.toUpperCase()}${curve.where.slice(1)} of `,
    h("span", { class: "mono" }, program.facts.label),
    curve.where.startsWith("all") ? " have most " : " is fullest ",
    `at ${stepWords(program.detail, curve.top, true)}: `,
    valueOf(most, "bytes", "memory.step"),
    " of ",
    valueOf(curve.room, "bytes", "memory.sram"),
    " (",
    valueOf(most / curve.room, "share", "memory.step"),
    "). The triangle marks it.",
  );
}

/**
 * A function that does its work at once, or after a pause if that took long last time, so that a held key moves the picture.
 * @param {() => void} work @returns {() => void}
 */
function lightly(work) {
  let took = 0;
  let timer = 0;
  const run = () => {
    const start = performance.now();
    work();
    took = performance.now() - start;
  };
  return () => {
    clearTimeout(timer);
    if (took < LONG_MS) run();
    else timer = setTimeout(run, PAUSE_MS);
  };
}

const LONG_MS = 25;
const PAUSE_MS = 150;
const NOTE =
  "Steps stand in the order of the program, and each has the memory that it needs while it runs. Step 0 is the start of the program and the last is its end; loops and branches have steps for both, too. View Program does not count these. The body of a loop stands here once. The arms of a branch stand one after the other, although one of them runs. Where more steps than places are shown, each place has its fullest step.";
