/** The fullest tile of each step, of a program, and of the program without one of its values. */

import { at, holds, lives, spans } from "./lives.js";

/** @typedef {import("./lives.js").Memory} Memory */
/**
 * Runs of tiles that hold the same values: nothing differs within one, so that few columns stand for all tiles.
 * @typedef {object} Runs
 * @property {number[]} tiles first tile of each run
 * @property {[number, number][][]} spans of each value: runs, [first, behind the last]
 */
/** The most that one tile holds; of equal ones the first tick, and there the first tile. @typedef {{bytes: number, tile: number, tick: number}} Peak */

/** @param {Memory} memory @returns {Runs} */
export function runsOf(memory) {
  const edges = new Set([0]);
  const places = Array.from(memory.first, (_, life) => spans(memory, life));
  for (const [begin, end] of places.flat()) edges.add(begin).add(end);
  const tiles = [...edges].filter((tile) => tile < memory.numTiles).sort((a, b) => a - b);
  const numbers = new Map(tiles.map((tile, run) => [tile, run]));
  const run = (/** @type {number} */ tile) => numbers.get(tile) ?? tiles.length;
  return { tiles, spans: places.map((parts) => parts.map(([begin, end]) => [run(begin), run(end)])) };
}

/**
 * Goes over ticks in order, with the bytes of values on each run of tiles.
 * @param {Memory} memory
 * @param {Runs} runs
 * @param {number} from first tick
 * @param {number} to behind the last
 * @param {(tick: number, bytes: Float64Array, changed: boolean) => void} visit bytes by run, without what is on all tiles; changed: since the tick before
 */
export function sweep(memory, runs, from, to, visit) {
  // Inner loops index their arrays themselves: `at` sees arrays of many kinds, which makes it slow.
  const bytes = new Float64Array(runs.tiles.length);
  const order = Array.from(memory.first, (_, life) => life);
  const born = order.filter((life) => at(memory.first, life) > from).sort((a, b) => at(memory.first, a) - at(memory.first, b));
  const gone = order.filter((life) => at(memory.last, life) >= from).sort((a, b) => at(memory.last, a) - at(memory.last, b));
  const add = (/** @type {number} */ life, /** @type {number} */ sign) => {
    const size = sign * at(memory.tileBytes, life);
    for (const [begin, end] of runs.spans[life] ?? []) for (let run = begin; run < end; run++) bytes[run] = /** @type {number} */ (bytes[run]) + size;
  };
  for (const life of order) if (lives(memory, life, from)) add(life, 1);
  let [nextBorn, nextGone] = [0, 0];
  for (let tick = from; tick < to; tick++) {
    let changed = tick === from;
    while (nextGone < gone.length && at(memory.last, at(gone, nextGone)) < tick) {
      add(at(gone, nextGone++), -1);
      changed = true;
    }
    while (nextBorn < born.length && at(memory.first, at(born, nextBorn)) <= tick) {
      add(at(born, nextBorn++), 1);
      changed = true;
    }
    visit(tick, bytes, changed);
  }
}

/**
 * The fullest tile of each tick.
 * @param {Memory} memory @param {Runs} runs @returns {{bytes: Float64Array, tile: Int32Array}} by tick
 */
export function fullest(memory, runs) {
  const found = { bytes: new Float64Array(memory.numTicks), tile: new Int32Array(memory.numTicks) };
  let place = 0;
  sweep(memory, runs, 0, memory.numTicks, (tick, bytes, changed) => {
    if (changed) place = largest(bytes);
    found.bytes[tick] = at(bytes, place) + memory.always + at(memory.temporary, tick);
    found.tile[tick] = at(runs.tiles, place);
  });
  return found;
}

/** The fullest tile at the tick at which it is fullest. @param {{bytes: Float64Array, tile: Int32Array}} fullestOf @returns {Peak} */
export function peak(fullestOf) {
  const tick = largest(fullestOf.bytes);
  return { bytes: at(fullestOf.bytes, tick), tile: at(fullestOf.tile, tick), tick };
}

/**
 * The peak that is left without one value, for each of some values: another step or tile may decide then.
 * @param {Memory} memory
 * @param {Runs} runs
 * @param {{bytes: Float64Array, tile: Int32Array}} fullestOf of each tick
 * @param {number[]} values
 * @returns {Peak[]}
 */
export function without(memory, runs, fullestOf, values) {
  const top = peak(fullestOf);
  // The step of the peak keeps at least so much, which spares a look at steps that have less.
  const least = (/** @type {number} */ life) => {
    const taken = lives(memory, life, top.tick) && holds(memory, life, top.tile);
    return { bytes: top.bytes - (taken ? at(memory.tileBytes, life) : 0), tile: -1, tick: -1 };
  };
  const found = values.map(least);
  sweep(memory, runs, 0, memory.numTicks, (tick, bytes) => {
    const most = at(fullestOf.bytes, tick);
    const everywhere = memory.always + at(memory.temporary, tick);
    values.forEach((life, index) => {
      const best = /** @type {Peak} */ (found[index]);
      if (most < best.bytes || (most === best.bytes && best.tick >= 0)) return;
      const left = lives(memory, life, tick)
        ? mostWithout(bytes, runs.spans[life] ?? [], at(memory.tileBytes, life), runs.tiles)
        : { bytes: most - everywhere, tile: at(fullestOf.tile, tick) };
      const sum = left.bytes + everywhere;
      if (sum > best.bytes || (sum === best.bytes && best.tick < 0)) found[index] = { bytes: sum, tile: left.tile, tick };
    });
  });
  return found;
}

/**
 * @param {Float64Array} bytes by run
 * @param {[number, number][]} places of the value
 * @param {number} size
 * @param {number[]} tiles first of each run
 * @returns {{bytes: number, tile: number}}
 */
function mostWithout(bytes, places, size, tiles) {
  let best = -Infinity;
  let place = 0;
  const [[begin, end], [begin2, end2]] = [places[0] ?? [0, 0], places[1] ?? [0, 0]];
  for (let run = 0; run < bytes.length; run++) {
    const inside = (begin <= run && run < end) || (begin2 <= run && run < end2);
    const left = /** @type {number} */ (bytes[run]) - (inside ? size : 0);
    if (left > best) {
      best = left;
      place = run;
    }
  }
  return { bytes: best, tile: at(tiles, place) };
}

/** The first of the largest. @param {Float64Array} numbers @returns {number} */
function largest(numbers) {
  let place = 0;
  let best = numbers[0] ?? 0;
  for (let index = 1; index < numbers.length; index++) {
    const number = /** @type {number} */ (numbers[index]);
    if (number > best) {
      best = number;
      place = index;
    }
  }
  return place;
}
