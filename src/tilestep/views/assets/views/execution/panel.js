/** The selected event: what it is, what decided when it began, what it decided, and what its run did there. */

import { h, replace } from "../../core/dom.js";
import { count, plural } from "../../core/format.js";
import { at } from "../../core/lanes.js";
import { table } from "../../core/table.js";
import { valueOf } from "../../core/value.js";
import { kindWords } from "./model.js";
import { spansOfRun } from "./spans.js";

/** @import { Model } from "./model.js" */
/** @import { Scene } from "./scene.js" */

const MOST_LINKS = 12; // of effects

/** @param {Model} model @param {Scene} scene @param {import("./spans.js").Layouts} layouts @returns {HTMLElement} */
export function selectionPanel(model, scene, layouts) {
  const element = h("section", { class: "selection", "aria-label": "selected event" });
  let open = false;
  const draw = () => {
    const { selected: row } = scene;
    if (row < 0) {
      replace(element, h("h2", {}, "Selected event"), h("p", { class: "note" }, "None. Press on a bar, or go to the timeline by Tab and use the arrow keys."));
      return;
    }
    const inner = insideOf(model, layouts, row, open, (value) => (open = value));
    replace(element, h("h2", {}, `Selected: ${model.words(row)}`), facts(scene, model, row), inner);
  };
  scene.listeners.add((change) => change === "selection" && draw());
  draw();
  return element;
}

/** @param {Scene} scene @param {Model} model @param {number} row @returns {HTMLElement} */
function facts(scene, model, row) {
  const run = at(model.run, row);
  const cause = at(model.cause, row);
  const effects = model.causedBy(row);
  const whole = effects.length ? -1 : model.wholeOf(row);
  /** @param {number} other @returns {HTMLElement} */
  const jump = (other) => h(
    "button",
    { type: "button", class: "link", onclick: () => scene.select(other) },
    `${model.words(other)} on ${model.laneOf(other).name}`,
  );
  const line = model.json.lines[model.ofRun("line", run)];
  const [stage, microbatch] = [model.ofRun("stage", run), model.ofRun("microbatch", run)];
  /** @type {[string, import("../../core/dom.js").Children][]} */
  const found = [
    ["kind", kindWords(model.kindOf(row))],
    ["lane", model.laneOf(row).name],
    ["program", model.programLabel(at(model.program, row)) || "none"],
  ];
  if (run >= 0) {
    found.push(["run", [valueOf(run, "count", "execution.runs"), ` of ${count(model.column("runs_program").length)}`]]);
    if (model.textOfRun("task", run)) found.push(["task", model.textOfRun("task", run)]);
    if (stage >= 0) found.push(["stage", valueOf(stage, "count", "execution.runs")]);
    if (microbatch >= 0) found.push(["microbatch", valueOf(microbatch, "count", "execution.runs")]);
    if (model.textOfRun("group", run)) found.push(["group", model.textOfRun("group", run)]);
    found.push(["dispatched", [valueOf(model.ofRun("host_cycle", run), "cycles", "execution.cycle"), line ? ` by ${line}` : ""]]);
  }
  found.push(
    ["from", valueOf(at(model.start, row), "cycles", "execution.cycle")],
    ["to", valueOf(at(model.end, row), "cycles", "execution.cycle")],
    ["time", [valueOf(at(model.end, row) - at(model.start, row), "cycles", "execution.duration"), ` (${count(at(model.end, row) - at(model.start, row))} cycles)`]],
    ...(whole < 0
      ? /** @type {typeof found} */ ([
          ["its cause", cause >= 0 ? jump(cause) : cause === -2 ? "not on this page" : "nothing in the recording"],
          ["it decided", effects.length ? effectsOf([...effects.subarray(0, MOST_LINKS)].map(jump), effects.length) : "the start of nothing"],
        ])
      : /** @type {typeof found} */ ([["part of", jump(whole)]])),
    ["critical path", model.path.includes(row) ? "on it" : model.path.includes(whole) ? "what it is a part of is on it" : "not on it"],
  );
  return h("dl", { class: "facts" }, found.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/** @param {HTMLElement[]} links @param {number} all @returns {import("../../core/dom.js").Children} */
function effectsOf(links, all) {
  const more = all > links.length ? [h("li", {}, `and ${count(all - links.length)} more`)] : [];
  return h("ul", { class: "effects" }, links.map((link) => h("li", {}, link)), more);
}

/** @param {Model} model @param {import("./spans.js").Layouts} layouts @param {number} row @param {boolean} open @param {(open: boolean) => void} keep @returns {HTMLElement | null} */
function insideOf(model, layouts, row, open, keep) {
  const lane = model.laneOf(row);
  if (lane.kind !== "ipu" || at(model.run, row) < 0) return null;
  const place = h("div", {});
  const { spans, whole, unrolled } = spansOfRun(model, layouts, row);
  const words = whole
    ? `what the run did on ${lane.name}: ${plural(spans.length, "row")} of steps, transfers and waits`
    : `${plural(spans.length, "part")} of the run on ${lane.name}; its steps are not on this page`;
  const note = unrolled
    ? null
    : h("p", { class: "note" }, `The run has more than ${count(model.json.most_unrolled)} executions of steps, so all executions of a step stand together.`);
  const made = () => replace(place, note, spansTable(model, spans, `what run ${at(model.run, row)} did on ${lane.name}`));
  const details = h("details", { open }, h("summary", {}, words), place);
  details.addEventListener("toggle", () => {
    keep(details.open);
    if (details.open && !place.firstChild) made();
  });
  if (open) made();
  return details;
}

/** @param {Model} model @param {import("./spans.js").Span[]} spans @param {string} label @returns {HTMLElement} */
function spansTable(model, spans, label) {
  return table({
    label,
    rows: spans,
    filter: true,
    columns: [
      { name: "kind", of: (span) => kindWords(model.kinds[span.kind] ?? "waiting") },
      { name: "step", of: (span) => span.leaf?.name },
      { name: "scope", of: (span) => span.leaf?.scope },
      { name: "line", of: (span) => span.leaf?.line },
      { name: "executions", unit: "count", origin: "execution.spans", of: (span) => span.times },
      { name: "from", unit: "cycles", origin: "execution.spans", of: (span) => span.from },
      { name: "to", unit: "cycles", origin: "execution.spans", of: (span) => span.to },
      { name: "time", unit: "cycles", origin: "execution.spans", of: (span) => span.to - span.from },
    ],
  });
}
