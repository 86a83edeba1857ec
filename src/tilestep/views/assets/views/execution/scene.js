/** What all timelines of the view share: the window in time (in cycles of A), the selection, what is shown. It stands in the URL. */

import { widest } from "../../core/lanes.js";
import { get } from "../../core/state.js";
import { Window } from "../../core/window.js";
import { HEIGHTS } from "./lanes.js";

/** @import { Model } from "./model.js" */

const LEAST_WINDOW = 16; // cycles
const AROUND = 0.01; // of the whole, left free at both ends

export class Scene extends Window {
  /** @param {Model[]} models */
  constructor(models) {
    const [from, to] = [Math.min(...models.map((model) => model.from / model.pace)), Math.max(...models.map((model) => model.to / model.pace))];
    const room = Math.max(1, (to - from) * AROUND);
    super(from - room, Math.max(to, from + LEAST_WINDOW) + room, LEAST_WINDOW);
    this.models = models;
    this.last = to; // cycle of the latest event
    this.state = () => this.values();
    this.names = widest(models.flatMap(({ lanes }) => lanes.map(({ name }) => name)));
    /** @type {{model: Model, row: number} | null} */
    this.selected = null;
    /** What is measured. @type {[number, number] | null} */
    this.range = null;
    this.path = get("path", "1") !== "0";
    this.idle = get("idle", "1") !== "0";
    this.height = Object.hasOwn(HEIGHTS, get("height")) ? get("height") : "fit";
    /** @type {Set<string>} */
    this.hiddenKinds = new Set(get("kinds").split(",").filter(Boolean));
    /** @type {Set<string>} */
    this.hiddenLanes = new Set(get("lanes").split(",").filter(Boolean));
    this.read();
  }

  /** Takes window, selection and range from the URL. */
  read() {
    const [from, to] = [get("from"), get("to")].map(Number);
    if (get("from") !== "" && get("to") !== "" && from !== undefined && to !== undefined && to > from && Number.isFinite(to - from)) this.place(from, to);
    const found = /^([ab])(\d+)$/.exec(get("event"));
    const model = found && this.models.find(({ side }) => side.name === found[1]);
    if (found && model && Number(found[2]) < model.size) this.selected = { model, row: Number(found[2]) };
    const range = /^([\d.]+)-([\d.]+)$/.exec(get("range"));
    if (range && Number(range[2]) > Number(range[1]) && Number.isFinite(Number(range[2]))) this.range = [Number(range[1]), Number(range[2])];
  }

  /** The window in cycles of a recording. @param {Model} model @returns {{from: number, to: number}} */
  windowOf({ pace }) {
    return { from: this.from * pace, to: this.to * pace };
  }

  /** The part of the window in which something may be, in whole cycles of a recording. @param {Model} model @returns {[number, number]} */
  seenBy({ pace }) {
    const to = Math.min(this.to, Math.max(this.last, this.from)) * pace;
    return [Math.max(0, Math.floor(this.from * pace)), Math.ceil(to - 1e-6)]; // 1e-6: a quotient of clocks is not exact
  }

  /** What is measured, in whole cycles of a recording. @param {Model} model @returns {[number, number] | null} */
  rangeOf({ pace }) {
    return this.range && [Math.round(this.range[0] * pace), Math.round(this.range[1] * pace)];
  }

  /** Selects an event, and moves the window to it if it is outside. @param {Model} model @param {number} row */
  select(model, row) {
    this.selected = { model, row };
    const [from, to] = this.timesOf(model, row);
    if (to < this.from || from > this.to) this.place((from + to - this.length) / 2, (from + to + this.length) / 2);
    this.changed("selection");
  }

  /** When an event begins and ends. @param {Model} model @param {number} row @returns {[number, number]} */
  timesOf({ start, end, pace }, row) {
    return [(start[row] ?? 0) / pace, (end[row] ?? 0) / pace];
  }

  clear() {
    this.selected = null;
    this.range = null;
    this.changed("selection");
  }

  /** @param {Model} model @param {number} one of its cycles @param {number} other */
  measure({ pace }, one, other) {
    const [from, to] = [Math.max(0, Math.round(Math.min(one, other))), Math.round(Math.max(one, other))];
    this.range = to > from ? [from / pace, to / pace] : null;
    this.changed("selection");
  }

  /** @param {Set<string>} hidden @param {string} name */
  toggle(hidden, name) {
    if (!hidden.delete(name)) hidden.add(name);
    this.changed("shown");
  }

  /** What the URL has of it. */
  values() {
    const { isWhole } = this;
    return {
      from: isWhole ? null : Math.floor(this.from),
      to: isWhole ? null : Math.ceil(this.to),
      event: this.selected && this.selected.row >= 0 ? `${this.selected.model.side.name}${this.selected.row}` : null,
      range: this.range ? this.range.map((cycle) => Number(cycle.toFixed(3))).join("-") : null,
      path: this.path ? null : 0,
      idle: this.idle ? null : 0,
      height: this.height === "fit" ? null : this.height,
      kinds: [...this.hiddenKinds].join(",") || null,
      lanes: [...this.hiddenLanes].join(",") || null,
    };
  }
}
