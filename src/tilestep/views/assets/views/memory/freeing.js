/** Who would free the fullest tile: values of one kind, and lines, each with the peak that is left without all of it. */

import { h } from "../../core/dom.js";
import { bytes, count, plural } from "../../core/format.js";
import { link } from "../../core/state.js";
import { table } from "../../core/table.js";
import { valueOf } from "../../core/value.js";
import { at, holds, lives } from "./lives.js";
import { without } from "./peaks.js";
import { categoryOf, columnsOf, lineLink, long, stepName } from "./values.js";

/** @import { Known } from "./model.js" */
/** @typedef {{name: string, all: number[], here: number[]}} Group values of one kind or line, and those of them on the fullest tile at the peak */
/** @typedef {Group & {life: number, there: number, then: import("./peaks.js").Peak}} Row life: the largest of them. there: bytes on that tile at the peak. then: the peak without all of them */

const MOST_KINDS = 200; // that the peak is worked out without
const MOST_LINES = 50; // likewise
/** Numbers that may be of layers: those that end a name, as in `Block_3/Dense_0`, `layers[3].weight` and `params['Block_3']`; not that of an argument of `*args`. */
const LAYERS = /(?<!^args\[)(?<=[a-z]_|\[|\['|\/|\.)\d+(?=[\]/)'.]|$)/gi;

/**
 * Whether there is room, and the values on the fullest tile at the peak by kind, with the peak that is left without each.
 * @param {Known} program @param {(life: number) => void} open
 * @returns {HTMLElement[]}
 */
export function freeing(program, open) {
  const { detail } = program;
  const { memory, peak } = detail;
  const all = Array.from(memory.first, (_, life) => life);
  const here = all.filter((life) => lives(memory, life, peak.tick) && holds(memory, life, peak.tile) && at(memory.tileBytes, life) > 0);
  const { category, line } = columnsOf(program);
  const kinds = rowsOf(program, groups(all, here, (life) => kindOf(program, life)).map((group) => ({ ...group, name: kindWords(program, group.all) })), MOST_KINDS);
  const lines = rowsOf(program, groups(all, here, (life) => detail.lines[life] ?? "").filter(({ name }) => name), MOST_LINES);
  const temporary = at(memory.temporary, peak.tick);
  const own = temporary
    ? `The step itself needs ${bytes(temporary)} on each tile, for operands from other tiles, partial sums and the like: no value's end frees that.`
    : "The step itself needs nothing beside its values.";
  const last = (/** @type {Row} */ row) => row.all.reduce((found, life) => Math.max(found, at(memory.last, life)), 0);
  return [
    whatToDo(program, kinds),
    h("p", { class: "note" }, `On tile ${count(peak.tile)} at the peak: ${plural(here.length, "value")}. Those of one size that differ by the number of a layer alone are one row. Without them another step or tile may be the fullest, so the peak falls by less than they have. ${own}`),
    table({
      label: "who would free the fullest tile",
      columns: [
        { name: "value", of: (row) => row.name, cell: (row) => long(row.name) },
        ...figures(program),
        { name: "category", of: ({ life }) => category.of(life) },
        { name: "line", of: ({ life }) => line.of(life), cell: ({ life }) => line.cell?.(life) },
        { name: "last used in", unit: "count", origin: "memory.value", of: last, cell: (row) => long(stepName(detail, last(row))) },
        ...then(program),
      ],
      rows: kinds,
      sortBy: 1,
      filter: true,
      open: ({ life }) => open(life),
      empty: "No value is there: code and the step itself fill the tile.",
    }),
    ...(lines.length
      ? [
          h("p", { class: "note" }, "All values of a line together: an unrolled loop makes many, and without one of them the next has the peak."),
          table({
            label: "lines that would free the fullest tile",
            columns: [{ name: "line", of: (row) => row.name, cell: (row) => lineLink(row.name) }, ...figures(program), ...then(program)],
            rows: lines,
            sortBy: 1,
          }),
        ]
      : []),
  ];
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
  const { names, lines, sizes } = program.detail;
  return [names[life]?.replace(LAYERS, "#"), lines[life], categoryOf(program, life), at(sizes, life)].join("\n");
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

/** Whether it fits, what view What to do says of it, and which kind of values frees most. @param {Known} program @param {Row[]} kinds @returns {HTMLElement} */
function whatToDo(program, kinds) {
  const { edit, facts, sram, detail: { peak } } = program;
  const [best] = [...kinds].sort((one, other) => one.then.bytes - other.then.bytes);
  const left = sram - Math.max(peak.bytes, facts.group?.bytes ?? 0);
  const said = [
    left < 0 ? `${bytes(-left)} have to be freed. ` : `It fits: nothing has to be freed, ${bytes(left)} of a tile are left. `,
    ...(edit ? ["First, ", h("a", { href: link("findings") }, edit), ". "] : []),
  ];
  if (!best || best.then.bytes >= peak.bytes) return h("p", { class: "answer frees" }, ...said, "No values of one kind free anything by themselves.");
  return h(
    "p",
    { class: "answer frees" },
    ...said,
    `Without ${best.all.length > 1 ? `${count(best.all.length)} values ` : ""}`,
    h("span", { class: "mono" }, best.name),
    " the peak falls by ",
    valueOf(peak.bytes - best.then.bytes, "bytes", "memory.without"),
    " to ",
    valueOf(best.then.bytes, "bytes", "memory.without"),
    left < 0 && best.then.bytes > sram ? ", which does not fit yet." : ".",
  );
}
