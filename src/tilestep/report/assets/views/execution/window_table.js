/** The events that a timeline shows, as a table that follows the window. */

import { h, replace } from "../../core/dom.js";
import { count, plural } from "../../core/format.js";
import { table } from "../../core/table.js";
import { at, lowerBound, rowAt } from "./model.js";

/** @typedef {import("./model.js").Model} Model */
/** @typedef {import("./scene.js").Scene} Scene */

const SETTLED_MS = 250;

/** Calls a function when the scene has been still for a while. @param {Scene} scene @param {(change: import("./scene.js").Change) => void} action */
export function whenSettled(scene, action) {
  let timer = 0;
  scene.listeners.add((change) => {
    clearTimeout(timer);
    timer = window.setTimeout(() => action(change), SETTLED_MS);
  });
}

/** Rows of the events in the window that are not filtered away, by lane and time. @param {Model} model @param {Scene} scene @returns {number[]} */
export function shownEvents(model, scene) {
  /** @type {number[]} */
  const rows = [];
  const hidden = model.kinds.map((kind) => scene.hiddenKinds.has(kind));
  for (const lane of model.lanes) {
    if (scene.hiddenLanes.has(lane.kind)) continue;
    const first = rows.length;
    for (const track of lane.tracks) {
      const size = track.start.length;
      for (let place = lowerBound(track.end, 0, size, scene.from); place < size && at(track.start, place) <= scene.to; place++) {
        if (!hidden[at(track.kind, place)]) rows.push(rowAt(track, place));
      }
    }
    if (lane.tracks.length > 1) rows.splice(first, rows.length, ...rows.slice(first).sort((a, b) => a - b));
  }
  return rows;
}

/** @param {Model} model @param {Scene} scene @returns {HTMLElement} */
export function windowTable(model, scene) {
  const place = h("div", {});
  const note = h("p", { class: "note" });
  const draw = () => {
    const rows = shownEvents(model, scene);
    note.textContent = `${count(rows.length)} of ${plural(model.size, "event")}: those in the window above`;
    replace(place, eventsTable(model, scene, rows, `events of ${model.side.label} in the window`));
  };
  draw();
  let [from, to] = [scene.from, scene.to];
  whenSettled(scene, (change) => {
    if (change === "selection" && from === scene.from && to === scene.to) return;
    [from, to] = [scene.from, scene.to];
    draw();
  });
  return h("div", {}, note, place);
}

/** Events as rows; opening one selects it. @param {Model} model @param {Scene} scene @param {number[]} rows @param {string} label @returns {HTMLElement} */
export function eventsTable(model, scene, rows, label) {
  return table({
    label,
    rows,
    filter: true,
    empty: "no event is in this window",
    open: (row) => scene.select(model, row),
    columns: [
      { name: "lane", of: (row) => model.laneOf(row).name },
      { name: "kind", of: (row) => model.kindOf(row) },
      { name: "program", of: (row) => model.programLabel(at(model.program, row)) },
      { name: "run", unit: "count", origin: "execution.runs", of: (row) => (at(model.run, row) < 0 ? null : at(model.run, row)) },
      { name: "task", of: (row) => model.textOfRun("task", at(model.run, row)) || null },
      { name: "from", unit: "cycles", origin: "execution.cycle", of: (row) => at(model.start, row) },
      { name: "to", unit: "cycles", origin: "execution.cycle", of: (row) => at(model.end, row) },
      { name: "time", unit: "cycles", origin: "execution.duration", of: (row) => at(model.end, row) - at(model.start, row) },
    ],
  });
}
