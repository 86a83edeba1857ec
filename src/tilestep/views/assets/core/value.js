/** A number with its unit, its exact value and its source, which show on hover and on focus. */

import { h } from "./dom.js";
import * as format from "./format.js";

/** Cycles are those of a clock: of A's machine, or of B's. @typedef {"cycles" | "cycles of B" | "seconds" | "bytes" | "count" | "share" | "flops" | "flop/s" | "B/cycle" | "number" | "ns"} Unit */

const LEAST_CHANGE = 5e-5; // of A: what is less is '0.00 %', as whole cycles of two clocks differ
/** Cycles a second of the machines, and sentences that say where numbers come from. */
const known = { clocks: { a: 0, b: 0 }, origins: /** @type {Record<string, string>} */ ({}) };

/** Takes the clocks of A and B; a view of one recording has its clock for both. @param {number} a Hz @param {number} [b] Hz */
export function learnClocks(a, b = a) {
  known.clocks = { a, b };
}

/** Takes the sentences that say where numbers come from. @param {Record<string, string>} origins */
export function learnOrigins(origins) {
  known.origins = origins;
}

/** The unit of a figure of a side: its cycles are of its machine's clock. @param {Unit} unit @param {"a" | "b"} side @returns {Unit} */
export function ofSide(unit, side) {
  return unit === "cycles" && side === "b" ? "cycles of B" : unit;
}

/** Whether cycles of A and of B differ in length. @returns {boolean} */
function twoClocks() {
  const { a, b } = known.clocks;
  return Boolean(a && b && a !== b);
}

/** How many cycles of a side take as long as one of A. @param {"a" | "b"} side @returns {number} */
export function paceOf(side) {
  return side === "b" && twoClocks() ? known.clocks.b / known.clocks.a : 1;
}

/**
 * A figure of A and one of B in one unit, so that they have a difference: cycles of two clocks as seconds.
 * @param {number | null} a
 * @param {number | null} b
 * @param {Unit} unit
 * @returns {{a: number | null, b: number | null, unit: Unit}}
 */
export function alike(a, b, unit) {
  if (unit !== "cycles" || !twoClocks()) return { a, b, unit };
  return { a: a === null ? null : a / known.clocks.a, b: b === null ? null : b / known.clocks.b, unit: "seconds" };
}

/** B − A with its unit. @param {number | null} a @param {number | null} b @param {Unit} unit @returns {[number, Unit]} */
export function differenceOf(a, b, unit) {
  const found = alike(a, b, unit);
  return [(found.b ?? 0) - (found.a ?? 0), found.unit];
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
  const relative = found.a === null ? "only B" : found.b === null ? "only A" : format.change(found.a, found.b);
  const slight = found.a !== null && found.b !== null && Math.abs(more) < LEAST_CHANGE * Math.abs(found.a);
  return h("span", { class: slight ? null : more > 0 ? "grows" : "shrinks" }, `${more > 0 ? "+" : format.MINUS}${text(Math.abs(more), found.unit)} (${relative})`);
}

/** A number in words: '68.8 ms'. @param {number} value @param {Unit} unit @returns {string} */
export function text(value, unit) {
  switch (unit) {
    case "cycles":
    case "cycles of B": {
      const clock = unit === "cycles" ? known.clocks.a : known.clocks.b;
      return clock ? format.time(value / clock) : `${format.count(value)} cycles`;
    }
    case "seconds":
      return format.time(value);
    case "ns":
      return format.time(value / 1e9);
    case "bytes":
      return format.bytes(value);
    case "share":
      return format.share(value, 1);
    case "flops":
      return prefixed(value, "flop");
    case "flop/s":
      return prefixed(value, "flop/s");
    case "B/cycle":
      return `${minus(value.toPrecision(3))} B/cycle`;
    case "count":
      return format.count(value);
    default:
      return Number.isInteger(value) ? format.count(value) : minus(value.toPrecision(6));
  }
}

/** '12.3 Mflop', '512 flop'. @param {number} value @param {string} unit @returns {string} */
function prefixed(value, unit) {
  const said = format.large(value);
  return /\d$/.test(said) ? `${said} ${unit}` : `${said}${unit}`;
}

/** The exact number with its unit: '127,348,211 cycles'. @param {number} value @param {Unit} unit @returns {string} */
export function exact(value, unit) {
  switch (unit) {
    case "cycles":
    case "cycles of B":
      return format.plural(value, "cycle");
    case "bytes":
      return format.plural(value, "byte");
    case "flops":
      return format.plural(value, "floating-point operation");
    case "flop/s":
      return `${format.count(value)} floating-point operations a second`;
    case "B/cycle":
      return `${minus(value)} bytes a cycle`;
    case "ns":
      return `${format.count(value)} ns of wall time`;
    case "seconds":
      return `${minus(Number(value.toPrecision(12)))} s`; // of a quotient more digits say nothing
    case "share":
      return `${minus(Number((100 * value).toPrecision(6)))} %`; // of a quotient more digits say nothing
    default:
      return Number.isInteger(value) ? format.count(value) : minus(value);
  }
}

/** A number as JavaScript writes it, with the page's minus. @param {number | string} value @returns {string} */
function minus(value) {
  return String(value).replaceAll("-", format.MINUS);
}

/** What hover and focus show. @param {number} value @param {Unit} unit @param {string} origin a key of the recording's origins @returns {string} */
export function explained(value, unit, origin) {
  return `${exact(value, unit)}. ${sentence(origin)}`.trim();
}

/** The sentence of an origin. @param {string} origin @returns {string} */
export function sentence(origin) {
  return known.origins[origin] ?? "";
}

/**
 * The number as an element that has its source.
 * @param {number | null | undefined} value null: '–', because nobody knows it
 * @param {Unit} unit
 * @param {string} origin a key of the recording's origins
 * @returns {HTMLElement}
 */
export function valueOf(value, unit, origin) {
  if (value === null || value === undefined) return h("span", { class: "value" }, "–");
  return h("span", { class: "value", tabindex: "0", "data-value": value, "data-unit": unit, "data-tip": explained(value, unit, origin) }, text(value, unit));
}
