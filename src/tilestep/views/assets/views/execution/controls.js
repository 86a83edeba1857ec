/** What is shown: kinds, lanes and the critical path; and search. */

import { lookOf } from "../../core/colors.js";
import { h } from "../../core/dom.js";
import { swatch } from "../../core/legend.js";
import { toolbar } from "../../core/toolbar.js";
import { LANE_KINDS, kindWords } from "./model.js";
import { search } from "./search.js";

/** @import { Scene } from "./scene.js" */

/** @param {Scene} scene @param {(words: string) => void} say @returns {HTMLElement} */
export function controls(scene, say) {
  const path = h("input", { type: "checkbox" });
  path.checked = scene.path;
  path.addEventListener("change", () => {
    scene.path = path.checked;
    scene.changed("shown");
  });
  scene.listeners.add(() => {
    path.checked = scene.path;
  });
  /** @param {string} words @param {number} times */
  const zoom = (words, times) => h("button", { type: "button", "aria-label": times < 1 ? "zoom in" : "zoom out", onclick: () => scene.zoom(times, (scene.from + scene.to) / 2) }, words);
  return h(
    "div",
    { class: "controls" },
    zoom("+", 0.6),
    zoom("−", 1 / 0.6),
    h("button", { type: "button", onclick: () => scene.show(scene.whole.from, scene.whole.to) }, "Whole"),
    h("label", {}, path, " critical path"),
    search(scene, say),
  );
}

/** Kinds and lanes as buttons that hide them. @param {Scene} scene @returns {HTMLElement} */
export function filters(scene) {
  const { model } = scene;
  const kinds = [...new Set(model.kind)].sort((a, b) => a - b).map((kind) => model.kinds[kind] ?? "");
  const lanes = new Set(model.lanes.map(({ kind }) => kind));
  /** @param {Set<string>} hidden @param {string} name @param {import("../../core/dom.js").Children} words */
  const toggle = (hidden, name, words) => {
    const button = h("button", { type: "button", "aria-pressed": String(!hidden.has(name)), onclick: () => scene.toggle(hidden, name) }, words);
    scene.listeners.add((change) => change === "shown" && button.setAttribute("aria-pressed", String(!hidden.has(name))));
    return h("li", {}, button);
  };
  const lacking = model.lanes.some(({ holes }) => holes.end.length);
  const unkept = lacking ? h("li", { tabindex: "0", "data-tip": "Runs took place here whose events are not on the page. It is in no sum of waits." }, h("span", { class: "swatch unkept" }), kindWords("unkept")) : null;
  return h(
    "div",
    { class: "filters" },
    toolbar("kinds: press to hide or show", h("ul", { class: "legend" }, kinds.map((kind) => toggle(scene.hiddenKinds, kind, [swatch(lookOf(kind)), kindWords(kind)])), h("li", {}, h("span", { class: "swatch waiting" }), kindWords("waiting")), unkept, h("li", { class: "on-path" }, "critical path"))),
    toolbar("lanes: press to hide or show", h("ul", { class: "legend" }, [...lanes].map((kind) => toggle(scene.hiddenLanes, kind, LANE_KINDS[kind] ?? kind)))),
  );
}
