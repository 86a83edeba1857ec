/** A picture on a canvas: drawn sharply, again when its size or the theme changes, with a cursor for keys and the same data as a table. */

import { h, replace } from "./dom.js";
import { nothingAt, staysFor, tipAt } from "./tip.js";

/**
 * @typedef {object} Drawing
 * @property {CanvasRenderingContext2D} context its units are CSS pixels
 * @property {number} width CSS pixels
 * @property {number} height CSS pixels
 * @property {number} scale device pixels for each
 */
/**
 * @typedef {object} FigureOptions
 * @property {string} label what the picture shows; its accessible name
 * @property {number} height CSS pixels
 * @property {(drawing: Drawing) => void} draw
 * @property {() => HTMLElement} table the same data as a table, made when it is asked for
 * @property {(key: string, event: KeyboardEvent) => string | null | undefined} [onKey] moves the cursor or the view; what it returns is read aloud; undefined: the key is not its own
 * @property {(x: number, y: number) => string | null} [describe] what is at a place, for the tip
 * @property {(x: number, y: number, event: PointerEvent) => void} [onPress]
 * @property {(x: number, y: number, event: PointerEvent) => void} [onDrag] with the button down
 * @property {(x: number, y: number, delta: number, event: WheelEvent) => boolean} [onWheel] whether it took the wheel
 * @property {string} [keys] the keys that it takes, in words
 */
/**
 * @typedef {object} FigureHandle
 * @property {HTMLElement} element
 * @property {HTMLCanvasElement} canvas
 * @property {() => void} redraw at the next frame
 * @property {(words: string) => void} say reads words aloud, and shows them below the picture
 */

/** Draws every figure and every legend again, as after a change of theme. @param {boolean} [now] not at the next frame */
export function redrawAll(now = false) {
  for (const canvas of document.querySelectorAll("canvas")) /** @type {any} */ (canvas).repaint?.(now);
}

// Paper is light, and is drawn before the next frame.
matchMedia("print").addEventListener("change", () => redrawAll(true));

/** @param {FigureOptions} options @returns {FigureHandle} */
export function figure(options) {
  const { height } = options;
  let pending = false;
  const canvas = h("canvas", {
    tabindex: "0",
    role: options.onKey ? "application" : "img",
    "aria-label": options.keys ? `${options.label}. Keys: ${options.keys}` : options.label,
    style: { height: `${height}px` },
  });
  const live = h("p", { class: "live", "aria-live": "polite" });
  const place = h("div", { class: "as-table", hidden: true });
  const button = h("button", { type: "button", "aria-expanded": "false", onclick: toggle }, "Show as table");
  const element = h("figure", {}, canvas, live, h("figcaption", {}, h("span", { class: "keys" }, options.keys ?? ""), button), place);

  function toggle() {
    const open = place.hidden;
    if (open && !place.firstChild) replace(place, options.table());
    place.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
    button.textContent = open ? "Hide the table" : "Show as table";
  }

  function paint() {
    pending = false;
    const width = canvas.clientWidth;
    if (!width || !canvas.isConnected) return;
    const scale = Math.min(devicePixelRatio || 1, 2);
    const [w, t] = [Math.round(width * scale), Math.round(height * scale)];
    if (canvas.width !== w) canvas.width = w;
    if (canvas.height !== t) canvas.height = t;
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    options.draw({ context, width, height, scale });
  }

  function redraw() {
    if (pending) return;
    pending = true;
    requestAnimationFrame(paint);
  }

  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const said = options.onKey?.(event.key, event);
    if (said === undefined) {
      if (options.onKey && (event.key === "Home" || event.key === "End")) event.preventDefault(); // they are the picture's, not the page's
      return;
    }
    event.preventDefault();
    if (said !== null) live.textContent = oneLine(said);
  });
  canvas.addEventListener("pointermove", (event) => {
    const words = options.describe?.(event.offsetX, event.offsetY);
    if (!words) nothingAt(event);
    else if (!staysFor(event)) tipAt(words, event.clientX, event.clientY);
    if (event.buttons & 1) options.onDrag?.(event.offsetX, event.offsetY, event);
  });
  canvas.addEventListener("pointerleave", nothingAt);
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.focus({ preventScroll: true });
    canvas.setPointerCapture(event.pointerId);
    options.onPress?.(event.offsetX, event.offsetY, event);
  });
  canvas.addEventListener("wheel", (event) => options.onWheel?.(event.offsetX, event.offsetY, event.deltaY, event) && event.preventDefault(), { passive: false });
  new ResizeObserver(redraw).observe(canvas);

  /** @type {FigureHandle} */
  const handle = {
    element,
    canvas,
    redraw,
    say(words) {
      live.textContent = oneLine(words);
    },
  };
  /** @type {any} */ (canvas).repaint = (/** @type {boolean} */ now) => (now ? paint() : redraw());
  /** @type {any} */ (canvas).paintNow = paint; // benchmarks time it
  redraw();
  return handle;
}

/** The lines of a tip as one. @param {string} words @returns {string} */
function oneLine(words) {
  return words.replaceAll("\n", "; ");
}
