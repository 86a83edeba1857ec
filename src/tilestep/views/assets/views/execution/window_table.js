/** The events that a timeline shows, as a table that follows the window. */

import { h, replace } from "../../core/dom.js";
import { count, plural } from "../../core/format.js";
import { at, lowerBound } from "../../core/lanes.js";
import { table } from "../../core/table.js";
import { kindWords, rowAt } from "./model.js";

/** @import { Model } from "./model.js" */
/** @import { Scene } from "./scene.js" */

const SETTLED_MS = 250;

/** Calls a function when the scene has been still for a while. @param {Scene} scene @param {(change: import("../../core/window.js").Change) => void} action */
export function whenSettled(scene, action) {
  let timer = 0;
  scene.listeners.add((change) => {
    clearTimeout(timer);
    timer = window.setTimeout(() => action(change), SETTLED_MS);
  });
}

/** Rows of the events in the window that are not filtered away, by lane and time; ~row: the gap before an event, which lacks some. @param {Model} model @param {Scene} scene @returns {number[]} */
function shownEvents(model, scene) {
  /** @type {number[]} */
  const rows = [];
  const { from, to } = scene;
  const hidden = model.kinds.map((kind) => scene.hiddenKinds.has(kind));
  for (const lane of model.lanes) {
    if (scene.hiddenLanes.has(lane.kind)) continue;
    const first = rows.length;
    for (const track of lane.tracks) {
      const size = track.start.length;
      for (let place = lowerBound(track.end, 0, size, from); place < size && at(track.start, place) <= to; place++) {
        if (!hidden[at(track.kind, place)]) rows.push(rowAt(track, place));
      }
    }
    const { holes } = lane;
    for (let place = lowerBound(holes.end, 0, holes.end.length, from); place < holes.end.length && at(holes.start, place) <= to; place++) {
      if (at(holes.end, place) > from) rows.push(~at(holes.before, place));
    }
    if (lane.tracks.length > 1 || holes.end.length) {
      rows.splice(first, rows.length, ...rows.slice(first).sort((a, b) => (a < 0 ? ~a : a) - (b < 0 ? ~b : b) || a - b));
    }
  }
  return rows;
}

/** @param {Model} model @param {Scene} scene @returns {HTMLElement} */
export function windowTable(model, scene) {
  const place = h("div", {});
  const note = h("p", { class: "note" });
  const draw = () => {
    const rows = shownEvents(model, scene);
    const gaps = rows.filter((row) => row < 0).length;
    note.textContent = `${count(rows.length - gaps)} of ${plural(model.size, "event")}: those in the window above`
      + (gaps ? `, and ${count(gaps)} stretch${gaps === 1 ? "" : "es"} of time that ${gaps === 1 ? "is" : "are"} not recorded` : "");
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

/** Events as rows, and gaps that lack events as ~row of the event behind them; opening one selects it. @param {Model} model @param {Scene} scene @param {number[]} rows @param {string} label @returns {HTMLElement} */
function eventsTable(model, scene, rows, label) {
  /** @template T @param {number} row @param {(row: number) => T} of @returns {T | null} */
  const ofEvent = (row, of) => (row < 0 ? null : of(row));
  /** @param {number} row */
  const begin = (row) => (row < 0 ? holeBegin(model, ~row) : at(model.start, row));
  /** @param {number} row */
  const end = (row) => (row < 0 ? at(model.start, ~row) : at(model.end, row));
  return table({
    label,
    rows,
    filter: true,
    empty: "no event is in this window",
    open: (row) => scene.select(row < 0 ? ~row : row),
    columns: [
      { name: "lane", of: (row) => model.laneOf(row < 0 ? ~row : row).name },
      { name: "kind", of: (row) => kindWords(row < 0 ? "unkept" : model.kindOf(row)) },
      { name: "program", of: (row) => ofEvent(row, (event) => model.programLabel(at(model.program, event))) },
      { name: "run", unit: "count", origin: "execution.runs", of: (row) => ofEvent(row, (event) => (at(model.run, event) < 0 ? null : at(model.run, event))) },
      { name: "task", of: (row) => ofEvent(row, (event) => model.textOfRun("task", at(model.run, event)) || null) },
      { name: "from", unit: "cycles", origin: "execution.cycle", of: begin },
      { name: "to", unit: "cycles", origin: "execution.cycle", of: end },
      { name: "time", unit: "cycles", origin: "execution.duration", of: (row) => end(row) - begin(row) },
    ],
  });
}

/** Where the gap before an event begins. @param {Model} model @param {number} row @returns {number} */
function holeBegin(model, row) {
  const { holes } = model.laneOf(row);
  return at(holes.start, lowerBound(holes.before, 0, holes.before.length, row));
}
