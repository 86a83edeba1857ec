/** What is shown: kinds and lanes, height of lanes, the critical path; and search for a program. */

import { lookOf } from "../../core/colors.js";
import { h } from "../../core/dom.js";
import { count } from "../../core/format.js";
import { swatch } from "../../core/legend.js";
import { get, set } from "../../core/state.js";
import { HEIGHTS } from "./lanes.js";
import { LANE_KINDS, at, kindWords } from "./model.js";

/** @typedef {import("./model.js").Model} Model */
/** @typedef {import("./scene.js").Scene} Scene */

/** @param {Scene} scene @param {(words: string) => void} say @returns {HTMLElement} */
export function controls(scene, say) {
  const height = h("select", {}, ["fit", ...Object.keys(HEIGHTS)].map((name) => h("option", { value: name }, name)));
  height.value = scene.height;
  height.addEventListener("change", () => {
    scene.height = height.value;
    scene.changed("shown");
  });
  const path = check("critical path", () => scene.path, (on) => (scene.path = on));
  const idle = check("idle lanes", () => scene.idle, (on) => (scene.idle = on));
  scene.listeners.add(() => {
    path.box.checked = scene.path;
  });

  /** @param {string} words @param {() => boolean} read @param {(on: boolean) => void} write */
  function check(words, read, write) {
    const box = h("input", { type: "checkbox" });
    box.checked = read();
    box.addEventListener("change", () => {
      write(box.checked);
      scene.changed("shown");
    });
    return { box, element: h("label", {}, box, ` ${words}`) };
  }

  /** @param {string} words @param {number} times */
  const zoom = (words, times) => h("button", { type: "button", "aria-label": times < 1 ? "zoom in" : "zoom out", onclick: () => scene.zoom(times, (scene.from + scene.to) / 2) }, words);
  return h(
    "div",
    { class: "controls" },
    zoom("+", 0.6),
    zoom("−", 1 / 0.6),
    h("button", { type: "button", onclick: () => scene.show(scene.whole.from, scene.whole.to) }, "Whole"),
    h("label", {}, "lane height ", height),
    path.element,
    idle.element,
    search(scene, say),
  );
}

/** Kinds and lanes as buttons that hide them. @param {Scene} scene @returns {HTMLElement} */
export function filters(scene) {
  const kinds = new Set(scene.models.flatMap((model) => [...new Set(model.kind)].sort((a, b) => a - b).map((kind) => model.kinds[kind] ?? "")));
  const lanes = new Set(scene.models.flatMap((model) => model.lanes.map(({ kind }) => kind)));
  /** @param {Set<string>} hidden @param {string} name @param {import("../../core/dom.js").Children} words */
  const toggle = (hidden, name, words) => {
    const button = h("button", { type: "button", "aria-pressed": String(!hidden.has(name)), onclick: () => scene.toggle(hidden, name) }, words);
    scene.listeners.add((change) => change === "shown" && button.setAttribute("aria-pressed", String(!hidden.has(name))));
    return h("li", {}, button);
  };
  return h(
    "div",
    { class: "filters" },
    h("ul", { class: "legend", "aria-label": "kinds: press to hide or show" }, [...kinds].map((kind) => toggle(scene.hiddenKinds, kind, [swatch(lookOf(kind)), kindWords(kind)])),
      h("li", {}, h("span", { class: "swatch waiting" }), kindWords("waiting")),
      scene.models.some((model) => model.lanes.some(({ holes }) => holes.end.length)) ? h("li", { "data-tip": "Runs took place here whose events are not on the page. It is in no sum of waits." }, h("span", { class: "swatch unkept" }), kindWords("unkept")) : null,
      h("li", { class: "on-path" }, "critical path")),
    h("ul", { class: "legend", "aria-label": "lanes: press to hide or show" }, [...lanes].map((kind) => toggle(scene.hiddenLanes, kind, LANE_KINDS[kind] ?? kind))),
  );
}

/** Goes from one run of a program to the next. @param {Scene} scene @param {(words: string) => void} say @returns {HTMLElement} */
function search(scene, say) {
  const field = h("input", { type: "search", placeholder: "program or task", "aria-label": "find a program or task", value: get("find") || false });
  /** @param {1 | -1} way */
  const step = (way) => {
    const found = matches(scene, field.value);
    if (!found.length) return say(`no event is of a program or task with “${field.value.slice(0, 80)}”`);
    const here = scene.selected;
    const now = found.findIndex(({ model, row }) => here?.model === model && here.row === row);
    const place = now < 0 ? (way > 0 ? 0 : found.length - 1) : (now + way + found.length) % found.length;
    const { model, row } = /** @type {{model: Model, row: number}} */ (found[place]);
    scene.select(model, row);
    say(`${count(place + 1)} of ${count(found.length)}: ${model.workOf(row)} on ${model.laneOf(row).name}`);
  };
  field.addEventListener("keydown", (event) => event.key === "Enter" && step(event.shiftKey ? -1 : 1));
  field.addEventListener("input", () => set({ find: field.value || null }));
  return h(
    "span",
    { class: "search" },
    field,
    h("button", { type: "button", onclick: () => step(-1) }, "Previous"),
    h("button", { type: "button", onclick: () => step(1) }, "Next"),
  );
}

/** The first event of each run on each lane whose program or task has some words, in order of time. @param {Scene} scene @param {string} words @returns {{model: Model, row: number}[]} */
export function matches(scene, words) {
  const wanted = words.trim().toLowerCase();
  if (!wanted) return [];
  /** @type {{model: Model, row: number}[]} */
  const found = [];
  for (const model of scene.models) {
    const programs = model.side.head.programs.map((/** @type {any} */ _, /** @type {number} */ row) => model.programLabel(row).toLowerCase().includes(wanted));
    const tasks = model.json.strings.map((/** @type {string} */ text) => text.toLowerCase().includes(wanted));
    let last = "";
    for (let row = 0; row < model.size; row++) {
      const run = at(model.run, row);
      if (!programs[at(model.program, row)] && !tasks[model.ofRun("task", run)]) continue;
      const key = `${at(model.lane, row)} ${run} ${at(model.program, row)}`;
      if (key !== last) found.push({ model, row });
      last = key;
    }
  }
  return found.sort((a, b) => at(a.model.start, a.row) - at(b.model.start, b.row) || a.row - b.row);
}
