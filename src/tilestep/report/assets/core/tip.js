/** One tip for the whole page: elements with `data-tip` show it on hover and on focus, and Escape hides it. */

import { h } from "./dom.js";

const tip = h("div", { id: "tip", role: "tooltip", hidden: true });

/** Starts to show tips. */
export function startTips() {
  document.body.append(tip);
  document.addEventListener("pointerover", (event) => show(event.target));
  document.addEventListener("focusin", (event) => show(event.target));
  document.addEventListener("focusout", hide);
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  document.addEventListener("scroll", hide, { capture: true, passive: true });
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
}

/** @param {EventTarget | null} target */
function show(target) {
  const owner = target instanceof Element ? target.closest("[data-tip]") : null;
  if (!owner) {
    if (!(target instanceof Element && target.closest("canvas"))) hide();
    return;
  }
  const box = owner.getBoundingClientRect();
  tipAt(owner.getAttribute("data-tip") ?? "", box.left - 8, box.bottom - 12);
}
