/** The timeline: lanes of bars over emulated time, programs above the bars of IPUs, steps within them, and the critical path over all. */

import { ticks } from "../../core/axis.js";
import { lookOf, programLook } from "../../core/colors.js";
import { h, replace } from "../../core/dom.js";
import { count, plural } from "../../core/format.js";
import { at, lowerBound } from "../../core/lanes.js";
import { rowsFigure } from "../../core/rows.js";
import { exact } from "../../core/value.js";
import { partsOf } from "../steps/read.js";
import { called, rowAt } from "./model.js";
import { drawPath } from "./overlay.js";
import { layoutOver } from "./spans.js";
import { windowTable } from "./window_table.js";
import { eventWords, waitWords } from "./words.js";

/** @import { Model, Lane, Track } from "./model.js" */
/** @import { Layouts } from "./spans.js" */
/** @import { Scene } from "./scene.js" */
/** A row of the picture: which lane's, and the event of each of its bars. @typedef {import("../../core/rows.js").Row & {lane: number, event: (bar: number) => number, bar: (event: number) => number}} LaneRow bar: -1: it has none of the event */

const KEYS = "C its cause, E its effect, [ ] along the critical path, P path, Escape clear";
const WIDE = 5; // pixels from which a run's steps are shown
const MOST_WITH_RUNS = 12; // IPUs: of more, runs have no rows of their own
const WAITING = { color: "#ffffff", dark: "#14171a", hatch: /** @type {const} */ ("up"), ink: "rgb(128 138 148 / 55%)" };
const UNKEPT = { color: "#d5dae0", dark: "#343b42", hatch: /** @type {const} */ ("dots"), ink: "rgb(128 138 148)" };

/** @param {Model} model @param {Layouts} layouts @param {Scene} scene @returns {{element: HTMLElement, say: (words: string) => void}} */
export function timeline(model, layouts, scene) {
  const element = h("div");
  /** @type {LaneRow[]} */
  let rows = [];
  /** @type {ReturnType<typeof rowsFigure>} */
  let figure;
  let key = "";
  let last = { row: -1, bar: -1 }; // that the picture itself has selected
  const point = () => {
    if (scene.selected >= 0 && rows[last.row]?.event(last.bar) === scene.selected) return;
    const row = rows.findIndex((each) => scene.selected >= 0 && each.bar(scene.selected) >= 0);
    figure.point(row, rows[row]?.bar(scene.selected) ?? -1);
  };
  function draw() {
    last = { row: -1, bar: -1 };
    key = [...scene.hiddenKinds, "", ...scene.hiddenLanes].join();
    rows = rowsOf(model, layouts, scene);
    const isTable = element.querySelector("[aria-expanded=true]") !== null;
    if (figure) scene.listeners.delete(figure.redraw);
    figure = rowsFigure({
      label: `Timeline of ${model.side.label}: ${plural(model.lanes.length, "lane")}, ${plural(model.size, "event")}`,
      rows,
      window: scene,
      ticks: (from, to, most) => ticks(Math.max(0, from), to, most, model.side.head.clock_hz),
      select(row, bar) {
        last = { row, bar };
        scene.select(rows[row]?.event(bar) ?? -1);
      },
      table: () => windowTable(model, scene),
      over: (context, frame) => {
        if (!scene.path) return;
        const places = new Map([...rows].reverse().map(({ lane }, back) => [lane, frame.placeOf(rows.length - 1 - back)]));
        drawPath(context, model, places, { ...frame, from: scene.from, to: scene.to });
      },
      keys: KEYS,
      onKey: (pressed) => press(model, scene, pressed),
    });
    replace(element, figure.element);
    if (isTable) element.querySelector("button")?.click();
    point();
  }
  draw();
  scene.listeners.add((change) => {
    if (change === "shown" && key !== [...scene.hiddenKinds, "", ...scene.hiddenLanes].join()) draw();
    else if (change === "selection") point();
  });
  return { element, say: (words) => figure.say(words) };
}

