/** Bars in rows over an axis, as of lanes or of devices: painted by pixels, however many there are, and read by keys. */

import { themeColor } from "./colors.js";
import { figure } from "./figure.js";
import { at, AXIS, cut, drawAxis, gutter, label, lowerBound, nearest, Painter, widest, windowKey, windowWheel } from "./lanes.js";

/** @import { Window } from "./window.js" */
/** @import { Fill } from "./colors.js" */
/** A part of a bar; `kind` is among the looks of its row. @typedef {{from: number, to: number, kind: number, text: string}} Inner */
/**
 * A row. Its bars do not overlap, and are in order.
 * @typedef {object} Row
 * @property {string} name what stands to the left of it
 * @property {Float64Array} from
 * @property {Float64Array} to
 * @property {ArrayLike<number>} kind of each bar, among the looks
 * @property {readonly Fill[]} looks
 * @property {readonly boolean[]} [thin] of each kind, whether its bars are drawn as lines of their own height, as waits are
 * @property {(bar: number) => string} text what stands in a bar that has room
 * @property {(bar: number, value: number) => string} words all of a bar, at a value of the axis, in words
 * @property {(bar: number) => number} [gapKind] of the time between the bar before and this one, among the looks; -1: nothing is drawn
 * @property {(bar: number) => string} [gapWords] the same in words
 * @property {(from: number, to: number, pixels: number) => Inner[]} [inside] parts of bars that have room
 */
/** Where rows stand on the canvas. @typedef {{left: number, top: number, width: number, height: number, placeOf: (row: number) => {top: number, bottom: number}}} Frame */
/**
 * @typedef {object} RowsOptions
 * @property {string} label
 * @property {Row[]} rows
 * @property {Window} window
 * @property {(from: number, to: number, most: number) => {at: number, words: string}[]} ticks
 * @property {(row: number, bar: number) => void} [select]
 * @property {(row: number, bar: number) => boolean} [selected]
 * @property {() => HTMLElement} table
 * @property {(context: CanvasRenderingContext2D, frame: Frame) => void} [over] draws over the bars
 * @property {string} [keys] further keys in words
 * @property {(key: string) => string | undefined} [onKey] takes them
 */

const ROOM = { least: 3, most: 26, all: 480 }; // CSS pixels
const NEAR = 3; // pixels: as far beside a bar the pointer still means it
const NAME = 13; // pixels of a line of names
const KEYS = "← → bars, ↑ ↓ rows, + − or W S zoom, A D move, F or Enter fit the bar, Home whole, End the last part. Drag to move; wheel with Ctrl zooms, with Shift moves";

/**
 * @param {RowsOptions} options
 * @returns {import("./figure.js").FigureHandle & {point: (row: number, bar: number) => void}} point: puts the cursor on a bar
 */
