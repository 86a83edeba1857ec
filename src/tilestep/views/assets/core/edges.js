/** Shadows at the edges of what scrolls, where there is more behind them. */

import { h } from "./dom.js";

/**
 * What scrolls, in a frame whose edges say where there is more.
 * @param {HTMLElement} scroller
 * @param {string} [look] further classes of the frame
 * @returns {HTMLElement}
 */
export function edged(scroller, look = "") {
  const frame = h("div", { class: `edged ${look}`.trim() }, scroller);
  let pending = false;
  const update = () => {
    pending = false;
    const { scrollLeft, scrollTop, scrollWidth, scrollHeight, clientWidth, clientHeight } = scroller;
    frame.toggleAttribute("data-more-left", scrollLeft > 1);
    frame.toggleAttribute("data-more-right", scrollLeft + clientWidth < scrollWidth - 1);
    frame.toggleAttribute("data-more-below", scrollTop + clientHeight < scrollHeight - 1);
    frame.style.setProperty("--bar-right", `${scroller.offsetWidth - clientWidth}px`);
    frame.style.setProperty("--bar-below", `${scroller.offsetHeight - clientHeight}px`);
  };
  const soon = () => {
    if (!pending) requestAnimationFrame(update); // at once it would lay out the page while rows are drawn
    pending = true;
  };
  scroller.addEventListener("scroll", soon, { passive: true });
  const seen = new ResizeObserver(soon);
  seen.observe(scroller);
  for (const part of scroller.children) seen.observe(part);
  return frame;
}
