/** The fullest tile of a program: what it holds, and what is left of it. */

import { bars } from "../../core/bars.js";
import { HATCHES, lookAt } from "../../core/colors.js";
import { h } from "../../core/dom.js";
import { count, share } from "../../core/format.js";
import { valueOf } from "../../core/value.js";
import { byCategory, CATEGORIES } from "./lives.js";
import { ORDER, PARTS, stepWords } from "./model.js";

/** @import { Program } from "./model.js" */

/** @param {Program} program @returns {HTMLElement[]} */
export function fullestTile(program) {
  const { facts, sram, detail } = program;
  if (facts.peak_bytes === null) return [h("p", {}, `The recording has no tree of ${facts.label}, so nothing is known of its memory.`), ...group(program)];
  const left = sram - facts.peak_bytes;
  const where = detail ? stepWords(detail, detail.peak.tick) : `step ${facts.peak_step || "unnamed"}`;
  const sentence = h(
    "p",
    { class: "fullest" },
    detail ? ["The fullest tile, ", h("strong", {}, count(detail.peak.tile)), ", of "] : "The fullest tile of ",
    h("span", { class: "mono" }, facts.label),
    " holds ",
    valueOf(facts.peak_bytes, "bytes", "memory.peak"),
    " of ",
    valueOf(sram, "bytes", "memory.sram"),
    ` (${share(facts.peak_bytes, sram)}) at `,
    h("span", { class: "step" }, where),
    left >= 0 ? [": ", valueOf(left, "bytes", "memory.peak"), " are left."] : [": ", h("strong", {}, valueOf(-left, "bytes", "memory.peak"), " too many"), "."],
    facts.num_ipus > 1 ? ` Each of its ${count(facts.num_ipus)} IPUs needs the same.` : null,
  );
  const table = bars({ label: "what fills the fullest tile", rows: partsOf(program), unit: "bytes", origin: "memory.category", whole: sram });
  return [sentence, ...group(program), h("div", { class: "kinds" }, table)];
}

/** What the programs of its group need together. @param {Program} program @returns {HTMLElement[]} */
function group({ facts, sram }) {
  if (!facts.group) return [];
  const { label, ipu, bytes: size } = facts.group;
  return [
    h(
      "p",
      { class: "group" },
      `The programs of ${label} share the tiles of IPU ${count(ipu)}. The fullest needs `,
      valueOf(size, "bytes", "memory.group"),
      " of ",
      valueOf(sram, "bytes", "memory.sram"),
      ` (${share(size, sram)}) for all of them`,
      size > sram ? [": ", h("strong", {}, valueOf(size - sram, "bytes", "memory.group"), " too many"), "."] : ".",
    ),
  ];
}

/** What fills the fullest tile, as parts that add up to the peak: the largest first. @param {Program} program @returns {import("../../core/bars.js").Bar[]} */
function partsOf({ detail, facts }) {
  /** @type {import("../../core/bars.js").Bar[]} */
  let parts;
  if (detail) {
    const sizes = byCategory(detail.memory, detail.peak.tick, detail.peak.tile);
    const look = (/** @type {string} */ name) => /** @type {any} */ (PARTS[name]);
    parts = [
      ...detail.code.map(([kind, size, fixed], index) => ({ ...look("code"), key: kind, words: fixed ? `${kind} (no program can use them)` : kind, hatch: HATCHES[index % HATCHES.length], values: [size] })),
      ...ORDER.slice(1).map((name) => ({ ...look(name), key: name, values: [sizes[CATEGORIES.indexOf(name)] ?? 0] })),
    ];
  } else parts = facts.kinds.map((/** @type {[string, number]} */ [words, size], /** @type {number} */ index) => ({ key: words, words, values: [size], ...lookAt(index) }));
  return parts.filter(({ values: [size] }) => size).sort((one, other) => (other.values[0] ?? 0) - (one.values[0] ?? 0));
}

/** Why there is no more to see of a program. @param {Program} program @returns {HTMLElement} */
export function whyNotMore({ facts }) {
  return h("p", { class: "absent" }, facts.why);
}
