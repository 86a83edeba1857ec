/** Frames as an icicle: the outermost above, as wide as its time. */

import { fillOf, themeColor } from "../../core/colors.js";
import { h, replace } from "../../core/dom.js";
import { figure } from "../../core/figure.js";
import { count, plural, share } from "../../core/format.js";
import { legend } from "../../core/legend.js";
import { columnsOf, either, joined } from "../../core/pairs.js";
import { get, set } from "../../core/state.js";
import { table } from "../../core/table.js";
import { explained, text } from "../../core/value.js";
import { choice, searchField } from "../steps/controls.js";
import { familyLooks } from "../steps/families.js";
import { NAMES } from "../steps/read.js";
import { byName, frameAt, framesOf, matchesOf, MODES, wayTo } from "./frames.js";

/** @import { Frame } from "./frames.js" */
/** @import { Steps } from "../steps/read.js" */
/** @typedef {{frame: Frame, x: number, y: number, width: number}} Box */

const HEIGHT = 24; // of a frame
const BAND = 6; // of it, for the families
const MOST_ROWS = 36; // below the frame that is zoomed to
const MOST_AROUND = 8; // rows above it
const NARROWEST = 0.75; // px that are drawn
const MUCH_LONGER = 5; // times: then the shorter of two would be too narrow to read on the scale of the other

/** The section of the flame. @param {Steps[]} all @returns {HTMLElement[]} */
export function flames(all) {
  if (!all.some(({ cycles }) => cycles)) return [];
  const looks = familyLooks(all);
  const place = h("div", { class: "flames" });
  const note = h("span", { class: "note", role: "status" });
  const state = { mode: /** @type {import("./frames.js").Mode} */ (get("flame", "stack")), way: wayOf(get("zoom")), query: get("frames"), own: false };
  const scales = h("p", { class: "note" });
  /** @type {{redraw: () => void}[]} */
  let pictures = [];
  /** @type {{steps: Steps, root: Frame}[]} */
  let trees = [];

  function build() {
    if (!MODES.some(([mode]) => mode === state.mode)) state.mode = "stack";
    trees = all.map((steps) => ({ steps, root: framesOf(steps, state.mode) }));
    if (!trees.some(({ root }) => frameAt(root, state.way))) state.way = [];
    pictures = trees.map((tree) => picture(tree, trees, state, looks, zoom));
    replace(place, pictures.map((each, index) => [trees.length > 1 ? h("h3", {}, (trees[index]?.steps.side.name ?? "").toUpperCase()) : null, /** @type {any} */ (each).element]).flat());
    search(state.query);
  }
  /** @param {string} chosen 'own' or 'same'; else it goes by the times */
  function scale(chosen) {
    state.own = chosen === "own" || (chosen !== "same" && muchLonger(all) !== null);
    scales.textContent = all.length > 1 ? scaleWords(all, state.own) : "";
    for (const each of pictures) each.redraw();
  }
  /** @param {string[]} way */
  function zoom(way) {
    state.way = way;
    set({ zoom: way.length ? JSON.stringify(way) : null });
    for (const each of pictures) each.redraw();
  }
  /** @param {string} words */
  function search(words) {
    state.query = words.trim().toLowerCase();
    const found = trees.map(({ steps, root }) => {
      const { count: hits, cycles } = matchesOf(root, state.query);
      return `${trees.length > 1 ? `${steps.side.name.toUpperCase()}: ` : ""}${plural(hits, "frame")}, ${share(cycles, root.cycles)} of the time`;
    });
    note.textContent = state.query ? found.join("; ") : "";
    for (const each of pictures) each.redraw();
  }
  build();
  scale(get("scale"));
  const modes = choice("frames", MODES, state.mode, (mode) => {
    state.mode = /** @type {import("./frames.js").Mode} */ (mode);
    state.way = [];
    set({ flame: mode, zoom: null });
    build();
  });
  const field = searchField("search in the frames", state.query, (words) => {
    set({ frames: words || null });
    search(words);
  });
  const scaling = choice("scale", [["same", "the same for both"], ["own", "each its own"]], state.own ? "own" : "same", (value) => {
    set({ scale: value });
    scale(value);
  });
  const whole = h("button", { type: "button", onclick: () => zoom([]) }, "Show all");
  return [
    h("h2", { id: "flame" }, "Flame"),
    h("p", { class: "note" }, "A frame is as wide as the time of the steps within it. The band below its name shows their families."),
    h("div", { class: "controls" }, modes, all.length > 1 ? scaling : null, field, whole, note),
    all.length > 1 ? scales : null,
    place,
    legend([...looks].map(([words, look]) => ({ words, ...look }))),
  ].filter((part) => part !== null);
}

