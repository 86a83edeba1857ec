/** Heat maps over wall time: how many values fell between which edges. */

import { fillOf, themeColor } from "../../core/colors.js";
import { h } from "../../core/dom.js";
import { figure } from "../../core/figure.js";
import { count, plural } from "../../core/format.js";
import { swatch } from "../../core/legend.js";
import { at, cut, FONT } from "../../core/lanes.js";
import { table } from "../../core/table.js";
import { text } from "../../core/value.js";
import { parts } from "./model.js";

/** @import { Model } from "./model.js" */

const SHADES = ["#deebf7", "#9ecae1", "#4292c6", "#2171b5", "#08306b"];
/** From few values to many, which differ most from the ground. @type {import("../../core/colors.js").Look[]} */
const STEPS = SHADES.map((color, index) => ({ color, dark: SHADES[SHADES.length - 1 - index] ?? color, hatch: "plain", words: "" }));

/** @param {Model[]} models @returns {HTMLElement[]} */
export function heatSections(models) {
  const found = models.flatMap((model) => {
    const maps = model.json.heat_maps;
    const times = parts(maps.map((/** @type {any} */ map) => map.times));
    const cells = parts(maps.map((/** @type {any} */ map) => map.times * (map.edges.length + 1)));
    return maps.map((/** @type {any} */ map, /** @type {number} */ index) =>
      heatFigure({ ...map, name: `${map.name}${models.length > 1 ? ` of ${model.side.name.toUpperCase()}` : ""}` }, model.column("heat_time").slice(...(times[index] ?? [0, 0])), model.column("heat_count").slice(...(cells[index] ?? [0, 0]))),
    );
  });
  return found.length ? [h("h2", {}, "Heat maps"), ...found] : [];
}

/** @param {{name: string, unit: string, edges: (number | null)[], all: number}} map @param {Float64Array} times @param {Float64Array} counts @returns {HTMLElement} */
function heatFigure(map, times, counts) {
  const cells = map.edges.length + 1;
  const most = counts.reduce((highest, each) => Math.max(highest, each), 0);
  const edge = (/** @type {number} */ index) => `${map.edges[index] ?? "∞"}${map.unit ? ` ${map.unit}` : ""}`;
  const between = (/** @type {number} */ cell) => (cells === 1 ? "all values" : cell === 0 ? `below ${edge(0)}` : cell === cells - 1 ? `${edge(cells - 2)} and above` : `${edge(cell - 1)} to ${edge(cell)}`);
  const height = Math.max(8, Math.min(24, Math.floor(400 / cells)));
  const step = (/** @type {number} */ value) => (value ? Math.min(STEPS.length - 1, Math.floor((value / most) * STEPS.length * 0.999)) : -1);
  let [time, cell] = [0, 0];
  let chosen = false;
  let box = { left: 0, width: 1 };
  const words = (/** @type {number} */ row, /** @type {number} */ of) => `${map.name}, ${between(of)}, at ${text(at(times, row), "ns")}: ${count(at(counts, row * cells + of))} values`;
  const made = figure({
    label: `${map.name}: how many values fell between which edges, at ${plural(times.length, "time")}`,
    height: cells * height + 24,
    keys: "← → times, ↑ ↓ edges",
    draw({ context, width }) {
      box = { left: Math.min(190, Math.round(width * 0.26)), width: width - Math.min(190, Math.round(width * 0.26)) - 8 };
      context.font = FONT;
      context.textBaseline = "middle";
      for (let of = 0; of < cells; of++) {
        const y = (cells - 1 - of) * height;
        context.fillStyle = themeColor("ink");
        if (height >= 11) context.fillText(cut(context, between(of), box.left - 10), 4, y + height / 2);
        for (let row = 0; row < times.length; row++) {
          const level = step(at(counts, row * cells + of));
          if (level < 0) continue;
          const [x0, x1] = [box.left + (row / times.length) * box.width, box.left + ((row + 1) / times.length) * box.width];
          context.fillStyle = fillOf(context, /** @type {import("../../core/colors.js").Look} */ (STEPS[level]));
          context.fillRect(x0, y + 1, Math.max(1, x1 - x0 - (x1 - x0 > 4 ? 1 : 0)), height - 2);
          context.strokeStyle = themeColor("edge");
          if (x1 - x0 > 4) context.strokeRect(x0 + 0.5, y + 1.5, x1 - x0 - 2, height - 3);
        }
      }
      if (chosen) {
        context.strokeStyle = themeColor("mark");
        context.lineWidth = 2;
        context.strokeRect(box.left + (time / times.length) * box.width, (cells - 1 - cell) * height + 1, Math.max(3, box.width / times.length), height - 2);
        context.lineWidth = 1;
      }
      context.fillStyle = themeColor("ink");
      context.fillText(times.length ? text(at(times, 0), "ns") : "", box.left, cells * height + 12);
      const last = times.length ? text(at(times, times.length - 1), "ns") : "";
      context.fillText(last, box.left + box.width - context.measureText(last).width, cells * height + 12);
    },
    describe(x, y) {
      const [row, of] = [Math.floor(((x - box.left) / box.width) * times.length), cells - 1 - Math.floor(y / height)];
      return row < 0 || row >= times.length || of < 0 || of >= cells ? null : words(row, of);
    },
    onKey(key) {
      const moves = /** @type {Record<string, [number, number]>} */ ({ ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] })[key];
      if (!moves) return undefined;
      if (!times.length) return "no value was added";
      if (chosen) [time, cell] = [Math.max(0, Math.min(times.length - 1, time + moves[0])), Math.max(0, Math.min(cells - 1, cell + moves[1]))];
      chosen = true;
      made.redraw();
      return words(time, cell);
    },
    table: () =>
      table({
        label: map.name,
        rows: Array.from(counts, (_, index) => index).filter((index) => at(counts, index)),
        empty: "no value was added",
        columns: [
          { name: "time", unit: "ns", origin: "system.span", of: (index) => at(times, Math.floor(index / cells)) },
          { name: "between", of: (index) => between(index % cells) },
          { name: "values", unit: "count", origin: "system.heat", of: (index) => at(counts, index) },
        ],
      }),
  });
  const scale = h("ul", { class: "legend" }, STEPS.map((look, level) => {
    const [from, to] = [Math.floor((level * most) / STEPS.length) + 1, Math.floor(((level + 1) * most) / STEPS.length)];
    return to < from ? null : h("li", {}, swatch(look), from === to ? count(from) : `${count(from)} to ${count(to)}`);
  }), h("li", {}, "values at once"));
  return h("div", {}, h("h3", {}, map.name), scale, made.element, map.all > times.length ? h("p", { class: "note" }, `The last ${count(times.length)} of ${count(map.all)} times are shown.`) : null);
}
