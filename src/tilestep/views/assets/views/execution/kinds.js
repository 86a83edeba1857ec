/** Time by kind: of the busiest IPU in all runs, and of the window. */

import { h, replace } from "../../core/dom.js";
import { count } from "../../core/format.js";
import { at, lowerBound } from "../../core/lanes.js";
import { table } from "../../core/table.js";
import { text } from "../../core/value.js";
import { kindWords, unkeptIn } from "./model.js";
import { whenSettled } from "./window_table.js";

/** @import { Model, Lane } from "./model.js" */

/** Time by kind of the busiest IPU in all runs. @param {Model} model @returns {HTMLElement[]} */
export function wholeSection({ side: { head } }) {
  const rows = /** @type {[string, number][]} */ (Object.entries(head.cycles_by_kind));
  /** @type {import("../../core/table.js").Column<[string, number]>[]} */
  const columns = [{ name: "kind", of: ([kind]) => kindWords(kind) }, { name: "time", unit: "cycles", origin: "execution.sums", of: ([, cycles]) => cycles }];
  return [h("h2", {}, `Time by kind of the busiest IPU, all runs: IPU ${head.busiest_ipu}`), table({ label: "time by kind of the busiest IPU", rows, sortBy: 1, empty: "no IPU did anything", columns })];
}

/** Cycles of a lane by kind in a stretch of time; the last two are the time between its events: waits, and what is not recorded. @param {Model} model @param {Lane} lane @param {number} from @param {number} to @returns {number[]} */
function sumsOf(model, lane, from, to) {
  const sums = new Array(model.kinds.length + 2).fill(0);
  const gap = model.kinds.length;
  let clock = lane.begin < lane.end ? Math.max(from, at(model.start, lane.begin)) : from;
  const first = lane.tracks.length > 1 ? lane.begin : lowerBound(model.end, lane.begin, lane.end, from);
  for (let row = first; row < lane.end && at(model.start, row) < to; row++) {
    const [begin, end] = [Math.max(from, at(model.start, row)), Math.min(to, at(model.end, row))];
    if (end > begin) sums[at(model.kind, row)] += end - begin;
    if (begin > clock) sums[gap] += begin - clock;
    clock = Math.max(clock, end);
  }
  const last = lane.tracks.reduce((latest, { end }) => Math.max(latest, end.length ? at(end, end.length - 1) : 0), 0);
  if (last > to && to > clock) sums[gap] += to - clock;
  sums[gap + 1] = unkeptIn(lane, from, to);
  sums[gap] -= sums[gap + 1];
  return sums;
}

/** Time by kind in what is shown; it follows the window. @param {Model} model @param {import("./scene.js").Scene} scene @returns {HTMLElement[]} */
export function windowSection(model, scene) {
  const [title, place] = [h("h2", {}), h("div", {})];
  const draw = () => {
    const [from, to] = scene.seen;
    title.textContent = `Time by kind from ${text(from, "cycles")} to ${text(to, "cycles")}, as shown`;
    const lane = scene.selected >= 0 ? model.laneOf(scene.selected) : (model.lanes.find(({ kind, number }) => kind === "ipu" && number === model.side.head.busiest_ipu) ?? model.lanes[0]);
    const shown = model.lanes.filter(({ kind }) => !scene.hiddenLanes.has(kind));
    const all = new Array(model.kinds.length + 2).fill(0);
    for (const each of shown) sumsOf(model, each, from, to).forEach((cycles, kind) => (all[kind] += cycles));
    const own = lane ? sumsOf(model, lane, from, to) : all;
    const rows = [...model.kinds, "waiting", "unkept"].map((kind, index) => ({ kind, own: own[index] ?? 0, all: all[index] })).filter((row) => row.all);
    /** @type {import("../../core/table.js").Column<{kind: string, own: number, all: number}>[]} */
    const columns = [
      { name: "kind", of: ({ kind }) => kindWords(kind) },
      { name: lane?.name ?? "lane", unit: "cycles", origin: "execution.window", of: (row) => row.own },
      { name: `all ${count(shown.length)} lanes`, unit: "cycles", origin: "execution.window", of: (row) => row.all },
    ];
    replace(place, table({ label: "time by kind in the window", rows, sortBy: 1, empty: "nothing happened in this time", columns }));
  };
  draw();
  whenSettled(scene, draw);
  return [title, place];
}
