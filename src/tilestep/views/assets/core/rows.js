/** Bars in rows over an axis, as of threads or of devices: read by keys. */

import { themeColor } from "./colors.js";
import { figure } from "./figure.js";
import { at, AXIS, cut, drawAxis, gutter, label, lowerBound, nearest, Painter, widest, windowKey, windowWheel } from "./lanes.js";

/** @import { Window } from "./window.js" */
/** @import { Fill as Look } from "./colors.js" */
/**
 * A row. Its bars do not overlap, and are in order.
 * @typedef {object} Row
 * @property {string} name what stands to the left of it
 * @property {Float64Array} from
 * @property {Float64Array} to
 * @property {(bar: number) => Look} look
 * @property {(bar: number) => string} text what stands in a bar that has room
 * @property {(bar: number) => string} words all of a bar, in words
 * @property {(bar: number) => boolean} [thin] whether a bar is drawn as a line of its own height, as waits are
 * @property {(bar: number) => boolean} [faint] whether a bar is not what is searched for
 */
/**
 * @typedef {object} RowsOptions
 * @property {string} label
 * @property {Row[]} rows
 * @property {Window} window
 * @property {(from: number, to: number, most: number) => {at: number, words: string}[]} ticks
 * @property {(row: number, bar: number) => void} [select]
 * @property {(row: number, bar: number) => boolean} [selected]
 * @property {() => HTMLElement} table
 * @property {number} [most] CSS pixels of all rows
 */

const ROOM = { least: 3, most: 26 };
const NEAR = 3; // pixels: as far beside a bar the pointer still means it
const KEYS = "← → bars, ↑ ↓ rows, + − or W S zoom, A D move, F or Enter fit the bar, Home whole, End the last part. Drag to move; wheel with Ctrl zooms, with Shift moves";

/**
 * @param {RowsOptions} options
 * @returns {import("./figure.js").FigureHandle}
 */
