/** A tree of which only the seen rows are in the document, with the keys of the ARIA pattern for trees. */

import { h } from "../../core/dom.js";
import { count, plural } from "../../core/format.js";
import { link } from "../../core/state.js";
import { explained, text } from "../../core/value.js";
import { marked } from "../source/code.js";
import { KIND, NAMES, shortScope, walked } from "../steps/read.js";
import { RowList } from "../steps/row_list.js";
import { kindWords } from "./nodes.js";

/** @import { Node, Program } from "../steps/read.js" */
/** @typedef {{node: Node, depth: number, place: number}} Row */

const ROW_HEIGHT = 26; // px, as program.css has it
const MOST_OPENED = 2000; // matches to which a search opens the way
const TYPING_MS = 700; // after which a letter begins a new word

/**
 * @param {object} options
 * @param {Program} options.program
 * @param {Node} options.root of it
 * @param {Node[]} options.open at first
 * @param {(node: Node) => void} options.choose
 * @returns {{element: HTMLElement, show: (node: Node, focus?: boolean) => void, find: (query: string) => number, next: (forward: boolean) => string, openAll: (open: boolean) => void}}
 */
export function programTree({ program, root, open, choose }) {
  const opened = new Set(open);
  const whole = root.cycles || 1;
  /** @type {Row[]} */
  let rows = [];
  /** @type {Node | null} */
  let chosen = null;
  let query = "";
  let typed = "";
  let typedAt = 0;
  /** @type {Set<Node>} */
  let matches = new Set();

  const scroller = h("div", { class: "scroller tree" });
  const body = h("div", { role: "tree", "aria-label": `the program ${root.name}` });
  const names = [NAMES.ofRun, "share", NAMES.executions, NAMES.flop, NAMES.exchanged, "line"];
  scroller.append(h("div", { class: "tree-grid" }, h("div", { class: "tree-row head", "aria-hidden": "true" }, h("span", { class: "label" }, "node"), names.map((name) => h("span", { class: "n" }, name))), body));

  function arrange() {
    rows = [];
    /** @type {Row[]} */
    const ahead = [{ node: root, depth: 0, place: 0 }];
    for (let row = ahead.pop(); row; row = ahead.pop()) {
      rows.push(row);
      if (!opened.has(row.node)) continue;
      for (let place = row.node.children.length - 1; place >= 0; place--) ahead.push({ node: /** @type {Node} */ (row.node.children[place]), depth: row.depth + 1, place });
    }
  }
  arrange();

  const list = new RowList({
    scroller,
    body,
    height: ROW_HEIGHT,
    count: () => rows.length,
    row: (place) => element(/** @type {Row} */ (rows[place])),
    onKey,
    onPress(event, place) {
      const row = /** @type {Row} */ (rows[place]);
      if (event.target instanceof Element && event.target.closest(".twisty")) toggle(row.node);
      else pick(row.node);
    },
  });

  /** @param {Row} row @returns {HTMLElement} */
  function element({ node, depth, place }) {
    const parts = node.children.length;
    const twisty = h("span", { class: "twisty", "aria-hidden": "true" }, parts ? (opened.has(node) ? "▾" : "▸") : "");
    const named = marked(node.kind === KIND.ARM ? "" : node.kind === KIND.ROOT || !shortScope(node.scope) ? node.name : shortScope(node.scope), query);
    const label = h(
      "span",
      { class: "label", "data-tip": node.scope ? `${node.name}\n${node.scope}` : false, style: { "padding-left": `${Math.min(depth, 30) * 1.1}rem` } },
      twisty,
      h("span", { class: node.leaf ? "family" : "kind" }, kindWords(node, place)),
      " ",
      named,
      " ",
      h("span", { class: "hint" }, hint(node)),
    );
    return h(
      "div",
      {
        role: "treeitem",
        class: `tree-row${matches.has(node) ? " match" : ""}`,
        "aria-level": depth + 1,
        "aria-posinset": place + 1,
        "aria-setsize": node.parent?.children.length ?? 1,
        "aria-expanded": parts ? String(opened.has(node)) : false,
        "aria-selected": String(node === chosen),
      },
      label,
      cells(node),
    );
  }

  /** @param {Node} node @returns {HTMLElement[]} */
  function cells(node) {
    const [runs, ran] = [program.runs || 1, program.runs > 0];
    const share = node.cycles / whole;
    return [
      number(node.cycles / runs, "cycles", ran ? "steps.run" : "steps.once"),
      h("span", { class: "n part", "data-tip": explained(share, "share", "steps.share_of_program") }, h("i", { style: { width: share ? `max(1px, ${share} * (100% - 4.7rem))` : "0" } }), node.cycles ? text(share, "share") : ""),
      number(timesOf(node, ran) / runs, "number", "steps.executions_of_run"),
      number(node.flops / runs, "flops", "steps.flops"),
      number(node.exchange_bytes / runs, "bytes", "steps.exchange_bytes"),
      h("span", { class: "n line" }, node.line ? h("a", { href: link("source", { file: node.line.file, line: node.line.line }), tabindex: "-1", "data-tip": node.line.name }, node.line.name) : ""),
    ];
  }

  /** @param {Node} node */
  function toggle(node) {
    if (!node.children.length) return;
    if (!opened.delete(node)) opened.add(node);
    arrange();
    list.draw();
  }

  /** @param {Node} node */
  function pick(node) {
    chosen = node;
    choose(node);
    list.draw();
  }

  /** @param {KeyboardEvent} event @param {number} place @returns {number | null | undefined} */
  function onKey(event, place) {
    const row = rows[place];
    if (!row) return null;
    const { node } = row;
    switch (event.key) {
      case "ArrowRight":
        if (!node.children.length) return null;
        if (opened.has(node)) return place + 1;
        toggle(node);
        return null;
      case "ArrowLeft":
        if (node.children.length && opened.has(node)) {
          toggle(node);
          return null;
        }
        return node.parent ? rows.findIndex((each) => each.node === node.parent) : null;
      case "Enter":
      case " ":
        pick(node);
        return null;
      case "*":
        for (const each of node.parent?.children ?? [node]) if (each.children.length) opened.add(each);
        arrange();
        return rows.findIndex((each) => each.node === node);
      default:
        return event.key.length === 1 ? typeahead(event.key.toLowerCase(), place) : undefined;
    }
  }

  /** @param {string} letter @param {number} place @returns {number | null} */
  function typeahead(letter, place) {
    const now = performance.now();
    typed = now - typedAt > TYPING_MS ? letter : typed + letter;
    typedAt = now;
    const from = typed.length > 1 ? 0 : 1; // a word that goes on may still be the row's own
    for (let step = from; step < rows.length; step++) {
      const index = (place + step) % rows.length;
      const row = /** @type {Row} */ (rows[index]);
      const { node } = row;
      if ([kindWords(node, row.place), shortScope(node.scope), node.name].some((words) => words.toLowerCase().startsWith(typed))) return index;
    }
    return null;
  }

  /** @param {Node} node */
  function openWay(node) {
    for (let here = node.parent; here; here = here.parent) opened.add(here);
  }

  return {
    element: scroller,
    show(node, focus = false) {
      openWay(node);
      arrange();
      chosen = node;
      list.go(rows.findIndex((row) => row.node === node), focus, true);
    },
    find(words) {
      query = words.trim().toLowerCase();
      matches = new Set(query ? walked(root).filter((node) => wordsOf(node).includes(query)) : []);
      let left = MOST_OPENED;
      for (const node of matches) if (left-- > 0) openWay(node);
      arrange();
      list.draw();
      return matches.size;
    },
    next(forward) {
      const found = rows[list.seek(forward, (place) => matches.has(/** @type {Row} */ (rows[place]).node))];
      return found?.node.name ?? "nothing matches";
    },
    openAll(all) {
      opened.clear();
      for (const node of all ? walked(root) : [root]) if (node.children.length) opened.add(node);
      arrange();
      list.draw();
    },
  };
}

