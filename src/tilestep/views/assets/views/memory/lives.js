/** What lies on which tile when: pure functions over the lives of a program's values, as recording/memory.py has them in Python. */

/**
 * The lives of a program's values and its steps (ticks). Element k of each column of lives is that of value k.
 * @typedef {object} Memory
 * @property {number} numTiles that hold values
 * @property {number} numTicks
 * @property {number} always bytes of code and fixed parts, on each tile
 * @property {ArrayLike<number>} temporary bytes of the step itself on each tile, by tick
 * @property {ArrayLike<number>} category index into CATEGORIES
 * @property {ArrayLike<number>} first tick at which it is born
 * @property {ArrayLike<number>} last tick of its last use
 * @property {ArrayLike<number>} tileBytes on each tile that holds it
 * @property {ArrayLike<number>} tiles number of tiles that hold it
 * @property {ArrayLike<number>} startTile the first of them; they go round behind the last tile
 */

/** Of values, as the recording numbers them. */
export const CATEGORIES = Object.freeze(["temporary", "resident", "constant", "argument", "result"]);
/** Of them, those that live all the time: resident values and constants. */
const ALWAYS = Object.freeze([1, 2]);

/** An element that is there. @param {ArrayLike<number>} column @param {number} index @returns {number} */
export function at(column, index) {
  return /** @type {number} */ (column[index]);
}

/** Whether a tile holds a value. @param {Memory} memory @param {number} life @param {number} tile @returns {boolean} */
export function holds(memory, life, tile) {
  const behind = (tile - at(memory.startTile, life) + memory.numTiles) % memory.numTiles;
  return behind < at(memory.tiles, life);
}

/** Whether a value is alive. @param {Memory} memory @param {number} life @param {number} tick @returns {boolean} */
export function lives(memory, life, tick) {
  return at(memory.first, life) <= tick && tick <= at(memory.last, life);
}

/**
 * The tiles of a value, [first, behind the last]: two spans if they go round.
 * @param {Memory} memory @param {number} life @returns {[number, number][]}
 */
export function spans(memory, life) {
  const begin = at(memory.startTile, life);
  const end = begin + at(memory.tiles, life);
  return end <= memory.numTiles ? [[begin, end]] : [[begin, memory.numTiles], [0, end - memory.numTiles]];
}

/**
 * Bytes of values on one tile at a tick, by category. Temporaries of the step itself count as 'temporary'.
 * @param {Memory} memory @param {number} tick @param {number} tile @returns {number[]}
 */
export function byCategory(memory, tick, tile) {
  const found = CATEGORIES.map(() => 0);
  found[0] = at(memory.temporary, tick);
  for (let life = 0; life < memory.first.length; life++) {
    if (!lives(memory, life, tick) || !holds(memory, life, tile)) continue;
    const category = at(memory.category, life);
    found[category] = at(found, category) + at(memory.tileBytes, life);
  }
  return found;
}

/**
 * Bytes at each tick by category, of all tiles together or of one; what the step itself needs counts as 'temporary'.
 * @param {Memory} memory @param {number | null} tile null: all together @returns {Float64Array[]} one for each of CATEGORIES
 */
export function categoriesOverTime(memory, tile) {
  const found = CATEGORIES.map(() => new Float64Array(memory.numTicks + 1));
  for (let life = 0; life < memory.first.length; life++) {
    if (tile !== null && !holds(memory, life, tile)) continue;
    const changes = /** @type {Float64Array} */ (found[at(memory.category, life)]);
    const size = at(memory.tileBytes, life) * (tile === null ? at(memory.tiles, life) : 1);
    const [first, behind] = [at(memory.first, life), at(memory.last, life) + 1];
    changes[first] = at(changes, first) + size;
    changes[behind] = at(changes, behind) - size;
  }
  const copies = tile === null ? memory.numTiles : 1;
  return found.map((changes, category) => {
    const sums = changes.subarray(0, memory.numTicks);
    let sum = 0;
    for (let tick = 0; tick < memory.numTicks; tick++) {
      sum += at(sums, tick);
      sums[tick] = sum + (category === 0 ? at(memory.temporary, tick) * copies : 0);
    }
    return sums;
  });
}

/**
 * Bytes at each tick, of all tiles together or of one: what always lives (code, fixed parts, resident values, constants), and what does not.
 * @param {Memory} memory @param {number | null} tile null: all together @returns {{always: Float64Array, others: Float64Array}}
 */
export function overTime(memory, tile) {
  const parts = categoriesOverTime(memory, tile);
  const always = new Float64Array(memory.numTicks).fill(memory.always * (tile === null ? memory.numTiles : 1));
  const others = new Float64Array(memory.numTicks);
  parts.forEach((part, category) => {
    const sums = ALWAYS.includes(category) ? always : others;
    for (let tick = 0; tick < memory.numTicks; tick++) sums[tick] = at(sums, tick) + at(part, tick);
  });
  return { always, others };
}

/** Values that take memory at a tick. @param {Memory} memory @param {number} tick @returns {number[]} */
export function alive(memory, tick) {
  return Array.from(memory.first, (_, life) => life).filter((life) => lives(memory, life, tick));
}
