/** Legends: what each colour and hatch stands for. */

import { fillOf } from "./colors.js";
import { h } from "./dom.js";

/** @param {{words: string, color: string, dark?: string, hatch: import("./colors.js").Hatch}[]} entries @returns {HTMLElement} */
export function legend(entries) {
  return h(
    "ul",
    { class: "legend" },
    entries.map((entry) => h("li", {}, swatch(entry), h("span", {}, entry.words))),
  );
}

/** A small field of a colour and hatch. @param {{color: string, dark?: string, hatch: import("./colors.js").Hatch}} look @returns {HTMLElement} */
export function swatch(look) {
  const canvas = h("canvas", { class: "swatch", width: 28, height: 28, "aria-hidden": "true" });
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.scale(2, 2); // twice as many pixels as CSS has: a hatch keeps its size
  const paint = () => {
    context.fillStyle = fillOf(context, look);
    context.fillRect(0, 0, 14, 14);
  };
  paint();
  /** @type {any} */ (canvas).repaint = paint; // in another theme
  return canvas;
}
