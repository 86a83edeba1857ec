/** The stretch of an axis that pictures show together: zoomed, moved, and kept in the URL. */

import { get, setLater } from "./state.js";

/** What was changed: of the window, or of what it shows. @typedef {"window" | "selection" | "shown"} Change */

const SETTLED_MS = 150;

export class Window {
  /** @param {number} from of the whole @param {number} to of the whole @param {number} least length @param {(value: number) => number} [round] makes ends of what may be none */
  constructor(from, to, least, round = (value) => value) {
    this.least = least;
    this.round = round;
    this.whole = { from, to: Math.max(to, from + least) };
    this.from = this.whole.from;
    this.to = this.whole.to;
    this.names = 0; // pixels of the widest name of a row, of all pictures
    /** @type {Set<(change: Change) => void>} */
    this.listeners = new Set();
    /** What the URL has of it. @type {() => Record<string, string | number | null>} */
    this.state = () => ({});
    this.timer = 0;
  }

  get length() {
    return this.to - this.from;
  }

  get isWhole() {
    return this.from <= this.whole.from && this.to >= this.whole.to;
  }

  /** @param {number} from @param {number} to */
  place(from, to) {
    const length = this.round(Math.min(Math.max(this.least, to - from), this.whole.to - this.whole.from));
    const middle = (from + to) / 2;
    this.from = this.round(Math.max(this.whole.from, Math.min(this.whole.to - length, middle - length / 2)));
    this.to = this.from + length;
  }

  /** @param {number} from @param {number} to */
  show(from, to) {
    this.place(from, to);
    this.changed("window");
  }

  /** @param {number} times of its length @param {number} around what keeps its place */
  zoom(times, around) {
    const length = Math.min(Math.max(this.least, this.length * times), this.whole.to - this.whole.from);
    const share = (around - this.from) / this.length;
    this.show(around - share * length, around + (1 - share) * length);
  }

  /** @param {number} share of its length */
  pan(share) {
    this.show(this.from + share * this.length, this.to + share * this.length);
  }

  /** Shows a stretch large. @param {number} from @param {number} to */
  fit(from, to) {
    const room = Math.max(this.least / 2, (to - from) * 0.25);
    this.show(from - room, to + room);
  }

  /** Shows a stretch, if it is outside. @param {number} from @param {number} to */
  reveal(from, to) {
    if (to < this.from || from > this.to) this.show((from + to - this.length) / 2, (from + to + this.length) / 2);
  }

  /** @param {Change} change */
  changed(change) {
    this.listeners.forEach((listener) => listener(change));
    clearTimeout(this.timer);
    this.timer = setLater(() => this.state(), SETTLED_MS);
  }
}

/** A window that stands in the URL. @param {string} key there @param {number} from of the whole @param {number} to of the whole @param {number} least length @returns {Window} */
export function windowAt(key, from, to, least) {
  const shown = new Window(from, to, least);
  shown.state = () => ({ [key]: shown.isWhole ? null : `${Number(shown.from.toFixed(2))}_${Number(shown.to.toFixed(2))}` });
  const found = /^(-?[\d.]+)_(-?[\d.]+)$/.exec(get(key));
  if (found && Number(found[2]) > Number(found[1]) && Number.isFinite(Number(found[2]) - Number(found[1]))) shown.place(Number(found[1]), Number(found[2]));
  return shown;
}
