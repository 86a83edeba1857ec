/** Memory over the steps of a program, as areas that stand on each other. */

import { fillOf, themeColor } from "../../core/colors.js";
import { figure } from "../../core/figure.js";
import { bytes, count, plural, share } from "../../core/format.js";
import { table } from "../../core/table.js";
import { below, boxOf, bytesAxis, depthOf, drawLoops, label, limit, line, loopAt, LOOPS } from "./axes.js";
import { at, categoriesOverTime, CATEGORIES, overTime } from "./lives.js";
import { LIVENESS, ORDER, PARTS, stepWords } from "./model.js";

/** @import { Known } from "./model.js" */
/** @import { Selection } from "./select.js" */
/** @import { Hatch } from "../../core/colors.js" */
/** @typedef {{words: string, color: string, hatch: Hatch, bytes: ArrayLike<number>}} Area bytes by tick */
/**
 * What one program's picture shows.
 * @typedef {object} Curve
 * @property {Area[]} areas the lowest first
 * @property {Float64Array} total by tick
 * @property {number} room bytes that there are
 * @property {string} where 'tile 12', or 'all tiles'
 * @property {number} top tick at which the total is largest
 */

/**
 * @param {Known} program @param {number | null} tile null: all tiles together @param {boolean} byCategory
 * @returns {Curve}
 */
export function curveOf({ detail, sram }, tile, byCategory) {
  const { memory } = detail;
  const copies = tile === null ? memory.numTiles : 1;
  /** @type {Area[]} */
  let areas;
  if (byCategory) {
    const found = categoriesOverTime(memory, tile);
    const code = new Float64Array(memory.numTicks).fill(memory.always * copies);
    areas = ORDER.map((name) => ({ .../** @type {any} */ (PARTS[name]), bytes: name === "code" ? code : found[CATEGORIES.indexOf(name)] }));
  } else {
    const found = overTime(memory, tile);
    areas = [{ .../** @type {any} */ (LIVENESS.always), bytes: found.always }, { .../** @type {any} */ (LIVENESS.others), bytes: found.others }];
  }
  const total = new Float64Array(memory.numTicks);
  for (const area of areas) for (let tick = 0; tick < memory.numTicks; tick++) total[tick] = at(total, tick) + at(area.bytes, tick);
  let top = 0;
  for (let tick = 1; tick < memory.numTicks; tick++) if (at(total, tick) > at(total, top)) top = tick;
  return { areas, total, room: sram * copies, where: tile === null ? `all ${count(memory.numTiles)} tiles together` : `tile ${count(tile)}`, top };
}

/**
 * @param {Known} program whose picture it is
 * @param {Selection} selection
 * @param {() => {curve: Curve, high: number}} shown high: bytes at the upper edge
 * @returns {import("../../core/figure.js").FigureHandle}
 */
