/** Tables: sorted by a heading, filtered by words, read cell by cell with keys, and drawn only where they are seen if they are long. */

import { Cursor, quiet } from "./cursor.js";
import { h, replace } from "./dom.js";
import { edged } from "./edges.js";
import { count, plural } from "./format.js";
import { SeenRows } from "./seen_rows.js";
import { meaning } from "./terms.js";
import { explained, sentence, text } from "./value.js";

/** @import { Unit } from "./value.js" */
/**
 * @template Row
 * @typedef {object} Column
 * @property {string} name of the heading
 * @property {(row: Row) => number | string | null | undefined} of the value; null: unknown
 * @property {Unit | ((row: Row) => Unit)} [unit] of numbers; without it the column has words
 * @property {string | ((row: Row) => string)} [origin] key of the sentence that says where its numbers come from
 * @property {(row: Row) => number | null} [rank] what it is sorted by in place of its value
 * @property {(row: Row) => import("./dom.js").Children} [cell] what stands in the cell in place of the value's text
 */
/**
 * @template Row
 * @typedef {object} Options
 * @property {string} label what the table is of
 * @property {Column<Row>[]} columns
 * @property {Row[]} rows
 * @property {number} [sortBy] column by which it is sorted at first; -1: as the rows come
 * @property {(row: Row) => void} [open] what Enter or a click on a row does
 * @property {boolean} [filter] whether there is a field to search in it
 * @property {string} [empty] what stands there if there are no rows
 */

const ROW_HEIGHT = 26; // px, as page.css has it
const MOST_AT_ONCE = 400; // rows: longer tables are drawn in windows
const MOST_ON_A_LINE = 12; // characters of a heading: a longer one may take more lines

/**
 * A table with its controls.
 * @template Row
 * @param {Options<Row>} options
 * @returns {HTMLElement}
 */
export function table(options) {
  return new Table(options).element;
}

/** @template Row */
class Table {
  /** @param {Options<Row>} options */
  constructor(options) {
    this.options = options;
    this.by = options.sortBy ?? -1;
    this.descending = true;
    /** @type {Row[]} */
    this.shown = options.rows;
    this.body = h("tbody");
    this.heads = options.columns.map((column, index) => this.head(column, index));
    this.top = h("tr", { "aria-rowindex": 1 }, this.heads);
    this.grid = h("table", { role: "grid", "aria-readonly": "true", "aria-label": options.label }, h("thead", {}, this.top), this.body);
    this.scroller = h("div", { class: "scroller", role: "region", "aria-label": options.label }, this.grid);
    this.cursor = new Cursor({
      grid: this.grid,
      rows: () => this.shown.length,
      columns: options.columns.length,
      page: () => Math.max(1, Math.floor(this.scroller.clientHeight / ROW_HEIGHT) - 2),
      rowAt: (row) => (row < 0 ? this.top : this.body.querySelector(`[aria-rowindex="${row + 2}"]`)),
      draw: (row) => this.seen.reveal(row),
    });
    this.seen = new SeenRows({
      scroller: this.scroller,
      body: this.body,
      height: ROW_HEIGHT,
      most: MOST_AT_ONCE,
      count: () => this.shown.length,
      row: (place) => this.row(/** @type {Row} */ (this.shown[place]), place),
      space: (height) => h("tr", { class: "space", "aria-hidden": "true", style: { height: `${height}px` } }),
      kept: () => this.cursor.row,
      drawn: (focused) => this.cursor.mark(focused),
    });
    this.note = h("p", { class: "note", role: "status" });
    this.search = h("input", { type: "search", "aria-label": `search in ${options.label}`, placeholder: "search" });
    this.search.addEventListener("input", () => this.arrange());
    const controls = options.filter ? h("div", { class: "controls" }, this.search, this.note) : null;
    this.element = h("div", { class: "table" }, controls, edged(this.scroller));
    /** @type {any} */ (this.scroller).allRows = () => this.shown.map((row) => options.columns.map((column) => column.of(row) ?? null));
    this.arrange();
  }

  /** @param {Column<Row>} column @param {number} index @returns {HTMLElement} */
  head(column, index) {
    const words = meaning(column.name);
    const source = [words && `${column.name}: ${words}`, typeof column.origin === "string" ? sentence(column.origin) : ""].filter(Boolean).join("\n");
    const button = h("button", { type: "button", class: column.name.length > MOST_ON_A_LINE && "long", tabindex: "-1", "data-tip": source || false, onclick: () => this.sort(index) }, column.name);
    return h("th", { scope: "col", class: column.unit ? "number" : "words" }, button);
  }

  /** @param {number} index */
  sort(index) {
    this.descending = this.by === index ? !this.descending : this.options.columns[index]?.unit !== undefined;
    this.by = index;
    this.arrange();
  }

  /** Filters and sorts the rows anew. */
  arrange() {
    const { columns, rows, empty } = this.options;
    const wanted = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const words = columns.filter((column) => !column.unit);
    this.shown = wanted.length
      ? rows.filter((row) => {
          const all = words.map((column) => String(column.of(row) ?? "")).join("\n").toLowerCase();
          return wanted.every((word) => all.includes(word));
        })
      : [...rows];
    const by = columns[this.by];
    if (by) {
      const sign = this.descending ? -1 : 1;
      this.shown = this.shown
        .map((row, place) => ({ row, place, value: (by.rank ?? by.of)(row) }))
        .sort((a, b) => sign * compared(a.value, b.value) || a.place - b.place)
        .map(({ row }) => row);
    }
    this.heads.forEach((head, index) => {
      if (index === this.by) head.setAttribute("aria-sort", this.descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    this.note.textContent = wanted.length ? `${count(this.shown.length)} of ${plural(rows.length, "row")}` : plural(rows.length, "row");
    this.grid.setAttribute("aria-rowcount", String(this.shown.length + 1));
    if (this.shown.length) this.seen.draw(true);
    else {
      replace(this.body, h("tr", {}, h("td", { colspan: columns.length }, wanted.length ? "nothing matches" : (empty ?? "nothing"))));
      this.cursor.mark(false);
    }
  }

  /** @param {Row} row @param {number} place @returns {HTMLElement} */
  row(row, place) {
    const { columns, open } = this.options;
    const cells = columns.map((column, index) => quiet(this.cell(column, row, index === 0 && open !== undefined)));
    return h("tr", { "aria-rowindex": place + 2, class: open ? "opens" : false, onclick: open ? () => open(row) : null }, cells);
  }

  /** @param {Column<Row>} column @param {Row} row @param {boolean} opens @returns {HTMLElement} */
  cell(column, row, opens) {
    const value = column.of(row);
    const [unit, origin] = [column.unit, column.origin].map((each) => (typeof each === "function" ? each(row) : each));
    if (typeof value === "number" && unit) {
      const tip = explained(value, /** @type {Unit} */ (unit), origin ?? "");
      return h("td", { class: "number", "data-value": value, "data-tip": tip }, column.cell ? column.cell(row) : text(value, /** @type {Unit} */ (unit)));
    }
    const inner = column.cell ? column.cell(row) : (value ?? "–");
    const open = this.options.open;
    return h("td", { class: column.unit ? "number" : "words" }, opens && open ? h("button", { type: "button", class: "link" }, inner) : inner);
  }
}

/** @param {unknown} a @param {unknown} b @returns {number} */
function compared(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (a === null || a === undefined) return b === null || b === undefined ? 0 : -1;
  if (b === null || b === undefined) return 1;
  return String(a) < String(b) ? -1 : String(a) > String(b) ? 1 : 0;
}
