/** What the parts of the view share: the window in time, the selected event, what is shown. It stands in the URL. */

import { get, number } from "../../core/state.js";
import { Window } from "../../core/window.js";

/** @import { Model } from "./model.js" */

const LEAST_WINDOW = 16; // cycles
const AROUND = 0.01; // of the whole, left free at both ends

export class Scene extends Window {
  /** @param {Model} model */
  constructor(model) {
    const { from, to, size } = model;
    const room = Math.max(1, (to - from) * AROUND);
    super(from - room, Math.max(to, from + LEAST_WINDOW) + room, LEAST_WINDOW);
    this.model = model;
    this.state = () => this.values();
    const row = number("event", -1);
    /** Row of the selected event; -1: none. */
    this.selected = Number.isInteger(row) && row >= 0 && row < size ? row : -1;
    this.path = get("path", "1") !== "0";
    this.hiddenKinds = new Set(get("kinds").split(",").filter(Boolean));
    this.hiddenLanes = new Set(get("lanes").split(",").filter(Boolean));
    const [begin, end] = [number("from", NaN), number("to", NaN)];
    if (end > begin && Number.isFinite(end - begin)) this.place(begin, end);
  }

  /** The part of the window in which something may be, in whole cycles. @returns {[number, number]} */
  get seen() {
    return [Math.max(0, Math.floor(this.from)), Math.ceil(Math.min(this.to, Math.max(this.model.to, this.from)))];
  }

  /** Selects an event, and moves the window to it if it is outside. @param {number} row -1: none */
  select(row) {
    this.selected = row;
    const [from, to] = [this.model.start[row] ?? this.from, this.model.end[row] ?? this.to];
    if (to < this.from || from > this.to) this.place((from + to - this.length) / 2, (from + to + this.length) / 2);
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
      event: this.selected < 0 ? null : this.selected,
      path: this.path ? null : 0,
      kinds: [...this.hiddenKinds].join(",") || null,
      lanes: [...this.hiddenLanes].join(",") || null,
    };
  }
}
