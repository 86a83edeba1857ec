/** Rows of one recording, or of two side by side: A, B and the difference. */

import { change, MINUS } from "./format.js";
import { h } from "./dom.js";
import { alike, differenceOf, ofSide, text } from "./value.js";

/** @import { Side } from "./page.js" */
/** @import { Unit } from "./value.js" */
const LEAST_CHANGE = 5e-5; // of A: what is less is '0.00 %', as whole cycles of two clocks differ

/**
 * A row of A, of B, or of both.
 * @template Row
 * @typedef {{a?: Row, b?: Row}} Pair
 */

/**
 * Rows by their keys; those of equal keys stand together, in the order in which they come.
 * @template Row
 * @param {{name: "a" | "b", rows: Row[]}[]} sides one or two
 * @param {(row: Row, side: "a" | "b") => string} key
 * @returns {Pair<Row>[]}
 */
export function joined(sides, key) {
  /** @type {Pair<Row>[]} */
  const pairs = [];
  /** @type {Map<string, Pair<Row>[]>} */
  const open = new Map();
  for (const { name, rows } of sides) {
    for (const row of rows) {
      const found = open.get(key(row, name))?.find((pair) => !(name in pair));
      if (found) {
        found[name] = row;
        continue;
      }
      const pair = { [name]: row };
      pairs.push(pair);
      open.set(key(row, name), [...(open.get(key(row, name)) ?? []), pair]);
    }
  }
  return pairs;
}

/**
 * Something of whichever row there is; of B's if both are.
 * @template Row
 * @template T
 * @param {(row: Row) => T} of
 * @returns {(pair: Pair<Row>) => T}
 */
export function either(of) {
  return (pair) => of(/** @type {Row} */ (pair.b ?? pair.a));
}

/** The cycles of whichever takes more. @param {Pair<{cycles: number}>} pair @returns {number} */
export function cyclesOf({ a, b }) {
  return Math.max(a?.cycles ?? 0, b?.cycles ?? 0);
}

/**
 * The columns of one figure: itself, or A, B and B − A with the relative change.
 * @template Row
 * @param {Side[]} sides
 * @param {{name: string, unit: Unit, origin: string, of: (row: Row) => number | null}} figure
 * @returns {import("./table.js").Column<Pair<Row>>[]}
 */
export function columnsOf(sides, { name, unit, origin, of }) {
  /** @param {"a" | "b"} side @param {Pair<Row>} pair @returns {number | null} */
  const at = (side, pair) => {
    const row = pair[side];
    return row === undefined ? null : of(row);
  };
  if (sides.length === 1) {
    const side = /** @type {Side} */ (sides[0]).name;
    return [{ name, unit: ofSide(unit, side), origin, of: (pair) => at(side, pair) }];
  }
  /** @param {Pair<Row>} pair @returns {number | null} */
  const difference = (pair) => {
    const [a, b] = [at("a", pair), at("b", pair)];
    return a === null && b === null ? null : differenceOf(a, b, unit)[0];
  };
  return [
    { name: `${name}, A`, unit, origin, of: (pair) => at("a", pair) },
    { name: `${name}, B`, unit: ofSide(unit, "b"), origin, of: (pair) => at("b", pair) },
    { name: "B − A", unit: alike(null, null, unit).unit, origin, of: difference, rank: (pair) => Math.abs(difference(pair) ?? 0), cell: (pair) => changeOf(at("a", pair), at("b", pair), unit) },
  ];
}

/**
 * The difference of a figure of A and one of B in words, with a colour and a shape if it is not slight: '▲ +1.2 ms (+3.20 %)'.
 * @param {number | null} a
 * @param {number | null} b
 * @param {Unit} unit
 * @returns {HTMLElement}
 */
export function changeOf(a, b, unit) {
  const found = alike(a, b, unit);
  const more = (found.b ?? 0) - (found.a ?? 0);
  if (!more) return h("span", {}, "=");
  const relative = found.a === null ? "only B" : found.b === null ? "only A" : change(found.a, found.b);
  const slight = found.a !== null && found.b !== null && Math.abs(more) < LEAST_CHANGE * Math.abs(found.a);
  return h("span", { class: slight ? null : more > 0 ? "grows" : "shrinks" }, `${more > 0 ? "+" : MINUS}${text(Math.abs(more), found.unit)} (${relative})`);
}
