/** The schedule as it is drawn: a row for each device, a column for each slot. */

import { multiples, roundStep } from "../../core/axis.js";
import { rowsFigure } from "../../core/rows.js";
import { count, plural } from "../../core/format.js";
import { table } from "../../core/table.js";
import { kindLook, kindsOf } from "./looks.js";
import { drawnKind } from "./model.js";

/** @import { Model, Task } from "./model.js" */

/** The tasks of each device, in order. One that is forward and backward takes two slots, and is one here as in what happened. @param {Model} model @returns {Task[][]} */
function tasksOf(model) {
  return model.devices.map((_, device) => model.update.tasks.filter((task) => task.device === device).sort((a, b) => a.slot - b.slot));
}

/** @param {Model} model @param {import("./scene.js").Scene} scene */
export function gridFigure(model, scene) {
  const tasks = tasksOf(model);
  const task = (/** @type {number} */ row, /** @type {number} */ bar) => /** @type {Task} */ (tasks[row]?.[bar]);
  const made = rowsFigure({
    label: `Schedule of ${model.nameOf(model.update)} of ${model.side.label}: ${plural(model.devices.length, "device")}, ${plural(model.update.slots, "slot")}`,
    window: scene.slots,
    ticks: slotTicks,
    rows: model.devices.map((_, row) => ({
      name: model.deviceName(row),
      from: Float64Array.from(tasks[row] ?? [], ({ slot }) => slot),
      to: Float64Array.from(tasks[row] ?? [], ({ slot, slots }) => slot + slots),
      ...kindsOf((tasks[row] ?? []).map((each) => kindLook(drawnKind(each)))),
      text: (bar) => model.label(task(row, bar)),
      words: (bar) => `${slotsOf(task(row, bar))}: ${model.words(task(row, bar))}`,
    })),
    select: (row, bar) => scene.choose(task(row, bar).place),
    selected: (row, bar) => scene.chosen === task(row, bar).place,
    table: () => gridTable(model, tasks.flat()),
  });
  scene.listeners.add(made.redraw);
  return made;
}

/** @param {number} from @param {number} to @param {number} most */
function slotTicks(from, to, most) {
  const step = roundStep(Math.max(1, (to - from) / Math.max(1, Math.min(most, 40))));
  return multiples(from, Math.ceil(to) - 1, step).map((slot) => ({ at: slot, words: `slot ${count(slot)}` }));
}

/** 'slot 3', 'slots 3 and 4'. @param {Task} task @returns {string} */
function slotsOf({ slot, both }) {
  return both ? `slots ${slot} and ${slot + 1}` : `slot ${slot}`;
}

/** @param {Model} model @param {Task[]} rows @returns {HTMLElement} */
function gridTable(model, rows) {
  return table({
    label: `schedule of ${model.side.label}`,
    rows,
    filter: true,
    columns: [
      { name: "device", of: ({ device }) => model.deviceName(device) },
      { name: "slot", unit: "count", origin: "pipeline.slot", of: ({ slot }) => slot },
      { name: "task", of: (task) => model.label(task) },
      { name: "kind", of: drawnKind },
      { name: "stage", unit: "count", origin: "pipeline.count", of: ({ stage }) => stage },
      { name: "microbatch", unit: "count", origin: "pipeline.count", of: ({ microbatch }) => (microbatch < 0 ? null : microbatch) },
      { name: "its own work", unit: "cycles", origin: "pipeline.own", of: ({ cycles }) => (cycles < 0 ? null : cycles) },
    ],
  });
}
