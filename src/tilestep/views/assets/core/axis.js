/** The time axis: round numbers of seconds, or of cycles where a machine has no clock. */

import { count } from "./format.js";

/** @typedef {{at: number, words: string}} Tick cycle, and what stands there */

/**
 * Ticks of a window.
 * @param {number} from cycle
 * @param {number} to cycle
 * @param {number} most how many have room
 * @param {number} clockHz
 * @returns {Tick[]}
 */
export function ticks(from, to, most, clockHz) {
  const hz = clockHz || 1;
  const step = roundStep((to - from) / hz / Math.max(1, most));
  const [scale, unit] = clockHz ? unitOf(to / hz, step) : [1, "cycles"];
  const digits = Math.max(0, -Math.floor(Math.log10(step / scale) + 1e-9));
  /** @type {Tick[]} */
  const found = [];
  for (let index = Math.ceil(from / hz / step); index * step * hz <= to; index++) {
    const value = (index * step) / scale;
    const words = digits ? value.toFixed(Math.min(12, digits)) : count(value);
    found.push({ at: index * step * hz, words: `${words} ${unit}` });
  }
  return found;
}

/** Multiples of a step, from one number to another. @param {number} from @param {number} to @param {number} step @returns {number[]} */
export function multiples(from, to, step) {
  const first = Math.ceil(from / step);
  return Array.from({ length: Math.max(0, Math.floor(to / step) - first + 1) }, (_, index) => (first + index) * step);
}

/** 1, 2 or 5 times a power of ten, at least a number. @param {number} least */
export function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1e-12)));
  return (([1, 2, 5, 10].find((times) => times * power >= least * (1 - 1e-9)) ?? 10) * power);
}

/** The unit for times up to `largest` in steps. @param {number} largest @param {number} step seconds @returns {[number, string]} */
function unitOf(largest, step) {
  /** @type {[number, string][]} */
  const units = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
  // As large a unit as keeps at most six digits behind the point, so that neighbours differ.
  return units.find(([scale]) => largest >= scale && step / scale >= 1e-6) ?? [1e-9, "ns"];
}
