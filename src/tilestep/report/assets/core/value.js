/** A number with its unit, its exact value and its source, which show on hover and on focus. */

import { h } from "./dom.js";
import * as format from "./format.js";

/** @typedef {"cycles" | "seconds" | "bytes" | "count" | "share" | "flops" | "flop/s" | "B/cycle" | "number" | "ns"} Unit */

/** Cycles a second of the machine, and sentences that say where numbers come from; `learn` sets both. */
const known = { clock: 0, origins: /** @type {Record<string, string>} */ ({}) };

/** Takes the clock and the sentences of a recording. @param {number} clockHz @param {Record<string, string>} origins */
export function learn(clockHz, origins) {
  known.clock = clockHz;
  known.origins = origins;
}

/** A number in words: '68.8 ms'. @param {number} value @param {Unit} unit @returns {string} */
export function text(value, unit) {
  switch (unit) {
    case "cycles":
      return known.clock ? format.time(value / known.clock) : `${format.count(value)} cycles`;
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
      return `${minus(value)} s`;
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
