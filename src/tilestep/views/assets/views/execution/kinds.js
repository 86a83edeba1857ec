/** Time by kind: of the busiest IPU in all runs, and of the window or of a measured range. */

import { h, replace } from "../../core/dom.js";
import { count } from "../../core/format.js";
import { at, lowerBound } from "../../core/lanes.js";
import { columnsOf, either, joined } from "../../core/pairs.js";
import { table } from "../../core/table.js";
import { text } from "../../core/value.js";
import { kindWords, unkeptIn } from "./model.js";
import { whenSettled } from "./window_table.js";

/** @import { Model, Lane } from "./model.js" */
/** @typedef {{kind: string, cycles: number}} Time */

/** Time by kind of the busiest IPU in all runs. @param {Model[]} models @returns {HTMLElement[]} */
export function wholeSection(models) {
  const sides = models.map(({ side }) => side);
  const rows = joined(
    sides.map(({ name, head }) => ({ name, rows: Object.entries(head.cycles_by_kind).map(([kind, cycles]) => ({ kind, cycles: Number(cycles) })) })),
    ({ kind }) => kind,
  );
  const on = sides.map(({ head, name }) => `IPU ${head.busiest_ipu}${sides.length > 1 ? ` of ${name.toUpperCase()}` : ""}`).join(" and ");
  return [
    h("h2", {}, `Time by kind of the busiest IPU, all runs: ${on}`),
    table({
      label: "time by kind of the busiest IPU",
      rows,
      sortBy: 1,
      empty: "no IPU did anything",
      columns: [
        { name: "kind", of: either(({ kind }) => kindWords(kind)) },
        ...columnsOf(sides, { name: "time", unit: "cycles", origin: "execution.sums", of: (/** @type {Time} */ time) => time.cycles }),
      ],
    }),
  ];
}

/** Cycles of a lane by kind in a stretch of time; the last two are the time between its events: waits, and what is not recorded. @param {Model} model @param {Lane} lane @param {number} from @param {number} to @returns {number[]} */
export function sumsOf(model, lane, from, to) {
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

/** Time by kind in what is shown or measured; it follows the window. @param {Model[]} models @param {import("./scene.js").Scene} scene @returns {HTMLElement[]} */
export function windowSection(models, scene) {
  const title = h("h2", {});
  const place = h("div", {});
  const sides = models.map(({ side }) => side);
  const draw = () => {
    const ranges = models.map((model) => scene.rangeOf(model) ?? scene.seenBy(model));
    const [from, to] = scene.range ?? [Math.max(0, scene.from), Math.min(scene.to, scene.last)];
    const said = (/** @type {number} */ cycle) => text(cycle * (models[0]?.pace ?? 1), sides[0]?.cycles ?? "cycles");
    title.textContent = `Time by kind from ${said(from)} to ${said(to)}${scene.range ? ", as measured" : ", as shown"}`;
    const of = models.map((model, place) => {
      const [from, to] = /** @type {[number, number]} */ (ranges[place]);
      const lane = laneFor(model, scene);
      const shown = model.lanes.filter(({ kind }) => !scene.hiddenLanes.has(kind));
      const all = new Array(model.kinds.length + 2).fill(0);
      for (const each of shown) sumsOf(model, each, from, to).forEach((cycles, kind) => (all[kind] += cycles));
      const own = lane ? sumsOf(model, lane, from, to) : all;
      const rows = [...model.kinds, "waiting", "unkept"].map((kind, index) => ({ kind, own: own[index] ?? 0, all: all[index] ?? 0 })).filter((row) => row.all);
      return { name: model.side.name, lane: lane?.name ?? "", lanes: shown.length, rows };
    });
    const lanes = [...new Set(of.map(({ lane }) => lane))].join(" and ");
    replace(
      place,
      table({
        label: "time by kind in the window",
        rows: joined(of, ({ kind }) => kind),
        sortBy: 1,
        empty: "nothing happened in this time",
        columns: [
          { name: "kind", of: either(({ kind }) => kindWords(kind)) },
          ...columnsOf(sides, { name: lanes || "lane", unit: "cycles", origin: "execution.window", of: (/** @type {{own: number}} */ row) => row.own }),
          ...columnsOf(sides, { name: `all ${count(Math.max(...of.map((each) => each.lanes)))} lanes`, unit: "cycles", origin: "execution.window", of: (/** @type {{all: number}} */ row) => row.all }),
        ],
      }),
    );
  };
  draw();
  whenSettled(scene, draw);
  return [title, place];
}

/** The lane of the selection, or the busiest IPU. @param {Model} model @param {import("./scene.js").Scene} scene @returns {Lane | undefined} */
function laneFor(model, scene) {
  if (scene.selected?.model === model) return model.laneOf(scene.selected.row);
  return model.lanes.find(({ kind, number }) => kind === "ipu" && number === model.side.head.busiest_ipu) ?? model.lanes[0];
}
