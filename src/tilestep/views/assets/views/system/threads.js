/** Threads over wall time: nested spans as rows of their thread. */

import { ticks } from "../../core/axis.js";
import { lookAt } from "../../core/colors.js";
import { h, replace } from "../../core/dom.js";
import { count, plural } from "../../core/format.js";
import { at } from "../../core/lanes.js";
import { swatch } from "../../core/legend.js";
import { rowsFigure } from "../../core/rows.js";
import { get, set } from "../../core/state.js";
import { table } from "../../core/table.js";
import { toolbar } from "../../core/toolbar.js";
import { exact, text } from "../../core/value.js";
import { windowAt } from "../../core/window.js";

/** @import { Model } from "./model.js" */
/** @import { Window } from "../../core/window.js" */

const MOST_ROWS = 60;
const MOST_DEPTH = 10; // deeper spans are in the call tree
const NS = 1e9;

/** @param {Model[]} models @returns {HTMLElement[]} */
export function timelineSection(models) {
  const whole = windowAt("wall", Math.min(...models.map(({ json }) => json.begin)), Math.max(1, ...models.map(({ json }) => json.end)), 1000);
  const channels = [...new Set(models.flatMap((model) => [...new Set(model.column("channel"))].map((channel) => model.channelName(channel))))];
  const hidden = new Set(get("channels").split("\n").filter(Boolean));
  const place = h("div", {});
  let wanted = get("find");
  const draw = () => {
    whole.listeners.clear();
    replace(place, models.flatMap((model) => [models.length > 1 ? h("h3", {}, `${model.side.name.toUpperCase()}: ${model.side.label}`) : null, ...timeline(model, whole, channels, hidden, wanted)].filter((part) => part !== null)));
  };
  const field = h("input", { type: "search", "aria-label": "search for spans", placeholder: "search" });
  field.value = wanted;
  field.addEventListener("input", () => {
    wanted = field.value;
    set({ find: wanted || null });
    draw();
  });
  const buttons = channels.map((name, index) => {
    const button = h("button", { type: "button", "aria-pressed": String(!hidden.has(name)), class: "channel" }, swatch(lookAt(index)), h("span", {}, name));
    button.addEventListener("click", () => {
      if (!hidden.delete(name)) hidden.add(name);
      button.setAttribute("aria-pressed", String(!hidden.has(name)));
      set({ channels: [...hidden].join("\n") || null });
      draw();
    });
    return button;
  });
  draw();
  return [
    h("h2", {}, "Threads"),
    h("div", { class: "controls filters" }, toolbar("channels: press to hide or show", h("span", { class: "controls" }, buttons)), field),
    place,
  ];
}

/** @param {Model} model @param {Window} shown @param {string[]} channels @param {Set<string>} hidden @param {string} wanted @returns {HTMLElement[]} */
function timeline(model, shown, channels, hidden, wanted) {
  const [threads, depths, ofChannel, label, start, duration] = ["thread", "depth", "channel", "label", "start", "duration"].map((name) => model.column(name));
  if (!threads || !depths || !ofChannel || !label || !start || !duration) return [];
  const needle = wanted.toLowerCase();
  const found = needle ? model.labels.map((each) => each.toLowerCase().includes(needle)) : null;
  const off = model.json.channels.map((/** @type {string} */ name) => hidden.has(name));
  /** @type {{thread: number, depth: number, spans: number[]}[]} */
  const rows = [];
  let hits = 0;
  let cut = 0;
  for (let span = 0; span < model.size; span++) {
    const [thread, depth, channel] = [at(threads, span), at(depths, span), at(ofChannel, span)];
    if (channel < 0 ? hidden.has("no channel") : off[channel]) continue;
    if (found?.[at(label, span)]) hits += 1;
    let row = rows[rows.length - 1];
    if (!row || row.thread !== thread || row.depth !== depth) {
      row = { thread, depth, spans: [] };
      rows.push(row);
    }
    row.spans.push(span);
  }
  const seen = rows.filter(({ depth }) => depth < MOST_DEPTH).sort((a, b) => Number(b.thread === model.json.main) - Number(a.thread === model.json.main)).slice(0, MOST_ROWS);
  for (const row of rows) if (!seen.includes(row)) cut += row.spans.length;
  const span = (/** @type {number} */ row, /** @type {number} */ bar) => at(seen[row]?.spans ?? [], bar);
  const name = (/** @type {number} */ index) => model.labels[at(label, index)] ?? "";
  const look = (/** @type {number} */ index) => lookAt(Math.max(0, channels.indexOf(model.channelName(at(ofChannel, index)))));
  const words = (/** @type {number} */ index) =>
    `${name(index)} on ${model.threadName(at(threads, index))}, channel ${model.channelName(at(ofChannel, index))}: ${text(at(duration, index), "ns")} (${exact(at(duration, index), "ns")}), from ${text(at(start, index), "ns")}`;
  const made = rowsFigure({
    label: `Threads of ${model.side.label}: ${plural(model.size, "span")}`,
    window: shown,
    ticks: (from, to, most) => ticks(from, to, most, NS),
    most: 560,
    rows: seen.map(({ thread, depth, spans }, row) => ({
      name: depth ? `${"  ".repeat(depth)}↳ within` : model.threadName(thread),
      from: Float64Array.from(spans, (each) => at(start, each)),
      to: Float64Array.from(spans, (each) => at(start, each) + at(duration, each)),
      look: (bar) => look(span(row, bar)),
      text: (bar) => name(span(row, bar)),
      words: (bar) => words(span(row, bar)),
      faint: (bar) => found !== null && !found[at(label, span(row, bar))],
    })),
    table: () =>
      table({
        label: `spans of ${model.side.label}`,
        rows: seen.flatMap(({ spans }) => spans),
        filter: true,
        empty: "no span is shown",
        columns: [
          { name: "thread", of: (index) => model.threadName(at(threads, index)) },
          { name: "channel", of: (index) => model.channelName(at(ofChannel, index)) },
          { name: "span", of: name },
          { name: "from", unit: "ns", origin: "system.span", of: (index) => at(start, index) },
          { name: "time", unit: "ns", origin: "system.span", of: (index) => at(duration, index) },
        ],
      }),
  });
  const notes = [`${plural(model.json.threads.length, "thread")}.`];
  if (found) notes.push(`${plural(hits, "span matches", "spans match")}.`);
  if (cut) notes.push(`${plural(cut, "span is", "spans are")} in the call tree alone: deeper than ${MOST_DEPTH} levels, or of threads beyond ${MOST_ROWS} rows.`);
  if (model.json.left_out) notes.push(`The page leaves out ${count(model.json.left_out)} of the shortest spans, to stay small; the call tree counts them.`);
  return [made.element, h("p", { class: "note", role: "status" }, notes.join(" "))];
}
