/** The fullest tile of each step, of a program, and of the program without one of its values. */

import { at, holds, lives, spans } from "./lives.js";

/** @import { Memory } from "./lives.js" */
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
 * Follows groups of values from tick to tick.
 * @param {Memory} memory
 * @param {Runs} runs
 * @param {number[][]} groups
 * @returns {{groups: {alive: number, changes: Float64Array}[], goTo: (tick: number) => boolean}} changes: from one run to the next, because a
 *   value changes two of them, however many tiles it has. goTo: to the next tick; whether something was born or gone.
 */
function following(memory, runs, groups) {
  const found = groups.map(() => ({ alive: 0, changes: new Float64Array(runs.tiles.length + 1) }));
  const members = groups.flatMap((group, index) => group.map((life) => ({ life, group: /** @type {{alive: number, changes: Float64Array}} */ (found[index]) })));
  const born = [...members].sort((a, b) => at(memory.first, a.life) - at(memory.first, b.life));
  const gone = [...members].sort((a, b) => at(memory.last, a.life) - at(memory.last, b.life));
  const put = (/** @type {typeof members[number]} */ { life, group }, /** @type {1 | -1} */ sign) => {
    group.alive += sign;
    add(group.changes, runs.spans[life] ?? [], sign * at(memory.tileBytes, life));
  };
  let [nextBorn, nextGone] = [0, 0];
  return {
    groups: found,
    goTo(tick) {
      const before = nextBorn + nextGone;
      for (let one = gone[nextGone]; one && at(memory.last, one.life) < tick; one = gone[++nextGone]) put(one, -1);
      for (let one = born[nextBorn]; one && at(memory.first, one.life) <= tick; one = born[++nextBorn]) put(one, 1);
      return nextBorn + nextGone > before;
    },
  };
}

/**
 * Goes over ticks in order, with the bytes of all values on each run of tiles.
 * @param {Memory} memory
 * @param {Runs} runs
 * @param {(tick: number, bytes: Float64Array, changed: boolean) => void} visit bytes by run, without what is on all tiles; changed: since the tick before
 */
function sweep(memory, runs, visit) {
  const { groups: [all], goTo } = following(memory, runs, [Array.from(memory.first, (_, life) => life)]);
  const bytes = new Float64Array(runs.tiles.length);
  for (let tick = 0; tick < memory.numTicks; tick++) {
    const changed = goTo(tick);
    let sum = 0;
    // It indexes its arrays itself: `at` sees arrays of many kinds, which makes it slow.
    if (changed && all) for (let run = 0; run < bytes.length; run++) bytes[run] = sum += /** @type {number} */ (all.changes[run]);
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
  sweep(memory, runs, (tick, bytes, changed) => {
    if (changed) ({ place } = largest(bytes));
    found.bytes[tick] = at(bytes, place) + memory.always + at(memory.temporary, tick);
    found.tile[tick] = at(runs.tiles, place);
  });
  return found;
}

/** The fullest tile at the tick at which it is fullest. @param {{bytes: Float64Array, tile: Int32Array}} fullestOf @returns {Peak} */
export function peak(fullestOf) {
  const { place: tick } = largest(fullestOf.bytes);
  return { bytes: at(fullestOf.bytes, tick), tile: at(fullestOf.tile, tick), tick };
}

/**
 * The peak that is left without some values, for each of several groups of them: another step or tile may decide then.
 * @param {Memory} memory
 * @param {Runs} runs
 * @param {{bytes: Float64Array, tile: Int32Array}} fullestOf of each tick
 * @param {number[][]} groups
 * @returns {Peak[]}
 */
export function without(memory, runs, fullestOf, groups) {
  const top = peak(fullestOf);
  // The peak's own tile keeps at least so much, which spares a look at steps that have less.
  const least = (/** @type {number[]} */ group) => {
    const gone = group.filter((life) => lives(memory, life, top.tick) && holds(memory, life, top.tile));
    return { bytes: top.bytes - gone.reduce((sum, life) => sum + at(memory.tileBytes, life), 0), tile: -1, tick: -1 };
  };
  const found = groups.map(least);
  const own = following(memory, runs, groups);
  sweep(memory, runs, (tick, bytes) => {
    own.goTo(tick);
    const most = at(fullestOf.bytes, tick);
    const everywhere = memory.always + at(memory.temporary, tick);
    own.groups.forEach((group, index) => {
      const best = /** @type {Peak} */ (found[index]);
      if (most < best.bytes || (most === best.bytes && best.tick >= 0)) return;
      let [sum, tile] = [most, at(fullestOf.tile, tick)];
      if (group.alive) {
        const { value, place } = largest(bytes, group.changes);
        [sum, tile] = [value + everywhere, at(runs.tiles, place)];
      }
      if (sum > best.bytes || (sum === best.bytes && best.tick < 0)) found[index] = { bytes: sum, tile, tick };
    });
  });
  return found;
}

/** Adds bytes to runs, as changes at their ends. @param {Float64Array} changes @param {[number, number][]} places @param {number} size */
function add(changes, places, size) {
  for (const [begin, end] of places) {
    changes[begin] = /** @type {number} */ (changes[begin]) + size;
    changes[end] = /** @type {number} */ (changes[end]) - size;
  }
}

/** The first of the largest numbers. @param {Float64Array} numbers @param {Float64Array} [less] what is taken from them, as changes from one to the next @returns {{value: number, place: number}} */
function largest(numbers, less) {
  let [place, value, taken] = [0, -Infinity, 0];
  for (let index = 0; index < numbers.length; index++) {
    if (less) taken += /** @type {number} */ (less[index]);
    const rest = /** @type {number} */ (numbers[index]) - taken;
    if (rest > value) {
      value = rest;
      place = index;
    }
  }
  return { value, place };
}
