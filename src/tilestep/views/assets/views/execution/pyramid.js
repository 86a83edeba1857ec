/** Levels of a track for drawing: each node of a level stands for four of the level below, with the kind that takes most of its time. */

import { at } from "../../core/lanes.js";

/** @import { Track } from "./model.js" */
/**
 * @typedef {object} Level
 * @property {number} size number of nodes
 * @property {Float64Array} start
 * @property {Float64Array} end
 * @property {Uint8Array} kind HIDDEN if nothing of the node is shown
 */

export const HIDDEN = 255;
const LEAST = 256; // nodes of the last level

/**
 * The levels of a track, the finest first.
 * @param {Track} track
 * @param {boolean[]} hidden of each kind, whether it is not shown
 * @returns {Level[]}
 */
export function levels(track, hidden) {
  const size = track.start.length;
  const some = hidden.some(Boolean);
  const kind = some ? track.kind.map((each) => (hidden[each] ? HIDDEN : each)) : track.kind;
  const found = [{ size, start: track.start, end: track.end, kind }];
  for (let below = found[0]; below && below.size > LEAST; below = found[found.length - 1]) found.push(above(below));
  return found;
}

const spent = new Float64Array(256);

/** @param {Level} below @returns {Level} */
function above(below) {
  const size = Math.ceil(below.size / 4);
  const [start, end, kind] = [new Float64Array(size), new Float64Array(size), new Uint8Array(size)];
  for (let node = 0; node < size; node++) {
    const [first, behind] = [4 * node, Math.min(4 * node + 4, below.size)];
    let best = HIDDEN;
    let most = -1;
    for (let child = first; child < behind; child++) {
      const of = at(below.kind, child);
      if (of === HIDDEN) continue;
      const total = (spent[of] = at(spent, of) + at(below.end, child) - at(below.start, child));
      if (total > most) {
        most = total;
        best = of;
      }
    }
    for (let child = first; child < behind; child++) spent[at(below.kind, child)] = 0;
    start[node] = at(below.start, first);
    end[node] = at(below.end, behind - 1);
    kind[node] = best;
  }
  return { size, start, end, kind };
}
