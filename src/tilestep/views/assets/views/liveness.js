/** When is memory full, and what is alive then? */

import { h, replace } from "../core/dom.js";
import { legend } from "../core/legend.js";
import { get, link, number, set } from "../core/state.js";
import { valueOf } from "../core/value.js";
import { aliveAt, between } from "./memory/alive.js";
import { curveFigure, curveOf } from "./memory/curve.js";
import { whyNotMore } from "./memory/fullest.js";
import { at } from "./memory/lives.js";
import { detailed, LIVENESS, ORDER, pairsOf, PARTS, prefix, stepWords } from "./memory/model.js";
import { chooser, numberField, Selection } from "./memory/select.js";
import { stateChoice } from "./steps/controls.js";

/** @import { Pair } from "./memory/model.js" */
/** @import { Known } from "./memory/values.js" */
/** @import { Curve } from "./memory/curve.js" */

/** @type {import("../core/page.js").View} */
export const liveness = {
  name: "liveness",
  title: "Liveness",
  question: "When is memory full, and what is alive then?",
  needs: "memory",
  absent: "No program was compiled in this recording, so nothing is known of memory.",
  async render(sides, page) {
    const pairs = await pairsOf(sides, page);
    return chooser(pairs, (pair) => [...whyNotMore(pair), ...(detailed(pair).length ? inDetail(pair, sides) : [])]);
  },
};

/** @param {Pair} pair @param {import("../core/page.js").Side[]} sides @returns {HTMLElement[]} */
function inDetail(pair, sides) {
  const programs = detailed(pair);
  const selection = new Selection(pair);
  const heads = h("div");
  const keys = h("div");
  const lists = h("div");
  const isAll = () => get("on") === "all";
  const isByCategory = () => get("by") === "category";
  const tileOf = (/** @type {Known} */ program) => (isAll() ? null : selection.tile(program.detail));
  const marked = () => {
    const value = number("mark", -1);
    return Number.isInteger(value) && value >= 0 ? Math.min(value, selection.ticks - 1) : null;
  };
  /** @type {Map<Known, {key: string, curve: Curve}>} */
  const known = new Map();
  const curve = (/** @type {Known} */ program) => {
    const key = `${tileOf(program)} ${isByCategory()}`;
    const found = known.get(program);
    if (found?.key === key) return found.curve;
    const made = curveOf(program, tileOf(program), isByCategory());
    known.set(program, { key, curve: made });
    return made;
  };
  const high = () => {
    const most = Math.max(...programs.map((program) => at(curve(program).total, curve(program).top)));
    return (get("scale") === "tile" ? Math.max(most, ...programs.map((program) => curve(program).room)) : most) * 1.12 || 1;
  };
  const figures = programs.map((program) => {
    const other = programs.find((each) => each !== program);
    const shown = () => ({ curve: curve(program), other: other ? curve(other) : null, high: high(), mark: marked() });
    return curveFigure(program, pair, selection, shown, setMark);
  });

  /** @param {number | null} tick */
  function setMark(tick) {
    set({ mark: tick });
    update();
  }

  const on = stateChoice("memory of", [["tile", "one tile"], ["all", "all tiles together"]], "on", update);
  const by = stateChoice("areas", [["life", "always live and not"], ["category", "categories"]], "by", update);
  const scale = stateChoice("height", [["peak", "up to the peak"], ["tile", "up to what there is"]], "scale", update);
  const step = numberField("step", selection.cursor.tick, selection.ticks - 1, (tick) => selection.choose({ tick }));
  const tile = numberField("tile", selection.cursor.tile, selection.tiles - 1, (to) => selection.choose({ tile: to }));
  const peak = h("button", { type: "button", onclick: () => selection.choose({ tick: null, tile: null }) }, "the peak");
  const mark = h("button", { type: "button", onclick: () => setMark(selection.cursor.tick) }, "mark this step");
  const clear = h("button", { type: "button", onclick: () => setMark(null) }, "no mark");

  function update() {
    step.update(selection.cursor.tick);
    tile.update(selection.cursor.tile);
    tile.element.hidden = isAll();
    clear.hidden = marked() === null;
    replace(heads, programs.map((program) => head(program, pair, curve(program))));
    replace(keys, legend(isByCategory() ? ORDER.map((name) => /** @type {any} */ (PARTS[name])) : Object.values(LIVENESS)));
    for (const figure of figures) figure.redraw();
    soon();
  }

  function drawLists() {
    const second = marked();
    replace(
      lists,
      second === null ? null : between(programs, sides, pair, selection, second, tileOf),
      aliveAt(programs, sides, pair, selection, tileOf, curve),
    );
  }
  const soon = lightly(drawLists);
  selection.onChange(update);
  update();
  const overlay = programs.length > 1 ? h("p", { class: "note" }, "The dashed line is the total of the other recording. Steps are numbered in each program by itself.") : null;
  return [
    heads,
    h("div", { class: "controls" }, on, by, scale, step.element, tile.element, peak, mark, clear),
    keys,
    ...figures.map((figure) => figure.element),
    overlay,
    h("p", { class: "note" }, NOTE),
    lists,
    h("p", {}, h("a", { href: link("memory", { program: get("program") || null }) }, "What fills the fullest tile, and who would free it?")),
  ].filter((part) => part !== null);
}

/** @param {Known} program @param {Pair} pair @param {Curve} curve @returns {HTMLElement} */
function head(program, pair, curve) {
  const most = at(curve.total, curve.top);
  return h(
    "p",
    { class: "fullest" },
    `${prefix(program, pair)}${curve.where[0]?.toUpperCase()}${curve.where.slice(1)} of `,
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
