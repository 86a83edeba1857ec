/** Search as you type: programs, tasks, kinds, lanes, and the operations inside of runs. */

import { h } from "../../core/dom.js";
import { count } from "../../core/format.js";
import { at } from "../../core/lanes.js";
import { get, set } from "../../core/state.js";
import { LANE_KINDS, kindWords } from "./model.js";
import { eventWords } from "./words.js";

/** @import { Model } from "./model.js" */
/** @import { Scene } from "./scene.js" */

const SETTLED_MS = 150;

/** @param {Scene} scene @param {(words: string) => void} say @returns {HTMLElement} */
export function search(scene, say) {
  const field = h("input", { type: "search", placeholder: "program, task, kind, step", "aria-label": "find a program, task, kind, lane or step", value: get("find") || false });
  const status = h("span", { class: "note", role: "status" });
  /** @type {{words: string, hits: number[]}} */
  let found = { words: "", hits: [] };
  let timer = 0;
  const hits = () => {
    if (found.words !== field.value) found = { words: field.value, hits: matches(scene.model, field.value) };
    return found.hits;
  };
  const place = () => hits().indexOf(scene.selected);
  const tell = () => {
    if (!field.value.trim()) status.textContent = "";
    else if (!hits().length) status.textContent = `nothing is called “${field.value.slice(0, 80)}”`;
    else status.textContent = place() < 0 ? `${count(hits().length)} found: Enter shows the next` : `${count(place() + 1)} of ${count(hits().length)}`;
  };
  /** @param {1 | -1} way */
  const step = (way) => {
    clearTimeout(timer);
    const all = hits();
    if (all.length) {
      const now = place();
      const row = at(all, now < 0 ? (way > 0 ? 0 : all.length - 1) : (now + way + all.length) % all.length);
      scene.select(row);
      say(eventWords(scene.model, row));
    }
    tell();
  };
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    step(event.shiftKey ? -1 : 1);
  });
  field.addEventListener("input", () => {
    set({ find: field.value || null });
    clearTimeout(timer);
    timer = window.setTimeout(tell, SETTLED_MS);
  });
  scene.listeners.add((change) => {
    if (change === "selection" && found.hits.length) tell();
  });
  tell();
  return h(
    "span",
    { class: "search" },
    field,
    h("button", { type: "button", "aria-label": "previous", onclick: () => step(-1) }, "Previous"),
    h("button", { type: "button", "aria-label": "next", onclick: () => step(1) }, "Next"),
    status,
  );
}

/**
 * The events that some words name, in order of time: of a program or a task the first of each run on each lane, of a lane its first, of a kind
 * and of a step inside of runs each.
 * @param {Model} model
 * @param {string} words
 * @returns {number[]} rows
 */
export function matches(model, words) {
  const wanted = words.trim().toLowerCase();
  if (!wanted) return [];
  const has = (/** @type {string} */ text) => text.toLowerCase().includes(wanted);
  return rowsOf(model, has).sort((a, b) => at(model.start, a) - at(model.start, b) || a - b);
}

/** @param {Model} model @param {(text: string) => boolean} has @returns {number[]} */
function rowsOf(model, has) {
  const programs = model.side.head.programs.map((/** @type {any} */ _, /** @type {number} */ row) => has(model.programLabel(row)));
  const tasks = model.json.strings.map(has);
  const kinds = model.kinds.map((kind) => has(kindWords(kind)));
  const lanes = model.lanes.map(({ name, kind }) => has(name) || has(LANE_KINDS[kind] ?? kind));
  const layouts = layoutsWith(model, has);
  /** @type {number[]} */
  const found = [];
  for (const { begin, end, index } of model.lanes) {
    let last = NaN; // the run and program of the last row that is of a program or task that is meant
    let lastProgram = NaN;
    for (let row = begin; row < end; row++) {
      const run = at(model.run, row);
      const program = at(model.program, row);
      const named = (program >= 0 && programs[program]) || tasks[model.ofRun("task", run)];
      const isNew = named && (run !== last || program !== lastProgram);
      if ((row === begin && lanes[index]) || kinds[at(model.kind, row)] || isNew || layouts[at(model.layout, row)]) found.push(row);
      if (named) [last, lastProgram] = [run, program];
    }
  }
  return found;
}

/** Of each layout, whether a step in it is named so. @param {Model} model @param {(text: string) => boolean} has @returns {boolean[]} */
function layoutsWith(model, has) {
  const leaves = model.json.leaves.map((/** @type {any[]} */ [, , name, scope, family, line]) => [name, scope, family, line].some(has));
  const [begins, of] = [model.column("layout_begin"), model.column("span_leaf")];
  return Array.from({ length: Math.max(0, begins.length - 1) }, (_, layout) => {
    for (let span = at(begins, layout); span < at(begins, layout + 1); span++) if (leaves[at(of, span)]) return true;
    return false;
  });
}
