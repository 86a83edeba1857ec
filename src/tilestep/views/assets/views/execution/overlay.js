/** What is drawn over the bars: words in them, the critical path, the selection and the measured range. */

import { fillOf, isDarkTheme, lookOf, programLook, themeColor } from "../../core/colors.js";
import { at, FONT, label, lowerBound } from "../../core/lanes.js";
import { partsOf } from "../steps/read.js";
import { called, rowAt } from "./model.js";

/** @import { Model } from "./model.js" */
/** @import { Row } from "./bars.js" */
/**
 * @typedef {object} Area
 * @property {number} left CSS pixels
 * @property {number} top
 * @property {number} width
 * @property {number} height
 * @property {number} scroll
 * @property {number} from cycle
 * @property {number} to cycle
 */

const LEAST_TEXT = 30; // pixels: narrower bars have no words
const LEAST_OUTLINE = 24; // pixels: narrower pieces of the critical path have a line above
const LEAST_BETWEEN_ARROWS = 12; // pixels
const BESIDE = 1.5; // pixels from a lane: the path stands in the gap beside it, so that it covers no bar
const MOST_WORDS = 400; // in one drawing

/** Words in bars that have room: programs in the bars of runs, names of steps in steps. @param {CanvasRenderingContext2D} context @param {Model} model @param {import("./bars.js").Bars} bars @param {Row[]} rows @param {Area} area */
export function drawWords(context, model, bars, rows, area) {
  context.font = FONT;
  context.textBaseline = "middle";
  const zoom = area.width / (area.to - area.from);
  let left = MOST_WORDS;
  for (const row of rows) {
    if (row.height < 11 || left <= 0) continue;
    const [level, first, behind] = bars.level(row, area.width, area.from, area.to);
    if (level !== bars.levels[row.lane.index]?.[row.place]?.[0]) continue;
    const track = /** @type {import("./model.js").Track} */ (row.lane.tracks[row.place]);
    const y = area.top + row.top - area.scroll + row.height / 2;
    for (let place = first; place < behind && left > 0; place++) {
      const event = rowAt(track, place);
      if (bars.hidden[at(model.kind, event)]) continue;
      const x0 = Math.max(area.left, area.left + (at(track.start, place) - area.from) * zoom);
      const x1 = Math.min(area.left + area.width, area.left + (at(track.end, place) - area.from) * zoom);
      if (x1 - x0 < LEAST_TEXT || isDivided(model, bars, event, zoom)) continue;
      const kind = model.kindOf(event);
      const work = model.workOf(event);
      label(context, called(kind, work), x0, x1, y, lookOf(kind).color);
      left--;
    }
    if (row.lane.kind === "ipu" && !track.rows) left = drawSteps(context, model, bars, track, [Math.max(0, first - 2), behind], area, y, left);
  }
}

/** Whether an event's sum is divided into steps on the screen. @param {Model} model @param {import("./bars.js").Bars} bars @param {number} event @param {number} zoom */
function isDivided(model, bars, event, zoom) {
  const { layouts } = bars;
  const { begin } = model.laneOf(event);
  for (let index = event; index >= begin && index > event - 3; index--) {
    const layout = at(model.layout, index);
    if (layout < 0) continue;
    if (at(model.start, index) + layouts.length(layout) <= at(model.start, event)) return false;
    return at(layouts.begins, layout + 1) - at(layouts.begins, layout) <= layouts.length(layout) * zoom;
  }
  return false;
}

/** @param {CanvasRenderingContext2D} context @param {Model} model @param {import("./bars.js").Bars} bars @param {import("./model.js").Track} track @param {[number, number]} range @param {Area} area @param {number} y @param {number} left @returns {number} */
function drawSteps(context, model, bars, track, [first, behind], area, y, left) {
  const { layouts } = bars;
  const zoom = area.width / (area.to - area.from);
  for (let place = first; place < behind && left > 0; place++) {
    const layout = at(model.layout, track.first + place);
    if (layout < 0) continue;
    const begin = at(track.start, place);
    if (at(layouts.begins, layout + 1) - at(layouts.begins, layout) > layouts.length(layout) * zoom) continue;
    const [low, high] = layouts.range(layout, area.from - begin, area.to - begin);
    for (let index = low; index < high && left > 0; index++) {
      const span = layouts.span(index, begin);
      const x0 = Math.max(area.left, area.left + (span.from - area.from) * zoom);
      const x1 = Math.min(area.left + area.width, area.left + (span.to - area.from) * zoom);
      const kind = model.kinds[span.kind] ?? "";
      if (x1 - x0 < LEAST_TEXT || bars.hidden[span.kind]) continue;
      label(context, called(kind, span.leaf ? partsOf(span.leaf.scope).pop() || span.leaf.name : ""), x0, x1, y, lookOf(kind).color);
      left--;
    }
  }
  return left;
}

