/** What stages keep: microbatches whose forward is done and whose backward is not, as a step line for each stage. */

import { themeColor } from "../../core/colors.js";
import { h } from "../../core/dom.js";
import { figure } from "../../core/figure.js";
import { count, plural } from "../../core/format.js";
import { cut, FONT } from "../../core/lanes.js";
import { table } from "../../core/table.js";
import { link } from "../../core/state.js";

/** @import { Model, Change } from "./model.js" */

const MOST_HEIGHT = 520;
const LEFT = 190;

/** The changes of each stage. @param {Model} model @returns {{stage: number, changes: Change[], most: number}[]} */
export function stagesOf(model) {
  /** @type {Map<number, Change[]>} */
  const found = new Map();
  for (const change of model.update.stash) found.set(change.stage, [...(found.get(change.stage) ?? []), change]);
  return [...found].map(([stage, changes]) => ({ stage, changes, most: Math.max(0, ...changes.map(({ count: kept }) => kept)) }));
}

/** @param {Model[]} models @param {import("./scene.js").Scene} scene @returns {HTMLElement[]} */
export function stashSection(models, scene) {
  const training = models.filter(({ update }) => update.trains);
  if (!training.length) return [];
  return [
    h("h2", {}, "What stages keep for backward"),
    h(
      "p",
      { class: "note" },
      "Microbatches whose forward is done and whose backward is not, over the slots of the schedule. The table of stages has the bytes of a microbatch; ",
      h("a", { href: link("memory") }, "Memory"),
      " has each program's memory.",
    ),
    ...training.flatMap((model) => [...(models.length > 1 ? [h("h3", {}, `${model.side.name.toUpperCase()}: ${model.side.label}`)] : []), stashFigure(model, scene)]),
  ];
}

/** @param {Model} model @param {import("./scene.js").Scene} scene @returns {HTMLElement} */
function stashFigure(model, scene) {
  const stages = stagesOf(model);
  const { slots } = scene;
  const height = Math.max(14, Math.min(44, Math.floor(MOST_HEIGHT / Math.max(1, stages.length))));
  const highest = Math.max(1, ...stages.map(({ most }) => most));
  let [row, place] = [-1, -1];
  let area = { left: LEFT, width: 1 };
  const words = (/** @type {number} */ index, /** @type {number} */ slot) => {
    const of = stages[index];
    if (!of) return null;
    const last = of.changes.findLast((change) => change.slot <= slot);
    return `stage ${of.stage} keeps ${count(last?.count ?? 0)} microbatch${last?.count === 1 ? "" : "es"} from slot ${count(last?.slot ?? 0)} on; at most ${count(of.most)}`;
  };
  const made = figure({
    label: `Microbatches that ${plural(stages.length, "stage")} of ${model.side.label} keep for backward`,
    height: stages.length * height + 4,
    keys: "↑ ↓ stages, ← → changes of a stage",
    draw({ context, width }) {
      const left = Math.min(LEFT, Math.round(width * 0.26));
      area = { left, width: width - left - 8 };
      context.font = FONT;
      context.textBaseline = "middle";
      stages.forEach(({ stage, changes, most }, index) => {
        const bottom = (index + 1) * height - 3;
        const yOf = (/** @type {number} */ kept) => bottom - (kept / highest) * (height - 8);
        const xOf = (/** @type {number} */ slot) => area.left + ((slot - slots.from) / slots.length) * area.width;
        context.fillStyle = themeColor("ink");
        context.fillText(cut(context, `stage ${stage}: at most ${count(most)}`, left - 10), 4, bottom - height / 2 + 2);
        context.fillStyle = themeColor("grid");
        context.fillRect(area.left, bottom, area.width, 1);
        context.save();
        context.beginPath();
        context.rect(area.left, bottom - height, area.width, height + 2);
        context.clip();
        context.beginPath();
        context.moveTo(xOf(0), yOf(0));
        let before = 0;
        for (const change of changes) {
          context.lineTo(xOf(change.slot), yOf(before));
          context.lineTo(xOf(change.slot), yOf(change.count));
          before = change.count;
        }
        context.lineTo(xOf(slots.whole.to), yOf(before));
        context.strokeStyle = index === row ? themeColor("mark") : themeColor("link");
        context.lineWidth = 2;
        context.stroke();
        context.lineWidth = 1;
        const marked = index === row ? changes[place] : undefined;
        if (marked) {
          context.fillStyle = themeColor("mark");
          context.beginPath();
          context.arc(xOf(marked.slot), yOf(marked.count), 4, 0, 2 * Math.PI);
          context.fill();
        }
        context.restore();
      });
    },
    describe: (x, y) => (x < area.left ? null : words(Math.floor(y / height), slots.from + ((x - area.left) / area.width) * slots.length)),
    onKey(key) {
      if (key === "ArrowDown" || key === "ArrowUp") {
        row = Math.max(0, Math.min(stages.length - 1, row + (key === "ArrowDown" ? 1 : -1)));
        place = Math.max(0, Math.min(place, (stages[row]?.changes.length ?? 1) - 1));
      } else if (key === "ArrowRight" || key === "ArrowLeft") {
        row = Math.max(0, row);
        place = Math.max(0, Math.min((stages[row]?.changes.length ?? 1) - 1, place + (key === "ArrowRight" ? 1 : -1)));
      } else return undefined;
      const change = stages[row]?.changes[place];
      if (change) slots.reveal(change.slot, change.slot + 1);
      made.redraw();
      return change ? words(row, change.slot) : "this stage keeps nothing";
    },
    table: () =>
      table({
        label: `stash of ${model.side.label}`,
        rows: model.update.stash,
        empty: "no stage keeps anything",
        columns: [
          { name: "stage", unit: "count", origin: "pipeline.count", of: ({ stage }) => stage },
          { name: "from slot", unit: "count", origin: "pipeline.slot", of: ({ slot }) => slot },
          { name: "from", unit: model.side.cycles, origin: "pipeline.cycle", of: ({ cycle }) => (cycle < 0 ? null : cycle) },
          { name: "microbatches", unit: "count", origin: "pipeline.stash", of: (change) => change.count },
        ],
      }),
  });
  slots.listeners.add(made.redraw);
  return made.element;
}
