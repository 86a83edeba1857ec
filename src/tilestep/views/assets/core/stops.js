/**
 * Numbers and words that are explained on focus: those of a paragraph, a list or a table are one stop of the Tab key, as a whole table is.
 * ← and → go from one to the next, ↑ and ↓ within a column.
 */

const EXPLAINED = "[data-tip][tabindex]:not(a, button, td)";
const GRIDS = '[role="grid"], [role="tree"], [role="toolbar"]'; // which have their own keys

/** Makes each block one stop, now and whenever the view says something else. @param {HTMLElement} view */
export function groupStops(view) {
  gather(view);
  const isText = (/** @type {MutationRecord} */ { target }) => target instanceof Element && !target.closest(GRIDS);
  new MutationObserver((changes) => changes.some(isText) && gather(view)).observe(view, { childList: true, subtree: true, attributeFilter: ["hidden", "open"] });
  view.addEventListener("focusin", ({ target }) => isExplained(target) && stopAt(target, together(target)));
  view.addEventListener("keydown", pressed);
}

/** Which keys go from an explained element to others: '← →'; '' if it is alone. @param {Element} element @returns {string} */
export function keysFrom(element) {
  if (!isExplained(element) || together(element).length < 2) return "";
  return element.closest("td, th") ? "← → ↑ ↓" : "← →";
}

/** @param {EventTarget | null} target @returns {target is HTMLElement} */
function isExplained(target) {
  return target instanceof HTMLElement && target.matches(EXPLAINED) && !target.closest(GRIDS);
}

/** What an element is one stop with. @param {HTMLElement} element @returns {HTMLElement} */
function blockOf(element) {
  const block = element.closest("[data-one-stop]") ?? element.closest("table, dl, ul, ol") ?? element.closest("p, h2, h3, h4");
  return /** @type {HTMLElement} */ (block ?? element.parentElement);
}

/** All of its block that are seen, in order. @param {HTMLElement} element @returns {HTMLElement[]} */
function together(element) {
  const block = blockOf(element);
  return Array.from(block.querySelectorAll(EXPLAINED)).filter(
    /** @returns {each is HTMLElement} */ (each) => isExplained(each) && blockOf(each) === block && each.checkVisibility(),
  );
}

/** @param {HTMLElement} view */
function gather(view) {
  const seen = new Set();
  for (const each of view.querySelectorAll(EXPLAINED)) {
    if (!isExplained(each) || seen.has(blockOf(each))) continue;
    const all = together(each);
    const stop = all.find((one) => one === document.activeElement) ?? all.find((one) => one.tabIndex === 0) ?? all[0];
    seen.add(blockOf(each));
    if (stop) stopAt(stop, all); // else nothing of it is seen
  }
}

/** @param {HTMLElement} stop @param {HTMLElement[]} all */
function stopAt(stop, all) {
  for (const each of all) each.setAttribute("tabindex", each === stop ? "0" : "-1");
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  const { target, key } = event;
  if (!isExplained(target) || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return;
  const all = together(target);
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1 }[key];
  const cell = /** @type {HTMLTableCellElement | null} */ (target.closest("td, th"));
  const isVertical = key === "ArrowDown" || key === "ArrowUp";
  if (!step || (isVertical && !cell)) return;
  const isNext = (/** @type {HTMLElement} */ each) => !isVertical || columnOf(each) === columnOf(target);
  const rest = step > 0 ? all.slice(all.indexOf(target) + 1) : all.slice(0, all.indexOf(target)).reverse();
  const next = rest.find(isNext);
  if (!next) return; // the page scrolls
  event.preventDefault();
  next.focus();
}

/** The left edge of its cell: cells above may span rows. @param {HTMLElement} element @returns {number} */
function columnOf(element) {
  return Math.round(element.closest("td, th")?.getBoundingClientRect().left ?? 0);
}
