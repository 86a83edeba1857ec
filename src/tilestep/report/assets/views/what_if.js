/** Which part of the machine, or which family of operations, matters? */

import { h } from "../core/dom.js";
import { MINUS, percent, share } from "../core/format.js";
import { joined } from "../core/pairs.js";
import { sentence, valueOf } from "../core/value.js";
import { sliders } from "./what_if/sliders.js";

/** @typedef {import("../core/page.js").Side} Side */
/** @typedef {{knob: string, title: string, meaning: string, now: string, cycles: number | null, changes: Record<string, number>, unknown: string[]}} Knob */

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
    return [...parts, intro, tornado(found, sides), ...unknown(found), ...tried].filter((part) => part !== null);
  },
};

/** @param {Side} side @param {Side[]} sides @returns {string} */
function named(side, sides) {
  return sides.length > 1 ? `${side.name.toUpperCase()}: ` : "";
}

/** How to learn what was not played. @param {{knobs: Knob[]}[]} found @returns {HTMLElement[]} */
function unknown(found) {
  const [first] = found.flatMap(({ knobs }) => knobs.flatMap((knob) => knob.unknown.map((setting) => `${knob.knob}=${setting}`)));
  if (first === undefined) return [];
  return [h("p", { class: "note" }, "To play this recording takes long, so what may save time was played first. What is unknown was not played: ", h("code", {}, `tilestep report what-if RECORDING --set ${first}`), " plays it.")];
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
  const whole = new Map(found.map(({ side, cycles, basis, parallel }) => [side.name, { side, cycles, basis, parallel }]));
  const body = shown.flatMap((pair) =>
    sides.map((side, index) => {
      const knob = pair[side.name];
      const [first] = [/** @type {Knob} */ (pair.a ?? pair.b)];
      const changes = knob ? changesOf(knob, most, whole.get(side.name)) : [];
      return h(
        "tr",
        { role: "row", "data-knob": first.knob },
        index === 0 ? h("th", { role: "rowheader", scope: "row", rowspan: sides.length, class: "words knob", tabindex: "0", "data-tip": first.meaning }, upper(first.title), " ", h("code", {}, first.knob)) : null,
        sides.length > 1 ? h("td", { role: "cell", class: "words" }, side.name.toUpperCase()) : null,
        h("td", { role: "cell", class: "number" }, knob ? now(knob, side, whole.get(side.name)) : "–"),
        h("td", { role: "cell", class: "words changes" }, changes.length ? changes : "–"),
      );
    }),
  );
  return h(
    "div",
    {},
    h(
      "table",
      { role: "table", class: "bar-table tornado", "aria-label": "effect of each knob on emulated time" },
      h(
        "thead",
        { role: "rowgroup" },
        h("tr", { role: "row" }, heading("knob"), sides.length > 1 ? heading("in") : null, heading("now", "number"), heading("emulated time: shorter ◂ ▸ longer")),
      ),
      h("tbody", { role: "rowgroup" }, body),
    ),
    little(
      rows.filter((pair) => size(pair) < LEAST),
      found.some(({ basis }) => basis),
    ),
  );
}

/** @param {string} words @param {string} [look] @returns {HTMLElement} */
function heading(words, look) {
  return h("th", { role: "columnheader", scope: "col", class: look ?? false }, words);
}

/**
 * Knobs without a bar, and why. What was not played may have an effect.
 * @param {{a?: Knob, b?: Knob}[]} pairs
 * @param {boolean} estimated from some runs
 * @returns {HTMLElement[]}
 */
function little(pairs, estimated) {
  /** @type {Map<string, Knob[]>} */
  const found = new Map();
  for (const pair of pairs) {
    const knobs = /** @type {Knob[]} */ ([pair.a, pair.b].filter(Boolean));
    const title = knobs.some(isUnplayed)
      ? "Not played"
      : knobs.some(({ unknown }) => unknown.length)
        ? "Would save less than 0.01 %"
        : estimated
          ? "No effect in the runs that were played"
          : "No effect on this recording";
    found.set(title, [...(found.get(title) ?? []), ...knobs.slice(0, 1)]);
  }
  return [...found].map(([title, knobs]) => h("p", { class: "note" }, `${title}: ${knobs.map(({ title: name, knob }) => `${name} (${knob})`).join(", ")}.`));
}

/** @param {Knob} knob @returns {boolean} */
function isUnplayed(knob) {
  return knob.unknown.length > 0 && !Object.keys(knob.changes).length;
}

/** What a knob is: a value of the machine, or what the supersteps of a family take. @param {Knob} knob @param {Side} side @param {{cycles: number, parallel: boolean} | undefined} whole @returns {import("../core/dom.js").Children} */
function now(knob, side, whole) {
  if (knob.now) return knob.now;
  if (!knob.cycles) return "not known";
  const rest = !whole?.cycles ? "" : whole.parallel ? ", programs added up" : `, ${share(knob.cycles, whole.cycles)} of the time`;
  return [valueOf(knob.cycles, side.cycles, "what_if.family"), rest];
}

/** @param {string} words @returns {string} */
function upper(words) {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** @param {Knob} knob @param {number} most @param {{side: Side, cycles: number} | undefined} whole @returns {HTMLElement[]} */
function changesOf(knob, most, whole) {
  const settings = [...Object.keys(knob.changes), ...knob.unknown];
  if (knob.unknown.length) settings.sort();
  return settings.map((setting) => {
    const change = knob.changes[setting];
    return change === undefined ? notPlayed(setting) : line(setting, change, most, whole);
  });
}

/**
 * One setting with its bar, to the left if the time gets shorter.
 * @param {string} setting
 * @param {number} change
 * @param {number} most
 * @param {{side: Side, cycles: number} | undefined} whole
 * @returns {HTMLElement}
 */
function line(setting, change, most, whole) {
  const width = (50 * Math.abs(change)) / most;
  const left = change < 0 ? 50 - width : 50;
  const tip = `${words(setting)}: ${(100 * change).toFixed(6).replace("-", MINUS)} % of the emulated time. ${sentence("what_if.change")}`;
  const sign = change < 0 ? MINUS : "+";
  return h(
    "div",
    { class: "turned" },
    h("span", { class: "setting" }, words(setting)),
    h("span", { class: "axis", "aria-hidden": "true" }, !change ? null : h("span", { class: change < 0 ? "turned-bar shorter" : "turned-bar longer", style: { left: `${left}%`, width: `${width}%` } })),
    h("span", { class: "value", tabindex: "0", "data-value": change, "data-unit": "share", "data-tip": tip }, percent(change)),
    h("span", { class: "saved" }, whole?.cycles && change ? [sign, valueOf(Math.round(Math.abs(change) * whole.cycles), whole.side.cycles, "what_if.saved")] : ""),
  );
}

/** A setting of which nothing is known, because to play it would take long. @param {string} setting @returns {HTMLElement} */
function notPlayed(setting) {
  return h("div", { class: "turned" }, h("span", { class: "setting" }, words(setting)), h("span", { class: "axis" }), h("span", { class: "value" }, "unknown"), h("span", { class: "saved" }));
}

/** @param {string} setting @returns {string} */
function words(setting) {
  return { "/2": "halved", x2: "doubled" }[setting] ?? setting;
}
