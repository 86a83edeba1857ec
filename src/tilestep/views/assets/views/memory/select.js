/** What the user has chosen in views Memory and Liveness: a program, a step, a tile. It stands in the URL. */

import { h } from "../../core/dom.js";
import { bytes, count } from "../../core/format.js";
import { get, number, set } from "../../core/state.js";
import { Window } from "../../core/window.js";

/** @import { Detail, Program } from "./model.js" */

const LEAST_STEPS = 8; // that are shown

/** The choices within one program, and the steps that are shown of it. */
export class Selection extends Window {
  /** @param {Detail} detail */
  constructor({ memory, peak }) {
    super(0, memory.numTicks, Math.min(LEAST_STEPS, memory.numTicks), Math.round);
    this.peak = peak;
    this.ticks = memory.numTicks;
    this.tiles = memory.numTiles;
    this.state = () => ({ from: this.isWhole ? null : this.from, to: this.isWhole ? null : this.to });
    this.place(number("from", 0), number("to", this.ticks));
  }

  /** The chosen step, or that of the peak. @returns {number} */
  get tick() {
    return chosen("tick", this.ticks) ?? this.peak.tick;
  }

  /** The chosen tile, or that of the peak. @returns {number} */
  get tile() {
    return chosen("tile", this.tiles) ?? this.peak.tile;
  }

  /** @param {{tick?: number | null | undefined, tile?: number | null | undefined}} values null: that of the peak */
  choose({ tick, tile }) {
    const clip = (/** @type {number} */ value, /** @type {number} */ most) => Math.min(Math.max(Math.round(value), 0), most - 1);
    set({
      ...(tick === undefined ? {} : { tick: tick === null ? null : clip(tick, this.ticks) }),
      ...(tile === undefined ? {} : { tile: tile === null ? null : clip(tile, this.tiles) }),
    });
    this.changed("selection");
  }

  /** Moves what is shown so that a step is seen. @param {number} tick */
  showStep(tick) {
    this.reveal(tick + 0.5, tick + 0.5);
  }

  /**
   * Moves by keys: arrows by one step, with Shift by ten, pages by a tenth.
   * @param {string} key @param {KeyboardEvent} event @returns {boolean} whether the key is one of them
   */
  press(key, event) {
    const { tick } = this;
    const far = event.shiftKey ? 10 : 1;
    const page = Math.max(1, Math.round(this.length / 10));
    /** @type {Record<string, number>} */
    const ticks = { ArrowLeft: tick - far, ArrowRight: tick + far, PageUp: tick - page, PageDown: tick + page, Home: 0, End: this.ticks - 1 };
    if (key in ticks) this.choose({ tick: ticks[key] });
    else if (key === "+" || key === "=") this.zoom(0.5, tick);
    else if (key === "-") this.zoom(2, tick);
    else if (key === "0") this.show(0, this.ticks);
    else return false;
    this.showStep(this.tick);
    return true;
  }
}

/** A whole number of the URL that is below a bound. @param {string} key @param {number} most @returns {number | null} */
function chosen(key, most) {
  const value = number(key, -1);
  return Number.isInteger(value) && value >= 0 && most > 0 ? Math.min(value, most - 1) : null;
}

/** Bytes of the fullest tile: of a member of a program group, with the group's other programs. @param {Program} program @returns {number} */
function together({ facts }) {
  return Math.max(facts.peak_bytes ?? -1, facts.group?.bytes ?? -1);
}

/**
 * The field to choose a program, the fullest first, and a place for what is chosen: at first what is fullest with its group.
 * @param {Program[]} programs
 * @param {(program: Program) => HTMLElement[]} draw
 * @returns {HTMLElement[]}
 */
export function chooser(programs, draw) {
  const place = h("div", { class: "program" });
  const field = h("select", { id: "program" }, programs.map(({ facts }) => h("option", { value: facts.row }, wordsOf(facts))));
  const of = (/** @type {string} */ row) => programs.find(({ facts }) => String(facts.row) === row);
  const show = (/** @type {Program | undefined} */ program) => place.replaceChildren(...(program ? draw(program) : []));
  const most = Math.max(...programs.map(together));
  const start = of(get("program")) ?? programs.find((program) => together(program) === most);
  field.value = String(start?.facts.row);
  field.addEventListener("change", () => {
    set({ program: field.value, tick: null, tile: null, from: null, to: null });
    show(of(field.value));
  });
  show(start);
  const fullest = programs.length > 1 ? `${count(programs.length)} programs, the fullest first` : "";
  return [h("div", { class: "controls" }, h("label", {}, "program ", field), h("span", { class: "note" }, fullest)), place];
}

/** @param {any} facts @returns {string} */
function wordsOf({ label, peak_bytes: peak }) {
  return `${label.length > 80 ? `${label.slice(0, 79)}…` : label}: ${peak === null ? "–" : bytes(peak)}`;
}

/**
 * A field for a whole number.
 * @param {string} words @param {number} value @param {number} most @param {(value: number) => void} change
 * @returns {{element: HTMLElement, update: (value: number) => void}}
 */
export function numberField(words, value, most, change) {
  const field = h("input", { type: "number", min: 0, max: most, step: 1, value });
  field.addEventListener("change", () => field.value !== "" && change(Number(field.value)));
  return {
    element: h("label", {}, `${words} `, field),
    update(next) {
      field.value = String(next);
    },
  };
}
