/** Legends: what each colour and hatch stands for. */

import { fillOf } from "./colors.js";
import { h } from "./dom.js";

/** @param {{words: string, color: string, hatch: import("./colors.js").Hatch}[]} entries @returns {HTMLElement} */
export function legend(entries) {
  return h(
    "ul",
    { class: "legend" },
    entries.map((entry) => h("li", {}, swatch(entry), h("span", {}, entry.words))),
  );
}

/** A small field of a colour and hatch. @param {{color: string, hatch: import("./colors.js").Hatch}} look @returns {HTMLElement} */
export function swatch(look) {
  const canvas = h("canvas", { class: "swatch", width: 24, height: 24, "aria-hidden": "true" });
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  context.fillStyle = fillOf(context, look);
  context.fillRect(0, 0, 24, 24);
  return canvas;
}
