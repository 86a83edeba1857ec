/** Colours and hatches of tasks and waits. Colours of tasks are those of pictures of schedules (train/schedules/pictures.py). */

import { lookOf } from "../../core/colors.js";

/** @import { Look } from "../../core/colors.js" */

/** @type {Readonly<Record<string, Look>>} */
const TASKS = Object.freeze({
  forward: { color: "#4c8bf5", hatch: "plain", words: "forward (F)" },
  backward: { color: "#5fb87a", hatch: "up", words: "backward (B)" },
  "forward and backward": { color: "#45cbe0", hatch: "dots", words: "forward and backward (FB)" },
  "input gradient": { color: "#8ccf9f", hatch: "up", words: "input gradient (I)" },
  "weight gradient": { color: "#c9a227", hatch: "down", words: "weight gradient (W)" },
  update: { color: "#b5533c", hatch: "cross", words: "update (U)" },
  store: { color: "#b9b9b9", hatch: "bars", words: "store of the stash (S)" },
  load: { color: "#d9d9d9", hatch: "lines", words: "load of the stash (L)" },
  "load parameters": { color: "#b9a3d6", hatch: "cross", words: "load of parameters (P)" },
  "store parameters": { color: "#d8cbe8", hatch: "bars", words: "store of parameters (Q)" },
});
/** Waits are quieter than work, on either ground. @type {Readonly<Record<string, Look>>} */
const WAITS = Object.freeze({
  stage: { color: "#c9ced4", dark: "#4a535c", hatch: "up", words: "waits for the work of another stage" },
  transfer: { color: "#bfe0d5", dark: "#2f5347", hatch: "bars", words: "waits for a transfer of another" },
  host: { color: "#d9c7ef", dark: "#53416b", hatch: "down", words: "waits for the host" },
  load: { color: "#f3c9a8", dark: "#6b4526", hatch: "cross", words: "waits for a load of programs" },
  end: { color: "#eceff1", dark: "#22282d", hatch: "lines", words: "has nothing more to do" },
  unkept: { color: "#e3e6ea", dark: "#39424b", hatch: "dots", words: "is not recorded" },
  unknown: { color: "#d9d9d9", dark: "#565656", hatch: "plain", words: "waits for what is not in the recording" },
});

/** The look of a kind of task. @param {string} kind @returns {Look} */
export function kindLook(kind) {
  return Object.hasOwn(TASKS, kind) ? /** @type {Look} */ (TASKS[kind]) : { color: "#999999", hatch: "dots", words: kind.slice(0, 60) || "other task" };
}

/** The look of a wait. @param {string} why @returns {Look} */
export function waitLook(why) {
  return /** @type {Look} */ (WAITS[why] ?? WAITS.unknown);
}

/** The look of what a device does that is no task's own work. @param {string} group @returns {Look} */
export function groupLook(group) {
  if (group === "host") return { ...lookOf("stream-in"), words: "transfers with the host, and loads" };
  if (group === "ipus") return { ...lookOf("collective"), words: "exchange between IPUs" };
  return { color: "#7A8B99", hatch: "down", words: "programs of no stage" };
}

/** The looks of a row's bars, each once, with their numbers. @param {Look[]} all @param {boolean[]} [thin] of each bar, whether it is drawn as a line @returns {{kind: Uint8Array, looks: Look[], thin: boolean[]}} */
export function kindsOf(all, thin = []) {
  const looks = [...new Map(all.map((look) => [look.words, look])).values()];
  const kind = Uint8Array.from(all, ({ words }) => looks.findIndex((look) => look.words === words));
  return { kind, looks, thin: looks.map((_, number) => thin[kind.indexOf(number)] ?? false) };
}
