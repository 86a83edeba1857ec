/** When does what happen, and why does an IPU wait? */

import { h } from "../core/dom.js";
import { controls, filters } from "./execution/controls.js";
import { wholeSection, windowSection } from "./execution/kinds.js";
import { Model } from "./execution/model.js";
import { selectionPanel } from "./execution/panel.js";
import { pathSection } from "./execution/path.js";
import { Scene } from "./execution/scene.js";
import { Layouts } from "./execution/spans.js";
import { timeline } from "./execution/timeline.js";
import { waitsSection } from "./execution/waits.js";

/** @type {import("../core/page.js").View} */
export const execution = {
  name: "execution",
  title: "Execution",
  question: "When does what happen, and why does an IPU wait?",
  needs: "execution",
  absent: "Nothing ran in this recording.",
  async render(side) {
    const model = new Model(side, await side.block("execution"));
    const [scene, layouts] = [new Scene(model), new Layouts(model)];
    const { element, say } = timeline(model, layouts, scene);
    return [
      controls(scene, say),
      filters(scene),
      element,
      h("p", { class: "note" }, model.coverage()),
      selectionPanel(model, scene, layouts),
      ...pathSection(model, scene),
      ...waitsSection(model),
      ...windowSection(model, scene),
      ...wholeSection(model),
    ];
  },
};