export function rowsFigure(options) {
  const { rows, window: shown } = options;
  const height = Math.max(ROOM.least, Math.min(ROOM.most, Math.floor((options.most ?? 480) / Math.max(1, rows.length))));
  const gap = height > 8 ? 2 : height > 4 ? 1 : 0;
  // Waits are thin: they have bands of their own.
  const bands = rows.flatMap((row, index) => [
    { row, index, thin: false, top: index * height + gap / 2, height: height - gap },
    ...(row.thin ? [{ row, index, thin: true, top: index * height + height * 0.32, height: Math.max(1, height * 0.36) }] : []),
  ]);
  const painter = new Painter();
  shown.names = Math.max(shown.names, widest(rows.map(({ name }) => name)));
  let area = { left: 0, width: 1 };
  let cursor = { row: -1, bar: -1 };
  /** @type {{x: number, from: number, to: number, moved: boolean} | null} */
  let pressed = null;
  const xOf = (/** @type {number} */ value) => area.left + ((value - shown.from) / shown.length) * area.width;
  const valueAt = (/** @type {number} */ x) => shown.from + ((x - area.left) / area.width) * shown.length;
  const middleOf = (/** @type {Row} */ { from, to }) => (at(from, cursor.bar) + at(to, cursor.bar)) / 2;

  /** @param {number} row @param {number} bar @returns {string} */
  function go(row, bar) {
    const found = rows[row];
    if (!found) return "there is nothing";
    cursor = { row, bar };
    shown.reveal(at(found.from, bar), at(found.to, bar));
    options.select?.(row, bar);
    handle.redraw();
    return found.words(bar);
  }

  /** @param {number} x @param {number} y @returns {[number, number]} */
  function hit(x, y) {
    const row = Math.floor((y - AXIS) / height);
    const found = rows[row];
    if (!found || x < area.left || y < AXIS) return [-1, -1];
    return [row, nearest(found.from, found.to, valueAt(x), (NEAR * shown.length) / area.width)];
  }

  /** @param {number} way @returns {string} */
  function changeRow(way) {
    const here = rows[cursor.row];
    const from = here ? middleOf(here) : shown.from;
    for (let row = cursor.row + way; row >= 0 && row < rows.length; row += way) {
      const { from: begins, to: ends } = /** @type {Row} */ (rows[row]);
      const bar = nearest(begins, ends, from, Infinity);
      if (bar >= 0) return go(row, bar);
    }
    return way > 0 ? "this is the last row" : "this is the first row";
  }

  /** @param {string} key @returns {string | null | undefined} */
  function press(key) {
    const row = rows[cursor.row];
    const around = row ? Math.max(shown.from, Math.min(shown.to, middleOf(row))) : (shown.from + shown.to) / 2;
    if (windowKey(shown, key, around)) return range();
    if (key === "ArrowDown" || key === "ArrowUp" || (key.startsWith("Arrow") && !row)) return changeRow(key === "ArrowUp" ? -1 : 1);
    if (row && key.startsWith("Arrow")) {
      const bar = cursor.bar + (key === "ArrowRight" ? 1 : -1);
      return bar < 0 || bar >= row.from.length ? `no bar ${key === "ArrowRight" ? "behind" : "before"} it in ${row.name}` : go(cursor.row, bar);
    }
    if (key.toLowerCase() !== "f" && key !== "Enter") return undefined;
    if (!row) return "no bar is selected";
    shown.fit(at(row.from, cursor.bar), at(row.to, cursor.bar));
    return range();
  }

  const range = () => {
    const marks = options.ticks(shown.from, shown.to, 12);
    return marks.length ? `shown: ${marks[0]?.words} to ${marks[marks.length - 1]?.words}` : "shown: a part between two marks of the axis";
  };

  /** @param {import("./figure.js").Drawing} drawing */
  function draw({ context, width, scale }) {
    const left = gutter(shown.names, width);
    area = { left, width: width - left - 8 };
    const marks = options.ticks(shown.from, shown.to, Math.floor(area.width / 90));
    drawAxis(context, marks, xOf, area, AXIS);
    /** @type {(() => void)[]} */
    const over = [];
    painter.renew();
    painter.paint(context, bands, { ...area, top: AXIS, height: rows.length * height, scroll: 0, scale }, ({ row, index, thin }, codes) => encode(context, row, index, thin, codes, over), marks.map((mark) => xOf(mark.at) - left));
    for (const each of over) each();
    context.fillStyle = themeColor("ink");
    if (height >= 11) rows.forEach(({ name }, index) => context.fillText(cut(context, name, left - 10), 4, AXIS + (index + 0.5) * height));
    else context.fillText(cut(context, `${rows.length} rows`, left - 10), 4, AXIS + 8);
  }

  /** What each column of pixels of a row shows; over: what stands over the pixels. @param {CanvasRenderingContext2D} context @param {Row} row @param {number} index @param {boolean} thin @param {Uint16Array} codes @param {(() => void)[]} over */
  function encode(context, row, index, thin, codes, over) {
    const { from, to } = row;
    const [zoom, top] = [codes.length / shown.length, AXIS + index * height];
    const edge = painter.code({ color: themeColor("ground"), hatch: "plain" });
    let bar = lowerBound(to, 0, to.length, shown.from);
    while (bar < from.length && at(from, bar) <= shown.to) {
      const x0 = Math.max(0, (at(from, bar) - shown.from) * zoom);
      const x1 = Math.max(x0 + 1, Math.min(codes.length, (at(to, bar) - shown.from) * zoom));
      if ((row.thin?.(bar) ?? false) === thin) {
        const here = bar;
        const look = row.look(bar);
        const faint = row.faint?.(bar) ?? false;
        codes.fill(painter.code({ ...look, faint }), Math.round(x0), Math.max(Math.round(x0) + 1, Math.round(x1)));
        if (x1 - x0 > 4 && !thin) codes[Math.round(x0)] = edge;
        const [left, right] = [area.left + (x0 / codes.length) * area.width, area.left + (x1 / codes.length) * area.width];
        if (!thin && height >= 13 && right - left > 14) over.push(() => label(context, row.text(here), left, right, top + height / 2, faint ? themeColor("ground") : look.color, true));
        if (options.selected?.(index, bar) || (cursor.row === index && cursor.bar === bar)) {
          over.push(() => {
            context.lineWidth = 2;
            context.strokeStyle = themeColor("ink");
            context.strokeRect(left, top + 1, Math.max(2, right - left), height - 2);
          });
        }
      }
      // Of bars narrower than a pixel one is drawn for all that end in it.
      bar = x1 - x0 > 1 ? bar + 1 : Math.max(bar + 1, lowerBound(to, 0, to.length, shown.from + (x0 + 1) / zoom));
    }
  }

  const handle = figure({
    label: options.label,
    height: AXIS + Math.max(1, rows.length) * height + 4,
    keys: KEYS,
    draw,
    table: options.table,
    describe(x, y) {
      if (x < area.left && y >= AXIS) return rows[Math.floor((y - AXIS) / height)]?.name ?? null; // it may be cut
      const [row, bar] = hit(x, y);
      return bar < 0 ? null : (rows[row]?.words(bar) ?? null);
    },
    onKey: press,
    onPress(x, y) {
      pressed = { x, from: shown.from, to: shown.to, moved: false };
      const [row, bar] = hit(x, y);
      if (bar >= 0) handle.say(go(row, bar));
    },
    onDrag(x) {
      if (!pressed) return;
      if (Math.abs(x - pressed.x) > 3) pressed.moved = true;
      const by = ((pressed.x - x) / area.width) * (pressed.to - pressed.from);
      if (pressed.moved) shown.show(pressed.from + by, pressed.to + by);
    },
    onWheel(x, _, delta, event) {
      return windowWheel(shown, valueAt(x), delta, event);
    },
  });
  shown.listeners.add(handle.redraw);
  return handle;
}
