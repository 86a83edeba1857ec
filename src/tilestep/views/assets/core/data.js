/** Blocks of data in the page: one JSON value and some columns of numbers each, packed by views/page/block.py. */

/**
 * @typedef {object} Block
 * @property {any} json
 * @property {Record<string, Float64Array>} columns
 */

/** @type {Map<string, Promise<Block>>} */
const read = new Map();

/** Whether the page has a block. @param {string} name @returns {boolean} */
export function hasBlock(name) {
  return element(name) !== null;
}

/** A block of the page; unpacked once. @param {string} name @returns {Promise<Block>} */
export function block(name) {
  let found = read.get(name);
  if (!found) {
    const source = element(name);
    found = source ? unpacked(source.textContent ?? "") : Promise.reject(new Error(`this page has no data "${name}"`));
    read.set(name, found);
  }
  return found;
}

/** A function of a recording that does its work once for each. @template T @param {(side: import("./page.js").Side) => Promise<T>} work @returns {(side: import("./page.js").Side) => Promise<T>} */
export function once(work) {
  /** @type {WeakMap<import("./page.js").Side, Promise<T>>} */
  const known = new WeakMap();
  return (side) => {
    const found = known.get(side) ?? work(side);
    known.set(side, found);
    return found;
  };
}

/**
 * Rows of the columns that a prefix begins, as objects with the columns' other names. `json.texts` has the texts that some of them number.
 * @param {Block} block @param {string} prefix @param {string[]} [texts] names of columns that number texts
 * @returns {any[]}
 */
export function objectsOf({ json, columns }, prefix, texts = []) {
  const found = Object.entries(columns).filter(([name]) => name.startsWith(prefix));
  const rows = Array.from({ length: found[0]?.[1].length ?? 0 }, () => /** @type {Record<string, any>} */ ({}));
  for (const [column, values] of found) {
    const name = column.slice(prefix.length);
    const isText = texts.includes(name);
    rows.forEach((row, place) => (row[name] = isText ? (json.texts[/** @type {number} */ (values[place])] ?? "") : values[place]));
  }
  return rows;
}

/** @param {string} name @returns {HTMLElement | null} */
function element(name) {
  return document.getElementById(`data-${name}`);
}

/** @param {string} text base64 of gzip @returns {Promise<Block>} */
async function unpacked(text) {
  const coded = "fromBase64" in Uint8Array
    ? /** @type {any} */ (Uint8Array).fromBase64(text.trim())
    : /** @type {any} */ (Uint8Array).from(atob(text.trim()), (/** @type {string} */ character) => character.charCodeAt(0));
  const stream = new Blob([coded]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(stream).arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  /** @type {Record<string, Float64Array>} */
  const columns = {};
  for (const { name, dtype, offset, size, delta } of head.columns) columns[name] = column(buffer, dtype, offset, size, delta);
  return { json: head.json, columns };
}

/**
 * @param {ArrayBuffer} buffer
 * @param {"i1" | "i2" | "i4" | "f8"} dtype
 * @param {number} offset
 * @param {number} size
 * @param {boolean} delta whether it holds differences to the number before
 * @returns {Float64Array}
 */
function column(buffer, dtype, offset, size, delta) {
  const kinds = { i1: Int8Array, i2: Int16Array, i4: Int32Array, f8: Float64Array };
  const numbers = new Float64Array(new kinds[dtype](buffer, offset, size));
  if (delta) for (let index = 1; index < size; index++) numbers[index] = /** @type {number} */ (numbers[index]) + /** @type {number} */ (numbers[index - 1]);
  return numbers;
}
