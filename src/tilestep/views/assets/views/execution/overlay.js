/** The critical path over the bars. */

import { themeColor } from "../../core/colors.js";
import { at, lowerBound } from "../../core/lanes.js";

/** @import { Model } from "./model.js" */
/** CSS pixels, and the cycles at both ends. @typedef {{left: number, top: number, width: number, height: number, from: number, to: number}} Area */

const LEAST_OUTLINE = 24; // pixels: narrower pieces of the critical path have a line above
const LEAST_BETWEEN_ARROWS = 12; // pixels
const BESIDE = 1.5; // pixels from a lane: the path stands in the gap beside it, so that it covers no bar

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
