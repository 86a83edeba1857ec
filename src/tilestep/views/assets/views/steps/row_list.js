/** A list with one row that keys move and that takes the focus. */

import { h } from "../../core/dom.js";
import { SeenRows } from "../../core/seen_rows.js";

/** @typedef {Pick<import("../../core/seen_rows.js").SeenRowsOptions, "scroller" | "body" | "height" | "count" | "row">} Rows */
/**
 * @typedef {object} Actions
 * @property {(event: KeyboardEvent, place: number) => number | null | undefined} onKey where the focus goes; null: it stays; undefined: the key is not its own
 * @property {(event: MouseEvent, place: number) => void} onPress
 */

export class RowList {
  /** @param {Rows & Actions} options */
  constructor(options) {
    const { body, row } = options;
    this.options = options;
    this.active = 0;
    this.rows = new SeenRows({
      ...options,
      most: 0,
      row: (place) => {
        const element = row(place);
        element.dataset.place = String(place);
        element.tabIndex = place === this.active ? 0 : -1;
        return element;
      },
      space: (height) => h("div", { "aria-hidden": "true", style: { height: `${height}px` } }),
      kept: () => this.active,
      drawn: (focused) => focused && this.element()?.focus({ preventScroll: true }),
    });
    body.addEventListener("keydown", (event) => this.key(event));
    body.addEventListener("click", (event) => this.press(event));
    this.draw();
  }

  /** Draws the rows that are seen, after rows have changed. */
  draw() {
    this.active = Math.max(0, Math.min(this.active, this.options.count() - 1));
    this.rows.draw(true);
  }

  /** The element of the active row, if there is one. @returns {HTMLElement | null} */
  element() {
    return this.options.body.querySelector(`[data-place="${this.active}"]`);
  }

  /** Moves to a row, and brings it into sight. @param {number} place @param {boolean} [focus] @param {boolean} [middle] whether to the middle */
  go(place, focus = true, middle = false) {
    this.active = Math.max(0, Math.min(place, this.options.count() - 1));
    this.rows.reveal(this.active, middle);
    if (focus) this.element()?.focus({ preventScroll: true });
  }

  /** Goes to the next row, or to the one before, that is looked for. @param {boolean} forward @param {(place: number) => boolean} matches @returns {number} its place; -1: there is none */
  seek(forward, matches) {
    const total = this.options.count();
    for (let step = 1; step <= total; step++) {
      const place = (this.active + (forward ? step : -step) + 2 * total) % total;
      if (!matches(place)) continue;
      this.go(place, false, true);
      return place;
    }
    return -1;
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const place = placeOf(event.target);
    if (place < 0) return;
    this.active = place;
    const page = Math.max(1, Math.floor(this.options.scroller.clientHeight / this.options.height) - 2);
    const moves = /** @type {Record<string, number>} */ ({ ArrowDown: place + 1, ArrowUp: place - 1, PageDown: place + page, PageUp: place - page, Home: 0, End: this.options.count() - 1 });
    const own = this.options.onKey(event, place);
    const target = own === undefined ? moves[event.key] : own;
    if (target === undefined) return;
    event.preventDefault();
    if (target !== null) this.go(target);
  }

  /** @param {MouseEvent} event */
  press(event) {
    const place = placeOf(event.target);
    if (place < 0 || (event.target instanceof Element && event.target.closest("a"))) return;
    this.active = place;
    this.options.onPress(event, place);
    this.element()?.focus({ preventScroll: true });
  }
}

/** @param {EventTarget | null} target @returns {number} */
function placeOf(target) {
  const row = target instanceof Element ? target.closest("[data-place]") : null;
  return row ? Number(row.getAttribute("data-place")) : -1;
}