/** @param {Model} model @param {Layouts} layouts @param {Scene} scene @returns {LaneRow[]} */
function rowsOf(model, layouts, scene) {
  const lanes = model.lanes.filter(({ kind }) => !scene.hiddenLanes.has(kind));
  const hidden = model.kinds.map((kind) => scene.hiddenKinds.has(kind));
  const looks = [...model.kinds.map(lookOf), WAITING, UNKEPT];
  const withRuns = lanes.filter(({ kind }) => kind === "ipu").length <= MOST_WITH_RUNS;
  return lanes.flatMap((lane) => [
    ...lane.tracks.map((track, place) => laneRow(model, layouts, lane, track, place === 0, hidden, looks)),
    ...(withRuns && lane.kind === "ipu" && lane.tracks.length === 1 ? [runsRow(model, lane)] : []),
  ]);
}

/** @param {Model} model @param {Layouts} layouts @param {Lane} lane @param {Track} track @param {boolean} first of its lane @param {boolean[]} hidden @param {import("../../core/colors.js").Fill[]} looks @returns {LaneRow} */
function laneRow(model, layouts, lane, track, first, hidden, looks) {
  const some = hidden.some(Boolean);
  const places = some ? Int32Array.from(track.kind.keys()).filter((place) => !hidden[at(track.kind, place)]) : null; // those of the bars
  const placeOf = (/** @type {number} */ bar) => (places ? at(places, bar) : bar);
  const event = (/** @type {number} */ bar) => rowAt(track, placeOf(bar));
  return {
    lane: lane.index,
    name: first ? lane.name : "",
    from: places ? Float64Array.from(places, (place) => at(track.start, place)) : track.start,
    to: places ? Float64Array.from(places, (place) => at(track.end, place)) : track.end,
    kind: places ? Uint8Array.from(places, (place) => at(track.kind, place)) : track.kind,
    looks,
    event,
    bar(row) {
      const place = track.rows ? track.rows.indexOf(row) : row - track.first;
      if (place < 0 || place >= track.start.length || !places) return place < track.start.length ? place : -1;
      return places.indexOf(place);
    },
    text: (bar) => called(model.kindOf(event(bar)), model.workOf(event(bar))),
    words: (bar, cycle) => [eventWords(model, event(bar)), ...(lane.kind === "ipu" ? stepWords(model, layouts, event(bar), cycle) : [])].join("\n"),
    ...(first
      ? {
          // Between bars of which others are hidden nothing is known to be a wait.
          gapKind: (bar) => (placeOf(bar) - placeOf(bar - 1) > 1 ? -1 : model.kinds.length + (at(model.hole, event(bar)) ? 1 : 0)),
          gapWords: (bar) => waitWords(model, event(bar)),
        }
      : {}),
    ...(lane.kind === "ipu" && !track.rows && !some ? { inside: (from, to, pixels) => stepsIn(model, layouts, track, from, to, pixels) } : {}),
  };
}

/** The runs of an IPU as a row, each in the colour of its program. @param {Model} model @param {Lane} lane @returns {LaneRow} */
function runsRow(model, { index, begin, end }) {
  /** First event of each run, and behind its last. @type {[number, number][]} */
  const runs = [];
  for (let row = begin, behind = begin; row < end; row = behind) {
    while (behind < end && at(model.run, behind) === at(model.run, row)) behind++;
    if (at(model.run, row) >= 0) runs.push([row, behind]);
  }
  const event = (/** @type {number} */ bar) => (runs[bar] ?? [0])[0];
  return {
    lane: index,
    name: "",
    from: Float64Array.from(runs, ([row]) => at(model.start, row)),
    to: Float64Array.from(runs, ([, behind]) => at(model.end, behind - 1)),
    kind: Int32Array.from(runs, ([row]) => Math.max(0, at(model.program, row))),
    looks: model.side.head.programs.map((/** @type {any} */ _, /** @type {number} */ program) => programLook(program)),
    event,
    bar: () => -1, // the lane's own row has each event
    text: (bar) => model.workOf(event(bar)),
    words: (bar) => `run ${count(at(model.run, event(bar)))}: ${model.workOf(event(bar))}`,
  };
}

