/** Where lanes stand in a timeline: rows of bars one below the other, without those that are filtered away. */

import { at, lowerBound } from "../../core/lanes.js";

/** @import { Model } from "./model.js" */
/** @import { Row } from "./bars.js" */
/**
 * @typedef {object} Placed
 * @property {Row[]} rows
 * @property {Map<number, {top: number, bottom: number}>} lanes where each lane stands; CSS pixels below the first row's top
 * @property {number} height of all
 * @property {number} runs height of the bars of runs above those of an IPU; 0: there is no room
 */

export const RUN_BAR = 14; // CSS pixels
const FIT = { least: 2, most: 30 };
const ABOVE = 2; // the first lane, and below the last
const NAME = 13; // a line of names
/** @type {Readonly<Record<string, number>>} */
export const HEIGHTS = Object.freeze({ small: 8, medium: 18, large: 32 });

/**
 * @param {Model} model
 * @param {import("./scene.js").Scene} scene
 * @param {number} room CSS pixels for all lanes
 * @returns {Placed}
 */
export function arrange(model, scene, room) {
  const shown = model.lanes.filter((lane) => !scene.hiddenLanes.has(lane.kind) && (scene.idle || isBusy(lane, scene)));
  const unit = HEIGHTS[scene.height] ?? fitting(shown, room);
  const { runs, gap } = detailOf(unit);
  /** @type {Row[]} */
  const rows = [];
  /** @type {Map<number, {top: number, bottom: number}>} */
  const lanes = new Map();
  let y = ABOVE;
  for (const lane of shown) {
    const top = y;
    if (lane.kind === "ipu") y += runs;
    const height = trackHeight(lane, unit);
    lane.tracks.forEach((_, place) => {
      rows.push({ lane, place, top: y, height });
      y += height;
    });
    lanes.set(lane.index, { top, bottom: y });
    y += gap;
  }
  return { rows, lanes, height: y + ABOVE, runs };
}

/** What there is room for in lanes of a height. @param {number} unit @returns {{runs: number, gap: number}} */
function detailOf(unit) {
  return { runs: unit >= 26 ? RUN_BAR : 0, gap: unit >= 10 ? 4 : unit >= 5 ? 1 : 0 };
}

/** The height of each track of a lane. @param {import("./model.js").Lane} lane @param {number} unit */
function trackHeight(lane, unit) {
  if (lane.tracks.length > 1) return Math.max(2, Math.round(unit / 2));
  return lane.kind === "ipu" ? unit - detailOf(unit).runs : Math.min(unit, 20);
}

/** The largest height with which all lanes have room. @param {import("./model.js").Lane[]} lanes @param {number} room */
function fitting(lanes, room) {
  for (let unit = FIT.most; unit > FIT.least; unit--) {
    const { runs, gap } = detailOf(unit);
    const height = lanes.reduce((sum, lane) => sum + trackHeight(lane, unit) * lane.tracks.length + (lane.kind === "ipu" ? runs : 0) + gap, 2 * ABOVE);
    if (height <= room) return unit;
  }
  return FIT.least;
}

/**
 * The lanes whose names have room, one below the other: the first of each kind before others.
 * @param {Map<number, {top: number, bottom: number}>} lanes where each stands
 * @param {(lane: number) => string} kindOf
 * @param {number} low @param {number} high what is seen
 * @returns {Map<number, number>} the middle of each name
 */
export function named(lanes, kindOf, low, high) {
  /** @type {Map<number, number>} */
  const found = new Map();
  const seen = [...lanes].filter(([, { top, bottom }]) => bottom > low && top < high);
  /** @param {[number, {top: number, bottom: number}]} placed @returns {boolean} whether its name has room */
  const place = ([lane, { top, bottom }]) => {
    const y = Math.max(low + NAME / 2, Math.min(high - NAME / 2, (top + bottom) / 2));
    const free = ![...found.values()].some((other) => Math.abs(other - y) < NAME);
    if (free) found.set(lane, y);
    return free;
  };
  for (const kind of new Set(seen.map(([lane]) => kindOf(lane)))) seen.filter(([lane]) => kindOf(lane) === kind).some(place);
  seen.forEach(place);
  return found;
}

/** Whether a lane has an event in the window. @param {import("./model.js").Lane} lane @param {{from: number, to: number}} window */
function isBusy(lane, { from, to }) {
  return lane.tracks.some(({ start, end }) => {
    const first = lowerBound(end, 0, end.length, from);
    return first < end.length && at(start, first) <= to;
  });
}
