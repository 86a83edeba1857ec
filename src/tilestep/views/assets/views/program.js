/** What did my program become? */

import { h, replace } from "../core/dom.js";
import { edged } from "../core/edges.js";
import { count, plural } from "../core/format.js";
import { get, number, set } from "../core/state.js";
import { text, valueOf } from "../core/value.js";
import { dearestWay, kindWords } from "./program/nodes.js";
import { nodePanel } from "./program/panel.js";
import { programTree } from "./program/tree.js";
import { choice, listSearch } from "./steps/controls.js";
import { stepsOf, walked } from "./steps/read.js";

/** @import { Node, Program } from "./steps/read.js" */

const DEAREST = 5; // steps that are named above the tree
const NO_ROOM = [["some", "flop and exchange bytes"], ["most", "executions, flop, exchange bytes and lines of code"]]; // by how narrow it is

/** @type {import("../core/page.js").View} */
export const program = {
  name: "program",
  title: "Program",
  question: "What did my program become?",
  needs: "steps",
  absent: "The recording has no programs.",
  async render(side) {
    const programs = [...(await stepsOf(side)).programs].sort((one, other) => other.cycles - one.cycles);
    const whole = programs.reduce((sum, { cycles }) => sum + cycles, 0) || 1;
    const of = (/** @type {string} */ row) => /** @type {Program} */ (programs.find((each) => String(each.row) === row) ?? programs[0]);
    const place = h("div");
    const show = (/** @type {Program} */ each) => replace(place, shown(each));
    const options = programs.map(({ row, label, cycles }) => /** @type {[string, string]} */ ([String(row), `${label} (${text(cycles / whole, "share")})`]));
    const chooser = choice("program", options, String(of(get("program")).row), (value) => {
      set({ program: value, node: null, leaf: null });
      show(of(value));
    });
    show(of(get("program")));
    return [h("div", { class: "controls" }, chooser), place];
  },
};

/** @param {Program} program @returns {HTMLElement[]} */
function shown(program) {
  const { root, cycles, runs, leaves: steps, num_ipus: ipus } = program;
  if (!root) return [h("p", { class: "absent" }, program.left_out)];
  const nodes = walked(root);
  const way = dearestWay(root);
  const panel = h("section", { class: "node-panel", "aria-label": "the chosen node", "aria-live": "polite" });
  const choose = (/** @type {Node} */ node) => {
    set({ node: node.index - root.index, leaf: null });
    replace(panel, nodePanel(node, program));
  };
  const tree = programTree({ program, root, open: way.filter(({ children }) => children.length), choose });
  const [leaf, index] = [number("leaf", -1), number("node", -1)];
  const chosen = nodes.find((node) => (leaf >= 0 ? node.leaf?.number === leaf : node.index - root.index === index));
  const first = chosen ?? /** @type {Node} */ (way[way.length - 1]);
  replace(panel, nodePanel(first, program));
  const { field, note, find } = listSearch("search in the tree", tree, (found, words) => `${words ? `${count(found)} of ` : ""}${plural(nodes.length, "node")}`);
  requestAnimationFrame(() => {
    find(get("q"));
    tree.show(first);
  });
  const dearest = nodes.filter((node) => !node.children.length && node.cycles).sort((a, b) => b.cycles - a.cycles);
  const hints = dearest.slice(0, DEAREST).map((node) => {
    const go = () => {
      tree.show(node, true);
      choose(node);
    };
    return h("button", { type: "button", class: "link", onclick: go, "data-tip": node.scope || node.name }, `${kindWords(node, 0)} ${node.name} ${text(node.cycles / cycles, "share")}`);
  });
  const time = valueOf(cycles / (runs || 1), "cycles", runs ? "steps.run" : "steps.once");
  return [
    h("p", { class: "answer" }, `The ${plural(steps.length, "step")} of a run ${steps.length === 1 ? "takes" : "take"} `, time, ` on ${plural(ipus, "IPU")}. The program ${runs ? `ran ${plural(runs, "time")}` : "did not run"}.`),
    ...(hints.length ? [h("p", { class: "dearest" }, "Most costly: ", hints.flatMap((hint, place) => (place ? [", ", hint] : [hint])))] : []),
    h("div", { class: "controls" }, field, h("button", { type: "button", onclick: () => tree.openAll(true) }, "Open all"), h("button", { type: "button", onclick: () => tree.openAll(false) }, "Close all"), note),
    h(
      "div",
      { class: "program-parts" },
      h(
        "div",
        { class: "tree-frame" },
        edged(tree.element),
        NO_ROOM.map(([width, what]) => h("p", { class: `note no-room ${width}` }, `There is no room here for ${what}: the figures of the chosen node have them.`)),
        h("p", { class: "keys" }, "Keys: arrows move, open and close; Enter shows the figures; * opens the nodes beside; letters go to the next node of that name."),
      ),
      panel,
    ),
  ];
}
