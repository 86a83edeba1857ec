/** The code of a file, with what each line costs behind it. */

import { h } from "../../core/dom.js";
import { plural } from "../../core/format.js";
import { explained, text } from "../../core/value.js";
import { NAMES } from "../steps/read.js";
import { RowList } from "../steps/row_list.js";

/** @import { CodeLine, Cost, Source } from "./costs.js" */
/** @import { Unit } from "../../core/value.js" */
/** @typedef {{name: string, unit: Unit, origin: string, of: (cost: Cost) => number, words?: (cost: Cost) => string}} Figure */

const ROW_HEIGHT = 21; // px, as source.css has it
const LONGEST = 2000; // characters of a line that are shown

/** @type {Figure} */
export const CYCLES = { name: NAMES.time, unit: "cycles", origin: "source.cycles", of: (cost) => cost.cycles };
/** @type {Figure} */
const MOVED = { name: "loads, transfers", unit: "cycles", origin: "source.moved", of: (cost) => cost.moved };
/** @type {Figure} */
const CALLS = {
  name: "calls",
  unit: "count",
  origin: "source.calls",
  of: (cost) => cost.dispatches + cost.waits + cost.reads,
  words: (cost) => `${plural(cost.dispatches, "run")}, ${plural(cost.waits, "wait")}, ${plural(cost.reads, "read")} of values. `,
};

/** The figures of a line that the recording has. @param {Source} source @param {CodeLine[]} lines @returns {Figure[]} */
export function figuresOf(source, lines) {
  const any = (/** @type {(cost: Cost) => number} */ of) => lines.some(({ cost }) => cost && of(cost));
  /** @type {Figure[]} */
  const found = [CYCLES];
  found.push({ name: NAMES.flop, unit: "flops", origin: "source.flops", of: (cost) => cost.flops });
  found.push({ name: NAMES.exchanged, unit: "bytes", origin: "source.exchange_bytes", of: (cost) => cost.exchange_bytes });
  if (source.has_lives) found.push({ name: "on a tile", unit: "bytes", origin: "source.tile_bytes", of: (cost) => cost.tile_bytes });
  found.push({ name: NAMES.executions, unit: "count", origin: "source.executions", of: (cost) => cost.executions });
  if (any(MOVED.of)) found.push(MOVED);
  if (any(CALLS.of)) found.push(CALLS);
  return found;
}

/**
 * @param {object} options
 * @param {Source} options.source
 * @param {string} options.file
 * @param {CodeLine[]} options.lines
 * @param {number} options.chosen number of a line; 0: none
 * @param {(line: CodeLine) => void} options.choose
 * @returns {{element: HTMLElement, find: (query: string) => number, next: (forward: boolean) => string, show: (number: number) => void}}
 */
