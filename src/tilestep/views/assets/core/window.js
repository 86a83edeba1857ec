/** The stretch of an axis that pictures show together: zoomed, moved, and kept in the URL. */

import { get, setLater } from "./state.js";

const SETTLED_MS = 150;

export class Window {
  /** @param {string} key of the URL @param {number} from of the whole @param {number} to of the whole @param {number} least length */
  constructor(key, from, to, least) {
    this.key = key;
    this.least = least;
    this.whole = { from, to: Math.max(to, from + least) };
    this.from = this.whole.from;
    this.to = this.whole.to;
    this.names = 0; // pixels of the widest name of a row, of all pictures
    /** @type {Set<() => void>} */
    this.listeners = new Set();
    this.timer = 0;
    const found = /^(-?[\d.]+)_(-?[\d.]+)$/.exec(get(key));
    if (found && Number(found[2]) > Number(found[1]) && Number.isFinite(Number(found[2]) - Number(found[1]))) this.place(Number(found[1]), Number(found[2]));
  }

  get length() {
    return this.to - this.from;
  }

  /** @param {number} from @param {number} to */
  place(from, to) {
    const length = Math.min(Math.max(this.least, to - from), this.whole.to - this.whole.from);
    const middle = (from + to) / 2;
    this.from = Math.max(this.whole.from, Math.min(this.whole.to - length, middle - length / 2));
    this.to = this.from + length;
  }

  /** @param {number} from @param {number} to */
  show(from, to) {
    this.place(from, to);
    this.listeners.forEach((listener) => listener());
    clearTimeout(this.timer);
    this.timer = setLater(() => {
      const isWhole = this.from <= this.whole.from && this.to >= this.whole.to;
      return { [this.key]: isWhole ? null : `${Number(this.from.toFixed(2))}_${Number(this.to.toFixed(2))}` };
    }, SETTLED_MS);
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

  /** Shows a stretch, if it is outside. @param {number} from @param {number} to */
  reveal(from, to) {
    if (to < this.from || from > this.to) this.show((from + to - this.length) / 2, (from + to + this.length) / 2);
  }
}
