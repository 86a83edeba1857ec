/** Where are the bubbles? */

import { h, replace } from "../core/dom.js";
import { legend } from "../core/legend.js";
import { count } from "../core/format.js";
import { set } from "../core/state.js";
import { gridFigure } from "./pipeline/grid.js";
import { kindLook, waitLook, groupLook } from "./pipeline/looks.js";
import { drawnKind, Model } from "./pipeline/model.js";
import { Scene } from "./pipeline/scene.js";
import { bubbleSection, stagesSection, waitsSection } from "./pipeline/tables.js";
import { timesFigure } from "./pipeline/times.js";

const OF_POPART = " A pipelined session of PopART does so in a recording of its own, which autoReport.directory among its engine options makes: this is the recording of what JAX ran.";

/** @type {import("../core/page.js").View} */
export const pipeline = {
  name: "pipeline",
  title: "Pipeline",
  question: "Where are the bubbles?",
  needs: "pipeline",
  absent: ({ head }) => "No run of this recording is of a pipeline's stage. tilestep.train.Pipeline names the stage, the kind of task and the microbatch of each run."
    + (head.popart ? OF_POPART : ""),
  async render(side) {
    const model = new Model(side, await side.block("pipeline"));
    const place = h("div", {});
    const draw = () => replace(place, parts(model));
    const select = h("select", {}, model.updates.map((update, index) => h("option", { value: index }, model.nameOf(update))));
    select.value = String(model.chosen);
    select.addEventListener("change", () => {
      model.chosen = Number(select.value);
      set({ update: model.update.number, task: null, slots: null, cycles: null });
      draw();
    });
    draw();
    return [h("div", { class: "controls" }, h("label", {}, "show ", select)), place];
  },
};

/** @param {Model} model @returns {HTMLElement[]} */
function parts(model) {
  const { tasks, pieces, gaps, in_detail: inDetail } = model.update;
  const scene = new Scene(model);
  const kinds = [...new Set(tasks.map(drawnKind))].map(kindLook);
  const both = tasks.some((task) => task.both) ? ", a program that is both takes two" : "";
  const groups = [...new Set(pieces.map(({ group }) => group))].filter((group) => group !== "own").map(groupLook);
  const waits = [...new Set(gaps.map(({ why }) => why))].map(waitLook);
  const several = model.devices.some(({ ipus }) => ipus.length > 1) ? " Several IPUs that do a stage together have one row: that of the first." : "";
  return [
    h("h2", {}, "The schedule, as it is drawn"),
    h("p", { class: "note" }, `Each forward and each backward takes one slot${both}: the order of dispatch, and what each task takes from others. Choose a task to see it below.`),
    legend(kinds),
    gridFigure(model, scene).element,
    h("h2", {}, "What happened, on the axis of emulated time"),
    ...(inDetail ? [legend([...kinds, ...groups, ...waits]), timesFigure(model, scene).element, h("p", { class: "note" }, `${model.coverage()}${several}`)] : [missing(model)]),
    ...bubbleSection(model),
    ...(inDetail ? waitsSection(model) : []),
    ...stagesSection(model),
  ];
}

/** @param {Model} model @returns {HTMLElement} */
function missing(model) {
  const kept = model.json.in_detail
    ? `Choose ${model.json.in_detail === 1 ? "the update" : `one of the ${count(model.json.in_detail)} updates`} whose tasks all have events.`
    : "The recording has events of the first and of the last runs of each program, and of no whole update. Record it again: now the last update is kept whole, "
      + "if it has at most 100,000 events. The option autoReport.executionProfileProgramRunCount keeps more runs of each program.";
  return h("p", { class: "note" }, `Not all tasks of this update have events, so their times are not known, only their order. ${kept}`);
}
