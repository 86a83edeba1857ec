/** Bars of a few figures, as HTML: their words, lengths and values are text, so they need no table beside them. */

import { fillOf } from "./colors.js";
import { h } from "./dom.js";
import { swatch } from "./legend.js";
import { changeOf, ofSide, paceOf, valueOf } from "./value.js";

const LONGEST = 720; // CSS pixels: more than the longest bar, of which a narrow one shows the begin, so that its hatch keeps its size

/**
 * @typedef {object} Bar
 * @property {string} key of the row
 * @property {string} words of the row
 * @property {string} color
 * @property {import("./colors.js").Hatch} hatch
 * @property {(number | null)[]} values one for each name
 */

/**
 * @param {object} options
 * @param {string} options.label
 * @param {Bar[]} options.rows
 * @param {import("./value.js").Unit} options.unit
 * @param {string} options.origin
 * @param {string[]} [options.names] of the values of a row, such as A and B
 * @param {boolean} [options.difference] whether B − A stands beside A and B
 * @param {number} [options.whole] of which each value is a share; shown if it is given
 * @returns {HTMLElement}
 */
export function bars({ label, rows, unit, origin, names = [""], difference = false, whole }) {
  // Lengths of A and of B are of one unit, cycles of A.
  const lengths = rows.map(({ values }) => values.map((value, index) => (value ?? 0) / (unit === "cycles" && index ? paceOf("b") : 1)));
  const most = Math.max(...lengths.flat(), 0) || 1;
  const heads = [h("th", { scope: "col", class: "words" }, "what"), ...(names.length > 1 ? [h("th", { scope: "col", class: "words" }, "in")] : [])];
  const body = rows.flatMap((row, place) =>
    names.map((name, index) => {
      const value = row.values[index] ?? null;
      const bar = hatchedBar(row, (lengths[place]?.[index] ?? 0) / most);
      return h(
        "tr",
        { "data-key": row.key },
        index === 0 ? h("th", { scope: "row", rowspan: names.length, class: "words" }, swatch(row), " ", row.words) : null,
        names.length > 1 ? h("td", { class: "words" }, name) : null,
        h("td", { class: "number" }, valueOf(value, ofSide(unit, index ? "b" : "a"), origin)),
        whole ? h("td", { class: "number" }, value === null ? "–" : valueOf(value / whole, "share", origin)) : null,
        difference && index === 0 ? h("td", { class: "number", rowspan: names.length }, changeOf(row.values[0] ?? null, row.values[1] ?? null, unit)) : null,
        h("td", { class: "bars", "aria-hidden": "true" }, bar),
      );
    }),
  );
  const shares = whole ? [h("th", { scope: "col", class: "number" }, "share")] : [];
  if (difference) shares.push(h("th", { scope: "col", class: "number" }, "B − A"));
  return h(
    "table",
    { class: "bar-table", "aria-label": label },
    h("thead", {}, h("tr", {}, heads, h("th", { scope: "col", class: "number" }, unit.startsWith("cycles") ? "time" : unit === "bytes" ? "bytes" : "value"), shares, h("td", { "aria-hidden": "true" }))),
    h("tbody", {}, body),
  );
}

/** A bar with the colour and the hatch of its row. @param {Bar} row @param {number} part of the longest bar @returns {HTMLElement | null} */
function hatchedBar(row, part) {
  if (!part) return null;
  const width = Math.max(1, Math.round(part * LONGEST));
  const bar = h("canvas", { class: "bar", width, height: 14, "aria-hidden": "true", style: { width: `${100 * part}%` } });
  const context = /** @type {CanvasRenderingContext2D} */ (bar.getContext("2d"));
  context.fillStyle = fillOf(context, row);
  context.fillRect(0, 0, width, 14);
  return bar;
}
