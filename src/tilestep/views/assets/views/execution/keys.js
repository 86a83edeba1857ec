/** The keys of a timeline: those of trace viewers, and a cursor that goes from event to event and from lane to lane. */

import { count } from "../../core/format.js";
import { at, nearest, windowKey } from "../../core/lanes.js";
import { text } from "../../core/value.js";
import { rowAt } from "./model.js";
import { eventWords } from "./words.js";

/** @import { Timeline } from "./timeline.js" */

export const KEYS = "← → events, ↑ ↓ lanes, W S or + − zoom, A D move, Home whole, End the last part, F or Enter fit the event, C its cause, E its effect, "
  + "[ ] along the critical path, P path, M measure, PageUp PageDown scroll, Escape clear. Wheel: scroll; with Ctrl zoom, with Shift move";

/** @param {Timeline} timeline @param {string} key @param {KeyboardEvent} event @returns {string | null | undefined} */
export function press(timeline, key, event) {
  const { scene, model } = timeline;
  const selected = scene.selected?.model === model ? scene.selected.row : -1;
  if (windowKey(scene, key, middle(timeline, selected))) return shown(timeline);
  switch (key.length === 1 ? key.toLowerCase() : key) {
    case "ArrowRight":
    case "ArrowLeft":
      return move(timeline, selected, key === "ArrowRight" ? 1 : -1);
    case "ArrowDown":
    case "ArrowUp":
      event.preventDefault();
      return changeLane(timeline, selected, key === "ArrowDown" ? 1 : -1);
    case "f":
    case "Enter":
      if (selected < 0) return "no event is selected";
      scene.fit(...scene.timesOf(model, selected));
      return shown(timeline);
    case "c": {
      if (selected < 0) return "no event is selected";
      const whole = model.wholeOf(selected);
      if (whole >= 0) return choose(timeline, whole, "Part of: ");
      const cause = at(model.cause, selected);
      if (cause >= 0) return choose(timeline, cause, "Its cause: ");
      return cause === -1 ? "nothing in the recording decided when it began" : "its cause is not on this page";
    }
    case "e": {
      if (selected < 0) return "no event is selected";
      const effects = model.causedBy(selected);
      return effects.length ? choose(timeline, at(effects, 0), `First of ${count(effects.length)} that it decided: `) : "it decided the start of no event";
    }
    case "[":
    case "]":
      return alongPath(timeline, selected, key === "]" ? 1 : -1);
    case "p":
      scene.path = !scene.path;
      scene.changed("shown");
      return scene.path ? "critical path shown" : "critical path hidden";
    case "m":
      return measure(timeline, selected);
    case "PageDown":
    case "PageUp":
      timeline.scroll += (key === "PageDown" ? 0.8 : -0.8) * timeline.area.height;
      timeline.figure.redraw();
      return null;
    case "Escape":
      scene.clear();
      return "nothing is selected";
    default:
      return undefined;
  }
}

/** @param {Timeline} timeline @param {number} row @param {string} [before] @returns {string} */
function choose(timeline, row, before = "") {
  timeline.cursor = null;
  timeline.scene.select(timeline.model, row);
  return before + eventWords(timeline.model, row);
}

/** @param {Timeline} timeline @param {number} selected @returns {number} */
function middle({ scene, model }, selected) {
  if (selected >= 0) {
    const [from, to] = scene.timesOf(model, selected);
    const cycle = (Math.max(scene.from, from) + Math.min(scene.to, to)) / 2;
    if (cycle >= scene.from && cycle <= scene.to) return cycle;
  }
  return (scene.from + scene.to) / 2;
}

/** @param {Timeline} timeline @returns {string} */
function shown({ scene, model }) {
  const [from, to] = scene.seenBy(model);
  return `${text(to - from, model.side.cycles)} shown, from cycle ${count(from)} to ${count(to)}`;
}

