/** Sliders for knobs of the machine: the server that shows the page plays the recording again with all of them. */

import { h, replace } from "../../core/dom.js";
import { percent } from "../../core/format.js";
import { get, set } from "../../core/state.js";
import { valueOf } from "../../core/value.js";

/** @import { Side } from "../../core/page.js" */
/** @typedef {{side: Side, knobs: {knob: string, title: string, now: string, changes: Record<string, number>}[], planned: {knob: string, title: string}[]}} Found */

const STEPS_EACH = 2; // of a factor of two
const WAIT_MS = 250; // after the last move of a slider

/**
 * A form with a slider for each knob and a list for each word.
 * @param {Found[]} found
 * @returns {Promise<HTMLElement[]>}
 */
export async function sliders(found) {
  const [first] = found;
  if (!first || !first.knobs.length) return [];
  const knobs = first.knobs.map(({ knob, title, now, changes }) => ({ knob, title, now, words: Object.keys(changes).filter((name) => name !== "/2" && name !== "x2") }));
  const planned = first.planned.map(({ knob, title }) => ({ knob, title, now: "", words: /** @type {string[]} */ ([]) }));
  /** @type {Map<string, string>} */
  const chosen = new Map(get("set").split(",").filter(Boolean).map((text) => /** @type {[string, string]} */ (text.split("="))));
  const result = h("div", { class: "outcome", role: "status" });
  let timer = 0;
  let asked = 0;

  /** @param {string} knob @param {string} setting '' as it is */
  function choose(knob, setting) {
    if (setting) chosen.set(knob, setting);
    else chosen.delete(knob);
    set({ set: [...chosen].map((pair) => pair.join("=")).join(",") || null });
    clearTimeout(timer);
    timer = setTimeout(ask, WAIT_MS);
  }

  async function ask() {
    const turn = ++asked;
    if (!chosen.size) return replace(result, h("p", {}, "Move a slider: the recording is played again with all of them."));
    replace(result, h("p", {}, "playing again …"));
    const settings = [...chosen].map(([knob, setting]) => `${knob}=${setting}`);
    const answers = await Promise.all(found.map(({ side }) => outcome(side, settings)));
    if (turn === asked) replace(result, answers);
  }

  const rows = [...knobs, ...planned].map(({ knob, title, now, words }) => row(knob, title, now, words, chosen.get(knob) ?? "", choose));
  const reset = h("button", { type: "button", onclick: () => location.reload() }, "Reset");
  reset.addEventListener("click", () => set({ set: null }), { capture: true });
  await ask();
  return [h("h2", {}, "Turn several"), result, h("div", { class: "sliders" }, rows), h("p", {}, reset)];
}

/**
 * @param {string} knob
 * @param {string} title in plain words
 * @param {string} now
 * @param {string[]} words that the knob may be, if it is no number
 * @param {string} setting
 * @param {(knob: string, setting: string) => void} choose
 * @returns {HTMLElement}
 */
function row(knob, title, now, words, setting, choose) {
  const name = title.replace(/^the /, "");
  const label = `${name} (${knob})${now ? `, now ${now}` : ""}`;
  if (words.length) {
    const select = h("select", { "aria-label": label }, h("option", { value: "" }, now), words.map((word) => h("option", { value: word }, word)));
    select.value = setting;
    select.addEventListener("change", () => choose(knob, select.value));
    return h("label", { class: "slider", "data-tip": label }, h("span", {}, name), select, h("output", {}, ""));
  }
  const output = h("output", {}, setting || "as it is");
  const slider = h("input", { type: "range", min: -3 * STEPS_EACH, max: 3 * STEPS_EACH, step: 1, "aria-label": label });
  slider.value = String(position(setting));
  slider.addEventListener("input", () => {
    const text = factor(Number(slider.value) / STEPS_EACH);
    output.textContent = text || "as it is";
    slider.setAttribute("aria-valuetext", output.textContent);
    choose(knob, text);
  });
  return h("label", { class: "slider", "data-tip": label }, h("span", {}, name), slider, output);
}

/** 'x2', '/1.414' of a power of two; '' of none. @param {number} power @returns {string} */
function factor(power) {
  if (!power) return "";
  const size = Number((2 ** Math.abs(power)).toFixed(3));
  return power > 0 ? `x${size}` : `/${size}`;
}

/** The slider's place of a factor. @param {string} setting @returns {number} */
function position(setting) {
  const size = Number(setting.slice(1));
  if (!(size > 0)) return 0;
  return Math.round(STEPS_EACH * Math.log2(size)) * (setting.startsWith("/") ? -1 : 1);
}

/** @param {Side} side @param {string[]} settings @returns {Promise<HTMLElement>} */
async function outcome(side, settings) {
  const name = `${side.label}: `;
  try {
    const answer = await fetch("what-if", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ side: side.name, settings }) });
    const found = await answer.json();
    if (found.error) return h("p", { class: "alert" }, name, found.error);
    const again = found.planned_again.length ? ` Planned again: ${found.planned_again.join(", ")}.` : "";
    return h(
      "p",
      {},
      name,
      h("strong", {}, valueOf(found.turned_cycles, side.cycles, "what_if.outcome")),
      " in place of ",
      valueOf(found.cycles, side.cycles, "head.total"),
      found.cycles ? ` (${percent(found.turned_cycles / found.cycles - 1)}).` : ".",
      again,
    );
  } catch {
    return h("p", { class: "alert" }, name, "tilestep view does not answer: it has ended. Start it again to turn knobs.");
  }
}
