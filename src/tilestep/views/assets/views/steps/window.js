/** A list of which only the seen rows are in the document, with one row that keys move and that takes the focus. */

import { h, replace } from "../../core/dom.js";

const AROUND = 20; // rows drawn above and below those that are seen

/**
 * @typedef {object} WindowOptions
 * @property {HTMLElement} scroller that scrolls, of a fixed height
 * @property {HTMLElement} body takes the rows
 * @property {number} height of a row in CSS pixels
 * @property {() => number} count of rows
 * @property {(place: number) => HTMLElement} row makes one
 * @property {(event: KeyboardEvent, place: number) => number | null | undefined} [onKey] where the focus goes; null: it stays; undefined: the key is not its own
 * @property {(event: MouseEvent, place: number) => void} [onPress]
 */

export class RowWindow {
  /** @param {WindowOptions} options */
  constructor(options) {
    this.options = options;
    this.active = 0;
    this.first = -1;
    this.last = -1;
    options.scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    options.body.addEventListener("keydown", (event) => this.key(event));
    options.body.addEventListener("click", (event) => this.press(event));
    addEventListener("beforeprint", () => this.draw(true, true));
    addEventListener("afterprint", () => this.draw(true));
    new ResizeObserver(() => this.draw()).observe(options.scroller);
    this.draw(true);
  }

  /**
   * Draws the rows that are seen.
   * @param {boolean} [anew] whether rows have changed
   * @param {boolean} [whole] whether to draw all
   */
  draw(anew = false, whole = false) {
    const { scroller, body, height, count, row } = this.options;
    const total = count();
    const top = Math.floor(scroller.scrollTop / height);
    const seen = Math.ceil((scroller.clientHeight || 600) / height);
    const first = whole ? 0 : Math.max(0, Math.min(top - AROUND, total - seen));
    const last = whole ? total : Math.min(total, top + seen + AROUND);
    if (!anew && first === this.first && last === this.last) return;
    if (!anew && Math.abs(first - this.first) < AROUND / 2 && this.last >= Math.min(total, top + seen)) return;
    [this.first, this.last] = [first, last];
    this.active = Math.max(0, Math.min(this.active, total - 1));
    const focused = body.contains(document.activeElement);
    const rows = [];
    for (let place = first; place < last; place++) {
      const element = row(place);
      element.dataset.place = String(place);
      element.tabIndex = place === this.active ? 0 : -1;
      rows.push(element);
    }
    replace(body, space(first * height), rows, space((total - last) * height));
    if (focused) this.element()?.focus({ preventScroll: true });
    // The active row may be out of sight: the list itself then has to be reachable by Tab.
    if (!this.element() && rows[0]) rows[0].tabIndex = 0;
  }

  /** The element of the active row, if it is drawn. @returns {HTMLElement | null} */
  element() {
    return this.options.body.querySelector(`[data-place="${this.active}"]`);
  }

  /** Moves to a row, and brings it into sight. @param {number} place @param {boolean} [focus] @param {boolean} [middle] whether to the middle */
  go(place, focus = true, middle = false) {
    const { scroller, height, count } = this.options;
    this.active = Math.max(0, Math.min(place, count() - 1));
    const head = this.options.body.offsetTop; // a heading may stand above the rows
    const [top, room] = [this.active * height, (scroller.clientHeight || 600) - head];
    if (middle) scroller.scrollTop = top - room / 2;
    else if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (top + 2 * height > scroller.scrollTop + room) scroller.scrollTop = top + 2 * height - room;
    this.draw(true);
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
    const own = this.options.onKey?.(event, place);
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
    this.options.onPress?.(event, place);
    this.element()?.focus({ preventScroll: true });
  }
}

/** @param {EventTarget | null} target @returns {number} */
function placeOf(target) {
  const row = target instanceof Element ? target.closest("[data-place]") : null;
  return row ? Number(row.getAttribute("data-place")) : -1;
}

/** @param {number} height @returns {HTMLElement | null} */
function space(height) {
  return height > 0 ? h("div", { "aria-hidden": "true", style: { height: `${height}px` } }) : null;
}
