/** Who would free the fullest tile: values of one kind, and lines, each with the peak that is left without all of it. */

import { h } from "../../core/dom.js";
import { bytes, count, plural } from "../../core/format.js";
import { table } from "../../core/table.js";
import { valueOf } from "../../core/value.js";
import { at, holds, lives } from "./lives.js";
import { prefix } from "./model.js";
import { without } from "./peaks.js";
import { categoryOf, lineLink, lineOf, long, nameOf, stepName } from "./values.js";

/** @import { Pair } from "./model.js" */
/** @import { Known } from "./values.js" */
/** @typedef {{name: string, all: number[], here: number[]}} Group values of one kind or line, and those of them on the fullest tile at the peak */
/** @typedef {Group & {life: number, there: number, then: import("./peaks.js").Peak}} Row life: the largest of them. there: bytes on that tile at the peak. then: the peak without all of them */

const MOST_KINDS = 200; // that the peak is worked out without
const MOST_LINES = 50; // likewise
/** Numbers that may be of layers: those that end a name, as in `Block_3/Dense_0`, `layers[3].weight` and `params['Block_3']`; not that of an argument of `*args`. */
const LAYERS = /(?<!^args\[)(?<=[a-z]_|\[|\['|\/|\.)\d+(?=[\]/)'.]|$)/gi;

/**
 * What to do for more room, and the values on the fullest tile at the peak by kind, with the peak that is left without each.
 * @param {Known} program @param {Pair} pair @param {(pair: import("./values.js").ValuePair) => void} open
 * @returns {HTMLElement[]}
 */
export function freeing(program, pair, open) {
  const { detail } = program;
  const { memory, peak } = detail;
  const all = Array.from(memory.first, (_, life) => life);
  const here = all.filter((life) => lives(memory, life, peak.tick) && holds(memory, life, peak.tile) && at(memory.tileBytes, life) > 0);
  const value = (/** @type {Row} */ { life }) => ({ program, life });
  const kinds = rowsOf(program, groups(all, here, (life) => kindOf(program, life)).map((group) => ({ ...group, name: kindWords(program, group.all) })), MOST_KINDS);
  const lines = rowsOf(program, groups(all, here, (life) => detail.lines[life] ?? "").filter(({ name }) => name), MOST_LINES);
  const temporary = at(memory.temporary, peak.tick);
  const own = temporary
    ? `The step itself needs ${bytes(temporary)} on each tile, for operands from other tiles, partial sums and the like: no value's end frees that.`
    : "The step itself needs nothing beside its values.";
  const last = (/** @type {Row} */ row) => row.all.reduce((found, life) => Math.max(found, at(memory.last, life)), 0);
  const before = prefix(program, pair);
  return [
    whatToDo(program, pair, kinds),
    h("p", { class: "note" }, `${before}On tile ${count(peak.tile)} at the peak: ${plural(here.length, "value")}. Those of one size that differ by the number of a layer alone are one row. Without them another step or tile may be the fullest, so the peak falls by less than they have. ${own}`),
    table({
      label: `${before}who would free the fullest tile`,
      columns: [
        { name: "value", of: (row) => row.name, cell: (row) => long(row.name) },
        ...figures(program),
        { name: "category", of: (row) => categoryOf(value(row)) },
        { name: "line", of: (row) => lineOf(value(row)), cell: (row) => lineLink(lineOf(value(row))) },
        { name: "last used in", unit: "count", origin: "memory.value", of: last, cell: (row) => long(stepName(detail, last(row))) },
        ...then(program),
      ],
      rows: kinds,
      sortBy: 1,
      filter: true,
      open: (row) => open({ [program.side]: value(row) }),
      empty: "No value is there: code and the step itself fill the tile.",
    }),
    ...(lines.length
      ? [
          h("p", { class: "note" }, `${before}All values of a line together: an unrolled loop makes many, and without one of them the next has the peak.`),
          table({
            label: `${before}lines that would free the fullest tile`,
            columns: [{ name: "line", of: (row) => row.name, cell: (row) => lineLink(row.name) }, ...figures(program), ...then(program)],
            rows: lines,
            sortBy: 1,
          }),
        ]
      : []),
  ].filter((part) => part !== null);
}

/** @param {number[]} all @param {number[]} here @param {(life: number) => string} keyOf @returns {Group[]} those with a value here */
function groups(all, here, keyOf) {
  /** @type {Map<string, Group>} */
  const found = new Map();
  for (const life of here) {
    const name = keyOf(life);
    const group = found.get(name) ?? { name, all: [], here: [] };
    group.here.push(life);
    found.set(name, group);
  }
  for (const life of all) found.get(keyOf(life))?.all.push(life);
  return [...found.values()];
}

/** @param {Known} program @param {Group[]} found @param {number} most @returns {Row[]} those that have most on the tile */
function rowsOf({ detail: { memory, runs, fullest } }, found, most) {
  const size = (/** @type {number} */ life) => at(memory.tileBytes, life);
  const sized = found.map((group) => ({ ...group, life: group.here.reduce((most, life) => (size(life) > size(most) ? life : most)), there: group.here.reduce((sum, life) => sum + size(life), 0) }));
  const looked = sized.sort((one, other) => other.there - one.there).slice(0, most);
  const left = without(memory, runs, fullest, looked.map(({ all }) => all));
  return looked.map((group, index) => ({ ...group, then: /** @type {import("./peaks.js").Peak} */ (left[index]) }));
}

/** @param {Known} program @param {number} life @returns {string} */
function kindOf(program, life) {
  const value = { program, life };
  return [nameOf(value).replace(LAYERS, "#"), lineOf(value), categoryOf(value), at(program.detail.sizes, life)].join("\n");
}

/** 'jit(step)/LM/Block_0..11/exp', 'args[1][12,23,…,67]'. @param {Known} program @param {number[]} all of one kind @returns {string} */
function kindWords({ detail }, all) {
  const names = all.map((life) => detail.names[life] ?? "");
  const numbers = names.map((name) => name.match(LAYERS) ?? []);
  let place = 0;
  return (names[0] ?? "").replace(LAYERS, () => {
    const found = [...new Set(numbers.map((of) => Number(of[place])))].sort((one, other) => one - other);
    place++;
    const [first = 0, last = first] = [found[0], found[found.length - 1]];
    if (found.length === 1) return String(first);
    if (last - first + 1 === found.length) return `${first}..${last}`;
    return found.length > 3 ? `${found.slice(0, 2).join()},…,${last}` : found.join();
  });
}

/** @param {Known} program @returns {import("../../core/table.js").Column<Row>[]} */
function figures({ detail: { peak } }) {
  const less = (/** @type {Row} */ row) => peak.bytes - row.then.bytes;
  return [
    { name: "less", unit: "bytes", origin: "memory.without", of: less, cell: (row) => (less(row) ? bytes(less(row)) : "nothing") },
    { name: "the peak without", unit: "bytes", origin: "memory.without", of: (row) => row.then.bytes },
    { name: "on the tile at the peak", unit: "bytes", origin: "memory.value", of: (row) => row.there },
    { name: "values", unit: "count", origin: "memory.value", of: (row) => row.all.length },
  ];
}

/** @param {Known} program @returns {import("../../core/table.js").Column<Row>[]} */
function then({ detail }) {
  const where = (/** @type {Row} */ { then: { tile, tick } }) => `tile ${count(tile)}, ${stepName(detail, tick)}`;
  return [{ name: "then the fullest", of: where, cell: (row) => long(where(row)) }];
}

/** What to do first for more room, or that nothing has to be done. @param {Known} program @param {Pair} pair @param {Row[]} kinds @returns {HTMLElement | null} */
function whatToDo(program, pair, kinds) {
  const { facts, sram, detail: { peak } } = program;
  const [best] = [...kinds].sort((one, other) => one.then.bytes - other.then.bytes);
  const left = sram - Math.max(peak.bytes, facts.group?.bytes ?? 0);
  const fits = left < 0 ? `${bytes(-left)} have to be freed. ` : `It fits: nothing has to be freed, ${bytes(left)} of a tile are left. `;
  if (!best || best.then.bytes >= peak.bytes) return h("p", { class: "answer frees" }, prefix(program, pair), fits, "No values of one kind free anything by themselves.");
  const [verb, rest] = remedyOf(program, best);
  return h(
    "p",
    { class: "answer frees" },
    `${prefix(program, pair)}${fits}${left < 0 ? "First, " : "For more room, "}${verb} `,
    h("span", { class: "mono" }, best.name),
    `${rest}. Without ${best.all.length > 1 ? `these ${count(best.all.length)} values` : "it"} the peak falls by `,
    valueOf(peak.bytes - best.then.bytes, "bytes", "memory.without"),
    " to ",
    valueOf(best.then.bytes, "bytes", "memory.without"),
    left < 0 && best.then.bytes > sram ? ", which does not fit yet." : ".",
  );
}

/** What frees values of a kind: words before their name and behind it. @param {Known} program @param {Row} row @returns {[string, string]} */
function remedyOf(program, row) {
  const { memory, names } = program.detail;
  const { life } = row;
  const backward = names.reduce((first, name, each) => (name.includes("transpose(") ? Math.min(first, at(memory.first, each)) : first), Infinity);
  const toTheEnd = at(memory.last, life) === memory.numTicks - 1;
  switch (categoryOf({ program, life })) {
    case "argument":
      return toTheEnd ? ["donate", ", if nothing reads that after the call (donate_argnames), or divide arrays over more IPUs"] : ["divide", " over more IPUs, or use a smaller dtype"];
    case "resident":
      return ["offload", " to pinned_host between runs, or divide arrays over more IPUs"];
    case "constant":
      return ["pass", " as an argument that is divided over IPUs"];
    case "result":
      return ["do without the result", ", or donate the argument that it replaces (donate_argnames)"];
    default:
      return at(memory.first, life) < backward && at(memory.last, life) >= backward
        ? ["recompute the activations", " in the backward pass (jax.checkpoint), or use a smaller batch"]
        : ["make", " smaller: by a smaller batch, a smaller dtype, or a loop over parts (jax.lax.scan)"];
  }
}
