/** Which part of the machine, or which family of operations, matters? */

import { h } from "../core/dom.js";
import { MINUS, percent } from "../core/format.js";
import { joined } from "../core/pairs.js";
import { sentence } from "../core/value.js";
import { sliders } from "./what_if/sliders.js";

/** @typedef {import("../core/page.js").Side} Side */
/** @typedef {{knob: string, meaning: string, now: string, changes: Record<string, number>}} Knob */

const LEAST = 0.0001; // of emulated time: a knob that changes less has no bar

/** @type {import("../core/page.js").View} */
export const whatIf = {
  name: "what-if",
  title: "What if",
  question: "Which part of the machine, or which family of operations, matters?",
  needs: "what_if",
  absent: "Nothing ran in this recording, so there is no journal to play again.",
  async render(sides, page) {
    const found = await Promise.all(sides.map(async (side) => ({ side, ...(await side.block("what_if")).json })));
    const parts = found.flatMap(({ side, why, basis }) => [
      why ? h("p", { class: "absent" }, `${named(side, sides)}${why}`) : null,
      basis ? h("p", { class: "note" }, `${named(side, sides)}The changes are ${basis}.`) : null,
    ]);
    const intro = h("p", {}, "Each knob is halved and doubled by itself, and the recording's journal is played again. The knob with the largest effect comes first.");
    const tried = page.served ? await sliders(found) : [served(found[0])];
    return [...parts, intro, tornado(found, sides), ...tried].filter((part) => part !== null);
  },
};

/** @param {Side} side @param {Side[]} sides @returns {string} */
function named(side, sides) {
  return sides.length > 1 ? `${side.name.toUpperCase()}: ` : "";
}

/** How to get sliders, and which knobs need the command line. @param {any} found @returns {HTMLElement} */
function served(found) {
  const knobs = (found?.planned ?? []).map((/** @type {any} */ knob) => knob.knob).join(", ");
  return h(
    "p",
    { class: "note" },
    h("code", {}, "tilestep view"),
    " shows this page with a slider for each knob. ",
    knobs ? `${knobs}: these change plans, so programs are planned again: ` : "",
    knobs ? h("code", {}, "tilestep report what-if --set") : null,
  );
}

/** @param {{side: Side, knobs: Knob[]}[]} found @param {Side[]} sides @returns {HTMLElement} */
function tornado(found, sides) {
  const rows = joined(
    found.map(({ side, knobs }) => ({ name: side.name, rows: knobs })),
    (knob) => knob.knob,
  );
  const effect = (/** @type {Knob | undefined} */ knob) => Math.max(0, ...Object.values(knob?.changes ?? {}).map(Math.abs));
  const size = (/** @type {{a?: Knob, b?: Knob}} */ pair) => Math.max(effect(pair.a), effect(pair.b));
  rows.sort((one, other) => size(other) - size(one));
  const shown = rows.filter((pair) => size(pair) >= LEAST);
  const most = Math.max(LEAST, ...shown.map(size));
  const none = rows.filter((pair) => size(pair) < LEAST).map((pair) => (pair.a ?? pair.b)?.knob);
  const body = shown.flatMap((pair) =>
    sides.map((side, index) => {
      const knob = pair[side.name];
      const [first] = [/** @type {Knob} */ (pair.a ?? pair.b)];
      const changes = Object.entries(knob?.changes ?? {});
      return h(
        "tr",
        { "data-knob": first.knob },
        index === 0 ? h("th", { scope: "row", rowspan: sides.length, class: "words", tabindex: "0", "data-tip": first.meaning }, first.knob) : null,
        sides.length > 1 ? h("td", { class: "words" }, side.name.toUpperCase()) : null,
        h("td", { class: "number" }, knob ? knob.now || "–" : "–"),
        h("td", { class: "words changes" }, changes.length ? changes.map(([setting, change]) => line(setting, change, most)) : "–"),
      );
    }),
  );
  return h(
    "div",
    {},
    h(
      "table",
      { class: "bar-table tornado", "aria-label": "effect of each knob on emulated time" },
      h(
        "thead",
        {},
        h("tr", {}, h("th", { scope: "col" }, "knob"), sides.length > 1 ? h("th", { scope: "col" }, "in") : null, h("th", { scope: "col", class: "number" }, "now"), h("th", { scope: "col" }, "emulated time: shorter ◂ ▸ longer")),
      ),
      h("tbody", {}, body),
    ),
    none.length ? h("p", { class: "note" }, `No effect: ${none.join(", ")}.`) : null,
  );
}

/** One setting with its bar, to the left if the time gets shorter. @param {string} setting @param {number} change @param {number} most @returns {HTMLElement} */
function line(setting, change, most) {
  const width = (50 * Math.abs(change)) / most;
  const left = change < 0 ? 50 - width : 50;
  const words = { "/2": "halved", x2: "doubled" }[setting] ?? setting;
  const tip = `${words}: ${(100 * change).toFixed(6).replace("-", MINUS)} % of the emulated time. ${sentence("what_if.change")}`;
  return h(
    "div",
    { class: "turned" },
    h("span", { class: "setting" }, words),
    h("span", { class: "axis", "aria-hidden": "true" }, h("span", { class: change < 0 ? "turned-bar shorter" : "turned-bar longer", style: { left: `${left}%`, width: `${width}%` } })),
    h("span", { class: "value", tabindex: "0", "data-value": change, "data-unit": "share", "data-tip": tip }, percent(change)),
  );
}