export function rowsFigure(options) {
  const { rows, window: shown } = options;
  const height = Math.max(ROOM.least, Math.min(ROOM.most, Math.floor(ROOM.all / Math.max(1, rows.length))));
  const gap = height > 8 ? 2 : height > 4 ? 1 : 0;
  const bands = rows.flatMap((row, index) => [
    { row, index, thin: false, top: index * height + gap / 2, height: height - gap },
    ...(row.thin ? [{ row, index, thin: true, top: index * height + height * 0.32, height: Math.max(1, height * 0.36) }] : []),
  ]);
  const painter = new Painter();
  shown.names = Math.max(shown.names, widest(rows.map(({ name }) => name)));
  let area = { left: 0, top: AXIS, width: 1, height: rows.length * height, scale: 1 };
  let cursor = { row: -1, bar: -1 };
  /** Value at which the cursor stays while it goes from row to row, so that it comes back to where it was. @type {number | null} */
  let kept = null;
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
    kept = null;
    shown.reveal(at(found.from, bar), at(found.to, bar));
    options.select?.(row, bar);
    handle.redraw();
    return found.words(bar, (at(found.from, bar) + at(found.to, bar)) / 2);
  }

  /** The row and the bar at a place; of a gap the bar behind it, and true. @param {number} x @param {number} y @returns {{row: number, bar: number, isGap: boolean} | null} */
  function hit(x, y) {
    const row = Math.floor((y - AXIS) / height);
    const found = rows[row];
    if (!found || x < area.left || y < AXIS) return null;
    const bar = nearest(found.from, found.to, valueAt(x), (NEAR * shown.length) / area.width);
    if (bar >= 0) return { row, bar, isGap: false };
    const behind = lowerBound(found.to, 0, found.to.length, valueAt(x));
    return found.gapWords && behind > 0 && behind < found.to.length ? { row, bar: behind, isGap: true } : null;
  }

  /** @param {number} way @returns {string} */
  function changeRow(way) {
    const here = rows[cursor.row];
    const from = kept ?? (here ? middleOf(here) : shown.from);
    for (let row = cursor.row + way; row >= 0 && row < rows.length; row += way) {
      const { from: begins, to: ends } = /** @type {Row} */ (rows[row]);
      const bar = nearest(begins, ends, from, Infinity);
      if (bar < 0) continue;
      const words = go(row, bar);
      kept = from;
      return words;
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
      if (bar < 0 || bar >= row.from.length) return `no bar ${key === "ArrowRight" ? "behind" : "before"} it in ${row.name}`;
      const [waited] = key === "ArrowRight" && at(row.from, bar) > at(row.to, bar - 1) ? (row.gapWords?.(bar).split("\n") ?? []) : [];
      return go(cursor.row, bar) + (waited ? `. Before it: ${waited}` : "");
    }
    if (key.toLowerCase() !== "f" && key !== "Enter") return options.onKey?.(key);
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
    area = { ...area, left, width: width - left - 8, scale };
    const marks = options.ticks(shown.from, shown.to, Math.floor(area.width / 90));
    drawAxis(context, marks, xOf, area, AXIS);
    /** @type {(() => void)[]} */
    const over = [];
    painter.renew();
    const codesOf = new Map(rows.map(({ looks }) => [looks, /** @type {number[] | null} */ (null)]));
    const known = (/** @type {readonly Fill[]} */ looks) => {
      const found = codesOf.get(looks) ?? looks.map((look) => painter.code(look));
      codesOf.set(looks, found);
      return found;
    };
    painter.paint(context, bands, area, (band, pixels) => encode(context, band, pixels, known(band.row.looks), over), marks.map((mark) => xOf(mark.at) - left));
    context.save();
    context.beginPath();
    context.rect(left, AXIS, area.width, area.height);
    context.clip();
    for (const each of over) each();
    context.restore();
    options.over?.(context, { ...area, placeOf: (row) => ({ top: AXIS + row * height, bottom: AXIS + (row + 1) * height - gap }) });
    const here = rows[cursor.row];
    if (here) frame(context, xOf(at(here.from, cursor.bar)), xOf(at(here.to, cursor.bar)), AXIS + cursor.row * height);
    context.fillStyle = themeColor("ink");
    let free = AXIS;
    rows.forEach(({ name }, index) => {
      const y = AXIS + (index + 0.5) * height;
      if (y - NAME / 2 < free - 1) return;
      context.fillText(cut(context, name, left - 10), 4, y);
      free = y + NAME / 2;
    });
  }

  /** What each column of pixels of a row shows; over: what stands over the pixels. @param {CanvasRenderingContext2D} context @param {{row: Row, index: number, thin: boolean}} band @param {Uint16Array} pixels @param {number[]} codes of its looks @param {(() => void)[]} over */
  function encode(context, { row, index, thin }, pixels, codes, over) {
    const { from, to, kind, looks } = row;
    const [zoom, width] = [pixels.length / shown.length, pixels.length];
    const edge = painter.code({ color: themeColor("ground"), hatch: "plain" });
    const top = AXIS + index * height;
    const parts = thin ? [] : (row.inside?.(shown.from, shown.to, area.width) ?? []);
    /** @param {number} start @param {number} end @param {number} of kind @param {() => string} text */
    const paint = (start, end, of, text) => {
      const x0 = Math.max(0, (start - shown.from) * zoom);
      const x1 = Math.max(x0 + 1, Math.min(width, (end - shown.from) * zoom));
      pixels.fill(/** @type {number} */ (codes[of]), Math.round(x0), Math.max(Math.round(x0) + 1, Math.round(x1)));
      if (thin) return x1 - x0;
      if (x1 - x0 > 4) pixels[Math.round(x0)] = edge;
      const [left, right] = [area.left + (x0 / width) * area.width, area.left + (x1 / width) * area.width];
      if (height >= 13 && right - left > 14) over.push(() => label(context, text(), left, right, top + height / 2, looks[of]?.color ?? "#999999", true));
      return x1 - x0;
    };
    for (let bar = lowerBound(to, 0, to.length, shown.from); bar < from.length; ) {
      const [start, end, of] = [at(from, bar), at(to, bar), at(kind, bar)];
      if (!thin && bar && row.gapKind) {
        const [x0, x1] = [Math.max(0, (at(to, bar - 1) - shown.from) * zoom), Math.min(width, (start - shown.from) * zoom)];
        const between = x1 - x0 >= 1 ? row.gapKind(bar) : -1;
        if (between >= 0) pixels.fill(/** @type {number} */ (codes[between]), x0, x1);
      }
      if (start > shown.to) break;
      let wide = (end - start) * zoom;
      if ((row.thin?.[of] ?? false) === thin) {
        const here = bar;
        const isDivided = parts.some((part) => part.from >= start && part.from < end);
        wide = paint(start, end, of, isDivided ? () => "" : () => row.text(here));
        if (options.selected?.(index, bar)) over.push(() => frame(context, xOf(start), xOf(end), top));
      }
      // Of bars narrower than a pixel the one at its begin is drawn for all.
      bar = wide > 1 ? bar + 1 : Math.max(bar + 1, lowerBound(to, bar, to.length, Math.max(start, shown.from) + 1 / zoom));
    }
    for (const part of parts) paint(part.from, part.to, part.kind, () => part.text);
  }

  /** A frame around a bar. @param {CanvasRenderingContext2D} context @param {number} x0 @param {number} x1 @param {number} top */
  function frame(context, x0, x1, top) {
    const [left, right] = [Math.max(area.left - 3, x0), Math.min(area.left + area.width + 3, x1)];
    if (right < area.left || left > area.left + area.width) return;
    for (const [color, width] of /** @type {[string, number][]} */ ([["ground", 5], ["focus", 2.5]])) {
      context.strokeStyle = themeColor(color);
      context.lineWidth = width;
      context.strokeRect(left, top + 1, Math.max(2, right - left), Math.max(2, height - 2));
    }
    context.lineWidth = 1;
  }

  const handle = figure({
    label: options.label,
    height: AXIS + Math.max(1, rows.length) * height + 4,
    keys: options.keys ? `${options.keys}, ${KEYS}` : KEYS,
    draw,
    table: options.table,
    describe(x, y) {
      if (x < area.left && y >= AXIS) return rows[Math.floor((y - AXIS) / height)]?.name ?? null; // it may be cut
      const found = hit(x, y);
      const row = found && rows[found.row];
      return row ? ((found.isGap ? row.gapWords?.(found.bar) : row.words(found.bar, valueAt(x))) ?? null) : null;
    },
    onKey: press,
    onPress(x, y) {
      pressed = { x, from: shown.from, to: shown.to, moved: false };
      const found = hit(x, y);
      if (found) handle.say(go(found.row, found.bar));
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
  return {
    ...handle,
    point(row, bar) {
      cursor = { row, bar };
      handle.redraw();
    },
  };
}