export function curveFigure(program, selection, shown) {
  const { detail } = program;
  const { memory } = detail;
  const depth = depthOf(detail);
  let box = { left: 0, top: 0, right: 1, bottom: 1 };
  const xOf = (/** @type {number} */ tick) => box.left + ((tick - selection.from) / selection.length) * (box.right - box.left);
  const tickAt = (/** @type {number} */ x) => Math.floor(selection.from + ((x - box.left) / (box.right - box.left)) * selection.length);
  const isIn = (/** @type {number} */ x) => x >= box.left && x < box.right && tickAt(x) < memory.numTicks;
  const words = (/** @type {number} */ tick) => {
    const { curve } = shown();
    const parts = curve.areas.map((area) => `${area.words}: ${plural(at(area.bytes, tick), "byte")}`);
    return `${stepWords(detail, tick)}, ${curve.where}: ${plural(at(curve.total, tick), "byte")}, ${share(at(curve.total, tick), curve.room)} of what there is\n${parts.join("\n")}`;
  };
  return figure({
    label: `memory of ${program.facts.label} at each step`,
    height: 320 + depth * LOOPS,
    keys: "left and right choose a step, with Shift ten at once; PageUp and PageDown go a tenth, Home and End to the ends, p to the peak; + and − show fewer or more steps, 0 all",
    draw(drawing) {
      const { context } = drawing;
      const { curve, high } = shown();
      box = boxOf(drawing, 24 + depth * LOOPS);
      const yOf = (/** @type {number} */ size) => box.bottom - (size / high) * (box.bottom - box.top);
      bytesAxis(context, box, high);
      const columns = columnsOf(curve.total);
      areas(context, curve, columns, yOf);
      below(context, box, selection.from, selection.to, "step");
      drawLoops(context, detail, box, xOf, depth);
      if (curve.room <= high) room(context, curve, yOf(curve.room));
      const { tick } = selection;
      upright(context, tick, `step ${count(tick)}: ${bytes(at(curve.total, tick))}`, box.top - 11);
      top(context, curve, yOf); // last: lines and words must not hide it
    },
    describe(x, y) {
      if (!isIn(x)) return null;
      return loopAt(detail, tickAt(x), y) ?? (y >= box.top && y <= box.bottom ? words(tickAt(x)) : null);
    },
    onPress: choose,
    onDrag: choose,
    onWheel(x, _, delta) {
      if (!isIn(x) || selection.ticks <= selection.least) return false;
      selection.zoom(delta > 0 ? 1.25 : 0.8, tickAt(x));
      return true;
    },
    onKey(key, event) {
      if (key === "p") {
        selection.choose({ tick: shown().curve.top });
        selection.showStep(selection.tick);
      } else if (!selection.press(key, event)) return undefined;
      return words(selection.tick);
    },
    table: () => rowsOf(program, shown().curve, selection),
  });

  /** @param {number} x */
  function choose(x) {
    if (isIn(x)) selection.choose({ tick: tickAt(x) });
  }

  /** For each column of pixels the step that it shows: the fullest of those that it stands for. @param {Float64Array} total @returns {{x0: number, x1: number, tick: number}[]} */
  function columnsOf(total) {
    const last = Math.min(selection.to, total.length);
    const columns = [];
    const pixels = Math.max(1, Math.floor(box.right - box.left));
    const perColumn = Math.max(1, selection.length / pixels);
    for (let from = selection.from; from < last; from += perColumn) {
      const [first, end] = [Math.floor(from), Math.min(last, Math.max(Math.floor(from) + 1, Math.floor(from + perColumn)))];
      let tick = first;
      for (let each = first + 1; each < end; each++) if (at(total, each) > at(total, tick)) tick = each;
      columns.push({ x0: xOf(first), x1: xOf(end), tick });
    }
    return columns;
  }

  /** @param {CanvasRenderingContext2D} context @param {Curve} curve @param {{x0: number, x1: number, tick: number}[]} columns @param {(size: number) => number} yOf */
  function areas(context, curve, columns, yOf) {
    const floor = new Float64Array(columns.length);
    context.strokeStyle = themeColor("ground");
    context.lineWidth = 1;
    for (const area of curve.areas) {
      context.beginPath();
      columns.forEach(({ x0, x1, tick }, index) => {
        const y = yOf(at(floor, index) + at(area.bytes, tick));
        if (index === 0) context.moveTo(x0, y);
        context.lineTo(x0, y);
        context.lineTo(x1, y);
      });
      for (let index = columns.length - 1; index >= 0; index--) {
        const { x0, x1 } = /** @type {{x0: number, x1: number}} */ (columns[index]);
        const y = yOf(at(floor, index));
        context.lineTo(x1, y);
        context.lineTo(x0, y);
      }
      context.closePath();
      context.fillStyle = fillOf(context, area);
      context.fill();
      const [first] = columns;
      if (first && first.x1 - first.x0 > 4) context.stroke(); // of the ground's colour, which would hide narrow columns
      columns.forEach(({ tick }, index) => (floor[index] = at(floor, index) + at(area.bytes, tick)));
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {Curve} curve @param {number} y */
  function room(context, curve, y) {
    limit(context, box, y, `${curve.where.startsWith("all") ? "all tiles have" : "a tile has"} ${bytes(curve.room)}`);
  }

  /** @param {CanvasRenderingContext2D} context @param {Curve} curve @param {(size: number) => number} yOf */
  function top(context, curve, yOf) {
    const [x, y] = [xOf(curve.top + 0.5), yOf(at(curve.total, curve.top))];
    if (x < box.left || x > box.right) return;
    context.fillStyle = themeColor("mark");
    context.beginPath();
    context.moveTo(x, y - 1);
    context.lineTo(x - 6, y - 11);
    context.lineTo(x + 6, y - 11);
    context.closePath();
    context.fill();
    context.strokeStyle = themeColor("ground");
    context.stroke();
  }

  /** @param {CanvasRenderingContext2D} context @param {number} tick @param {string} text @param {number} y */
  function upright(context, tick, text, y) {
    const x = xOf(tick + 0.5);
    if (x < box.left || x > box.right) return;
    context.strokeStyle = themeColor("ink");
    context.lineWidth = 2;
    line(context, x, box.top, x, box.bottom);
    context.lineWidth = 1;
    label(context, box, text, x, y);
  }
}

/** @param {Known} program @param {Curve} curve @param {Selection} selection @returns {HTMLElement} */
function rowsOf({ detail }, curve, selection) {
  return table({
    label: "memory at each step",
    columns: [
      { name: "step", unit: "count", origin: "memory.step", of: (tick) => tick },
      { name: "name", of: (tick) => detail.steps[tick] },
      ...curve.areas.map((area) => ({ name: area.words.split(":")[0] ?? "", unit: /** @type {const} */ ("bytes"), origin: "memory.step", of: (/** @type {number} */ tick) => at(area.bytes, tick) })),
      { name: "together", unit: "bytes", origin: "memory.step", of: (tick) => at(curve.total, tick) },
      { name: "of what there is", unit: "share", origin: "memory.step", of: (tick) => at(curve.total, tick) / curve.room },
    ],
    rows: Array.from(curve.total, (_, tick) => tick),
    open: (tick) => selection.choose({ tick }),
  });
}
