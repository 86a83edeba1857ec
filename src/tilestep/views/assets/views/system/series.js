/** Lines of numbers over wall time. */

import { themeColor } from "../../core/colors.js";
import { ticks } from "../../core/axis.js";
import { h } from "../../core/dom.js";
import { figure } from "../../core/figure.js";
import { at, cut, FONT } from "../../core/lanes.js";
import { table } from "../../core/table.js";
import { text } from "../../core/value.js";
import { parts } from "./model.js";

/** @import { Model } from "./model.js" */
/** @typedef {{name: string, unit: string, times: Float64Array, values: Float64Array, all: number}} Line */


/** @param {Model[]} models @returns {HTMLElement[]} */
export function seriesSections(models) {
  const found = models.flatMap((model) => {
    const places = parts(model.json.series.map((/** @type {any} */ line) => line.points));
    return model.json.series.map((/** @type {any} */ line, /** @type {number} */ index) => {
      const [begin, end] = places[index] ?? [0, 0];
      const name = `${line.graph && line.graph !== line.name ? `${line.graph}: ` : ""}${line.name}${models.length > 1 ? ` of ${model.side.name.toUpperCase()}` : ""}`;
      return lineFigure(model, { name, unit: line.unit, all: line.all, times: model.column("series_time").slice(begin, end), values: model.column("series_value").slice(begin, end) }, index);
    });
  });
  return found.length ? [h("h2", {}, "Lines"), ...found] : [];
}

/** @param {Model} model @param {Line} line @param {number} index @returns {HTMLElement} */
function lineFigure(model, line, index) {
  const { times, values } = line;
  const { begin, end } = model.json;
  const [from, to] = [Math.min(begin, at(times, 0) || begin), Math.max(end, at(times, times.length - 1) || end, begin + 1)];
  const low = values.reduce((least, value) => Math.min(least, value), Infinity);
  const high = values.reduce((most, value) => Math.max(most, value), -Infinity);
  let box = { left: 0, width: 1 };
  let cursor = -1;
  const words = (/** @type {number} */ point) => `${line.name} is ${at(values, point)}${line.unit ? ` ${line.unit}` : ""} at ${text(at(times, point), "ns")}`;
  const made = figure({
    label: `${line.name} over wall time, ${values.length} values`,
    height: 150,
    keys: "← → values",
    draw({ context, width, height }) {
      box = { left: 90, width: width - 100 };
      const [top, bottom] = [18, height - 22];
      const xOf = (/** @type {number} */ time) => box.left + ((time - from) / (to - from)) * box.width;
      const yOf = (/** @type {number} */ value) => (high > low ? bottom - ((value - low) / (high - low)) * (bottom - top) : (top + bottom) / 2);
      context.font = FONT;
      context.textBaseline = "middle";
      context.fillStyle = themeColor("ink");
      context.fillText(cut(context, `${line.name}${line.unit ? ` (${line.unit})` : ""}`, width - 12), 4, 8);
      context.fillText(cut(context, short(high), 80), 4, top + 4);
      if (high > low) context.fillText(cut(context, short(low), 80), 4, bottom - 4);
      let free = 0;
      for (const { at: time, words: mark } of ticks(from, to, Math.floor(box.width / 100), 1e9)) {
        const half = context.measureText(mark).width / 2;
        context.fillStyle = themeColor("grid");
        context.fillRect(xOf(time), top, 1, bottom - top + 4);
        if (xOf(time) - half < free || xOf(time) + half > width) continue;
        context.fillStyle = themeColor("ink");
        context.fillText(mark, xOf(time) - half, bottom + 12);
        free = xOf(time) + half + 6;
      }
      context.strokeStyle = context.fillStyle = themeColor("link");
      context.lineWidth = 2;
      context.setLineDash(index % 2 ? [6, 3] : []);
      context.beginPath();
      values.forEach((value, point) => context.lineTo(xOf(at(times, point)), yOf(value)));
      context.stroke();
      context.setLineDash([]);
      context.lineWidth = 1;
      if (values.length <= 60) for (let point = 0; point < values.length; point++) context.fillRect(xOf(at(times, point)) - 2.5, yOf(at(values, point)) - 2.5, 5, 5);
      if (cursor >= 0) {
        context.strokeStyle = themeColor("mark");
        context.lineWidth = 2;
        context.strokeRect(xOf(at(times, cursor)) - 5, yOf(at(values, cursor)) - 5, 10, 10);
        context.lineWidth = 1;
      }
    },
    describe(x) {
      const time = from + ((x - box.left) / box.width) * (to - from);
      let best = -1;
      times.forEach((each, point) => {
        if (best < 0 || Math.abs(each - time) < Math.abs(at(times, best) - time)) best = point;
      });
      return best < 0 || x < box.left ? null : words(best);
    },
    onKey(key) {
      if (key !== "ArrowRight" && key !== "ArrowLeft") return undefined;
      if (!values.length) return "there is no value";
      cursor = Math.max(0, Math.min(values.length - 1, cursor + (key === "ArrowRight" ? 1 : -1)));
      made.redraw();
      return words(cursor);
    },
    table: () =>
      table({
        label: line.name,
        rows: Array.from(values, (_, point) => point),
        empty: "no value was added",
        columns: [
          { name: "time", unit: "ns", origin: "system.span", of: (point) => at(times, point) },
          { name: line.unit ? `value (${line.unit})` : "value", unit: "number", origin: "system.series", of: (point) => at(values, point) },
        ],
      }),
  });
  return h("div", {}, made.element, line.all > values.length ? h("p", { class: "note" }, `${values.length} of ${line.all} values are shown: finite ones, at equal steps.`) : null);
}

/** @param {number} value @returns {string} */
function short(value) {
  return Number.isFinite(value) ? String(Number(value.toPrecision(5))) : "";
}
