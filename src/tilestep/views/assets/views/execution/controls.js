/** What is shown: kinds and lanes, height of lanes, the critical path; and search. */

import { lookOf } from "../../core/colors.js";
import { h } from "../../core/dom.js";
import { swatch } from "../../core/legend.js";
import { toolbar } from "../../core/toolbar.js";
import { HEIGHTS } from "./lanes.js";
import { LANE_KINDS, kindWords } from "./model.js";
import { search } from "./search.js";

/** @import { Scene } from "./scene.js" */

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
  const lacking = scene.models.some((model) => model.lanes.some(({ holes }) => holes.end.length));
  const unkept = lacking ? h("li", { tabindex: "0", "data-tip": "Runs took place here whose events are not on the page. It is in no sum of waits." }, h("span", { class: "swatch unkept" }), kindWords("unkept")) : null;
  return h(
    "div",
    { class: "filters" },
    toolbar("kinds: press to hide or show", h("ul", { class: "legend" }, [...kinds].map((kind) => toggle(scene.hiddenKinds, kind, [swatch(lookOf(kind)), kindWords(kind)])), h("li", {}, h("span", { class: "swatch waiting" }), kindWords("waiting")), unkept, h("li", { class: "on-path" }, "critical path"))),
    toolbar("lanes: press to hide or show", h("ul", { class: "legend" }, [...lanes].map((kind) => toggle(scene.hiddenLanes, kind, LANE_KINDS[kind] ?? kind)))),
  );
}
