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
 * Goes over ticks in order, with the bytes of values on each run of tiles.
 * @param {Memory} memory
 * @param {Runs} runs
 * @param {number} from first tick
 * @param {number} to behind the last
 * @param {(tick: number, bytes: Float64Array, changed: boolean) => void} visit bytes by run, without what is on all tiles; changed: since the tick before
 */
function sweep(memory, runs, from, to, visit) {
  // Inner loops index their arrays themselves: `at` sees arrays of many kinds, which makes it slow.
  const count = runs.tiles.length;
  const bytes = new Float64Array(count);
  const changes = new Float64Array(count + 1); // from one run to the next: a value changes two of them, however many tiles it has
  const order = Array.from(memory.first, (_, life) => life);
  const born = order.filter((life) => at(memory.first, life) > from).sort((a, b) => at(memory.first, a) - at(memory.first, b));
  const gone = order.filter((life) => at(memory.last, life) >= from).sort((a, b) => at(memory.last, a) - at(memory.last, b));
  const put = (/** @type {number} */ life, /** @type {number} */ sign) => add(changes, runs.spans[life] ?? [], sign * at(memory.tileBytes, life));
  for (const life of order) if (lives(memory, life, from)) put(life, 1);
  let [nextBorn, nextGone] = [0, 0];
  for (let tick = from; tick < to; tick++) {
    let changed = tick === from;
    while (nextGone < gone.length && at(memory.last, at(gone, nextGone)) < tick) {
      put(at(gone, nextGone++), -1);
      changed = true;
    }
    while (nextBorn < born.length && at(memory.first, at(born, nextBorn)) <= tick) {
      put(at(born, nextBorn++), 1);
      changed = true;
    }
    if (changed) {
      let sum = 0;
      for (let run = 0; run < count; run++) bytes[run] = sum += /** @type {number} */ (changes[run]);
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
  const own = groups.map(() => ({ alive: 0, changes: new Float64Array(runs.tiles.length + 1) })); // of each group, at the tick
  const members = groups.flatMap((group, index) => group.map((life) => ({ life, group: /** @type {{alive: number, changes: Float64Array}} */ (own[index]) })));
  const born = [...members].sort((a, b) => at(memory.first, a.life) - at(memory.first, b.life));
  const gone = [...members].sort((a, b) => at(memory.last, a.life) - at(memory.last, b.life));
  let [nextBorn, nextGone] = [0, 0];
  sweep(memory, runs, 0, memory.numTicks, (tick, bytes) => {
    for (let one = gone[nextGone]; one && at(memory.last, one.life) < tick; one = gone[++nextGone]) {
      add(one.group.changes, runs.spans[one.life] ?? [], -at(memory.tileBytes, one.life));
      one.group.alive--;
    }
    for (let one = born[nextBorn]; one && at(memory.first, one.life) <= tick; one = born[++nextBorn]) {
      add(one.group.changes, runs.spans[one.life] ?? [], at(memory.tileBytes, one.life));
      one.group.alive++;
    }
    const most = at(fullestOf.bytes, tick);
    const everywhere = memory.always + at(memory.temporary, tick);
    for (let index = 0; index < groups.length; index++) {
      const best = /** @type {Peak} */ (found[index]);
      if (most < best.bytes || (most === best.bytes && best.tick >= 0)) continue;
      const group = /** @type {{alive: number, changes: Float64Array}} */ (own[index]);
      let [sum, tile] = [most, at(fullestOf.tile, tick)];
      if (group.alive) {
        const rest = largestRest(bytes, group.changes);
        [sum, tile] = [rest.bytes + everywhere, at(runs.tiles, rest.run)];
      }
      if (sum > best.bytes || (sum === best.bytes && best.tick < 0)) found[index] = { bytes: sum, tile, tick };
    }
  });
  return found;
}

/** The first of the largest sums that are left. @param {Float64Array} bytes by run @param {Float64Array} changes from run to run of what is taken @returns {{bytes: number, run: number}} */
function largestRest(bytes, changes) {
  let [place, best, taken] = [0, -Infinity, 0];
  for (let run = 0; run < bytes.length; run++) {
    taken += /** @type {number} */ (changes[run]);
    const rest = /** @type {number} */ (bytes[run]) - taken;
    if (rest > best) {
      best = rest;
      place = run;
    }
  }
  return { bytes: best, run: place };
}

/** Adds bytes to runs, as changes at their ends. @param {Float64Array} changes @param {[number, number][]} places @param {number} size */
function add(changes, places, size) {
  for (const [begin, end] of places) {
    changes[begin] = /** @type {number} */ (changes[begin]) + size;
    changes[end] = /** @type {number} */ (changes[end]) - size;
  }
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
