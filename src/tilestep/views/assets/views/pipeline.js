/** Where are the bubbles? */

import { h, replace } from "../core/dom.js";
import { legend } from "../core/legend.js";
import { count } from "../core/format.js";
import { set } from "../core/state.js";
import { clocksNote } from "../core/value.js";
import { kindLook, waitLook, groupLook } from "./pipeline/looks.js";
import { drawnKind, Model } from "./pipeline/model.js";
import { Scene } from "./pipeline/scene.js";
import { gridFigure } from "./pipeline/grid.js";
import { stashSection } from "./pipeline/stash.js";
import { bubbleSection, stagesSection, waitsSection } from "./pipeline/tables.js";
import { timesFigure } from "./pipeline/times.js";


const OF_POPART = " A pipelined session of PopART does so in a recording of its own, which autoReport.directory among its engine options makes: this is the recording of what JAX ran.";

/** @type {import("../core/page.js").View} */
export const pipeline = {
  name: "pipeline",
  title: "Pipeline",
  question: "Where are the bubbles?",
  needs: "pipeline",
  absent: (page) => "No run of this recording is of a pipeline's stage. tilestep.train.Pipeline names the stage, the kind of task and the microbatch of each run."
    + (page.sides.some(({ head }) => head.popart) ? OF_POPART : ""),
  async render(sides) {
    const models = await Promise.all(sides.map(async (side) => new Model(side, await side.block("pipeline"))));
    const place = h("div", {});
    const draw = () => replace(place, parts(models));
    draw();
    return [choosers(models, draw), place];
  },
};

/** Which update of each recording is shown. @param {Model[]} models @param {() => void} changed @returns {HTMLElement} */
function choosers(models, changed) {
  return h(
    "div",
    { class: "controls" },
    models.map((model) => {
      const select = h("select", {}, model.updates.map((update, index) => h("option", { value: index }, model.nameOf(update))));
      select.value = String(model.chosen);
      select.addEventListener("change", () => {
        model.chosen = Number(select.value);
        set({ [`update_${model.side.name}`]: model.update.number, task: null, slots: null, cycles: null });
        changed();
      });
      return h("label", {}, models.length > 1 ? `show of ${model.side.name.toUpperCase()} ` : "show ", select);
    }),
  );
}

/** @param {Model[]} models @returns {HTMLElement[]} */
function parts(models) {
  const scene = new Scene(models);
  const kindsOf = (/** @type {Model[]} */ each) => [...new Set(each.flatMap((model) => model.update.tasks.map(drawnKind)))];
  const both = models.some((model) => model.update.tasks.some((task) => task.both)) ? ", a program that is both takes two" : "";
  const many = models.length > 1;
  const title = (/** @type {Model} */ model) => (many ? [h("h3", {}, `${model.side.name.toUpperCase()}: ${model.side.label}`)] : []);
  const timed = models.filter((model) => model.update.inDetail);
  const groups = [...new Set(timed.flatMap((model) => model.update.pieces.map(({ group }) => group)))].filter((group) => group !== "own");
  const note = timed.length > 1 ? clocksNote() : "";
  const whys = [...new Set(timed.flatMap((model) => model.update.gaps.map(({ why }) => why)))];
  return [
    h("h2", {}, "The schedule, as it is drawn"),
    h("p", { class: "note" }, `Each forward and each backward takes one slot${both}: the order of dispatch, and what each task takes from others. Choose a task to see it below.`),
    legend(kindsOf(models).map((kind) => kindLook(kind))),
    ...models.flatMap((model) => [...title(model), gridFigure(model, scene).element]),
    h("h2", {}, "What happened, on the axis of emulated time"),
    ...(note ? [h("p", { class: "note" }, note)] : []),
    ...(timed.length ? [legend([...kindsOf(timed).map((kind) => kindLook(kind)), ...groups.map(groupLook), ...whys.map((why) => waitLook(why))])] : []),
    ...models.flatMap((model) => [...title(model), ...(model.update.inDetail ? [timesFigure(model, scene).element, cover(model)] : [missing(model)])]),
    ...bubbleSection(models),
    ...waitsSection(timed),
    ...stashSection(models, scene),
    ...stagesSection(models),
  ];
}

/** @param {Model} model @returns {HTMLElement} */
function cover(model) {
  const several = model.devices.some(({ ipus }) => ipus.length > 1) ? " Several IPUs that do a stage together have one row: that of the first." : "";
  return h("p", { class: "note" }, `${model.coverage()}${several}`);
}

/** @param {Model} model @returns {HTMLElement} */
function missing(model) {
  const kept = model.json.in_detail
    ? `Choose ${model.json.in_detail === 1 ? "the update" : `one of the ${count(model.json.in_detail)} updates`} whose tasks all have events.`
    : "The recording has events of the first and of the last runs of each program, and of no whole update. Record it again: now the last update is kept whole, "
      + "if it has at most 100,000 events. The option autoReport.executionProfileProgramRunCount keeps more runs of each program.";
  return h("p", { class: "note" }, `Not all tasks of this update have events, so their times are not known, only their order. ${kept}`);
}
