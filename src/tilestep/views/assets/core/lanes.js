/** Lanes of bars over an axis: what all pictures of them share, however many bars there are. Bars are painted by pixels. */

import { fillOf, isDark, isDarkTheme, themeColor } from "./colors.js";

/** @import { Fill } from "./colors.js" */
/** A row of pixels, its place in CSS pixels below the area's top. @typedef {{top: number, height: number}} Band */
/** CSS pixels, and device pixels for each. @typedef {{left: number, top: number, width: number, height: number, scale: number}} Area */

export const FONT = '11px system-ui, "DejaVu Sans", sans-serif';
export const AXIS = 22; // CSS pixels: height of the axis
const ZOOM = 0.6;
const STEP = 0.15; // of the window

/** Paints rows whose columns of pixels each have one look. */
export class Painter {
  constructor() {
    this.theme = "";
    /** @type {Map<string, number>} */
    this.known = new Map();
    /** Tiles of 8 by 8 pixels by code; code 0 is nothing. */
    this.inks = new Uint32Array(64);
    this.codes = new Uint16Array();
    /** @type {ImageData | null} */
    this.image = null;
  }

  /** Forgets codes if the theme has changed. To be called before codes are asked for. */
  renew() {
    const theme = `${themeColor("ground")} ${isDarkTheme()}`;
    if (theme === this.theme) return;
    this.theme = theme;
    this.known.clear();
  }

  /** The number that stands for a look in columns of pixels. @param {Fill} look @returns {number} */
  code(look) {
    const key = [look.color, look.dark, look.ink, look.hatch].join();
    let code = this.known.get(key);
    if (code === undefined) {
      code = this.known.size + 1;
      this.known.set(key, code);
      const inks = new Uint32Array(Math.max(this.inks.length, 64 * (code + 1)));
      inks.set(this.inks);
      inks.set(tileOf(look), 64 * code);
      this.inks = inks;
    }
    return code;
  }

  /**
   * Paints bands.
   * @template {Band} Of
   * @param {CanvasRenderingContext2D} context
   * @param {Of[]} bands those that are seen
   * @param {Area} area
   * @param {(band: Of, codes: Uint16Array) => void} encode writes what each column of device pixels of a band shows
   * @param {number[]} [marks] CSS pixels from the left at which lines of the grid stand behind the bands
   */
  paint(context, bands, area, encode, marks = []) {
    const { scale } = area;
    const [width, height] = [Math.max(1, Math.round(area.width * scale)), Math.max(1, Math.round(area.height * scale))];
    if (this.image?.width !== width || this.image.height !== height) {
      this.image = context.createImageData(width, height);
      this.codes = new Uint16Array(width);
    }
    const [paper = 0, line = 0] = ["ground", "grid"].map((name) => 64 * this.code({ color: themeColor(name), hatch: "plain" })).map((code) => at(this.inks, code));
    const pixels = new Uint32Array(this.image.data.buffer).fill(paper);
    for (const mark of marks) for (let x = Math.min(width - 1, Math.round(mark * scale)); x < pixels.length; x += width) pixels[x] = line;
    const shift = scale >= 2 ? 1 : 0;
    const { codes } = this;
    for (const band of bands) {
      const begin = Math.max(0, Math.round(band.top * scale));
      const end = Math.min(height, Math.round((band.top + band.height) * scale));
      if (end <= begin) continue;
      encode(band, codes.fill(0));
      const { inks } = this;
      for (let y = begin; y < end; y++) {
        const line = ((y >> shift) & 7) << 3;
        const offset = y * width;
        if (y - begin >= 8 << shift) {
          pixels.copyWithin(offset, offset - (8 << shift) * width, offset - (8 << shift) * width + width); // hatches repeat
          continue;
        }
        for (let x = 0; x < width; x++) {
          const code = /** @type {number} */ (codes[x]); // `at` sees arrays of many kinds, which makes it slow
          if (code) pixels[offset + x] = /** @type {number} */ (inks[(code << 6) | line | ((x >> shift) & 7)]);
        }
      }
    }
    context.putImageData(this.image, Math.round(area.left * scale), Math.round(area.top * scale));
  }
}

/** @param {Fill} look @returns {Uint32Array} its 8 by 8 pixels */
function tileOf(look) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 8;
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  pen.fillStyle = themeColor("ground");
  pen.fillRect(0, 0, 8, 8);
  pen.fillStyle = fillOf(pen, look);
  pen.fillRect(0, 0, 8, 8);
  return new Uint32Array(pen.getImageData(0, 0, 8, 8).data.buffer);
}

