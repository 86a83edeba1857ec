/** The bars of all lanes as pixels: colours and hatches of kinds, the finest level of each track that the screen can show. */

import { lookOf, themeColor } from "../../core/colors.js";
import { at, lowerBound, Painter } from "../../core/lanes.js";
import { isUnkept } from "./model.js";
import { HIDDEN, levels } from "./pyramid.js";

/** @import { Model, Lane, Track } from "./model.js" */
/** @import { Level } from "./pyramid.js" */
/**
 * Where a track is drawn.
 * @typedef {object} Row
 * @property {Lane} lane
 * @property {number} place of the track in its lane
 * @property {number} top CSS pixels below the first row's top
 * @property {number} height CSS pixels
 */

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
    this.painter = new Painter();
    /** Codes of what is drawn. @type {{kinds: Uint16Array, wait: number, edge: number, unkept: number}} */
    this.looks = { kinds: new Uint16Array(), wait: 0, edge: 0, unkept: 0 };
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
    const { painter } = this;
    painter.renew();
    this.nodes = rows.length > MANY ? 1 : 2;
    this.looks = {
      kinds: Uint16Array.from(this.model.kinds, (kind) => painter.code(lookOf(kind))),
      wait: painter.code({ color: themeColor("ground"), hatch: "up", ink: themeColor("wait") }),
      edge: painter.code({ color: themeColor("ink"), hatch: "plain" }),
      unkept: painter.code({ color: themeColor("grid"), hatch: "dots", ink: themeColor("edge") }),
    };
    painter.paint(context, rows, area, (row, codes) => this.encode(row, codes, area.from, area.to));
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

  /** Writes what each column of pixels of a row shows. @param {Row} row @param {Uint16Array} codes @param {number} from @param {number} to */
  encode(row, codes, from, to) {
    const width = codes.length;
    const { kinds, wait, edge, unkept } = this.looks;
    const zoom = width / (to - from);
    const [level, first, behind] = this.level(row, width, from, to);
    const { start, end, kind, size } = level;
    const { lane } = row;
    if (row.place === 0 && behind < size && first > 0 && behind > 0) {
      // Up to the next event, which lies behind the window.
      codes.fill(isUnkept(lane, at(end, behind - 1), at(start, behind)) ? unkept : wait, Math.max(0, (at(end, behind - 1) - from) * zoom), Math.min(width, Math.max(0, (at(start, behind) - from) * zoom)));
    }
    const gaps = row.place === 0;
    let before = first > 0 ? (at(end, first - 1) - from) * zoom : Infinity;
    for (let node = first; node < behind; node++) {
      const left = (at(start, node) - from) * zoom;
      const right = (at(end, node) - from) * zoom;
      if (gaps && left - before >= 1) codes.fill(isUnkept(lane, node ? at(end, node - 1) : 0, at(start, node)) ? unkept : wait, before < 0 ? 0 : before, left > width ? width : left);
      before = right;
      const of = at(kind, node);
      if (of === HIDDEN) continue;
      const code = /** @type {number} */ (kinds[of]); // `at` sees arrays of many kinds, which makes it slow
      const begin = left < 0 ? 0 : left | 0;
      const until = right >= width ? width : right | 0;
      if (until - begin < 2) {
        codes[begin] = code;
        continue;
      }
      codes.fill(code, begin, until);
      if (left >= 0 && right - left >= WIDE) codes[begin] = edge;
    }
    if (level === this.levels[row.lane.index]?.[row.place]?.[0] && row.lane.kind === "ipu") this.encodeSpans(row, first, behind, codes, from, to);
  }

  /** Writes the steps of runs over their sums, where there is room. @param {Row} row @param {number} first @param {number} behind @param {Uint16Array} codes @param {number} from @param {number} to */
  encodeSpans({ lane, place }, first, behind, codes, from, to) {
    const track = /** @type {Track} */ (lane.tracks[place]);
    if (track.rows) return;
    const { kinds, edge } = this.looks;
    const zoom = codes.length / (to - from);
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
        codes.fill(at(kinds, of), column, Math.max(column + 1, x1 | 0));
        if (x0 >= 0 && x1 - x0 >= WIDE) codes[column] = edge;
      }
    }
  }
}
