/** Spans summed by the path of their labels, and by channel and label. */

import { h, replace } from "../../core/dom.js";
import { plural } from "../../core/format.js";
import { columnsOf, either, joined } from "../../core/pairs.js";
import { at } from "../../core/lanes.js";
import { get, set } from "../../core/state.js";
import { table } from "../../core/table.js";

/** @import { Model } from "./model.js" */
/** @typedef {{path: string, above: string, name: string, channel: string, depth: number, leaf: boolean, calls: number, total: number, self: number}} Path */

/** The paths of a recording, each behind the one around it, the longest first. @param {Model} model @returns {Path[]} */
export function pathsOf(model) {
  const [threads, parents, labels, channels, calls, totals, selves] = ["thread", "parent", "label", "channel", "calls", "total", "self"].map((name) => model.column(`tree_${name}`));
  if (!threads || !parents || !labels || !channels || !calls || !totals || !selves) return [];
  /** @type {Map<number, number[]>} */
  const within = new Map();
  /** @type {Map<number, number[]>} */
  const ofThread = new Map();
  for (let row = 0; row < parents.length; row++) {
    const [map, key] = at(parents, row) < 0 ? [ofThread, at(threads, row)] : [within, at(parents, row)];
    const rows = map.get(key);
    if (rows) rows.push(row);
    else map.set(key, [row]);
  }
  const bySize = (/** @type {number[]} */ rows) => rows.sort((a, b) => at(totals, b) - at(totals, a));
  /** @type {Path[]} */
  const found = [];
  const roots = [...ofThread].map(([thread, rows]) => ({ thread, rows, total: rows.reduce((sum, row) => sum + at(totals, row), 0) }));
  for (const { thread, rows, total } of roots.sort((a, b) => b.total - a.total)) {
    const name = model.threadName(thread);
    found.push({ path: name, above: "", name, channel: "thread", depth: 0, leaf: false, calls: rows.reduce((sum, row) => sum + at(calls, row), 0), total, self: 0 });
    const open = bySize(rows).reverse().map((row) => ({ row, above: name, depth: 1 }));
    for (let next = open.pop(); next; next = open.pop()) {
      const { row, above, depth } = next;
      const label = model.labels[at(labels, row)] ?? "";
      const path = `${above}\n${label}`;
      const inner = within.get(row) ?? [];
      found.push({ path, above, name: label, channel: model.channelName(at(channels, row)), depth, leaf: !inner.length, calls: at(calls, row), total: at(totals, row), self: at(selves, row) });
      for (const each of bySize(inner).reverse()) open.push({ row: each, above: path, depth: depth + 1 });
    }
  }
  return found;
}

/** @param {Model[]} models @returns {HTMLElement[]} */
export function treeSection(models) {
  const sides = models.map(({ side }) => side);
  const pairs = joined(models.map((model) => ({ name: model.side.name, rows: pathsOf(model) })), ({ path }) => path);
  const of = either((/** @type {Path} */ path) => path);
  const place = h("div", {});
  /** @type {Set<string>} */
  const open = new Set(pairs.filter((pair) => of(pair).depth === 0).map((pair) => of(pair).path));
  let all = get("tree") === "all";
  // Rows that only B has come behind those of A: each goes behind the row around it.
  /** @type {Map<string, typeof pairs>} */
  const within = new Map();
  for (const pair of pairs) within.set(of(pair).above, [...(within.get(of(pair).above) ?? []), pair]);
  const ordered = () => {
    /** @type {typeof pairs} */
    const rows = [];
    const stack = [...(within.get("") ?? [])].reverse();
    for (let next = stack.pop(); next; next = stack.pop()) {
      rows.push(next);
      if (all || open.has(of(next).path)) stack.push(...[...(within.get(of(next).path) ?? [])].reverse());
    }
    return rows;
  };
  const draw = () =>
    replace(
      place,
      table({
        label: "call tree",
        rows: ordered(),
        filter: true,
        empty: "the trace has no spans",
        open: (pair) => {
          const { path, leaf } = of(pair);
          if (leaf || all) return;
          if (!open.delete(path)) open.add(path);
          draw();
          place.querySelector("button.link")?.closest(".scroller")?.scrollTo(0, 0);
        },
        columns: [
          { name: "span", of: (pair) => of(pair).name || "(no label)", cell: (pair) => [h("span", { class: "indent", style: { "padding-left": `${Math.min(of(pair).depth, 30) * 0.9}rem` } }, of(pair).leaf ? "· " : all || open.has(of(pair).path) ? "▾ " : "▸ "), of(pair).name || "(no label)"] },
          { name: "channel", of: (pair) => of(pair).channel },
          ...columnsOf(sides, { name: "calls", unit: "count", origin: "system.calls", of: (/** @type {Path} */ path) => path.calls }),
          ...columnsOf(sides, { name: "total", unit: "ns", origin: "system.total", of: (/** @type {Path} */ path) => path.total }),
          ...columnsOf(sides, { name: "self", unit: "ns", origin: "system.self", of: (/** @type {Path} */ path) => path.self }),
        ],
      }),
    );
  const button = h("button", { type: "button", "aria-pressed": String(all) }, "Open all");
  button.addEventListener("click", () => {
    all = !all;
    button.setAttribute("aria-pressed", String(all));
    set({ tree: all ? "all" : null });
    draw();
  });
  draw();
  const left = models.reduce((sum, { json }) => sum + json.paths_left_out, 0);
  return [
    h("h2", {}, "Call tree"),
    h("p", { class: "note" }, `Spans summed by thread and path of labels. Open a row to see what is within it.${left ? ` ${plural(left, "path")} of the shortest totals ${left === 1 ? "is" : "are"} left out.` : ""}`),
    h("div", { class: "controls" }, button),
    place,
  ];
}

/** @param {Model[]} models @returns {HTMLElement[]} */
export function summarySection(models) {
  const sides = models.map(({ side }) => side);
  const all = models.map((model) => ({
    name: model.side.name,
    rows: model.json.summary.map((/** @type {number[]} */ [channel = -1, label = 0, calls = 0, total = 0, self = 0, longest = 0]) => ({
      channel: model.channelName(channel), label: model.labels[label] ?? "", calls, total, self, longest,
    })),
  }));
  /** @param {string} name @param {import("../../core/value.js").Unit} unit @param {string} origin @param {string} key */
  const column = (name, unit, origin, key) => columnsOf(sides, { name, unit, origin, of: (/** @type {any} */ row) => row[key] });
  return [
    h("h2", {}, "By channel and label"),
    table({
      label: "spans by channel and label",
      rows: joined(all, ({ channel, label }) => `${channel}\n${label}`),
      filter: true,
      empty: "the trace has no spans",
      columns: [
        { name: "channel", of: either(({ channel }) => channel) },
        { name: "label", of: either(({ label }) => label || "(no label)") },
        ...column("calls", "count", "system.calls", "calls"),
        ...column("total", "ns", "system.total", "total"),
        ...column("self", "ns", "system.self", "self"),
        ...column("longest", "ns", "system.span", "longest"),
      ],
    }),
  ];
}
