/** Axes of pictures whose ground is steps and whose height is bytes. */

import { multiples, roundStep } from "../../core/axis.js";
import { themeColor } from "../../core/colors.js";
import { bytes, count, plural } from "../../core/format.js";

/** @import { Drawing } from "../../core/figure.js" */
/** @import { Detail } from "./model.js" */
/** @typedef {{left: number, top: number, right: number, bottom: number}} Box of the picture within its axes, in pixels */

export const FONT = '12px system-ui, "DejaVu Sans", sans-serif';
const LEFT = 76;
const BELOW = 40;
export const LOOPS = 16; // pixels of a row of loops
const MOST_DEPTH = 4; // rows of loops

/** @param {Drawing} drawing @param {number} [above] pixels above the picture @returns {Box} */
export function boxOf({ width, height }, above = 12) {
  return { left: LEFT, top: above, right: Math.max(LEFT + 10, width - 14), bottom: height - BELOW };
}

/**
 * The axis of steps below a picture.
 * @param {CanvasRenderingContext2D} context @param {Box} box @param {number} from @param {number} to behind the last @param {string} words
 */
export function below(context, box, from, to, words) {
  context.font = FONT;
  context.fillStyle = themeColor("faint");
  context.strokeStyle = themeColor("edge");
  context.textAlign = "center";
  context.textBaseline = "top";
  const span = to - from;
  const step = roundStep(Math.max(1, (80 * (span - 1)) / (box.right - box.left)));
  for (const mark of multiples(from, to - 1, step)) {
    const x = box.left + ((mark + 0.5 - from) / span) * (box.right - box.left);
    line(context, x, box.bottom, x, box.bottom + 4);
    context.fillText(count(mark), x, box.bottom + 6);
  }
  context.fillText(words, (box.left + box.right) / 2, box.bottom + 22);
  line(context, box.left, box.bottom, box.right, box.bottom);
}

/**
 * The axis of bytes to the left, with its grid.
 * @param {CanvasRenderingContext2D} context @param {Box} box @param {number} high
 */
export function bytesAxis(context, box, high) {
  context.font = FONT;
  context.textAlign = "right";
  context.textBaseline = "middle";
  const step = 2 ** Math.ceil(Math.log2(Math.max(1, (30 * high) / (box.bottom - box.top))));
  for (const mark of multiples(0, high, step)) {
    const y = box.bottom - (mark / high) * (box.bottom - box.top);
    context.strokeStyle = themeColor("grid");
    line(context, box.left, y, box.right, y);
    context.fillStyle = themeColor("faint");
    context.fillText(bytes(mark), box.left - 6, y);
  }
}

/** @param {CanvasRenderingContext2D} context @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 */
export function line(context, x0, y0, x1, y1) {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}

/** The line of what there is, which areas of all colours may lie behind. @param {CanvasRenderingContext2D} context @param {Box} box @param {number} y @param {string} words */
export function limit(context, box, y, words) {
  for (const [width, color] of /** @type {[number, string][]} */ ([[5, "ground"], [2, "mark"]])) {
    context.lineWidth = width;
    context.strokeStyle = themeColor(color);
    line(context, box.left, y, box.right, y);
  }
  context.lineWidth = 1;
  label(context, box, words, box.right, y - 12 < box.top + 8 ? y + 13 : y - 12, "mark");
}

/** Words on a ground of their own, which stay within the box. @param {CanvasRenderingContext2D} context @param {Box} box @param {string} words @param {number} x @param {number} y of their middle @param {string} [ink] */
export function label(context, box, words, x, y, ink = "ink") {
  context.font = FONT;
  const width = context.measureText(words).width + 8;
  const left = Math.min(Math.max(x - width / 2, box.left), box.right - width);
  context.fillStyle = themeColor("ground");
  context.fillRect(left, y - 9, width, 18);
  context.fillStyle = themeColor(ink);
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillText(words, left + 4, y);
}

/** Rows of loops above a picture. @param {Detail} detail @returns {number} */
export function depthOf({ loops }) {
  return Math.min(MOST_DEPTH, Math.max(0, ...loops.map(([, , , , level]) => level + 1)));
}

/** The loop whose bar is at a place, in words. @param {Detail} detail @param {number} tick @param {number} y @returns {string | null} */
export function loopAt({ loops }, tick, y) {
  const found = loops.find(([, first, last, , level]) => y >= 2 + level * LOOPS && y < 2 + (level + 1) * LOOPS && tick >= first && tick <= last);
  return found ? loopWords(found) : null;
}

/** @param {[string, number, number, number | null, number, string]} loop @returns {string} */
function loopWords([name, first, last, trips, , kind]) {
  const steps = `steps ${count(first)} to ${count(last)}`;
  if (kind === "branch") return `branch ${name}, ${steps}: its arms stand one after the other, and one of them runs`;
  const times = trips === null ? "as often as its data say" : plural(trips, "trip");
  return `loop ${name}, ${steps}: ${times}; its body stands here once, because each trip needs the same memory`;
}

/**
 * Bars of loops and branches above a picture.
 * @param {CanvasRenderingContext2D} context @param {Detail} detail @param {{left: number, right: number}} box @param {(tick: number) => number} xOf @param {number} depth
 */
export function drawLoops(context, detail, box, xOf, depth) {
  context.font = FONT;
  context.textAlign = "left";
  context.textBaseline = "middle";
  for (const [name, first, last, trips, level, kind] of detail.loops) {
    if (level >= depth) continue;
    const [x0, x1] = [Math.max(xOf(first), box.left), Math.min(xOf(last + 1), box.right)];
    if (x1 <= x0) continue;
    const y = 2 + level * LOOPS;
    context.fillStyle = themeColor("panel");
    context.fillRect(x0, y, x1 - x0, LOOPS - 3);
    context.strokeStyle = themeColor("edge");
    context.strokeRect(x0 + 0.5, y + 0.5, Math.max(1, x1 - x0 - 1), LOOPS - 4);
    const times = trips === null ? "" : ` ×${count(trips)}`;
    const choices =
      kind === "branch"
        ? [`branch ${name}`, "branch"]
        : [`loop ${name}, ${trips === null ? "trips depend on data" : plural(trips, "trip")}: its body once`, `loop ${name}${times}`, `loop${times}`, times.trim()];
    const words = choices.find((each) => context.measureText(each).width < x1 - x0 - 8);
    context.fillStyle = themeColor("ink");
    if (words) context.fillText(words, x0 + 4, y + (LOOPS - 3) / 2);
  }
}
