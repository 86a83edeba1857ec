/** Which part of the machine, or which family of operations, matters? */

import { h } from "../core/dom.js";
import { MINUS, percent, share } from "../core/format.js";
import { joined } from "../core/pairs.js";
import { sentence, valueOf } from "../core/value.js";
import { sliders } from "./what_if/sliders.js";

/** @import { Side } from "../core/page.js" */
/** @typedef {{knob: string, title: string, meaning: string, now: string, cycles: number | null, changes: Record<string, number>, unknown: string[]}} Knob */
/** Block `what_if` of a recording. @typedef {{side: Side, cycles: number, parallel: boolean, knobs: Knob[], others: [string, string[]][], why_unknown: string, to_play: string}} Found */

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

/** How to learn what was not played. @param {Found[]} found @returns {HTMLElement[]} */
function unknown(found) {
  const first = found.find(({ to_play: setting }) => setting);
  if (!first) return [];
  return [h("p", { class: "note" }, `${first.why_unknown} `, h("code", {}, `tilestep report what-if RECORDING --set ${first.to_play}`), " plays it.")];
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

/** @param {Found[]} found @param {Side[]} sides @returns {HTMLElement} */
function tornado(found, sides) {
  const rows = joined(
    found.map(({ side, knobs }) => ({ name: side.name, rows: knobs })),
    (knob) => knob.knob,
  );
  const effect = (/** @type {Knob | undefined} */ knob) => Math.max(0, ...Object.values(knob?.changes ?? {}).map(Math.abs));
  const size = (/** @type {{a?: Knob, b?: Knob}} */ pair) => Math.max(effect(pair.a), effect(pair.b));
  rows.sort((one, other) => size(other) - size(one));
  const barless = new Map(found.map(({ side, others }) => [side.name, new Set(others.flatMap(([, names]) => names))]));
  const hasBar = (/** @type {{a?: Knob, b?: Knob}} */ pair) => sides.some(({ name }) => pair[name] && !barless.get(name)?.has(pair[name].knob));
  const shown = rows.filter(hasBar);
  const most = Math.max(...shown.map(size));
  const whole = new Map(found.map((of) => [of.side.name, of]));
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
    found.flatMap((of) => without(of, sides, shown)),
  );
}

/** @param {string} words @param {string} [look] @returns {HTMLElement} */
function heading(words, look) {
  return h("th", { role: "columnheader", scope: "col", class: look ?? false }, words);
}

/** Knobs of a recording without a bar, and what is known of them. @param {Found} found @param {Side[]} sides @param {{a?: Knob, b?: Knob}[]} shown @returns {HTMLElement[]} */
function without({ side, knobs, others }, sides, shown) {
  const titles = new Map(knobs.map(({ knob, title }) => [knob, `${title} (${knob})`]));
  for (const pair of shown) titles.delete((pair.a ?? pair.b)?.knob ?? "");
  return others.flatMap(([words, names]) => {
    const left = names.flatMap((name) => titles.get(name) ?? []);
    return left.length ? [h("p", { class: "note" }, `${named(side, sides)}${words}: ${left.join(", ")}.`)] : [];
  });
}

/** What a knob is: a value of the machine, or what the supersteps of a family take. @param {Knob} knob @param {Side} side @param {Found | undefined} whole @returns {import("../core/dom.js").Children} */
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

/** @param {Knob} knob @param {number} most @param {Found | undefined} whole @returns {HTMLElement[]} */
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
 * @param {Found | undefined} whole
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
