/** Which part of the machine, or which family of operations, matters? */

import { h } from "../core/dom.js";
import { MINUS, percent, share } from "../core/format.js";
import { joined } from "../core/pairs.js";
import { sentence, valueOf } from "../core/value.js";
import { sliders } from "./what_if/sliders.js";

/** @typedef {import("../core/page.js").Side} Side */
/** @typedef {{knob: string, title: string, meaning: string, now: string, cycles: number | null, changes: Record<string, number>}} Knob */

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
    const parts = found.flatMap(({ side, why, answer }) => [
      why ? h("p", { class: "absent" }, `${named(side, sides)}${why}`) : null,
      answer ? h("p", { class: "answer" }, `${named(side, sides)}${answer}`) : null,
    ]);
    const intro = h("p", { class: "note" }, "Each knob is halved and doubled by itself, and the recording's journal is played again. The knob with the largest effect comes first.");
    const tried = page.served ? await sliders(found) : [served(found[0])];
    return [...parts, intro, tornado(found, sides), ...tried].filter((part) => part !== null);
  },
};

/** @param {Side} side @param {Side[]} sides @returns {string} */
function named(side, sides) {
  return sides.length > 1 ? `${side.name.toUpperCase()}: ` : "";
}

/** How to turn several, and which knobs need the command line. @param {any} found @returns {HTMLElement} */
function served(found) {
  const planned = /** @type {any[]} */ (found?.planned ?? []);
  return h(
    "div",
    { class: "note" },
    h("p", {}, "To turn several at once: ", h("code", {}, "tilestep view RECORDING"), " shows this page with a slider for each knob."),
    planned.length
      ? h(
          "p",
          {},
          `Programs would be planned otherwise with another value of ${planned.map(({ title, knob }) => `${title} (${knob})`).join(", ")}. So these are not in the table; one of them is turned by `,
          h("code", {}, `tilestep report what-if RECORDING --set ${planned[0].knob}=x2`),
          ".",
        )
      : null,
  );
}

/** @param {{side: Side, knobs: Knob[], cycles: number, basis: string, parallel: boolean}[]} found @param {Side[]} sides @returns {HTMLElement} */
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
  const none = rows.filter((pair) => size(pair) < LEAST).map((pair) => /** @type {Knob} */ (pair.a ?? pair.b));
  const whole = new Map(found.map(({ side, cycles, basis, parallel }) => [side.name, { cycles, basis, parallel }]));
  const body = shown.flatMap((pair) =>
    sides.map((side, index) => {
      const knob = pair[side.name];
      const [first] = [/** @type {Knob} */ (pair.a ?? pair.b)];
      const changes = Object.entries(knob?.changes ?? {});
      return h(
        "tr",
        { "data-knob": first.knob },
        index === 0 ? h("th", { scope: "row", rowspan: sides.length, class: "words knob", tabindex: "0", "data-tip": first.meaning }, upper(first.title), " ", h("code", {}, first.knob)) : null,
        sides.length > 1 ? h("td", { class: "words" }, side.name.toUpperCase()) : null,
        h("td", { class: "number" }, knob ? now(knob, whole.get(side.name)) : "–"),
        h("td", { class: "words changes" }, changes.length ? changes.map(([setting, change]) => line(setting, change, most, whole.get(side.name))) : "–"),
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
    none.length ? h("p", { class: "note" }, `${found.some(({ basis }) => basis) ? "No effect in the runs that were played" : "No effect on this recording"}: ${none.map(({ title, knob }) => `${title} (${knob})`).join(", ")}.`) : null,
  );
}

/** What a knob is: a value of the machine, or what the supersteps of a family take. @param {Knob} knob @param {{cycles: number, basis: string, parallel: boolean} | undefined} whole @returns {import("../core/dom.js").Children} */
function now(knob, whole) {
  if (knob.now) return knob.now;
  if (!knob.cycles) return "not known";
  const rest = !whole?.cycles ? "" : whole.parallel ? ", programs added up" : `, ${share(knob.cycles, whole.cycles)} of the time`;
  return [valueOf(knob.cycles, "cycles", "what_if.family"), rest];
}

/** @param {string} words @returns {string} */
function upper(words) {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/**
 * One setting with its bar, to the left if the time gets shorter.
 * @param {string} setting
 * @param {number} change
 * @param {number} most
 * @param {{cycles: number, basis: string, parallel: boolean} | undefined} whole
 * @returns {HTMLElement}
 */
function line(setting, change, most, whole) {
  const width = (50 * Math.abs(change)) / most;
  const left = change < 0 ? 50 - width : 50;
  const words = { "/2": "halved", x2: "doubled" }[setting] ?? setting;
  const tip = `${words}: ${(100 * change).toFixed(6).replace("-", MINUS)} % of the emulated time. ${sentence("what_if.change")}`;
  const sign = change < 0 ? MINUS : "+";
  return h(
    "div",
    { class: "turned" },
    h("span", { class: "setting" }, words),
    h("span", { class: "axis", "aria-hidden": "true" }, !change ? null : h("span", { class: change < 0 ? "turned-bar shorter" : "turned-bar longer", style: { left: `${left}%`, width: `${width}%` } })),
    h("span", { class: "value", tabindex: "0", "data-value": change, "data-unit": "share", "data-tip": tip }, percent(change)),
    h("span", { class: "saved" }, whole?.cycles && change ? [sign, valueOf(Math.round(Math.abs(change) * whole.cycles), "cycles", "what_if.saved")] : ""),
  );
}
