/** Events and waits in words, for tips and for reading aloud. */

import { count } from "../../core/format.js";
import { at } from "../../core/lanes.js";
import { exact, text } from "../../core/value.js";

/** @import { Model } from "./model.js" */

/** What an event is, in words. @param {Model} model @param {number} row @returns {string} */
export function eventWords(model, row) {
  const [from, to, run] = [at(model.start, row), at(model.end, row), at(model.run, row)];
  const task = model.textOfRun("task", run);
  const microbatch = model.ofRun("microbatch", run);
  const details = [run >= 0 ? `run ${count(run)}` : "", task, microbatch >= 0 ? `microbatch ${microbatch}` : ""].filter(Boolean).join(", ");
  return `${model.words(row)} on ${model.laneOf(row).name}, ${text(to - from, "cycles")} (${exact(to - from, "cycles")}), `
    + `from cycle ${count(from)} to ${count(to)}${details ? `; ${details}` : ""}`;
}

/** Why a lane waited before an event, in words. @param {Model} model @param {number} next @returns {string} */
export function waitWords(model, next) {
  const lane = model.laneOf(next);
  let clock = -1;
  for (let row = next - 1; row >= lane.begin && row > next - 64; row--) clock = Math.max(clock, at(model.end, row));
  const cycles = at(model.start, next) - clock;
  if (clock < 0 || cycles <= 0) return eventWords(model, next);
  if (at(model.hole, next)) return `${lane.name}, ${text(cycles, "cycles")} (${exact(cycles, "cycles")}) not recorded: ${model.reasonOf(next)}\nThen: ${model.words(next)}`;
  return `${lane.name} waits ${text(cycles, "cycles")} (${exact(cycles, "cycles")}): ${model.reasonOf(next)}\nThen: ${model.words(next)}`;
}
