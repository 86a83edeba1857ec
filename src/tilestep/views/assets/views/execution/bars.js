/** The bars of all lanes as pixels: colours and hatches of kinds, the finest level of each track that the screen can show. */

import { lookOf, themeColor } from "../../core/colors.js";
import { at, isUnkept, lowerBound } from "./model.js";
import { HIDDEN, levels } from "./pyramid.js";

/** @typedef {import("./model.js").Model} Model */
/** @typedef {import("./model.js").Lane} Lane */
/** @typedef {import("./model.js").Track} Track */
/** @typedef {import("./pyramid.js").Level} Level */
/**
 * Where a track is drawn.
 * @typedef {object} Row
 * @property {Lane} lane
 * @property {number} place of the track in its lane
 * @property {number} top CSS pixels below the first row's top
 * @property {number} height CSS pixels
 */

const BLANK = 0;
const WAIT = 1;
const EDGE = 2;
const UNKEPT = 3;
const FIRST = 4; // code of kind 0
const WIDE = 5; // device pixels from which a bar has an edge
const SPANS_A_PIXEL = 1; // more spans of leaves than that are not drawn one by one
const MANY = 64; // rows: of more, nodes may be twice as wide, which nobody sees in lanes that are as thin

export class Bars {
  /** @param {Model} model @param {import("./spans.js").Layouts} layouts */
  constructor(model, layouts) {
    this.model = model;
    this.layouts = layouts;
    /** @type {boolean[]} */
    this.hidden = [];
    /** @type {Level[][][]} */
    this.levels = [];
    /** @type {ImageData | null} */
    this.image = null;
    this.codes = new Uint8Array();
    this.nodes = 2; // a pixel, at most
    this.hide([]);
  }

  /** @param {string[]} kinds those that are not shown */
  hide(kinds) {
    this.hidden = this.model.kinds.map((kind) => kinds.includes(kind));
    this.levels = this.model.lanes.map((lane) => lane.tracks.map((track) => levels(track, this.hidden)));
  }

  /**
   * Draws rows.
   * @param {CanvasRenderingContext2D} context
   * @param {Row[]} rows those that are seen
   * @param {{left: number, top: number, width: number, height: number, scroll: number, scale: number, from: number, to: number}} area CSS pixels, and cycles
   */
  draw(context, rows, area) {
    const { scale } = area;
    const [width, height] = [Math.max(1, Math.round(area.width * scale)), Math.max(1, Math.round(area.height * scale))];
    if (this.image?.width !== width || this.image.height !== height) this.image = context.createImageData(width, height);
    if (this.codes.length !== width) this.codes = new Uint8Array(width);
    const pixels = new Uint32Array(this.image.data.buffer);
    const inks = patterns(this.model.kinds);
    pixels.fill(at(inks, 0));
    const shift = scale >= 2 ? 1 : 0;
    this.nodes = rows.length > MANY ? 1 : 2;
    for (const row of rows) {
      const begin = Math.max(0, Math.round((row.top - area.scroll) * scale));
      const end = Math.min(height, Math.round((row.top + row.height - area.scroll) * scale));
      if (end <= begin) continue;
      this.encode(row, width, area.from, area.to);
      const codes = this.codes;
      for (let y = begin; y < end; y++) {
        const line = ((y >> shift) & 7) << 3;
        const offset = y * width;
        if (y - begin >= 8 << shift) {
          pixels.copyWithin(offset, offset - (8 << shift) * width, offset - (8 << shift) * width + width); // hatches repeat
          continue;
        }
        for (let x = 0; x < width; x++) {
          const code = at(codes, x);
          if (code) pixels[offset + x] = at(inks, (code << 6) | line | ((x >> shift) & 7));
        }
      }
    }
    context.putImageData(this.image, Math.round(area.left * scale), Math.round(area.top * scale));
  }

  /** The finest level of a track that has no more nodes than a screen can show, with the nodes in a window. @param {Row} row @param {number} pixels @param {number} from @param {number} to @returns {[Level, number, number]} */
  level({ lane, place }, pixels, from, to) {
    const all = /** @type {Level[]} */ (this.levels[lane.index]?.[place]);
    for (const level of all) {
      const first = lowerBound(level.end, 0, level.size, from);
      const behind = lowerBound(level.start, first, level.size, to);
      if (behind - first <= this.nodes * pixels || level === all[all.length - 1]) return [level, first, behind];
    }
    throw new Error("a track has no levels");
  }

