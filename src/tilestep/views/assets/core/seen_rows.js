/** Rows of which only the seen ones are in the document, in a list or a table that scrolls. */

import { replace } from "./dom.js";

const AROUND = 30; // rows drawn above and below those that are seen

/**
 * @typedef {object} SeenRowsOptions
 * @property {HTMLElement} scroller that scrolls, of class scroller
 * @property {HTMLElement} body takes the rows
 * @property {number} height of a row in CSS pixels
 * @property {number} most rows that are all drawn: of more, those that are seen
 * @property {() => number} count of rows
 * @property {(place: number) => HTMLElement} row makes one
 * @property {(height: number) => HTMLElement} space makes what stands for others
 * @property {() => number} kept the row that is a stop of the Tab key, also where it is out of sight; -1: none is
 * @property {(focused: boolean) => void} drawn does what follows; focused: a row had the focus
 */

/** Draws every row of all that are on the page, or what is seen again. @param {boolean} printing */
function print(printing) {
  for (const scroller of document.querySelectorAll(".scroller")) /** @type {any} */ (scroller).print?.(printing);
}

addEventListener("beforeprint", () => print(true));
addEventListener("afterprint", () => print(false));

export class SeenRows {
  /** @param {SeenRowsOptions} options */
  constructor(options) {
    this.options = options;
    this.first = -1;
    this.last = -1;
    this.printing = false;
    options.scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(options.scroller);
    /** @type {any} */ (options.scroller).print = (/** @type {boolean} */ printing) => {
      this.printing = printing;
      this.draw(true);
    };
  }

  /** Draws the rows that are seen, and the one that is kept. @param {boolean} [anew] whether rows have changed */
  draw(anew = false) {
    const { scroller, body, height, most, count, row, space, kept: keptRow, drawn } = this.options;
    const [total, kept] = [count(), keptRow()];
    if (!total) return;
    const top = Math.floor(scroller.scrollTop / height);
    const seen = Math.ceil((scroller.clientHeight || 600) / height);
    const isWhole = this.printing || total <= most;
    const first = isWhole ? 0 : Math.max(0, Math.min(top - AROUND, total - seen));
    const last = isWhole ? total : Math.min(total, top + seen + AROUND);
    const isNear = Math.abs(first - this.first) < AROUND / 2 && this.last >= Math.min(total, top + seen);
    if (!anew && isNear && (!isWhole || this.last === total)) return;
    [this.first, this.last] = [first, last];
    const focused = body.contains(document.activeElement);
    const spans = [[first, last]];
    if (kept >= 0 && kept < first) spans.unshift([kept, kept + 1]);
    else if (kept >= last && kept < total) spans.push([kept, kept + 1]);
    const parts = [];
    let next = 0;
    for (const [from = 0, to = 0] of spans) {
      if (from > next) parts.push(space((from - next) * height));
      for (next = from; next < to; next++) parts.push(row(next));
    }
    replace(body, parts, next < total && space((total - next) * height));
    drawn(focused);
  }

  /** Brings a row into sight. @param {number} place @param {boolean} [middle] whether to the middle */
  reveal(place, middle = false) {
    const { scroller, body, height } = this.options;
    const [top, room] = [place * height, (scroller.clientHeight || 600) - body.offsetTop]; // a heading may stand above the rows
    if (middle) scroller.scrollTop = top - room / 2;
    else if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (top + 2 * height > scroller.scrollTop + room) scroller.scrollTop = top + 2 * height - room;
    this.draw(true);
  }
}
