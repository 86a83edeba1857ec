/** Which of my lines costs this? */

import { h, replace } from "../core/dom.js";
import { edged } from "../core/edges.js";
import { plural, shortPath } from "../core/format.js";
import { columnsOf, cyclesOf, either } from "../core/pairs.js";
import { get, link, number, set } from "../core/state.js";
import { table } from "../core/table.js";
import { text, valueOf } from "../core/value.js";
import { codeList, figuresOf } from "./source/code.js";
import { filesOf, linesOf, matchedFiles, sourceOf } from "./source/costs.js";
import { linePanel } from "./source/line.js";
import { choice, listSearch } from "./steps/controls.js";
import { NAMES, stepsOf } from "./steps/read.js";

/** @import { CodeLine, Cost, Source } from "./source/costs.js" */

const LONGEST_PATH = 64; // characters in the choice of files

/** @type {import("../core/page.js").View} */
export const source = {
  name: "source",
  title: "Source",
  question: "Which of my lines costs this?",
  needs: "source",
  absent: "The recording has no programs, so no line has a cost.",
  async render(sides, page) {
    const { sources, names: namesOfA } = matchedFiles(await Promise.all(sides.map(sourceOf)));
    const all = await Promise.all(sides.map(stepsOf));
    const files = filesOf(sources);
    const code = h("section", { class: "source-code", "aria-label": "code" });
    const panel = h("section", { class: "line-panel", "aria-label": "the chosen line", "aria-live": "polite" });

    /** @param {string} file @param {number} line */
    const show = (file, line) => {
      const having = sources.filter(({ files: own }) => own.has(file));
      const steps = all.filter(({ side }) => having.some((each) => each.side === side));
      const { lines, lost, of } = linesOf(having, file);
      const shown = lines.find((each) => each.number === line);
      const choose = (/** @type {CodeLine} */ chosen) => {
        set({ file, line: chosen.number });
        replace(panel, linePanel(page, having, steps, file, chosen));
      };
      replace(code, pairing(sources, file), of ? listing(having, file, lines, line, choose) : lineTable(having, file, lines, choose), lostLines(lost, having, file));
      if (shown) replace(panel, linePanel(page, having, steps, file, shown));
      else replace(panel, h("p", { class: "note" }, line ? `Line ${line} of ${file} has no cost.` : "Choose a line with a cost to see what it became."));
    };

    if (!files.length) return [h("p", { class: "absent" }, "No line of the program has a cost: nothing ran, or nothing says where steps come from.")];
    const wanted = namesOfA.get(get("file")) ?? get("file");
    const start = files.some(({ file }) => file === wanted) ? wanted : /** @type {{file: string}} */ (files[0]).file;
    show(start, number("line", 0));
    const most = Math.max(...sources.map(({ cycles }) => cycles), 1);
    const names = files.map(({ file, cycles }) => /** @type {[string, string]} */ ([file, `${shortPath(file, LONGEST_PATH)} (${text(cycles / most, "share")})`]));
    const chooser = choice("file", names, start, (file) => {
      set({ file, line: null });
      show(file, 0);
    });
    return [...sources.flatMap((each) => answer(each, sources.length > 1)), h("div", { class: "controls" }, chooser, ...sources.map((each) => summary(each, sources.length > 1))), code, panel];
  },
};

/** Which file of A stands beside one of B, where that is not plain. @param {Source[]} sources @param {string} file @returns {HTMLElement | null} */
function pairing(sources, file) {
  const [a, b] = sources.map((source) => source.files.get(file));
  if (sources.length < 2 || (a && b && a.file === b.file)) return null;
  if (a && b) return h("p", { class: "note" }, `${a.file} of A stands beside ${b.file} of B: they have the same ${a.code !== null && a.code === b.code ? "content" : "name"}.`);
  const [has, lacks] = a ? ["A", "B"] : ["B", "A"];
  return h("p", { class: "note" }, `Files not matched: no file of ${lacks} has the path, the content or the name of this one of ${has}, so its costs stand alone.`);
}

/** The line that costs most. @param {Source} source @param {boolean} two @returns {HTMLElement[]} */
function answer({ side, cycles, inTurn, files }, two) {
  const costs = [...files.values()].flatMap((file) => [...file.costs.values()]);
  const [first] = costs.sort((one, other) => other.cycles - one.cycles);
  if (!first?.cycles) return [];
  const to = h("a", { href: link("source", { file: first.file, line: first.line }) }, `${first.file}:${first.line}`);
  const what = [first.function ? ` in ${first.function}` : "", " costs most: ", valueOf(first.cycles, side.cycles, "source.cycles"), ", ", valueOf(first.cycles / cycles, "share", "source.share"), " of the time in steps."];
  const whole = side.head.emulated_cycles;
  const spent = valueOf(whole, side.cycles, "head.total");
  const steps = inTurn
    ? [" Steps are ", valueOf(cycles / whole, "share", "source.whole"), " of the ", spent, " emulated; the rest is loads, transfers and waits."]
    : [" Steps take ", valueOf(cycles, side.cycles, "source.share"), " in all programs together, some of which may run at once; ", spent, " were emulated."];
  return [h("p", { class: "answer" }, two ? h("strong", {}, `${side.name.toUpperCase()}: `) : null, to, what, whole ? steps : null, moving(side, costs, inTurn))];
}

