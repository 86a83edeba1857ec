/** Colours of Okabe and Ito's palette, each with a hatch, so that neither colour vision nor a printer decides what is seen. */

/** @typedef {"plain" | "up" | "down" | "cross" | "dots" | "bars" | "lines"} Hatch */
/** `dark` is the colour on a dark ground, and `ink` that of the hatch, if they are others. @typedef {{color: string, dark?: string, ink?: string, hatch: Hatch}} Fill */
/** @typedef {Fill & {words: string}} Look */

/** What each kind of event looks like: those of one hatch differ in every deficiency of colour vision. Words are those of the command line. @type {Readonly<Record<string, Look>>} */
export const KINDS = Object.freeze({
  compute: { color: "#0072B2", hatch: "plain", words: "compute" },
  exchange: { color: "#56B4E9", hatch: "up", words: "exchange between tiles" },
  sync: { color: "#F0E442", hatch: "plain", words: "sync" },
  collective: { color: "#CC79A7", hatch: "cross", words: "exchange between IPUs" },
  "stream-in": { color: "#009E73", hatch: "lines", words: "arguments in" },
  "stream-out": { color: "#009E73", hatch: "down", words: "results out" },
  "io-in": { color: "#66C2A5", hatch: "lines", words: "arguments in over I/O tiles" },
  "io-out": { color: "#66C2A5", hatch: "down", words: "results out over I/O tiles" },
  load: { color: "#D55E00", hatch: "bars", words: "loading programs" },
  save: { color: "#D55E00", hatch: "up", words: "saving values at a switch" },
  "host-call": { color: "#E69F00", hatch: "dots", words: "host calls" },
  read: { color: "#E69F00", hatch: "cross", words: "reads by the host" },
  dispatch: { color: "#8C6BB1", hatch: "down", words: "dispatches" },
  wait: { color: "#999999", hatch: "up", words: "the host waits" },
  transfer: { color: "#7A8B99", hatch: "plain", words: "transfers" },
  waiting: { color: "#999999", hatch: "up", words: "waiting" },
  unkept: { color: "#999999", hatch: "dots", words: "not recorded" },
  idle: { color: "#999999", hatch: "up", words: "idle" },
});
/** Colours of things without a meaning of their own, in order. @type {readonly string[]} */
const SERIES = Object.freeze(["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442", "#999999"]);
/** Hatches for the same. @type {readonly Hatch[]} */
export const HATCHES = Object.freeze(["plain", "up", "dots", "down", "cross", "bars", "lines"]);

/** Quiet colours of programs, on a light ground and on a dark one: no kind of event has such a colour. */
const PROGRAMS = Object.freeze([["#e9dfc8", "#5b5138"], ["#cfd9e8", "#3a4a60"], ["#e3d0e4", "#563f58"], ["#cfe0cb", "#3d5439"]]);

/** The look of the nth program. @param {number} index @returns {Fill} */
export function programLook(index) {
  const [color = "#cccccc", dark = color] = PROGRAMS[index % PROGRAMS.length] ?? [];
  return { color, dark, hatch: HATCHES[Math.floor(index / PROGRAMS.length) % HATCHES.length] ?? "plain" };
}

/** How light a colour is, from 0 to 1. @param {string} color '#rrggbb' */
function lightness(color) {
  const value = Number.parseInt(color.slice(1), 16);
  const [red, green, blue] = [value >> 16, (value >> 8) & 255, value & 255].map((part) => ((part / 255 + 0.055) / 1.055) ** 2.4);
  return 0.2126 * (red ?? 0) + 0.7152 * (green ?? 0) + 0.0722 * (blue ?? 0);
}

/** Whether white is the better ink on a colour. @param {string} color '#rrggbb' */
export function isDark(color) {
  return lightness(color) < 0.179;
}

/** The ink of a hatch: it darkens a colour, and lightens one that is too dark for that. @param {string} color '#rrggbb' */
export function hatchInk(color) {
  return lightness(color) < 0.12 ? "rgba(255, 255, 255, 0.45)" : "rgba(0, 0, 0, 0.45)";
}

/** Whether the page is dark: chosen by its theme, or by the user's system. Paper is light. */
export function isDarkTheme() {
  if (matchMedia("print").matches) return false;
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

/** The look of a kind of event. @param {string} kind @returns {Look} */
export function lookOf(kind) {
  return KINDS[kind] ?? { color: "#999999", hatch: "dots", words: kind };
}

/** The look of the nth of several things: neighbours differ in their hatch as well as in their colour. @param {number} index @returns {{color: string, hatch: Hatch}} */
export function lookAt(index) {
  const color = SERIES[index % SERIES.length] ?? "#999999";
  return { color, hatch: HATCHES[index % HATCHES.length] ?? "plain" };
}

/** @type {Map<string, CanvasPattern | string>} */
const patterns = new Map();

/**
 * A fill for a canvas: a colour, hatched.
 * @param {CanvasRenderingContext2D} context
 * @param {Fill} look
 * @returns {CanvasPattern | string}
 */
export function fillOf(context, look) {
  const color = look.dark && isDarkTheme() ? look.dark : look.color;
  if (look.hatch === "plain") return color;
  const ink = look.ink ?? hatchInk(color);
  const key = `${color} ${look.hatch} ${ink}`;
  let found = patterns.get(key);
  if (!found) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const pen = /** @type {CanvasRenderingContext2D} */ (tile.getContext("2d"));
    pen.fillStyle = color;
    pen.fillRect(0, 0, 8, 8);
    pen.strokeStyle = pen.fillStyle = ink;
    pen.lineWidth = 1.5;
    hatch(pen, look.hatch);
    found = context.createPattern(tile, "repeat") ?? color;
    patterns.set(key, found);
  }
  return found;
}

/** @param {CanvasRenderingContext2D} pen @param {Hatch} kind */
function hatch(pen, kind) {
  pen.beginPath();
  if (kind === "up" || kind === "cross") lines(pen, [[-2, 2, 2, -2], [0, 8, 8, 0], [6, 10, 10, 6]]);
  if (kind === "down" || kind === "cross") lines(pen, [[-2, 6, 2, 10], [0, 0, 8, 8], [6, -2, 10, 2]]);
  if (kind === "bars") lines(pen, [[2, 0, 2, 8], [6, 0, 6, 8]]);
  if (kind === "lines") lines(pen, [[0, 2, 8, 2], [0, 6, 8, 6]]);
  if (kind === "dots") {
    pen.fillRect(1, 1, 2, 2);
    pen.fillRect(5, 5, 2, 2);
  }
  pen.stroke();
}

/** @param {CanvasRenderingContext2D} pen @param {[number, number, number, number][]} segments */
function lines(pen, segments) {
  for (const [x0, y0, x1, y1] of segments) {
    pen.moveTo(x0, y0);
    pen.lineTo(x1, y1);
  }
}

/** A colour of the page's theme, such as 'ink', 'ground', 'grid', 'faint'. @param {string} name @returns {string} */
export function themeColor(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
