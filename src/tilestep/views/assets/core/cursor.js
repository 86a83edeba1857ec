/** The cell of a table that keys move and that has the focus: a whole table is one stop of the Tab key. */

/**
 * What a cursor asks of its table. Row -1 is that of the headings.
 * @typedef {object} Cells
 * @property {HTMLElement} grid
 * @property {() => number} rows
 * @property {number} columns
 * @property {() => number} page rows that are seen at once
 * @property {(row: number) => Element | null} rowAt null: it is not drawn
 * @property {(row: number) => void} draw draws a row, wherever it is
 */

const INNER = "a, button, [tabindex]";

export class Cursor {
  /** @param {Cells} cells */
  constructor(cells) {
    this.cells = cells;
    this.row = -1;
    this.column = 0;
    cells.grid.addEventListener("keydown", (event) => this.key(event));
    cells.grid.addEventListener("focusin", (event) => this.enter(event.target));
  }

  /** Marks the cell of the cursor, after rows were drawn anew. @param {boolean} focus whether it had the focus */
  mark(focus) {
    this.row = Math.min(this.row, this.cells.rows() - 1);
    for (const each of this.cells.grid.querySelectorAll('[tabindex="0"]')) each.setAttribute("tabindex", "-1");
    const stop = this.stop();
    stop?.setAttribute("tabindex", "0");
    if (focus) stop?.focus({ preventScroll: true });
  }

  /** What has the focus: a cell, or the button of a heading. @returns {HTMLElement | null} */
  stop() {
    const cell = this.cells.rowAt(this.row)?.children[this.column];
    return /** @type {HTMLElement | null} */ (this.row < 0 ? (cell?.querySelector("button") ?? null) : (cell ?? null));
  }

  /** @param {number} row @param {number} column */
  go(row, column) {
    this.row = Math.max(-1, Math.min(row, this.cells.rows() - 1));
    this.column = Math.max(0, Math.min(column, this.cells.columns - 1));
    if (!this.cells.rowAt(this.row)) this.cells.draw(this.row);
    this.mark(true);
    this.stop()?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  /** The cell in which something got the focus, as by a click, is that of the cursor. @param {EventTarget | null} target */
  enter(target) {
    const cell = target instanceof Element ? target.closest("td, th") : null;
    const row = cell?.parentElement;
    if (!cell || !row) return;
    [this.row, this.column] = [Number(row.getAttribute("aria-rowindex")) - 2, Array.from(row.children).indexOf(cell)];
    this.mark(false);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const { row, column, cells } = this;
    if (event.metaKey || event.altKey || !(event.target instanceof HTMLElement)) return;
    const to = moves(row, column, cells)[`${event.ctrlKey ? "Ctrl+" : ""}${event.key}`];
    if (to) {
      event.preventDefault();
      this.go(...to);
    } else if ((event.key === "Enter" || event.key === " ") && event.target.matches("td")) {
      event.preventDefault();
      /** @type {HTMLElement} */ (event.target.querySelector("a, button") ?? event.target).click();
    }
  }
}

/** Where keys go. @param {number} row @param {number} column @param {Cells} cells @returns {Record<string, [number, number]>} */
function moves(row, column, cells) {
  const [last, bottom] = [cells.columns - 1, cells.rows() - 1];
  return {
    ArrowDown: [row + 1, column],
    ArrowUp: [row - 1, column],
    ArrowRight: [row, column + 1],
    ArrowLeft: [row, column - 1],
    Home: [row, 0],
    End: [row, last],
    PageDown: [row + cells.page(), column],
    PageUp: [Math.max(0, row - cells.page()), column],
    "Ctrl+Home": [-1, 0],
    "Ctrl+End": [bottom, last],
  };
}

/** What is in a cell is no stop of the Tab key by itself. @template {HTMLElement} Cell @param {Cell} cell @returns {Cell} */
export function quiet(cell) {
  cell.setAttribute("tabindex", "-1");
  for (const each of cell.querySelectorAll(INNER)) each.setAttribute("tabindex", "-1");
  return cell;
}