export function codeList({ source, file, lines, chosen, choose }) {
  const figures = figuresOf(source, lines);
  const whole = Math.max(source.cycles, 1);
  let query = "";
  const scroller = h("div", { class: "scroller code" });
  const body = h("div", { role: "rowgroup" });
  const head = h(
    "div",
    { role: "row", class: "code-row head" },
    h("span", { role: "columnheader", class: "n number" }, "line"),
    h("span", { role: "columnheader", class: "text" }, "code"),
    costs(
      figures.flatMap(({ name }, place) => {
        const cell = h("span", { role: "columnheader", class: place ? "n extra" : "n" }, name);
        return place ? [cell] : [cell, h("span", { role: "columnheader", class: "part" }, "share")];
      }),
    ),
  );
  const grid = h("div", { role: "grid", class: "code-grid", "aria-label": `the lines of ${file} with their costs`, "aria-rowcount": lines.length + 1 }, head, body);
  scroller.append(grid);

  /** @param {Cost | undefined} cost @param {Figure} figure @returns {HTMLElement} */
  const cell = (cost, { name, unit, origin, of, words }) => {
    const value = cost ? of(cost) : 0;
    const look = name === CYCLES.name ? "n" : "n extra";
    if (!cost || !value) return h("span", { role: "gridcell", class: look });
    return h("span", { role: "gridcell", class: look, "data-value": value, "data-tip": (words?.(cost) ?? "") + explained(value, unit, origin) }, text(value, unit));
  };
  /** @param {Cost | undefined} cost @returns {HTMLElement} */
  const bar = (cost) => {
    if (!cost?.cycles) return h("span", { role: "gridcell", class: "part" });
    const share = cost.cycles / whole;
    const tip = explained(share, "share", "source.share");
    return h("span", { role: "gridcell", class: "part", "data-value": share, "data-tip": tip }, h("i", { style: { width: `max(1px, ${share} * (100% - 4rem))` } }), text(share, "share"));
  };
  // As tables have it, for tests: the figures by line.
  /** @type {any} */ (scroller).allRows = () => lines.map(({ number, cost }) => [number, ...figures.map(({ of }) => (cost ? of(cost) : null))]);
  const costly = lines.map(({ cost }) => cost !== undefined);
  const rows = new RowList({
    scroller,
    body,
    height: ROW_HEIGHT,
    count: () => lines.length,
    row(place) {
      const line = /** @type {CodeLine} */ (lines[place]);
      return h(
        "div",
        { role: "row", class: `code-row${costly[place] ? " costs" : ""}`, "aria-rowindex": place + 2, "aria-selected": String(line.number === chosen) },
        h("span", { role: "rowheader", class: "n number" }, line.number),
        h("span", { role: "gridcell", class: "text" }, marked(line.text ?? "", query)),
        costs(figures.flatMap((figure, place) => (place ? [cell(line.cost, figure)] : [cell(line.cost, figure), bar(line.cost)]))),
      );
    },
    onKey(event, place) {
      if (event.key === "Enter" || event.key === " ") return pick(place);
      if (event.key !== "n" && event.key !== "p") return undefined;
      const next = event.key === "n" ? costly.indexOf(true, place + 1) : place ? costly.lastIndexOf(true, place - 1) : -1;
      return next < 0 ? null : next;
    },
    onPress: (_, place) => pick(place),
  });

  /** @param {number} place @returns {null} */
  function pick(place) {
    const line = lines[place];
    if (line && costly[place]) {
      chosen = line.number;
      choose(line);
      rows.draw();
    }
    return null;
  }
  /** @param {number} place @returns {boolean} */
  const matches = (place) => query !== "" && (lines[place]?.text ?? "").toLowerCase().includes(query);

  return {
    element: scroller,
    find(words) {
      query = words.trim().toLowerCase();
      const found = lines.filter((_, place) => matches(place)).length;
      rows.draw();
      return found;
    },
    next(forward) {
      const found = lines[rows.seek(forward, matches)];
      return found ? `line ${found.number}` : "no line matches";
    },
    show(number) {
      const place = lines.findIndex((line) => line.number === number);
      if (place >= 0) rows.go(place, false, true);
    },
  };
}

/** What stands behind the code, and keeps its place while long lines go below it. @param {HTMLElement[]} cells @returns {HTMLElement} */
function costs(cells) {
  return h("span", { role: "none", class: "behind" }, cells);
}

/** A text whose matches are marked. @param {string} line @param {string} query @returns {import("../../core/dom.js").Child[]} */
export function marked(line, query) {
  const cut = line.length > LONGEST ? `${line.slice(0, LONGEST)}…` : line;
  if (!query) return [cut];
  /** @type {import("../../core/dom.js").Child[]} */
  const parts = [];
  const low = cut.toLowerCase();
  let from = 0;
  for (let at = low.indexOf(query); at >= 0 && low.length === cut.length; at = low.indexOf(query, from)) {
    parts.push(cut.slice(from, at), h("mark", {}, cut.slice(at, at + query.length)));
    from = at + query.length;
  }
  return [...parts, cut.slice(from)];
}