/** The line whose calls load and transfer most. @param {Source["side"]} side @param {Cost[]} costs @param {boolean} inTurn @returns {import("../core/dom.js").Children} */
function moving(side, costs, inTurn) {
  const most = costs.reduce((/** @type {Cost | null} */ found, cost) => (cost.moved > (found?.moved ?? 0) ? cost : found), null);
  if (!most) return null;
  const to = h("a", { href: link("source", { file: most.file, line: most.line }) }, `${most.file}:${most.line}`);
  return [" The calls of ", to, " load and transfer most: ", valueOf(most.moved, side.cycles, "source.moved"), inTurn ? "." : ", programs added up."];
}

/** @param {Source} source @param {boolean} two @returns {HTMLElement} */
function summary({ side, cycles, unknown }, two) {
  const rest = unknown ? [", of which ", valueOf(unknown, side.cycles, "source.cycles"), " have no line"] : null;
  return h("span", { class: "note" }, two ? `${side.name.toUpperCase()}: ` : null, valueOf(cycles, side.cycles, "source.share"), " in steps", rest);
}

/**
 * @param {Source[]} sources
 * @param {string} file
 * @param {CodeLine[]} lines
 * @param {number} line
 * @param {(line: CodeLine) => void} choose
 * @returns {HTMLElement[]}
 */
function listing(sources, file, lines, line, choose) {
  const list = codeList({ sources, file, lines, chosen: line, choose });
  const query = get("q");
  const { field, note, find } = listSearch("search in the code", list, (found, words) => (words ? plural(found, "line") : ""));
  const costly = lines.filter(({ a, b }) => a?.cycles || b?.cycles).sort((one, other) => cyclesOf(other) - cyclesOf(one))[0];
  requestAnimationFrame(() => {
    if (query) find(query);
    if (line || costly) list.show(line || (costly?.number ?? 0));
  });
  const whose = sources.length > 1 ? "The code is B's where B has it; A's costs stand where its lines are now. " : "";
  return [
    h("div", { class: "controls" }, field, h("button", { type: "button", onclick: () => costly && list.show(costly.number) }, "To the most costly line"), note),
    edged(list.element),
    sources.length > 1 ? null : h("p", { class: "note no-room code-figures" }, "A wider window has flop, bytes and executions beside the code; the figures of the chosen line have them in any."),
    h("p", { class: "keys" }, `${whose}Keys: arrows move, n and p go to the next and the previous line with a cost, Enter shows its steps.`),
  ].filter((part) => part !== null);
}

/** The lines alone, where there is no code. @param {Source[]} sources @param {string} file @param {CodeLine[]} lines @param {(line: CodeLine) => void} choose @returns {HTMLElement[]} */
function lineTable(sources, file, lines, choose) {
  const why = [...new Set(sources.map((source) => source.files.get(file)?.why).filter(Boolean))].join(" ");
  const sides = sources.map(({ side }) => side);
  const figures = figuresOf(sources, lines).slice(0, sides.length > 1 ? 1 : undefined);
  /** @type {import("../core/table.js").Column<CodeLine>[]} */
  const columns = [
    { name: "line", of: (line) => line.number, cell: (line) => `${file}:${line.number}` },
    { name: "function", of: either((/** @type {Cost} */ cost) => cost.function) },
    ...figures.flatMap((figure) => columnsOf(sides, figure)),
  ];
  return [h("p", { class: "no-code" }, `${why} The lines stand here without it.`), table({ label: `lines of ${file}`, columns, rows: lines, sortBy: 2, open: choose })];
}

/** @param {Cost[]} lost @param {Source[]} sources @param {string} file @returns {HTMLElement | null} */
function lostLines(lost, sources, file) {
  const costs = lost.filter(({ cycles }) => cycles);
  if (!costs.length || sources.length < 2) return null;
  /** @type {import("../core/table.js").Column<Cost>[]} */
  const columns = [
    { name: "line of A", of: (cost) => cost.line, cell: (cost) => `${cost.file}:${cost.line}` },
    { name: "function", of: (cost) => cost.function },
    { name: "code", of: (cost) => sources[0]?.files.get(file)?.lines?.[cost.line - 1]?.trim() ?? "" },
    { name: `${NAMES.time}, A`, unit: "cycles", origin: "source.cycles", of: (cost) => cost.cycles },
  ];
  return h("div", {}, h("h3", {}, "Lines of A that B has no more"), table({ label: "lines of A that B has no more", columns, rows: costs, sortBy: 3 }));
}
