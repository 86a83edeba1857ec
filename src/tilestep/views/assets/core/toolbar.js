/** Buttons that are one stop for Tab: arrow keys, Home and End go from one to the next. */

import { h } from "./dom.js";

/**
 * @param {string} label what the buttons are for
 * @param {HTMLElement} element that holds the buttons
 * @returns {HTMLElement}
 */
export function toolbar(label, element) {
  const buttons = /** @type {HTMLButtonElement[]} */ ([...element.querySelectorAll("button")]);
  /** @param {number} place */
  const stop = (place) => buttons.forEach((button, index) => button.setAttribute("tabindex", index === place ? "0" : "-1"));
  stop(0);
  element.addEventListener("focusin", (event) => {
    const place = buttons.indexOf(/** @type {HTMLButtonElement} */ (event.target));
    if (place >= 0) stop(place);
  });
  element.addEventListener("keydown", (event) => {
    const now = buttons.indexOf(/** @type {HTMLButtonElement} */ (event.target));
    /** @type {Record<string, number>} */
    const places = { ArrowRight: now + 1, ArrowDown: now + 1, ArrowLeft: now - 1, ArrowUp: now - 1, Home: 0, End: buttons.length - 1 };
    const place = places[event.key];
    if (now < 0 || place === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    buttons[(place + buttons.length) % buttons.length]?.focus();
  });
  return h("div", { role: "toolbar", "aria-label": `${label}; arrow keys go from one to the next` }, element);
}
