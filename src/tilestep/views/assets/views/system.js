/** Is the real host the bottleneck? */

import { h } from "../core/dom.js";
import { count, plural } from "../core/format.js";
import { valueOf } from "../core/value.js";
import { heatSections } from "./system/heat.js";
import { seriesSections } from "./system/series.js";
import { Model } from "./system/model.js";
import { timelineSection } from "./system/threads.js";
import { summarySection, treeSection } from "./system/tree.js";

/** @type {import("../core/page.js").View} */
export const system = {
  name: "system",
  title: "System",
  question: "Is the real host the bottleneck?",
  needs: "system",
  absent:
    "This recording has nothing in wall time. Run the program with PVTI_OPTIONS='{\"enable\":\"true\"}' to trace what JAX does on the host's threads; "
    + "tilestep.tracepoint names parts of the program, tilestep.series and tilestep.heat_map add values.",
  async render(sides) {
    const models = await Promise.all(sides.map(async (side) => new Model(side, await side.block("system"))));
    return [
      ...models.map((model) => sentence(model, models.length > 1)),
      h("p", { class: "note" }, "All of this is wall time of the host that ran the program. It differs from run to run, and is never on one axis with emulated time."),
      ...models.flatMap((model) => together(model, models.length > 1)),
      ...timelineSection(models),
      ...treeSection(models),
      ...summarySection(models),
      ...seriesSections(models),
      ...heatSections(models),
    ];
  },
};

/** How several processes stand together. @param {Model} model @param {boolean} many @returns {HTMLElement[]} */
function together({ json, side }, many) {
  if (json.processes.length < 2) return [];
  const others = json.merged
    ? ` The views of emulated time are of process ${json.merged.pid}: ${plural(json.merged.others, "other process", "other processes")} had some, too, which ${json.merged.others === 1 ? "its own file has" : "their own files have"}.`
    : "";
  const whose = many ? `${side.name.toUpperCase()}: ` : "";
  return [h("p", { class: "note" }, `${whose}${count(json.processes.length)} processes stand on one axis by the wall clocks of their hosts, which differ from host to host.${others}`)];
}

/** What the main thread did, by what its spans say. @param {Model} model @param {boolean} many @returns {HTMLElement} */
function sentence(model, many) {
  const { json } = model;
  const whole = json.end - json.begin;
  const share = (/** @type {string} */ name) => valueOf(whole ? json.shares[name] / whole : 0, "share", "system.share");
  if (!json.spans) return h("p", {}, many ? h("strong", {}, `${model.side.name.toUpperCase()} `) : null, "The trace has no spans.");
  return h(
    "p",
    {},
    many ? h("strong", {}, `${model.side.name.toUpperCase()} `) : null,
    "In ",
    valueOf(whole, "ns", "system.span"),
    ` of wall time and ${plural(json.spans, "span")}, the thread `,
    h("span", { class: "mono thread" }, model.threadName(json.main)),
    " compiled for ",
    share("compiles"),
    ", ran or dispatched programs for ",
    share("runs"),
    ", waited for ",
    share("waits"),
    ", and was in other spans for ",
    share("other"),
    ". Of ",
    share("nothing"),
    " its spans say nothing.",
  );
}