  /** Writes what each column of pixels of a row shows. @param {Row} row @param {number} width @param {number} from @param {number} to */
  encode(row, width, from, to) {
    const codes = this.codes.fill(BLANK);
    const zoom = width / (to - from);
    const [level, first, behind] = this.level(row, width, from, to);
    const { start, end, kind, size } = level;
    const { lane } = row;
    if (row.place === 0 && behind < size && first > 0 && behind > 0) {
      // Up to the next event, which lies behind the window.
      codes.fill(isUnkept(lane, at(end, behind - 1), at(start, behind)) ? UNKEPT : WAIT, Math.max(0, (at(end, behind - 1) - from) * zoom), Math.min(width, Math.max(0, (at(start, behind) - from) * zoom)));
    }
    const gaps = row.place === 0;
    let before = first > 0 ? (at(end, first - 1) - from) * zoom : Infinity;
    for (let node = first; node < behind; node++) {
      const left = (at(start, node) - from) * zoom;
      const right = (at(end, node) - from) * zoom;
      if (gaps && left - before >= 1) codes.fill(isUnkept(lane, node ? at(end, node - 1) : 0, at(start, node)) ? UNKEPT : WAIT, before < 0 ? 0 : before, left > width ? width : left);
      before = right;
      const of = at(kind, node);
      if (of === HIDDEN) continue;
      const begin = left < 0 ? 0 : left | 0;
      const until = right >= width ? width : right | 0;
      if (until - begin < 2) {
        codes[begin] = FIRST + of;
        continue;
      }
      codes.fill(FIRST + of, begin, until);
      if (left >= 0 && right - left >= WIDE) codes[begin] = EDGE;
    }
    if (level === this.levels[row.lane.index]?.[row.place]?.[0] && row.lane.kind === "ipu") this.encodeSpans(row, first, behind, width, from, to);
  }

  /** Writes the steps of runs over their sums, where there is room. @param {Row} row @param {number} first @param {number} behind @param {number} width @param {number} from @param {number} to */
  encodeSpans({ lane, place }, first, behind, width, from, to) {
    const track = /** @type {Track} */ (lane.tracks[place]);
    if (track.rows) return;
    const zoom = width / (to - from);
    // The event that begins a layout may lie up to two events before the window: the layout goes over it.
    for (let event = Math.max(0, first - 2); event < behind; event++) {
      const layout = at(this.model.layout, track.first + event);
      if (layout < 0) continue;
      const begin = at(track.start, event);
      if (this.layouts.length(layout) * zoom < WIDE) continue;
      const [low, high] = this.layouts.range(layout, from - begin, to - begin);
      if (high <= low) continue;
      const [left, right] = [Math.max(from, begin), Math.min(to, begin + this.layouts.length(layout))];
      if (high - low > SPANS_A_PIXEL * (right - left) * zoom) continue;
      for (let span = low; span < high; span++) {
        const of = at(this.layouts.kinds, span);
        if (this.hidden[of]) continue;
        const x0 = (begin + at(this.layouts.from, span) - from) * zoom;
        const x1 = (begin + at(this.layouts.to, span) - from) * zoom;
        const column = x0 < 0 ? 0 : x0 | 0;
        this.codes.fill(FIRST + of, column, Math.min(width, Math.max(column + 1, x1 | 0)));
        if (x0 >= 0 && x1 - x0 >= WIDE) this.codes[column] = EDGE;
      }
    }
  }
}

let made = { key: "", inks: new Uint32Array() };

/** Pixels of 8 by 8 for each code, in the colours of the theme. @param {string[]} kinds @returns {Uint32Array} */
function patterns(kinds) {
  const colors = [themeColor("ground"), themeColor("grid"), themeColor("ink"), themeColor("edge"), themeColor("wait")];
  const key = [...colors, ...kinds].join();
  if (made.key === key) return made.inks;
  const inks = new Uint32Array((FIRST + kinds.length) * 64);
  const looks = [
    { color: colors[0] ?? "#fff", hatch: "plain" },
    { color: colors[0] ?? "#fff", hatch: "up", ink: colors[4] ?? "#bbb" },
    { color: colors[2] ?? "#000", hatch: "plain" },
    { color: colors[1] ?? "#ddd", hatch: "dots", ink: colors[3] ?? "#888" },
    ...kinds.map(lookOf),
  ];
  const dark = 0.6;
  looks.forEach((look, code) => {
    const plain = rgb(look.color);
    const other = "ink" in look ? rgb(/** @type {string} */ (look.ink)) : plain.map((part) => part * dark);
    for (let y = 0; y < 8; y++) for (let x = 0; x < 8; x++) inks[code * 64 + y * 8 + x] = packed(hatched(look.hatch, x, y) ? other : plain);
  });
  made = { key, inks };
  return inks;
}

/** Whether a hatch has ink at a pixel; as fillOf of core/colors.js draws it. @param {string} hatch @param {number} x @param {number} y */
function hatched(hatch, x, y) {
  const [up, down] = [(x + y) % 8 < 2, (x - y + 8) % 8 < 2];
  if (hatch === "up") return up;
  if (hatch === "down") return down;
  if (hatch === "cross") return up || down;
  if (hatch === "bars") return x % 4 < 2;
  if (hatch === "lines") return y % 4 < 2;
  if (hatch === "dots") return x % 4 < 2 && y % 4 < 2;
  return false;
}

/** @param {string} color '#rgb' or '#rrggbb' @returns {number[]} */
function rgb(color) {
  const digits = color.length === 4 ? [...color.slice(1)].map((digit) => digit + digit).join("") : color.slice(1);
  const value = Number.parseInt(digits, 16);
  return [(value >> 16) & 255, (value >> 8) & 255, value & 255];
}

/** @param {number[]} parts @returns {number} a pixel of ImageData on a little-endian machine */
function packed([red = 0, green = 0, blue = 0]) {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}