/** @param {Node} node @returns {string} */
function wordsOf({ name, scope, leaf, line }) {
  return [name, scope, leaf?.family, line?.name, leaf?.codelet].join("\n").toLowerCase();
}

/** @param {number | null} value @param {import("../../core/value.js").Unit} unit @param {string} origin @returns {HTMLElement} */
function number(value, unit, origin) {
  if (!value) return h("span", { class: "n", "data-value": value ?? false }, value === null ? "–" : "");
  return h("span", { class: "n", "data-value": value, "data-tip": explained(value, unit, origin) }, text(value, unit));
}

/** Executions of a node in all runs, or in one; none of what is taken never to run. @param {Node} node @param {boolean} ran @returns {number} */
function timesOf(node, ran) {
  if (node.leaf) return ran ? node.leaf.executions : node.leaf.of_run;
  if (node.kind === KIND.ARM && node.assumed && !node.cycles) return 0;
  return ran ? node.times : node.of_run;
}

/** How often a loop goes round, and an arm is taken. @param {Node} node @returns {string} */
function hint(node) {
  if (node.kind === KIND.LOOP) {
    if (node.trips >= 0) return `× ${count(node.trips)}`;
    return node.assumed ? "trips unknown: one is assumed" : `${plural(node.times, "trip")} counted in all runs`;
  }
  if (node.kind === KIND.ARM && node.assumed) return node.cycles ? "not counted: the dearest arm is assumed" : "not counted: assumed never to be taken";
  if (node.kind === KIND.ARM) return `taken ${plural(node.times, "time")} in all runs`;
  if (node.kind === KIND.ROOT) return plural(node.times, "run");
  if (node.leaf && !node.leaf.priced) return "never runs";
  return node.children.length ? "" : node.leaf?.fallback ? "priced without an estimator" : "";
}
