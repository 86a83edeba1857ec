/** Where the reader is after going to another view: at its top; after the browser's back button, at the link that was followed. */

import { visit } from "./state.js";

const LINKS = 'a[href^="#"]';

let last = "";

/** Remembers where the reader is when something is followed: a link, or a row that leads to another view. @param {HTMLElement} main holds the view */
export function rememberPlaces(main) {
  document.addEventListener(
    "click",
    ({ target }) => {
      const link = target instanceof Element ? target.closest(LINKS) : null;
      visit.note({ top: scrollY, followed: link ? Array.from(main.querySelectorAll(LINKS)).indexOf(link) : -1 });
    },
    { capture: true }, // before the page goes there
  );
}

/**
 * A view has been drawn.
 * @param {HTMLElement} main holds it
 * @param {string} view its name
 * @param {boolean} held whether the focus was in what stood there before
 */
export function arrive(main, view, held) {
  const { seen = false, top = 0, followed = -1 } = visit.noted();
  const isOther = last !== "" && last !== view;
  last = view;
  visit.note({ seen: true });
  if (!isOther) return;
  const links = /** @type {NodeListOf<HTMLElement>} */ (main.querySelectorAll(LINKS));
  const place = seen ? links[followed] : main.querySelector("h1");
  if (held) place?.focus({ preventScroll: true }); // else it would begin anew at the top of the page
  scrollTo(0, seen ? top : 0);
}