/** The event of a lane at a cycle, or nearest to it; -1: none is shown. @param {Timeline} timeline @param {import("./model.js").Lane} lane @param {number} cycle @returns {number} */
function eventAt({ bars }, lane, cycle) {
  let [best, distance] = [-1, Infinity];
  for (const track of lane.tracks) {
    if (!distance) break;
    const place = nearest(track.start, track.end, cycle, distance, (each) => bars.hidden[at(track.kind, each)] ?? false);
    if (place >= 0) [best, distance] = [rowAt(track, place), Math.max(at(track.start, place) - cycle, cycle - at(track.end, place), 0)];
  }
  return best;
}

/** @param {Timeline} timeline @param {number} selected @param {1 | -1} way @returns {string} */
function move(timeline, selected, way) {
  const { model, bars, scene, placed } = timeline;
  if (selected < 0) {
    const [first] = placed.lanes.keys();
    const lane = model.lanes[first ?? -1];
    const row = lane ? eventAt(timeline, lane, scene.windowOf(model).from) : -1;
    return row < 0 ? "there is no event" : choose(timeline, row);
  }
  const lane = model.laneOf(selected);
  let row = selected + way;
  while (row >= lane.begin && row < lane.end && bars.hidden[at(model.kind, row)]) row += way;
  if (row < lane.begin || row >= lane.end) return `no event ${way > 0 ? "behind" : "before"} it on ${lane.name}`;
  const gap = way > 0 ? at(model.start, row) - at(model.end, selected) : 0;
  return choose(timeline, row) + (gap > 0 ? `. Before it, ${at(model.hole, row) ? `${text(gap, model.side.cycles)} of ${lane.name} are not recorded` : `${lane.name} waited ${text(gap, model.side.cycles)}`}: ${model.reasonOf(row)}` : "");
}

/** @param {Timeline} timeline @param {number} selected @param {1 | -1} way @returns {string} */
function changeLane(timeline, selected, way) {
  const { model, scene, placed } = timeline;
  if (selected < 0) return move(timeline, selected, 1);
  const lanes = [...placed.lanes.keys()];
  const place = lanes.indexOf(at(model.lane, selected)) + way;
  const lane = model.lanes[lanes[place] ?? -1];
  if (!lane) return way > 0 ? "this is the last lane" : "this is the first lane";
  // The cursor keeps its time, so that it comes back to where it was.
  const { from, to } = scene.windowOf(model);
  const cycle = timeline.cursor ?? Math.max(from, Math.min(to, at(model.start, selected)));
  const row = eventAt(timeline, lane, cycle);
  if (row < 0) return `${lane.name} has no event that is shown`;
  const words = choose(timeline, row);
  timeline.cursor = cycle;
  return words;
}

/** @param {Timeline} timeline @param {number} selected @param {1 | -1} way @returns {string} */
function alongPath(timeline, selected, way) {
  const { path } = timeline.model;
  if (!path.length) return "there is no critical path";
  const place = selected < 0 ? -1 : path.indexOf(selected);
  const next = place < 0 ? (way > 0 ? 0 : path.length - 1) : place + way;
  if (next < 0 || next >= path.length) return way > 0 ? "the critical path ends here" : "the critical path begins here";
  return choose(timeline, at(path, next), `${count(next + 1)} of ${count(path.length)} on the critical path: `);
}

/** The first press marks the begin of the selected event, the second measures to the end of another. @param {Timeline} timeline @param {number} selected @returns {string} */
function measure({ scene, model }, selected) {
  if (selected < 0) return "no event is selected to measure from";
  const [from, to] = [at(model.start, selected), at(model.end, selected)];
  const [mark] = scene.rangeOf(model) ?? [from];
  if (mark !== from) {
    const [begin, end] = [Math.min(mark, from), Math.max(mark, to)];
    scene.measure(model, begin, end);
    return `measured: ${text(end - begin, model.side.cycles)}`;
  }
  scene.measure(model, from, to);
  return `measured: ${text(to - from, model.side.cycles)}. Go to another event and press M to measure up to its end`;
}
