/** Why lanes wait: the waits of each lane, summed by their reason. */

import { h, replace } from "../../core/dom.js";
import { count } from "../../core/format.js";
import { columnsOf, either, joined } from "../../core/pairs.js";
import { table } from "../../core/table.js";
import { at } from "./model.js";

/** @typedef {import("./model.js").Model} Model */
/** @typedef {{lane: number, name: string, reason: string, times: number, cycles: number, longest: number}} Wait */

/** All waits of a recording by lane and reason, the longest first. @param {Model} model @returns {Wait[]} */
export function waitsOf(model) {
  const [lanes, of, kinds, programs] = ["wait_lane", "wait_of", "wait_kind", "wait_program"].map((name) => model.column(name));
  const [times, cycles, longest] = ["wait_times", "wait_cycles", "wait_longest"].map((name) => model.column(name));
  if (!lanes || !of || !kinds || !programs || !times || !cycles || !longest) return [];
  /** @type {Map<string, Wait>} */
  const found = new Map();
  for (let index = 0; index < lanes.length; index++) {
    const lane = at(lanes, index);
    const cause = at(of, index);
    const reason = model.reason(lane, cause < 0 ? -1 : cause, at(kinds, index), at(programs, index));
    const key = `${lane} ${reason}`; // programs may have one name
    const wait = found.get(key) ?? { lane, name: model.lanes[lane]?.name ?? "", reason, times: 0, cycles: 0, longest: 0 };
    wait.times += at(times, index);
    wait.cycles += at(cycles, index);
    wait.longest = Math.max(wait.longest, at(longest, index));
    found.set(key, wait);
  }
  return [...found.values()].sort((a, b) => b.cycles - a.cycles || a.lane - b.lane);
}

/** Waits of each lane together. @param {Wait[]} waits @returns {Wait[]} */
function byLane(waits) {
  /** @type {Map<number, Wait>} */
  const found = new Map();
  for (const wait of waits) {
    const sum = found.get(wait.lane);
    if (!sum) found.set(wait.lane, { ...wait });
    else {
      sum.times += wait.times;
      sum.cycles += wait.cycles;
      sum.longest = Math.max(sum.longest, wait.longest);
    }
  }
  return [...found.values()].sort((a, b) => b.cycles - a.cycles);
}

/** @param {Model[]} models @returns {HTMLElement[]} */
export function waitsSection(models) {
  const sides = models.map(({ side }) => side);
  const all = models.map((model) => ({ name: model.side.name, rows: waitsOf(model) }));
  const place = h("div", {});
  const title = h("h3", {});
  const every = h("button", { type: "button", onclick: () => chosen(null) }, "Show all lanes");
  /** @param {string | null} lane */
  const chosen = (lane) => {
    title.textContent = lane === null ? "Waits of all lanes by reason" : `Waits of ${lane} by reason`;
    every.hidden = lane === null;
    const rows = joined(
      all.map(({ name, rows: of }) => ({ name, rows: of.filter((wait) => lane === null || wait.name === lane) })),
      (wait) => `${wait.name}\n${wait.reason}`,
    );
    replace(place, reasons(sides, rows));
  };
  const lanes = joined(all.map(({ name, rows }) => ({ name, rows: byLane(rows) })), (wait) => wait.name);
  chosen(null);
  const left = models.reduce((sum, { json }) => sum + json.waits_left_out, 0);
  return [
    h("h2", {}, "Why lanes wait"),
    h("p", { class: "note" }, "A lane waits between two of its events. Open a lane to see its reasons alone."),
    table({
      label: "waits by lane",
      rows: lanes,
      empty: "no lane waited",
      open: (pair) => chosen(either((/** @type {Wait} */ wait) => wait.name)(pair)),
      columns: [
        { name: "lane", of: either((wait) => wait.name) },
        ...columnsOf(sides, { name: "waited", unit: "cycles", origin: "execution.waits", of: (/** @type {Wait} */ wait) => wait.cycles }),
        ...columnsOf(sides, { name: "waits", unit: "count", origin: "execution.waits", of: (/** @type {Wait} */ wait) => wait.times }),
        { name: "mostly because", of: either((wait) => wait.reason) },
      ],
    }),
    title,
    every,
    place,
    ...(left ? [h("p", { class: "note" }, `${count(left)} further reasons, the shortest, are left out.`)] : []),
  ];
}

/** @param {import("../../core/page.js").Side[]} sides @param {import("../../core/pairs.js").Pair<Wait>[]} rows @returns {HTMLElement} */
function reasons(sides, rows) {
  return table({
    label: "waits by lane and reason",
    rows,
    filter: true,
    empty: "no lane waited",
    columns: [
      { name: "lane", of: either((wait) => wait.name) },
      { name: "reason", of: either((wait) => wait.reason) },
      ...columnsOf(sides, { name: "waited", unit: "cycles", origin: "execution.waits", of: (/** @type {Wait} */ wait) => wait.cycles }),
      ...columnsOf(sides, { name: "waits", unit: "count", origin: "execution.waits", of: (/** @type {Wait} */ wait) => wait.times }),
      ...columnsOf(sides, { name: "longest", unit: "cycles", origin: "execution.waits", of: (/** @type {Wait} */ wait) => wait.longest }),
    ],
  });
}
