/** What runs did inside: the spans of their leaves, exact to the cycle, laid where the run is. */

import { at, lowerBound } from "../../core/lanes.js";

/** @import { Model } from "./model.js" */
/**
 * @typedef {object} Leaf
 * @property {string} name
 * @property {string} scope
 * @property {string} family
 * @property {string} line
 */
/**
 * @typedef {object} Span
 * @property {number} kind index of it
 * @property {number} from cycle
 * @property {number} to cycle
 * @property {number} times executions of the leaf
 * @property {Leaf | null} leaf null: of none, such as the new layout of an argument
 */

export class Layouts {
  /** @param {Model} model */
  constructor(model) {
    this.begins = model.column("layout_begin");
    this.kinds = model.column("span_kind");
    this.leaves = model.column("span_leaf");
    this.times = model.column("span_times");
    this.unrolled = model.json.layouts.unrolled;
    /** @type {Leaf[]} */
    this.named = model.json.leaves.map((/** @type {any[]} */ [, , name, scope, family, line]) => ({ name, scope, family, line }));
    const cycles = model.column("span_cycles");
    this.from = new Float64Array(cycles.length);
    this.to = new Float64Array(cycles.length);
    for (let layout = 0; layout + 1 < this.begins.length; layout++) {
      let clock = 0;
      for (let span = at(this.begins, layout); span < at(this.begins, layout + 1); span++) {
        this.from[span] = clock;
        clock += at(cycles, span);
        this.to[span] = clock;
      }
    }
  }

  /** Cycles of a whole layout. @param {number} layout @returns {number} */
  length(layout) {
    return at(this.to, at(this.begins, layout + 1) - 1);
  }

  /** The range of spans of a layout that meet a stretch of time. @param {number} layout @param {number} from since the layout's begin @param {number} to @returns {[number, number]} */
  range(layout, from, to) {
    const [first, behind] = [at(this.begins, layout), at(this.begins, layout + 1)];
    const begin = lowerBound(this.to, first, behind, from + 1e-9);
    return [begin, lowerBound(this.from, begin, behind, to)];
  }

  /** @param {number} span @param {number} begin cycle at which its layout begins @returns {Span} */
  span(span, begin) {
    const leaf = this.named[at(this.leaves, span)] ?? null;
    return { kind: at(this.kinds, span), from: begin + at(this.from, span), to: begin + at(this.to, span), times: at(this.times, span), leaf };
  }
}

/**
 * All that a run did on the lane of an event, without a gap, as the reader's `RunOnIpu.spans` says it.
 * @param {Model} model
 * @param {Layouts} layouts
 * @param {number} row any event of the run on an IPU
 * @returns {{spans: Span[], whole: boolean, unrolled: boolean}} whole: whether the steps of all its parts are known
 */
export function spansOfRun(model, layouts, row) {
  const lane = model.laneOf(row);
  const run = at(model.run, row);
  /** @type {Span[]} */
  const spans = [];
  let [clock, whole, unrolled] = [NaN, false, true];
  for (let index = lane.begin; index < lane.end; index++) {
    if (at(model.run, index) !== run) continue;
    const [from, to, layout] = [at(model.start, index), at(model.end, index), at(model.layout, index)];
    if (from > clock) spans.push({ kind: -1, from: clock, to: from, times: 1, leaf: null });
    if (layout >= 0) {
      whole = true;
      unrolled &&= layouts.unrolled[layout];
      for (let span = at(layouts.begins, layout); span < at(layouts.begins, layout + 1); span++) spans.push(layouts.span(span, from));
      clock = from + layouts.length(layout);
    } else if (!(to <= clock)) {
      spans.push({ kind: at(model.kind, index), from: Math.max(from, Number.isNaN(clock) ? from : clock), to, times: 1, leaf: null });
      clock = to;
    }
  }
  return { spans, whole, unrolled };
}

/** The event, at or before another of its run and lane, whose layout lies over a cycle; -1: none. @param {Model} model @param {Layouts} layouts @param {number} row @param {number} cycle @returns {number} */
export function layoutOver(model, layouts, row, cycle) {
  const lane = model.laneOf(row);
  for (let index = row; index >= lane.begin && index > row - 4; index--) {
    if (at(model.run, index) !== at(model.run, row)) return -1;
    const layout = at(model.layout, index);
    if (layout >= 0) return at(model.start, index) + layouts.length(layout) > cycle ? index : -1;
  }
  return -1;
}
