/** What each device did on the axis of emulated time: pieces of tasks, transfers, and waits with their reasons. */

import { ticks } from "../../core/axis.js";
import { count, plural } from "../../core/format.js";
import { rowsFigure } from "../../core/rows.js";
import { table } from "../../core/table.js";
import { exact, text } from "../../core/value.js";
import { drawnKind } from "./model.js";
import { groupLook, kindLook, kindsOf, waitLook } from "./looks.js";

/** @import { Model, Task } from "./model.js" */
/** @typedef {{device: number, begin: number, end: number, task: Task | null, group: string, why: string, reason: string}} Bar a wait has a reason */

/** The bars of each device, in order of time. @param {Model} model @returns {Bar[][]} */
function barsOf(model) {
  const rows = model.devices.map(() => /** @type {Bar[]} */ ([]));
  for (const { device, task, group, begin, end } of model.update.pieces) {
    rows[device]?.push({ device, begin, end, task: model.update.tasks[task] ?? null, group, why: "", reason: "" });
  }
  for (const { device, why, reason, begin, end } of model.update.gaps) rows[device]?.push({ device, begin, end, task: null, group: "", why, reason });
  return rows.map((row) => row.sort((a, b) => a.begin - b.begin));
}

/** @param {Bar} bar */
function lookOfBar(bar) {
  if (bar.why) return waitLook(bar.why);
  return bar.group === "own" && bar.task ? kindLook(drawnKind(bar.task)) : groupLook(bar.group);
}

/** @param {Model} model @param {Bar} bar @returns {string} */
function wordsOf(model, bar) {
  const took = `${text(bar.end - bar.begin, "cycles")} (${exact(bar.end - bar.begin, "cycles")})`;
  if (bar.why) return `${model.deviceName(bar.device)} waits ${took}: ${bar.reason}`;
  const what = bar.group === "own" && bar.task ? model.words(bar.task) : `${groupLook(bar.group).words}${bar.task ? ` for ${model.words(bar.task)}` : ""}`;
  return `${what}\nthis bar: ${took}, from cycle ${count(bar.begin)} of the update`;
}

/** @param {Model} model @param {import("./scene.js").Scene} scene */
export function timesFigure(model, scene) {
  const bars = barsOf(model);
  const bar = (/** @type {number} */ row, /** @type {number} */ index) => /** @type {Bar} */ (bars[row]?.[index]);
  const made = rowsFigure({
    label: `What happened in ${model.nameOf(model.update)} of ${model.side.label}: ${plural(model.devices.length, "device")}, ${text(model.update.cycles, "cycles")}`,
    window: scene.cycles,
    ticks: (from, to, most) => ticks(Math.max(0, from), to, most, model.side.head.clock_hz),
    rows: model.devices.map((_, row) => ({
      name: model.deviceName(row),
      from: Float64Array.from(bars[row] ?? [], ({ begin }) => begin),
      to: Float64Array.from(bars[row] ?? [], ({ end }) => end),
      ...kindsOf((bars[row] ?? []).map(lookOfBar), (bars[row] ?? []).map(({ why }) => why !== "")),
      text: (index) => {
        const { task, group } = bar(row, index);
        return task && group === "own" ? model.label(task) : "";
      },
      words: (index) => wordsOf(model, bar(row, index)),
    })),
    select: (row, index) => {
      const { task } = bar(row, index);
      if (task) scene.choose(task.place);
    },
    selected: (row, index) => scene.chosen >= 0 && scene.chosen === bar(row, index).task?.place,
    table: () =>
      table({
        label: `what happened in ${model.side.label}`,
        rows: bars.flat(),
        filter: true,
        columns: [
          { name: "device", of: ({ device }) => model.deviceName(device) },
          { name: "task", of: ({ task }) => (task ? model.label(task) : null) },
          { name: "what", of: (each) => (each.why ? each.reason : lookOfBar(each).words) },
          { name: "from", unit: "cycles", origin: "pipeline.cycle", of: ({ begin }) => begin },
          { name: "to", unit: "cycles", origin: "pipeline.cycle", of: ({ end }) => end },
          { name: "time", unit: "cycles", origin: "pipeline.happened", of: ({ begin, end }) => end - begin },
        ],
      }),
  });
  scene.listeners.add(made.redraw);
  return made;
}