/** Bars of runs above those of their kinds, with the name of what ran. @param {CanvasRenderingContext2D} context @param {Model} model @param {Row[]} rows @param {Area} area @param {number} height of these bars */
export function drawRuns(context, model, rows, area, height) {
  context.font = FONT;
  context.textBaseline = "middle";
  const zoom = area.width / (area.to - area.from);
  const edge = themeColor("edge");
  const dark = isDarkTheme();
  let left = MOST_WORDS;
  for (const row of rows) {
    if (row.lane.kind !== "ipu" || row.place > 0) continue;
    const [track] = row.lane.tracks;
    if (!track || track.rows) continue;
    const top = area.top + row.top - area.scroll - height;
    const size = track.end.length;
    const behind = lowerBound(track.start, 0, size, area.to);
    for (let place = lowerBound(track.end, 0, size, area.from); place < behind; ) {
      const event = row.lane.begin + place;
      const run = at(model.run, event);
      let [begin, last] = [event, event];
      while (run >= 0 && last + 1 < row.lane.begin + behind && at(model.run, last + 1) === run) last++;
      while (run >= 0 && begin > row.lane.begin && at(model.run, begin - 1) === run) begin--;
      place = last + 1 - row.lane.begin;
      if (run < 0) continue;
      const x0 = Math.max(area.left, area.left + (at(model.start, begin) - area.from) * zoom);
      const x1 = Math.min(area.left + area.width, area.left + (at(model.end, last) - area.from) * zoom);
      if (x1 - x0 < 2) {
        // Of runs so narrow one line stands for all that end in its pixel.
        context.fillStyle = edge;
        context.fillRect(Math.floor(x0), top, 1, height - 1);
        place = Math.max(place, lowerBound(track.end, place, size, area.from + (Math.floor(x0) + 1 - area.left) / zoom));
        continue;
      }
      const look = programLook(at(model.program, event), dark);
      context.fillStyle = fillOf(context, look);
      context.fillRect(x0, top, x1 - x0 - 1, height - 1);
      context.fillStyle = edge;
      context.fillRect(x0, top, 1, height - 1);
      if (x1 - x0 >= LEAST_TEXT && left-- > 0) label(context, model.workOf(event), x0, x1, top + height / 2 - 1, look.color);
    }
  }
}

/** The critical path: around its events, or above them where they are narrow, and lines where it goes from one lane to another. @param {CanvasRenderingContext2D} context @param {Model} model @param {Map<number, {top: number, bottom: number}>} places of lanes in the area, beyond its edges if they are not seen @param {Area} area */
export function drawPath(context, model, places, area) {
  const { path } = model;
  if (!path.length) return;
  const zoom = area.width / (area.to - area.from);
  /** @param {number} cycle */
  const x = (cycle) => area.left + (cycle - area.from) * zoom;
  const ends = path.length > 4096 ? pathEnds(model) : null;
  let place = ends ? lowerBound(ends, 0, ends.length, area.from) : 0;
  const [around, between] = [new Path2D(), new Path2D()];
  let drawnTo = -Infinity;
  let drawnLane = -1;
  let lastArrow = -Infinity;
  for (; place < path.length; place++) {
    const row = at(path, place);
    const end = at(model.end, row);
    if (end < area.from) continue;
    const begin = place ? at(model.end, at(path, place - 1)) : at(model.start, row);
    if (begin > area.to) break;
    const lane = at(model.lane, row);
    const box = places.get(lane);
    const before = place ? places.get(at(model.lane, at(path, place - 1))) : undefined;
    if (!box || (x(end) - drawnTo < 1 && lane === drawnLane)) continue;
    [drawnTo, drawnLane] = [x(end), lane];
    const [x0, x1] = [Math.max(area.left - 3, x(begin)), Math.min(area.left + area.width + 3, x(end))];
    const [top, bottom] = [box.top - BESIDE, box.bottom + BESIDE];
    if (x1 - x0 >= LEAST_OUTLINE) around.rect(x0, top, x1 - x0, bottom - top);
    else {
      around.moveTo(x0, top); // outlines so close would hide what they surround
      around.lineTo(Math.max(x1, x0 + 1), top);
    }
    if (before && before !== box && x(begin) - lastArrow >= LEAST_BETWEEN_ARROWS) {
      lastArrow = x(begin);
      arrow(between, lastArrow, before.top < box.top ? before.bottom : before.top, before.top < box.top ? top : bottom);
    }
  }
  const [thinnest] = [...places.values()].map(({ top, bottom }) => bottom - top).sort((a, b) => a - b);
  context.save();
  context.beginPath();
  context.rect(area.left, area.top, area.width, area.height);
  context.clip();
  context.strokeStyle = context.fillStyle = themeColor("mark");
  context.lineWidth = (thinnest ?? 0) < 8 ? 1 : 2; // lanes that are thin stay visible
  context.stroke(around);
  context.lineWidth = 1;
  context.stroke(between);
  context.fill(between);
  context.restore();
}

