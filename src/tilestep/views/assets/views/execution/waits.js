/** Why lanes wait: the waits of each lane, summed by their reason. */

import { h, replace } from "../../core/dom.js";
import { count } from "../../core/format.js";
import { at } from "../../core/lanes.js";
import { table } from "../../core/table.js";
import { valueOf } from "../../core/value.js";
import { UNKNOWN_CAUSE } from "./model.js";

/** @import { Model } from "./model.js" */
/** @typedef {{lane: number, name: string, reason: string, times: number, cycles: number, longest: number}} Wait */
/** @typedef {Wait & {unkept: number}} LaneWaits */

/** Kinds of lanes in the order in which their waits are of interest. */
const KINDS = ["ipu", "io", "host", "to-ipus", "to-host", "link", "gateway", "memory"];

/** Waits of which nobody knows the reason last; of the others those of IPUs first, then of each kind the longest. @param {Model} model @returns {(a: Wait, b: Wait) => number} */
function order({ lanes }) {
  const isUnknown = (/** @type {Wait} */ { reason }) => Number(reason === UNKNOWN_CAUSE);
  const rank = (/** @type {Wait} */ { lane }) => KINDS.indexOf(lanes[lane]?.kind ?? "");
  return (a, b) => isUnknown(a) - isUnknown(b) || rank(a) - rank(b) || b.cycles - a.cycles || a.lane - b.lane;
}

/** All waits of a recording by lane and reason. @param {Model} model @returns {Wait[]} */
function waitsOf(model) {
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
  return [...found.values()].sort(order(model));
}

/** Waits of each lane together with their largest reason, and what of it is not recorded. @param {Model} model @param {Wait[]} waits @returns {LaneWaits[]} */
function byLane(model, waits) {
  /** @type {Map<number, LaneWaits>} */
  const found = new Map();
  for (const wait of [...waits].sort((a, b) => b.cycles - a.cycles)) {
    const sum = found.get(wait.lane);
    if (!sum) found.set(wait.lane, { ...wait, unkept: model.lanes[wait.lane]?.unkept ?? 0 });
    else {
      sum.times += wait.times;
      sum.cycles += wait.cycles;
      sum.longest = Math.max(sum.longest, wait.longest);
    }
  }
  for (const { index, name, unkept } of model.lanes) if (unkept && !found.has(index)) found.set(index, { lane: index, name, reason: "", times: 0, cycles: 0, longest: 0, unkept });
  return [...found.values()].sort((a, b) => order(model)(a, b) || b.unkept - a.unkept);
}

/** How much of their time the waits are of, if events are missing. @param {Model} model @returns {HTMLElement[]} */
function covered({ lanes }) {
  const [unkept, span] = [lanes.reduce((sum, lane) => sum + lane.unkept, 0), lanes.reduce((sum, lane) => sum + lane.span, 0)];
  if (!unkept) return [];
  return [
    h("p", {}, "These waits are of ", valueOf((span - unkept) / span, "share", "execution.unkept"), " of the lanes' time. In the rest, ",
      valueOf(unkept, "cycles", "execution.unkept"), " of all lanes together, runs took place whose events were not kept: nobody knows what of it was a wait."),
  ];
}

/** @param {Model} model @returns {HTMLElement[]} */
export function waitsSection(model) {
  const all = waitsOf(model);
  const [place, title] = [h("div", {}), h("h3", {})];
  const every = h("button", { type: "button", onclick: () => chosen(null) }, "Show all lanes");
  /** @param {string | null} lane */
  const chosen = (lane) => {
    title.textContent = lane === null ? "Waits of all lanes by reason" : `Waits of ${lane} by reason`;
    every.hidden = lane === null;
    replace(place, reasons(all.filter((wait) => lane === null || wait.name === lane)));
  };
  const lanes = byLane(model, all);
  const left = model.json.waits_left_out;
  chosen(null);
  /** @type {import("../../core/table.js").Column<LaneWaits>[]} */
  const unkept = model.lanes.some((lane) => lane.unkept) ? [{ name: "not recorded", unit: "cycles", origin: "execution.unkept", of: (wait) => wait.unkept }] : [];
  return [
    h("h2", {}, "Why lanes wait"),
    h("p", { class: "note" }, "A lane waits between two of its events. Open a lane to see its reasons alone."),
    ...covered(model),
    table({
      label: "waits by lane",
      rows: lanes,
      empty: "no lane waited",
      open: ({ name }) => chosen(name),
      columns: [{ name: "lane", of: ({ name }) => name }, ...FIGURES.slice(0, 2), ...unkept, { name: "mostly because", of: ({ reason }) => reason || null }],
    }),
    title,
    every,
    place,
    ...(left ? [h("p", { class: "note" }, `${count(left)} further reasons, the shortest, are left out.`)] : []),
  ];
}

/** @type {import("../../core/table.js").Column<Wait>[]} */
const FIGURES = [
  { name: "waited", unit: "cycles", origin: "execution.waits", of: ({ cycles }) => cycles },
  { name: "waits", unit: "count", origin: "execution.waits", of: ({ times }) => times },
  { name: "longest", unit: "cycles", origin: "execution.waits", of: ({ longest }) => longest },
];

/** @param {Wait[]} rows @returns {HTMLElement} */
function reasons(rows) {
  const columns = [{ name: "lane", of: (/** @type {Wait} */ { name }) => name }, { name: "reason", of: (/** @type {Wait} */ { reason }) => reason }, ...FIGURES];
  return table({ label: "waits by lane and reason", rows, filter: true, empty: "no lane waited", columns });
}
