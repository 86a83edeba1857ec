/** Bars in rows over an axis, as of threads or of devices: drawn by pixels however many there are, and read by keys. */

import { fillOf, isDark, themeColor } from "./colors.js";
import { figure } from "./figure.js";

/** @typedef {import("./window.js").Window} Window */
/** @typedef {import("./colors.js").Hatch} Hatch */
/** @typedef {{color: string, dark?: string, hatch: Hatch}} Look */
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
 * @property {(key: string) => string | null | undefined} [onKey] further keys
 * @property {string} [keys] these, in words
 * @property {() => HTMLElement} table
 * @property {number} [most] CSS pixels of all rows
 */

export const AXIS = 22; // CSS pixels
const FONT = '11px system-ui, "DejaVu Sans", sans-serif';
const ROOM = { least: 3, most: 26 };
const NEAR = 3; // pixels: as far beside a bar the pointer still means it
const KEYS = "← → bars, ↑ ↓ rows, + − or W S zoom, A D move, F or Enter fit the bar, Home whole, End the last part. Drag to move; wheel with Ctrl zooms, with Shift moves";

/**
 * @param {RowsOptions} options
 * @returns {import("./figure.js").FigureHandle & {go: (row: number, bar: number) => string}}
 */
export function rowsFigure(options) {
  const { rows, window: shown } = options;
  const height = Math.max(ROOM.least, Math.min(ROOM.most, Math.floor((options.most ?? 480) / Math.max(1, rows.length))));
  shown.names = Math.max(shown.names, widest(rows.map(({ name }) => name)));
  let area = { left: 0, width: 1 };
  let cursor = { row: -1, bar: -1 };
  /** @type {{x: number, from: number, to: number, moved: boolean} | null} */
  let pressed = null;
  const xOf = (/** @type {number} */ value) => area.left + ((value - shown.from) / shown.length) * area.width;
  const valueAt = (/** @type {number} */ x) => shown.from + ((x - area.left) / area.width) * shown.length;

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

  /** The bar at a place of a row, or near it. @param {Row} row @param {number} value @param {number} near */
  function barAt(row, value, near) {
    const next = lowerBound(row.to, value);
    let [best, distance] = [-1, near];
    for (const bar of [next, next - 1]) {
      if (bar < 0 || bar >= row.from.length) continue;
      const apart = Math.max(at(row.from, bar) - value, value - at(row.to, bar), 0);
      if (apart < distance || (apart === 0 && best < 0)) [best, distance] = [bar, apart];
    }
    return best;
  }

  /** @param {number} x @param {number} y @returns {[number, number]} */
  function hit(x, y) {
    const row = Math.floor((y - AXIS) / height);
    const found = rows[row];
    if (!found || x < area.left || y < AXIS) return [-1, -1];
    return [row, barAt(found, valueAt(x), (NEAR * shown.length) / area.width)];
  }

  /** @param {number} way @returns {string} */
  function changeRow(way) {
    const from = cursor.row < 0 ? shown.from : (at(rows[cursor.row]?.from ?? [], cursor.bar) + at(rows[cursor.row]?.to ?? [], cursor.bar)) / 2;
    for (let row = cursor.row + way; row >= 0 && row < rows.length; row += way) {
      const bar = barAt(/** @type {Row} */ (rows[row]), from, Infinity);
      if (bar >= 0) return go(row, bar);
    }
    return way > 0 ? "this is the last row" : "this is the first row";
  }

  /** @param {string} key @returns {string | null | undefined} */
  function press(key) {
    const row = rows[cursor.row];
    const around = row ? Math.max(shown.from, Math.min(shown.to, (at(row.from, cursor.bar) + at(row.to, cursor.bar)) / 2)) : (shown.from + shown.to) / 2;
    switch (key.length === 1 ? key.toLowerCase() : key) {
      case "ArrowRight":
      case "ArrowLeft": {
        if (!row) return changeRow(1);
        const bar = cursor.bar + (key === "ArrowRight" ? 1 : -1);
        return bar < 0 || bar >= row.from.length ? `no bar ${key === "ArrowRight" ? "behind" : "before"} it in ${row.name}` : go(cursor.row, bar);
      }
      case "ArrowDown":
        return changeRow(1);
      case "ArrowUp":
        return changeRow(-1);
      case "w":
      case "+":
      case "=":
        shown.zoom(0.6, around);
        return range();
      case "s":
      case "-":
        shown.zoom(1 / 0.6, around);
        return range();
      case "a":
        shown.pan(-0.15);
        return range();
      case "d":
        shown.pan(0.15);
        return range();
      case "Home":
        shown.show(shown.whole.from, shown.whole.to);
        return range();
      case "End":
        shown.show(shown.whole.to - shown.length, shown.whole.to);
        return range();
      case "f":
      case "Enter": {
        if (!row) return "no bar is selected";
        const [from, to] = [at(row.from, cursor.bar), at(row.to, cursor.bar)];
        const room = Math.max(shown.least / 2, (to - from) * 0.25);
        shown.show(from - room, to + room);
        return range();
      }
      default:
        return options.onKey?.(key);
    }
  }

  const range = () => {
    const marks = options.ticks(shown.from, shown.to, 12);
    return marks.length ? `shown: ${marks[0]?.words} to ${marks[marks.length - 1]?.words}` : "shown: a part between two marks of the axis";
  };

  /** @param {import("./figure.js").Drawing} drawing */
  function draw({ context, width }) {
    const left = gutter(shown.names, width);
    area = { left, width: width - left - 8 };
    context.font = FONT;
    context.textBaseline = "middle";
    axis(context);
    rows.forEach((row, index) => {
      const top = AXIS + index * height;
      if (height >= 11) {
        context.fillStyle = themeColor("ink");
        context.fillText(cut(context, row.name, left - 10), 4, top + height / 2);
      }
      bars(context, row, index, top);
    });
    if (height < 11) {
      context.fillStyle = themeColor("faint");
      context.fillText(cut(context, `${rows.length} rows`, left - 10), 4, AXIS + 8);
    }
  }

  /** @param {CanvasRenderingContext2D} context */
  function axis(context) {
    const bottom = AXIS + rows.length * height;
    let free = area.left - 6;
    for (const { at: value, words } of options.ticks(shown.from, shown.to, Math.floor(area.width / 90))) {
      const x = xOf(value);
      context.fillStyle = themeColor("grid");
      context.fillRect(x, AXIS - 5, 1, bottom - AXIS + 5);
      const wide = context.measureText(words).width;
      const begin = Math.max(x - wide / 2, area.left);
      if (begin < free || begin + wide > area.left + area.width + 8) continue;
      context.fillStyle = themeColor("ink");
      context.fillText(words, begin, AXIS / 2 - 1);
      free = begin + wide + 8;
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {Row} row @param {number} index @param {number} top */
  function bars(context, row, index, top) {
    const { from, to } = row;
    const gap = height > 8 ? 2 : height > 4 ? 1 : 0;
    const selected = options.selected;
    let bar = lowerBound(to, shown.from);
    /** @type {[number, number][]} */
    const marked = [];
    while (bar < from.length && at(from, bar) <= shown.to) {
      const x0 = Math.max(area.left, xOf(at(from, bar)));
      const x1 = Math.max(x0 + 1, Math.min(area.left + area.width, xOf(at(to, bar))));
      const thin = row.thin?.(bar) ?? false;
      const [y, tall] = thin ? [top + height * 0.32, Math.max(1, height * 0.36)] : [top + gap / 2, height - gap];
      context.globalAlpha = row.faint?.(bar) ? 0.25 : 1;
      context.fillStyle = fillOf(context, row.look(bar));
      context.fillRect(x0, y, x1 - x0, tall);
      if (x1 - x0 > 4 && !thin) {
        context.strokeStyle = themeColor("ground");
        context.lineWidth = 1;
        context.strokeRect(x0 + 0.5, y + 0.5, x1 - x0 - 1, tall - 1);
      }
      context.globalAlpha = 1;
      if (selected?.(index, bar) || (cursor.row === index && cursor.bar === bar)) marked.push([x0, x1]);
      if (!thin && height >= 13 && x1 - x0 > 14) label(context, row.text(bar), x0, x1, top + height / 2, row.faint?.(bar) ? themeColor("ground") : row.look(bar).color);
      // Of bars narrower than a pixel one is drawn for all that end in it.
      bar = x1 - x0 > 1 ? bar + 1 : Math.max(bar + 1, lowerBound(to, shown.from + ((x0 + 1 - area.left) / area.width) * shown.length));
    }
    for (const [x0, x1] of marked) {
      context.lineWidth = 2;
      context.strokeStyle = themeColor("ink");
      context.strokeRect(x0, top + 1, Math.max(2, x1 - x0), height - 2);
      context.lineWidth = 1;
    }
  }

  const handle = /** @type {import("./figure.js").FigureHandle & {go: typeof go}} */ (
    figure({
      label: options.label,
      height: AXIS + Math.max(1, rows.length) * height + 4,
      keys: options.keys ? `${KEYS}. ${options.keys}` : KEYS,
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
        if (event.ctrlKey || event.metaKey) shown.zoom(Math.exp(Math.max(-200, Math.min(200, delta)) * 0.004), valueAt(x));
        else if (event.shiftKey || event.deltaX) shown.pan((event.deltaX || delta) / 1000);
        else return false;
        return true;
      },
    })
  );
  handle.go = go;
  shown.listeners.add(handle.redraw);
  return handle;
}

/** How many pixels the widest of some names takes. @param {string[]} names @returns {number} */
export function widest(names) {
  const context = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
  context.font = FONT;
  return names.reduce((most, name) => Math.max(most, context.measureText(name.slice(0, 100)).width), 80);
}

/** The room to the left of a picture: pictures on one axis have the same. @param {number} names pixels of the widest @param {number} width of the picture */
export function gutter(names, width) {
  return Math.ceil(Math.min(names + 14, width * 0.34, 260));
}

/** Words in a bar, on a plate of its colour, so that no hatch goes through them. @param {CanvasRenderingContext2D} context @param {string} text @param {number} x0 @param {number} x1 @param {number} y @param {string} color */
function label(context, text, x0, x1, y, color) {
  const words = cut(context, text, x1 - x0 - 4);
  if (!words || (words.length < 3 && words !== text)) return;
  const width = context.measureText(words).width;
  const left = (x0 + x1 - width) / 2;
  context.fillStyle = color;
  context.fillRect(left - 2, y - 7, width + 4, 14);
  context.fillStyle = isDark(color) ? "#ffffff" : "#000000";
  context.fillText(words, left, y + 0.5);
}

/** Text with an ellipsis where it is too wide; '' if nothing has room. @param {CanvasRenderingContext2D} context @param {string} text @param {number} width */
export function cut(context, text, width) {
  const short = text.length > 200 ? text.slice(0, 200) : text;
  if (short === text && context.measureText(text).width <= width) return text;
  let [low, high] = [0, short.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${short.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low ? `${short.slice(0, low)}…` : "";
}

/** @param {ArrayLike<number>} array @param {number} index @returns {number} */
export function at(array, index) {
  return /** @type {number} */ (array[index]);
}

/** The first index whose value is at least `value`. @param {ArrayLike<number>} array ascending @param {number} value */
export function lowerBound(array, value) {
  let [low, high] = [0, array.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (at(array, middle) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
