/** When does what happen, and why does an IPU wait? */

import { h } from "../core/dom.js";
import { clocksNote } from "../core/value.js";
import { controls, filters } from "./execution/controls.js";
import { wholeSection, windowSection } from "./execution/kinds.js";
import { Model } from "./execution/model.js";
import { selectionPanel } from "./execution/panel.js";
import { pathSection } from "./execution/path.js";
import { Scene } from "./execution/scene.js";
import { Layouts } from "./execution/spans.js";
import { Timeline } from "./execution/timeline.js";
import { waitsSection } from "./execution/waits.js";

/** @type {import("../core/page.js").View} */
export const execution = {
  name: "execution",
  title: "Execution",
  question: "When does what happen, and why does an IPU wait?",
  needs: "execution",
  absent: "Nothing ran in this recording.",
  async render(sides, page) {
    const models = await Promise.all(sides.map(async (side) => new Model(side, await side.block("execution"))));
    const scene = new Scene(models);
    const layouts = new Map(models.map((model) => [model, new Layouts(model)]));
    const timelines = models.map((model) => new Timeline(model, /** @type {Layouts} */ (layouts.get(model)), scene));
    const [first] = timelines;
    const note = timelines.length > 1 ? clocksNote() : "";
    const parts = [controls(scene, (words) => first?.figure.say(words)), filters(scene), ...(note ? [h("p", { class: "note" }, note)] : [])];
    timelines.forEach((timeline) => {
      const { side } = timeline.model;
      if (timelines.length > 1) parts.push(h("h2", {}, `${side.name.toUpperCase()}: ${side.label}`));
      parts.push(timeline.figure.element, h("p", { class: "note" }, timeline.model.coverage()));
    });
    parts.push(
      selectionPanel(scene, layouts),
      ...pathSection(models, scene, page),
      ...waitsSection(models),
      ...windowSection(models, scene),
      ...wholeSection(models),
    );
    return parts;
  },
};
