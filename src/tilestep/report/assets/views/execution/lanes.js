/** Where lanes stand in a timeline: rows of bars one below the other, without those that are filtered away. */

import { at, lowerBound } from "./model.js";

/** @typedef {import("./model.js").Model} Model */
/** @typedef {import("./bars.js").Row} Row */
/**
 * @typedef {object} Placed
 * @property {Row[]} rows
 * @property {Map<number, {top: number, bottom: number}>} lanes where each lane stands; CSS pixels below the first row's top
 * @property {number} height of all
 * @property {number} runs height of the bars of runs above those of an IPU; 0: there is no room
 */

export const RUN_BAR = 14; // CSS pixels
const FIT = { least: 2, most: 30 };
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
  const weight = shown.reduce((sum, { tracks }) => sum + (tracks.length + 1) / 2, 0);
  const unit = HEIGHTS[scene.height] ?? Math.max(FIT.least, Math.min(FIT.most, Math.floor(room / Math.max(1, weight)) - 3));
  const runs = unit >= 26 ? RUN_BAR : 0;
  const gap = unit >= 10 ? 4 : unit >= 5 ? 1 : 0;
  /** @type {Row[]} */
  const rows = [];
  /** @type {Map<number, {top: number, bottom: number}>} */
  const lanes = new Map();
  let y = 2;
  for (const lane of shown) {
    const top = y;
    if (lane.kind === "ipu") y += runs;
    const height = lane.tracks.length > 1 ? Math.max(2, Math.round(unit / 2)) : lane.kind === "ipu" ? unit - runs : Math.min(unit, 20);
    lane.tracks.forEach((_, place) => {
      rows.push({ lane, place, top: y, height });
      y += height;
    });
    lanes.set(lane.index, { top, bottom: y });
    y += gap;
  }
  return { rows, lanes, height: y + 2, runs };
}

/** Whether a lane has an event in the window. @param {import("./model.js").Lane} lane @param {{from: number, to: number}} window */
function isBusy(lane, { from, to }) {
  return lane.tracks.some(({ start, end }) => {
    const first = lowerBound(end, 0, end.length, from);
    return first < end.length && at(start, first) <= to;
  });
}
