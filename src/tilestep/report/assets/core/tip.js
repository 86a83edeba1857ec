/** One tip for the whole page: elements with `data-tip` show it on hover and on focus, and Escape hides it. */

import { h } from "./dom.js";

const tip = h("div", { id: "tip", role: "tooltip", hidden: true });
/** What has the focus and the tip. @type {Element | null} */
let described = null;

/** Starts to show tips. */
export function startTips() {
  document.body.append(tip);
  document.addEventListener("pointerover", pointed);
  document.addEventListener("pointermove", ({ clientX: x, clientY: y }) => (pointer = { x, y }), { passive: true });
  document.addEventListener("focusin", (event) => show(event.target, true));
  document.addEventListener("focusout", hide);
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  // Keys that move the focus scroll too: the tip goes with what has it.
  document.addEventListener("scroll", () => (described ? show(described, true) : hide()), { capture: true, passive: true });
}

let pointer = { x: -1, y: -1 };

/** What the pointer has come to. It may lie still while keys move rows below it: then the tip stays with the focus. @param {PointerEvent} event */
function pointed({ target, clientX: x, clientY: y }) {
  if (described && x === pointer.x && y === pointer.y) return;
  pointer = { x, y };
  show(target, false);
}

/**
 * Shows a text at a point, such as what a canvas has under the pointer.
 * @param {string} words
 * @param {number} x of the window
 * @param {number} y of the window
 */
export function tipAt(words, x, y) {
  tip.textContent = words;
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 12, innerWidth - width - 8))}px`;
  tip.style.top = `${y + 16 + height > innerHeight ? Math.max(4, y - height - 8) : y + 16}px`;
}

/** Hides the tip. */
export function hide() {
  tip.hidden = true;
  described?.removeAttribute("aria-describedby");
  described = null;
}

/** @param {EventTarget | null} target @param {boolean} focused whether it has the focus, so that the tip describes it */
function show(target, focused) {
  const owner = target instanceof Element ? ownerOf(target, focused) : null;
  if (!owner) {
    if (!(target instanceof Element && target.closest("canvas"))) hide();
    return;
  }
  hide();
  if (focused) {
    described = /** @type {Element} */ (target);
    described.setAttribute("aria-describedby", tip.id);
  }
  const box = owner.getBoundingClientRect();
  tipAt(owner.getAttribute("data-tip") ?? owner.textContent ?? "", box.left - 8, box.bottom - 12);
}

/** What has the words of a tip: an element around, one within a cell or a row that has the focus, or a cell that is cut. @param {Element} target @param {boolean} focused @returns {Element | null} */
function ownerOf(target, focused) {
  const within = focused && target.matches("td, [role=treeitem], [role=row]") ? target.querySelector("[data-tip]") : null;
  const cell = target.closest("td");
  return target.closest("[data-tip]") ?? within ?? (cell && cell.scrollWidth > cell.clientWidth ? cell : null);
}