/** The steps in runs that have room. @param {Model} model @param {Layouts} layouts @param {Track} track @param {number} from @param {number} to @param {number} pixels @returns {import("../../core/rows.js").Inner[]} */
function stepsIn(model, layouts, track, from, to, pixels) {
  const [size, zoom] = [track.end.length, pixels / (to - from)];
  const first = lowerBound(track.end, 0, size, from);
  const behind = lowerBound(track.start, first, size, to);
  /** @type {import("../../core/rows.js").Inner[]} */
  const found = [];
  if ((behind - first) * WIDE > pixels) return found;
  // The event that begins a layout may lie up to two events before the window: the layout goes over it.
  for (let place = Math.max(0, first - 2); place < behind; place++) {
    const layout = at(model.layout, track.first + place);
    if (layout < 0 || layouts.length(layout) * zoom < WIDE) continue;
    const begin = at(track.start, place);
    const [low, high] = layouts.range(layout, from - begin, to - begin);
    const [left, right] = [Math.max(from, begin), Math.min(to, begin + layouts.length(layout))];
    if (high - low > (right - left) * zoom) continue;
    for (let index = low; index < high; index++) {
      const { leaf, ...span } = layouts.span(index, begin);
      found.push({ ...span, text: called(model.kinds[span.kind] ?? "", leaf ? partsOf(leaf.scope).pop() || leaf.name : "") });
    }
  }
  return found;
}

/** The step at a cycle of an event, in words. @param {Model} model @param {Layouts} layouts @param {number} row @param {number} cycle @returns {string[]} */
function stepWords(model, layouts, row, cycle) {
  const over = layoutOver(model, layouts, row, cycle);
  const begin = over < 0 ? 0 : at(model.start, over);
  const [index, behind] = over < 0 ? [0, 0] : layouts.range(at(model.layout, over), cycle - begin, cycle - begin + 1);
  if (index >= behind) return [];
  const { leaf, kind, times, from, to } = layouts.span(index, begin);
  const step = `step: ${called(model.kinds[kind] ?? "", leaf?.name ?? "")}${times > 1 ? `, ${count(times)} times` : ""}, ${exact(to - from, "cycles")}`;
  return [step, ...(leaf ? [[leaf.scope, leaf.line].filter(Boolean).join(" · ")] : [])];
}

/** The keys that are not those of all pictures of bars. @param {Model} model @param {Scene} scene @param {string} key @returns {string | undefined} */
function press(model, scene, key) {
  const { selected } = scene;
  const choose = (/** @type {number} */ row, /** @type {string} */ before) => {
    scene.select(row);
    return before + eventWords(model, row);
  };
  const whole = selected < 0 ? -1 : model.wholeOf(selected);
  const [cause, effects] = selected < 0 ? [-1, []] : [at(model.cause, selected), model.causedBy(selected)];
  switch (key.length === 1 ? key.toLowerCase() : key) {
    case "c":
      if (selected < 0) return "no event is selected";
      if (whole >= 0) return choose(whole, "Part of: ");
      return cause >= 0 ? choose(cause, "Its cause: ") : cause === -1 ? "nothing in the recording decided when it began" : "its cause is not on this page";
    case "e":
      if (selected < 0) return "no event is selected";
      return effects.length ? choose(at(effects, 0), `First of ${count(effects.length)} that it decided: `) : "it decided the start of no event";
    case "[":
    case "]": {
      const { path } = model;
      if (!path.length) return "there is no critical path";
      const place = path.indexOf(selected);
      const next = place < 0 ? (key === "]" ? 0 : path.length - 1) : place + (key === "]" ? 1 : -1);
      if (next < 0 || next >= path.length) return key === "]" ? "the critical path ends here" : "the critical path begins here";
      return choose(at(path, next), `${count(next + 1)} of ${count(path.length)} on the critical path: `);
    }
    case "p":
      scene.path = !scene.path;
      scene.changed("shown");
      return scene.path ? "critical path shown" : "critical path hidden";
    case "Escape":
      scene.select(-1);
      return "nothing is selected";
    default:
      return undefined;
  }
}
