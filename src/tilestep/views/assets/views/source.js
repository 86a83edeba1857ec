/** Which of my lines costs this? */

import { h, replace } from "../core/dom.js";
import { edged } from "../core/edges.js";
import { plural, shortPath } from "../core/format.js";
import { get, link, number, set } from "../core/state.js";
import { table } from "../core/table.js";
import { text, valueOf } from "../core/value.js";
import { codeList, figuresOf } from "./source/code.js";
import { linesOf, sourceOf } from "./source/costs.js";
import { linePanel } from "./source/line.js";
import { choice, listSearch } from "./steps/controls.js";
import { stepsOf } from "./steps/read.js";

/** @import { CodeLine, Cost, Source, SourceFile } from "./source/costs.js" */

const LONGEST_PATH = 64; // characters in the choice of files

/** @type {import("../core/page.js").View} */
export const source = {
  name: "source",
  title: "Source",
  question: "Which of my lines costs this?",
  needs: "source",
  absent: "The recording has no programs, so no line has a cost.",
  async render(side) {
    const [found, steps] = [await sourceOf(side), await stepsOf(side)];
    const code = h("section", { class: "source-code", "aria-label": "code" });
    const panel = h("section", { class: "line-panel", "aria-label": "the chosen line", "aria-live": "polite" });
    const files = [...found.files.values()];
    const [first] = files;
    if (!first) return [h("p", { class: "absent" }, "No line of the program has a cost: nothing ran, or nothing says where steps come from.")];

    /** @param {SourceFile} file @param {number} line */
    const show = (file, line) => {
      const lines = linesOf(file);
      const choose = (/** @type {CodeLine} */ chosen) => {
        set({ file: file.file, line: chosen.number });
        replace(panel, linePanel(found, steps, file, chosen));
      };
      replace(code, file.code === null ? lineTable(found, file, lines, choose) : listing(found, file, lines, line, choose));
      const shown = lines.find((each) => each.number === line);
      if (shown) replace(panel, linePanel(found, steps, file, shown));
      else replace(panel, h("p", { class: "note" }, line ? `Line ${line} of ${file.file} has no cost.` : "Choose a line with a cost to see what it became."));
    };

    const start = found.files.get(get("file")) ?? first;
    show(start, number("line", 0));
    const names = files.map(({ file, cycles }) => /** @type {[string, string]} */ ([file, `${shortPath(file, LONGEST_PATH)} (${text(cycles / Math.max(found.cycles, 1), "share")})`]));
    const chooser = choice("file", names, start.file, (file) => {
      set({ file, line: null });
      show(/** @type {SourceFile} */ (found.files.get(file)), 0);
    });
    const rest = found.unknown_cycles ? [", of which ", valueOf(found.unknown_cycles, "cycles", "source.cycles"), " have no line"] : null;
    return [...answer(found), h("div", { class: "controls" }, chooser, h("span", { class: "note" }, valueOf(found.cycles, "cycles", "source.share"), " in steps", rest)), code, panel];
  },
};

/** The line that costs most. @param {Source} source @returns {HTMLElement[]} */
function answer({ side, cycles, in_turn: inTurn, files }) {
  const costs = [...files.values()].flatMap((file) => [...file.costs.values()]);
  const [first] = costs.sort((one, other) => other.cycles - one.cycles);
  if (!first?.cycles) return [];
  const what = [first.function ? ` in ${first.function}` : "", " costs most: ", valueOf(first.cycles, "cycles", "source.cycles"), ", ", valueOf(first.cycles / cycles, "share", "source.share"), " of the time in steps."];
  const whole = side.head.emulated_cycles;
  const spent = valueOf(whole, "cycles", "head.total");
  const steps = inTurn
    ? [" Steps are ", valueOf(cycles / whole, "share", "source.whole"), " of the ", spent, " emulated; the rest is loads, transfers and waits."]
    : [" Steps take ", valueOf(cycles, "cycles", "source.share"), " in all programs together, some of which may run at once; ", spent, " were emulated."];
  return [h("p", { class: "answer" }, lineLink(first), what, whole ? steps : null, moving(costs, inTurn))];
}

/** @param {Cost} cost @returns {HTMLElement} */
function lineLink({ file, line }) {
  return h("a", { href: link("source", { file, line }) }, `${file}:${line}`);
}

/** The line whose calls load and transfer most. @param {Cost[]} costs @param {boolean} inTurn @returns {import("../core/dom.js").Children} */
function moving(costs, inTurn) {
  const most = costs.reduce((/** @type {Cost | null} */ found, cost) => (cost.moved > (found?.moved ?? 0) ? cost : found), null);
  return most && [" The calls of ", lineLink(most), " load and transfer most: ", valueOf(most.moved, "cycles", "source.moved"), inTurn ? "." : ", programs added up."];
}

/**
 * @param {Source} source
 * @param {SourceFile} file
 * @param {CodeLine[]} lines
 * @param {number} line
 * @param {(line: CodeLine) => void} choose
 * @returns {HTMLElement[]}
 */
function listing(source, file, lines, line, choose) {
  const list = codeList({ source, file: file.file, lines, chosen: line, choose });
  const query = get("q");
  const { field, note, find } = listSearch("search in the code", list, (found, words) => (words ? plural(found, "line") : ""));
  const costly = lines.reduce((/** @type {CodeLine | null} */ most, each) => ((each.cost?.cycles ?? 0) > (most?.cost?.cycles ?? 0) ? each : most), null);
  requestAnimationFrame(() => {
    if (query) find(query);
    if (line || costly) list.show(line || (costly?.number ?? 0));
  });
  return [
    h("div", { class: "controls" }, field, h("button", { type: "button", onclick: () => costly && list.show(costly.number) }, "To the most costly line"), note),
    edged(list.element),
    h("p", { class: "note no-room code-figures" }, "A wider window has flop, bytes and executions beside the code; the figures of the chosen line have them in any."),
    h("p", { class: "keys" }, "Keys: arrows move, n and p go to the next and the previous line with a cost, Enter shows its steps."),
  ];
}

/** The lines alone, where there is no code. @param {Source} source @param {SourceFile} file @param {CodeLine[]} lines @param {(line: CodeLine) => void} choose @returns {HTMLElement[]} */
function lineTable(source, { file, why }, lines, choose) {
  /** @type {import("../core/table.js").Column<CodeLine>[]} */
  const columns = [
    { name: "line", of: (line) => line.number, cell: (line) => `${file}:${line.number}` },
    { name: "function", of: ({ cost }) => cost?.function },
    ...figuresOf(source, lines).map(({ name, unit, origin, of }) => ({ name, unit, origin, of: (/** @type {CodeLine} */ { cost }) => cost && of(cost) })),
  ];
  return [h("p", { class: "no-code" }, `${why} The lines stand here without it.`), table({ label: `lines of ${file}`, columns, rows: lines, sortBy: 2, open: choose })];
}