/** The side whose steps take much longer than those of the other, and how many times as long; null: there is none. @param {Steps[]} all */
function muchLonger(all) {
  const [shorter, longer] = all.map(({ side, cycles }) => ({ name: side.name.toUpperCase(), time: cycles / (side.head.clock_hz || 1) })).sort((a, b) => a.time - b.time);
  if (!shorter?.time || !longer || longer.time <= MUCH_LONGER * shorter.time) return null;
  return { name: longer.name, times: longer.time / shorter.time };
}

/** @param {Steps[]} all @param {boolean} own whether each flame is as wide as the picture @returns {string} */
function scaleWords(all, own) {
  if (!own) return "Both have the same scale: equal widths are equal times.";
  const longer = muchLonger(all);
  return `Each has a scale of its own${longer ? `, because the steps of ${longer.name} take ${count(longer.times)} times as long` : ""}: equal widths of A and of B are not equal times.`;
}

/** @param {string} json @returns {string[]} */
function wayOf(json) {
  try {
    const way = JSON.parse(json || "[]");
    return Array.isArray(way) ? way.map(String) : [];
  } catch {
    return [];
  }
}

/**
 * @param {{steps: Steps, root: Frame}} tree
 * @param {{steps: Steps, root: Frame}[]} trees all of them, for one scale of time
 * @param {{way: string[], query: string, own: boolean}} state
 * @param {Map<string, import("../steps/families.js").FamilyLook>} looks
 * @param {(way: string[]) => void} zoom
 */
function picture({ steps, root }, trees, state, looks, zoom) {
  /** @type {Box[]} */
  let boxes = [];
  /** @type {Frame} */
  let cursor = root;
  const handle = figure({
    label: `flame of ${steps.side.label}`,
    height: 200,
    keys: "arrows move to the frame beside, above or below; Enter zooms in; Backspace zooms out; Home shows all",
    draw,
    describe: (x, y) => {
      const box = boxAt(x, y);
      return box ? tell(box.frame) : null;
    },
    onPress(x, y) {
      const box = boxAt(x, y);
      if (!box) return;
      cursor = box.frame;
      handle.say(tell(cursor));
      zoom(wayTo(cursor));
    },
    onKey,
    table: () => frameTable(trees),
  });

  /** @param {import("../../core/figure.js").Drawing} drawing */
  function draw({ context, width }) {
    const top = frameAt(root, state.way);
    const clockOf = (/** @type {Steps} */ of) => of.side.head.clock_hz || 1;
    const all = state.own ? [{ steps, root }] : trees;
    const scale = Math.max(...all.map((each) => (frameAt(each.root, state.way)?.cycles ?? 0) / clockOf(each.steps)), 1 / clockOf(steps)) * clockOf(steps);
    boxes = [];
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    if (!top) {
      context.fillStyle = themeColor("ink");
      context.fillText("This recording has no such frame.", 8, 14);
      return;
    }
    const colors = { ink: themeColor("ink"), faint: themeColor("faint"), panel: themeColor("panel"), ground: themeColor("ground"), edge: themeColor("edge"), select: themeColor("select"), mark: themeColor("mark"), focus: themeColor("focus") };
    const around = [];
    for (let here = top.parent; here && around.length < MOST_AROUND; here = here.parent) around.unshift(here);
    const full = (width * top.cycles) / scale;
    around.forEach((frame, row) => boxes.push({ frame, x: 0, y: row * HEIGHT, width: full }));
    let deepest = around.length;
    /** @type {Box[]} */
    const ahead = [{ frame: top, x: 0, y: around.length * HEIGHT, width: full }];
    for (let box = ahead.pop(); box; box = ahead.pop()) {
      boxes.push(box);
      deepest = Math.max(deepest, box.y / HEIGHT);
      if (box.frame.depth - top.depth >= MOST_ROWS) continue; // zooming in shows those below
      let { x } = box;
      for (const child of box.frame.children) {
        const wide = (width * child.cycles) / scale;
        if (wide >= NARROWEST) ahead.push({ frame: child, x, y: box.y + HEIGHT, width: wide });
        x += wide;
      }
    }
    for (const box of boxes) drawBox(context, box, colors, box.frame.depth < top.depth);
    const chosen = boxes.find(({ frame }) => frame === cursor);
    if (chosen && document.activeElement === handle.canvas) {
      context.strokeStyle = colors.focus;
      context.lineWidth = 3;
      context.strokeRect(chosen.x + 1.5, chosen.y + 1.5, Math.max(1, chosen.width - 3), HEIGHT - 3);
    }
    const needed = (deepest + 1) * HEIGHT + 2;
    if (handle.canvas.clientHeight !== needed) handle.resize(needed);
  }

  /** @param {CanvasRenderingContext2D} context @param {Box} box @param {Record<string, string>} colors @param {boolean} above */
  function drawBox(context, { frame, x, y, width }, colors, above) {
    const hit = state.query && frame.parent && frame.name.toLowerCase().includes(state.query);
    context.fillStyle = /** @type {string} */ (hit ? colors.select : above ? colors.ground : colors.panel);
    context.fillRect(x, y, width, HEIGHT);
    let from = x;
    for (const [family, cycles] of [...frame.families].sort((a, b) => b[1] - a[1])) {
      const wide = (width * cycles) / frame.cycles;
      const look = looks.get(family);
      if (wide < 0.3 || !look) continue;
      context.fillStyle = fillOf(context, look);
      context.fillRect(from, y + HEIGHT - BAND, wide, BAND);
      from += wide;
    }
    context.strokeStyle = /** @type {string} */ (hit ? colors.mark : colors.edge);
    context.lineWidth = hit ? 2 : 1;
    if (width > 2) context.strokeRect(x + 0.5, y + 0.5, width - 1, HEIGHT - 1);
    const room = width - 10;
    if (room < 24) return;
    context.fillStyle = /** @type {string} */ (colors.ink);
    context.fillText(fitted(context, frame.name, room), x + 5, y + (HEIGHT - BAND) / 2 + 1);
  }

  /** @param {number} x @param {number} y @returns {Box | undefined} */
  function boxAt(x, y) {
    return boxes.find((box) => x >= box.x && x < box.x + box.width && y >= box.y && y < box.y + HEIGHT);
  }

  /** @param {Frame} frame @returns {string} */
  function tell(frame) {
    const families = [...frame.families].sort((a, b) => b[1] - a[1]).slice(0, 4).map(([name, cycles]) => `${name} ${share(cycles, frame.cycles)}`);
    const self = frame.self && frame.self !== frame.cycles ? ` In steps directly below: ${text(frame.self, steps.side.cycles)}.` : "";
    return `${frame.name}: ${text(frame.cycles, steps.side.cycles)}, ${share(frame.cycles, root.cycles)} of all.${self} ${families.join(", ")}. ${explained(frame.cycles, steps.side.cycles, "steps.cycles")}`;
  }

  /** @param {string} key @returns {string | null | undefined} */
  function onKey(key) {
    const around = cursor.parent?.children ?? [root];
    const place = around.indexOf(cursor);
    const top = frameAt(root, state.way) ?? root;
    if (key === "ArrowRight") cursor = around[place + 1] ?? cursor;
    else if (key === "ArrowLeft") cursor = around[place - 1] ?? cursor;
    else if (key === "ArrowDown") cursor = cursor.children[0] ?? cursor;
    else if (key === "ArrowUp") cursor = cursor.parent ?? cursor;
    else if (key === "Enter") zoom(wayTo(cursor));
    else if (key === "Backspace") {
      cursor = top.parent ?? root;
      zoom(wayTo(cursor));
    } else if (key === "Home") {
      cursor = root;
      zoom([]);
    } else return undefined;
    if (!within(cursor, frameAt(root, state.way) ?? root)) zoom(wayTo(cursor)); // what the cursor is on has to be seen
    handle.redraw();
    return tell(cursor);
  }

  handle.canvas.addEventListener("focus", () => handle.redraw());
  handle.canvas.addEventListener("blur", () => handle.redraw());
  return handle;
}

