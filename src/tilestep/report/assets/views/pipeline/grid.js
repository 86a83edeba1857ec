/** The schedule as it is drawn: a row for each device, a column for each slot. */

import { rowsFigure } from "../../core/rows.js";
import { count, plural } from "../../core/format.js";
import { table } from "../../core/table.js";
import { kindLook } from "./looks.js";

/** @typedef {import("./model.js").Model} Model */
/** @typedef {import("./model.js").Task} Task */
/** @typedef {{task: Task, kind: string, letter: string, from: number, to: number}} Cell a task, or one of the two slots of one that is forward and backward */

/** The cells of each device, in order. @param {Model} model @returns {Cell[][]} */
export function cellsOf(model) {
  const rows = model.devices.map(() => /** @type {Cell[]} */ ([]));
  for (const task of model.update.tasks) {
    const row = rows[task.device];
    if (task.both) {
      row?.push({ task, kind: "forward", letter: "F", from: task.slot, to: task.slot + 1 }, { task, kind: "backward", letter: "B", from: task.slot + 1, to: task.slot + 2 });
    } else row?.push({ task, kind: task.kind, letter: task.letter, from: task.slot, to: task.slot + task.slots });
  }
  return rows.map((row) => row.sort((a, b) => a.from - b.from));
}

/** @param {Model} model @param {import("./scene.js").Scene} scene */
export function gridFigure(model, scene) {
  const cells = cellsOf(model);
  const cell = (/** @type {number} */ row, /** @type {number} */ bar) => /** @type {Cell} */ (cells[row]?.[bar]);
  const made = rowsFigure({
    label: `Schedule of ${model.nameOf(model.update)} of ${model.side.label}: ${plural(model.devices.length, "device")}, ${plural(model.update.slots, "slot")}`,
    window: scene.slots,
    ticks: slotTicks,
    rows: model.devices.map((_, row) => ({
      name: model.deviceName(row),
      from: Float64Array.from(cells[row] ?? [], ({ from }) => from),
      to: Float64Array.from(cells[row] ?? [], ({ to }) => to),
      look: (bar) => kindLook(cell(row, bar).kind),
      text: (bar) => model.label(cell(row, bar).task, cell(row, bar).letter),
      words: (bar) => `slot ${cell(row, bar).from}: ${model.words(cell(row, bar).task)}`,
    })),
    select: (row, bar) => scene.choose(model, cell(row, bar).task.place),
    selected: (row, bar) => scene.isChosen(model, cell(row, bar).task.place),
    table: () => gridTable(model, cells),
  });
  scene.listeners.add(made.redraw);
  return made;
}

/** @param {number} from @param {number} to @param {number} most */
function slotTicks(from, to, most) {
  const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000].find((each) => (to - from) / each <= Math.max(1, Math.min(most, 40))) ?? 100000;
  const found = [];
  for (let slot = Math.ceil(from / step) * step; slot < to; slot += step) found.push({ at: slot, words: `slot ${count(slot)}` });
  return found;
}

/** @param {Model} model @param {Cell[][]} cells @returns {HTMLElement} */
function gridTable(model, cells) {
  return table({
    label: `schedule of ${model.side.label}`,
    rows: cells.flat(),
    filter: true,
    columns: [
      { name: "device", of: ({ task }) => model.deviceName(task.device) },
      { name: "slot", unit: "count", origin: "pipeline.slot", of: ({ from }) => from },
      { name: "task", of: ({ task, letter }) => model.label(task, letter) },
      { name: "kind", of: ({ kind }) => kind },
      { name: "stage", unit: "count", origin: "pipeline.count", of: ({ task }) => task.stage },
      { name: "microbatch", unit: "count", origin: "pipeline.count", of: ({ task }) => (task.microbatch < 0 ? null : task.microbatch) },
      { name: "its own work", unit: "cycles", origin: "pipeline.own", of: ({ task }) => (task.cycles < 0 ? null : task.cycles) },
    ],
  });
}
