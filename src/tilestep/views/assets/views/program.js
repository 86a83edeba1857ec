/** What did my program become? */

import { h, replace } from "../core/dom.js";
import { edged } from "../core/edges.js";
import { count, plural } from "../core/format.js";
import { cyclesOf } from "../core/pairs.js";
import { get, number, set } from "../core/state.js";
import { ofSide, text, valueOf } from "../core/value.js";
import { nodePanel } from "./program/panel.js";
import { allOf, dearestWay, either, kindWords, treeOf } from "./program/pairs.js";
import { programTree } from "./program/tree.js";
import { choice, listSearch } from "./steps/controls.js";
import { programPairs, stepsOf } from "./steps/read.js";

/** @import { Program } from "./steps/read.js" */
/** @import { Both } from "./program/pairs.js" */
/** @typedef {{a?: Program, b?: Program}} Pair */

const DEAREST = 5; // steps that are named above the tree

/** @type {import("../core/page.js").View} */
export const program = {
  name: "program",
  title: "Program",
  question: "What did my program become?",
  needs: "steps",
  absent: "The recording has no programs.",
  async render(sides, page) {
    const all = await Promise.all(sides.map(stepsOf));
    const pairs = programPairs(page, all).sort((one, other) => cyclesOf(other) - cyclesOf(one));
    const [dearest] = pairs;
    if (!dearest) return [h("p", { class: "absent" }, "The recording has no programs.")];
    const wanted = get("program");
    const start = pairs.find((pair) => namesOf(pair).includes(wanted)) ?? dearest;
    const whole = pairs.reduce((sum, pair) => sum + cyclesOf(pair), 0) || 1;
    const place = h("div");
    const show = (/** @type {Pair} */ pair) => replace(place, shown(pair));
    const only = (/** @type {Pair} */ { a, b }) => (all.length > 1 && !(a && b) ? `, only in ${a ? "A" : "B"}` : "");
    const options = pairs.map((pair) => /** @type {[string, string]} */ ([namesOf(pair)[0] ?? "", `${labelOf(pair)} (${text(cyclesOf(pair) / whole, "share")}${only(pair)})`]));
    const chooser = choice("program", options, namesOf(start)[0] ?? "", (value) => {
      set({ program: value, node: null, leaf: null });
      show(pairs.find((pair) => namesOf(pair).includes(value)) ?? dearest);
    });
    show(start);
    return [h("div", { class: "controls" }, chooser), place];
  },
};

/** Names in the URL, B's first. @param {Pair} pair @returns {string[]} */
function namesOf({ a, b }) {
  return [...(b ? [`b${b.row}`] : []), ...(a ? [`a${a.row}`] : [])];
}

/** @param {Pair} pair @returns {string} */
function labelOf({ a, b }) {
  if (a && b) return a.label === b.label ? a.label : `${a.label} in A, ${b.label} in B`;
  return (a ?? b)?.label ?? "";
}

/** What one run takes. @param {Pair} pair @returns {HTMLElement[]} */
function answers({ a, b }) {
  return [a, b].flatMap((program) => {
    if (!program?.root) return [];
    const { cycles, runs, leaves, numIpus } = program;
    const whose = a && b ? h("strong", {}, program === a ? "A: " : "B: ") : null;
    const time = valueOf(cycles / (runs || 1), ofSide("cycles", program === b ? "b" : "a"), runs ? "steps.run" : "steps.once");
    return [h("p", { class: "answer" }, whose, `The ${plural(leaves.length, "step")} of a run ${leaves.length === 1 ? "takes" : "take"} `, time, ` on ${plural(numIpus, "IPU")}. The program ${runs ? `ran ${plural(runs, "time")}` : "did not run"}.`)];
  });
}

/** @param {Pair} pair @returns {HTMLElement[]} */
function shown(pair) {
  const root = treeOf(pair);
  if (!root) return [h("p", { class: "absent" }, (pair.b ?? pair.a)?.leftOut ?? "")];
  const nodes = allOf(root);
  const base = either(root).index;
  const way = dearestWay(root);
  const panel = h("section", { class: "node-panel", "aria-label": "the chosen node", "aria-live": "polite" });
  const choose = (/** @type {Both} */ node) => {
    set({ node: either(node).index - base, leaf: null });
    replace(panel, nodePanel(node, pair));
  };
  const tree = programTree({ root, pair, open: way.filter(({ children }) => children.length), choose });
  const [leaf, index] = [number("leaf", -1), number("node", -1)];
  const chosen = nodes.find((node) => (leaf >= 0 ? either(node).leaf?.number === leaf : either(node).index - base === index));
  const first = chosen ?? /** @type {Both} */ (way[way.length - 1]);
  replace(panel, nodePanel(first, pair));
  const { field, note, find } = listSearch("search in the tree", tree, (found, words) => `${words ? `${count(found)} of ` : ""}${plural(nodes.length, "node")}`);
  requestAnimationFrame(() => {
    find(get("q"));
    tree.show(first);
  });
  const leaves = nodes.filter((node) => !node.children.length && cyclesOf(node)).sort((a, b) => cyclesOf(b) - cyclesOf(a));
  const whole = cyclesOf(root) || 1;
  const hints = leaves.slice(0, DEAREST).map((node) => {
    const here = either(node);
    const go = () => {
      tree.show(node, true);
      choose(node);
    };
    return h("button", { type: "button", class: "link", onclick: go, "data-tip": here.scope || here.name }, `${kindWords(here, 0)} ${here.name} ${text(cyclesOf(node) / whole, "share")}`);
  });
  const words = (/** @type {string} */ what) => `There is no room here for ${what}: the figures of the chosen node have them.`;
  const noRoom = pair.a && pair.b ? null : [h("p", { class: "note no-room some" }, words("flop and exchange bytes")), h("p", { class: "note no-room most" }, words("executions, flop, exchange bytes and lines of code"))];
  return [
    ...answers(pair),
    hints.length ? h("p", { class: "dearest" }, "Most costly: ", hints.flatMap((hint, place) => (place ? [", ", hint] : [hint]))) : null,
    h("div", { class: "controls" }, field, h("button", { type: "button", onclick: () => tree.openAll(true) }, "Open all"), h("button", { type: "button", onclick: () => tree.openAll(false) }, "Close all"), note),
    h("div", { class: pair.a && pair.b ? "program-parts two" : "program-parts" }, h("div", { class: "tree-frame" }, edged(tree.element), noRoom, h("p", { class: "keys" }, "Keys: arrows move, open and close; Enter shows the figures; * opens the nodes beside; letters go to the next node of that name.")), panel),
  ].filter((part) => part !== null);
}