/** Marks of an axis that ends at a height. @param {CanvasRenderingContext2D} context @param {{at: number, words: string}[]} marks @param {(value: number) => number} x @param {{left: number, width: number}} area @param {number} end */
export function drawAxis(context, marks, x, { left, width }, end) {
  context.font = FONT;
  context.textBaseline = "middle";
  let free = left - 6;
  for (const { at: value, words } of marks) {
    context.fillStyle = themeColor("grid");
    context.fillRect(x(value), end - 5, 1, 5);
    const wide = context.measureText(words).width;
    const begin = Math.max(x(value) - wide / 2, left - 4);
    if (begin < free || begin + wide > left + width + 8) continue;
    context.fillStyle = themeColor("ink");
    context.fillText(words, begin, end - 12);
    free = begin + wide + 8;
  }
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

/** Words in a bar, on a plate of its colour, so that no hatch goes through them. @param {CanvasRenderingContext2D} context @param {string} text @param {number} x0 @param {number} x1 @param {number} y @param {string} color @param {boolean} [middle] whether they stand in the middle */
export function label(context, text, x0, x1, y, color, middle = false) {
  const words = text && cut(context, text, x1 - x0 - (middle ? 4 : 8));
  if (!words) return;
  const width = context.measureText(words).width;
  const left = middle ? (x0 + x1 - width) / 2 : x0 + 4;
  context.fillStyle = color;
  context.fillRect(left - 2, y - 6, Math.min(x1 - left, width + 4), 12);
  context.fillStyle = isDark(color) ? "#ffffff" : "#000000";
  context.fillText(words, left, y + 0.5);
}

/** A text, with an ellipsis where it is too wide; '' where three letters have no room. Names that are written from right to left turn nothing around them. @param {CanvasRenderingContext2D} context @param {string} text @param {number} width @returns {string} */
export function cut(context, text, width) {
  const short = text.slice(0, 300);
  if (short === text && context.measureText(text).width <= width) return `\u2068${text}\u2069`;
  let [low, high] = [0, short.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${short.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low < 3 ? "" : `\u2068${short.slice(0, low)}…\u2069`;
}

/** Zooms and moves by the keys of trace viewers. @param {import("./window.js").Window} shown @param {string} key @param {number} around what keeps its place @returns {boolean} whether the key is one of them */
export function windowKey(shown, key, around) {
  const { whole, length } = shown;
  /** @type {Record<string, () => void>} */
  const keys = {
    w: () => shown.zoom(ZOOM, around),
    s: () => shown.zoom(1 / ZOOM, around),
    a: () => shown.pan(-STEP),
    d: () => shown.pan(STEP),
    Home: () => shown.show(whole.from, whole.to),
    End: () => shown.show(whole.to - length, whole.to),
  };
  const name = { "+": "w", "=": "w", "-": "s" }[key] ?? (key.length === 1 ? key.toLowerCase() : key);
  if (!Object.hasOwn(keys, name)) return false;
  keys[name]?.();
  return true;
}

/** As Perfetto has it: with Ctrl the wheel zooms, with Shift it goes sideways. @param {import("./window.js").Window} shown @param {number} around @param {number} delta @param {WheelEvent} event @returns {boolean} whether it did one of these */
export function windowWheel(shown, around, delta, event) {
  if (event.ctrlKey || event.metaKey) {
    shown.zoom(Math.exp(Math.max(-200, Math.min(200, delta)) * 0.004), around);
    return true;
  }
  const sideways = event.shiftKey ? delta || event.deltaX : event.deltaX;
  if (!sideways || Math.abs(sideways) < Math.abs(event.shiftKey ? 0 : delta)) return false;
  shown.pan(sideways / 1000);
  return true;
}

/** The bar at a value, or the nearest within a distance; -1: none. Bars do not overlap, and are in order. @param {ArrayLike<number>} from @param {ArrayLike<number>} to @param {number} value @param {number} near @returns {number} */
export function nearest(from, to, value, near) {
  const behind = lowerBound(to, 0, to.length, value + 1e-9);
  let [best, distance] = [-1, near];
  for (const bar of [behind, behind - 1]) {
    if (bar < 0 || bar >= to.length) continue;
    const apart = Math.max(at(from, bar) - value, value - at(to, bar), 0);
    if (apart < distance || (apart === 0 && best < 0)) [best, distance] = [bar, apart];
  }
  return best;
}

/** An element of an array that has it. @param {ArrayLike<number>} array @param {number} index @returns {number} */
export function at(array, index) {
  return /** @type {number} */ (array[index]);
}

/** The first index in [low, high) whose value is at least `value`; high if there is none. @param {ArrayLike<number>} array ascending @param {number} low @param {number} high @param {number} value */
export function lowerBound(array, low, high, value) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (at(array, middle) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
