/** Shapes of points, so that families differ in more than their colour. */

import { fillOf } from "../../core/colors.js";
import { h } from "../../core/dom.js";

/** Corners of each shape but the circle, around (0, 0). @type {readonly (readonly [number, number][] | null)[]} */
const CORNERS = Object.freeze([
  null,
  [[-0.85, -0.85], [0.85, -0.85], [0.85, 0.85], [-0.85, 0.85]],
  [[0, -1.1], [1, 0.8], [-1, 0.8]],
  [[0, -1.2], [1.2, 0], [0, 1.2], [-1.2, 0]],
  [[0, 1.1], [1, -0.8], [-1, -0.8]],
  [[-0.4, -1.1], [0.4, -1.1], [0.4, -0.4], [1.1, -0.4], [1.1, 0.4], [0.4, 0.4], [0.4, 1.1], [-0.4, 1.1], [-0.4, 0.4], [-1.1, 0.4], [-1.1, -0.4], [-0.4, -0.4]],
]);

/**
 * @param {CanvasRenderingContext2D} context
 * @param {number} shape
 * @param {number} x
 * @param {number} y
 * @param {number} radius
 * @param {CanvasPattern | string | null} fill null: hollow
 * @param {string} edge
 */
export function drawShape(context, shape, x, y, radius, fill, edge) {
  const corners = CORNERS[shape];
  context.beginPath();
  if (corners) corners.forEach(([dx, dy], place) => (place ? context.lineTo(x + radius * dx, y + radius * dy) : context.moveTo(x + radius * dx, y + radius * dy)));
  else context.arc(x, y, radius, 0, 2 * Math.PI);
  context.closePath();
  if (fill) {
    context.fillStyle = fill;
    context.fill();
  }
  context.strokeStyle = edge;
  context.lineWidth = fill ? 1 : 2.5;
  context.stroke();
}

/** A legend of shapes. @param {Map<string, import("../steps/families.js").FamilyLook>} looks @param {string} ink @returns {HTMLElement} */
export function shapeLegend(looks, ink) {
  return h(
    "ul",
    { class: "legend" },
    [...looks].map(([words, look]) => {
      const canvas = h("canvas", { class: "shape", width: 32, height: 32, "aria-hidden": "true" });
      const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
      context.scale(2, 2);
      drawShape(context, look.shape, 8, 8, 6, fillOf(context, look), ink);
      return h("li", {}, canvas, words);
    }),
  );
}