/** @type {WeakMap<Model, Float64Array>} */
const knownEnds = new WeakMap();

/** @param {Model} model @returns {Float64Array} */
function pathEnds(model) {
  let found = knownEnds.get(model);
  if (!found) knownEnds.set(model, (found = Float64Array.from(model.path, (row) => at(model.end, row))));
  return found;
}

/** @param {Path2D} path @param {number} x @param {number} y0 @param {number} y1 */
function arrow(path, x, y0, y1) {
  const way = Math.sign(y1 - y0) || 1;
  path.moveTo(x, y0);
  path.lineTo(x, y1);
  path.moveTo(x - 3, y1 - 4 * way);
  path.lineTo(x, y1);
  path.lineTo(x + 3, y1 - 4 * way);
  path.closePath();
}

/** A stretch of time between two lines, with its length in words. @param {CanvasRenderingContext2D} context @param {[number, number]} range cycles @param {string} words @param {Area} area */
export function drawRange(context, range, words, area) {
  const zoom = area.width / (area.to - area.from);
  const [x0, x1] = range.map((cycle) => area.left + Math.max(-1, Math.min(area.width + 1, (cycle - area.from) * zoom)));
  if (x0 === undefined || x1 === undefined) return;
  context.save();
  context.fillStyle = themeColor("link");
  context.globalAlpha = 0.15;
  context.fillRect(x0, area.top, x1 - x0, area.height);
  context.globalAlpha = 1;
  context.fillRect(x0 - 0.75, area.top, 1.5, area.height);
  context.fillRect(x1 - 0.75, area.top, 1.5, area.height);
  context.font = `bold ${FONT}`;
  context.textBaseline = "top";
  const width = context.measureText(words).width;
  const x = Math.max(area.left + 2, Math.min(area.left + area.width - width - 4, (x0 + x1 - width) / 2));
  context.fillStyle = themeColor("ground");
  context.fillRect(x - 3, area.top + 1, width + 6, 15);
  context.fillStyle = themeColor("ink");
  context.fillText(words, x, area.top + 3);
  context.restore();
}

/** A frame around the selected event. @param {CanvasRenderingContext2D} context @param {number} from @param {number} to @param {{top: number, bottom: number}} box @param {Area} area */
export function drawSelected(context, from, to, box, area) {
  const zoom = area.width / (area.to - area.from);
  const x0 = Math.max(area.left - 4, area.left + (from - area.from) * zoom);
  const x1 = Math.min(area.left + area.width + 4, area.left + (to - area.from) * zoom);
  if (x1 < area.left || x0 > area.left + area.width) return;
  context.save();
  context.beginPath();
  context.rect(area.left, area.top, area.width, area.height);
  context.clip();
  for (const [color, width] of /** @type {[string, number][]} */ ([[themeColor("ground"), 5], [themeColor("focus"), 3]])) {
    context.strokeStyle = color;
    context.lineWidth = width;
    context.strokeRect(x0 - 1, box.top - 1, Math.max(2, x1 - x0 + 1), box.bottom - box.top + 2);
  }
  context.restore();
}