/** Whether a frame is below another, or around it. @param {Frame} frame @param {Frame} top @returns {boolean} */
function within(frame, top) {
  for (let here = /** @type {Frame | null} */ (frame); here; here = here.parent) if (here === top) return true;
  for (let here = /** @type {Frame | null} */ (top); here; here = here.parent) if (here === frame) return true;
  return false;
}

/** A text that has room. @param {CanvasRenderingContext2D} context @param {string} name @param {number} room @returns {string} */
function fitted(context, name, room) {
  let cut = name.slice(0, Math.ceil(room / 3)); // no letter that is read is narrower
  const { width } = context.measureText(cut);
  if (width <= room && cut.length === name.length) return cut;
  while (cut.length && context.measureText(`${cut}…`).width > room) cut = cut.slice(0, Math.min(cut.length - 1, Math.ceil(cut.length * 0.9)));
  return cut ? `${cut}…` : "";
}

/** @param {{steps?: Steps, root: Frame}[]} trees @returns {HTMLElement} */
function frameTable(trees) {
  const sides = trees.flatMap(({ steps }) => (steps ? [steps.side] : []));
  const rows = joined(trees.map(({ root }, place) => ({ name: sides[place]?.name ?? "a", rows: byName(root) })), (row) => row.name);
  /** @type {import("../../core/table.js").Column<import("../../core/pairs.js").Pair<{name: string, self: number, total: number}>>[]} */
  const columns = [
    { name: "frame", of: either((/** @type {{name: string}} */ row) => row.name) },
    ...columnsOf(sides, { name: NAMES.time, unit: "cycles", origin: "steps.cycles", of: (/** @type {{total: number}} */ row) => row.total }),
    ...columnsOf(sides, { name: "time of its own", unit: "cycles", origin: "steps.cycles", of: (/** @type {{self: number}} */ row) => row.self }),
  ];
  return table({ label: "frames", columns, rows, sortBy: 1, filter: true });
}
