/**
 * One tip for the whole page: elements with `data-tip` show it on hover and on focus, and Escape hides it.
 * The pointer can go to it, to read on or to copy, once it has shown the same for a moment: one that only passes over numbers meets no tip.
 */

import { h } from "./dom.js";
import { keysFrom } from "./stops.js";

const SETTLED_MS = 300; // until the pointer can go to it
const ON_THE_WAY_MS = 600; // that it waits for a pointer which comes to it
const SLACK = 6; // CSS pixels that the pointer may stray on its way
const OUTCOMES = '[role="status"], .live'; // what is read while the pointer or the focus stays

const tip = h("div", { id: "tip", role: "tooltip", hidden: true });
/** What has the focus and the tip. @type {Element | null} */
let described = null;
/** Where the pointer was last on what the tip explains. */
let left = { x: -1, y: -1 };
let pointer = { x: -1, y: -1 };
/** Whether keys were pressed since the pointer moved. */
let keyed = false;
/** Whether something came below the pointer while it lay still: it is met when the pointer moves. */
let unmet = false;
let settling = 0;
let waiting = 0;

/** Starts to show tips. */
export function startTips() {
  (document.querySelector("header") ?? document.body).append(tip); // within a landmark
  document.addEventListener("pointerover", pointed);
  document.addEventListener("pointermove", moved, { passive: true });
  document.addEventListener("focusin", (event) => show(event.target, true));
  document.addEventListener("focusout", () => (document.elementFromPoint(pointer.x, pointer.y) === tip ? undescribe() : hide()));
  document.addEventListener("keydown", pressed, { capture: true }); // rows that a key moves come under the pointer after it
  // Keys that move the focus scroll too: the tip goes with what has it.
  document.addEventListener("scroll", () => (described ? show(described, true) : hide()), { capture: true, passive: true });
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  keyed = true;
  if (event.key === "Escape") hide();
}

/** What the pointer has come to. It may lie still while keys move rows below it: then it asks for nothing. @param {PointerEvent} event */
function pointed(event) {
  const { target, clientX: x, clientY: y } = event;
  unmet = (keyed || described !== null) && x === pointer.x && y === pointer.y;
  if (unmet || staysFor(event)) return;
  if (x !== pointer.x || y !== pointer.y) keyed = false;
  pointer = left = { x, y };
  show(target, false);
}

/** @param {PointerEvent} event */
function moved(event) {
  if (event.clientX === pointer.x && event.clientY === pointer.y) return;
  keyed = false;
  if (unmet && !described) return pointed(event);
  pointer = { x: event.clientX, y: event.clientY };
  if (!staysFor(event)) left = pointer;
}

/** Whether the tip stays as it is, because the pointer is on it or on the way to it. @param {PointerEvent} event @returns {boolean} */
export function staysFor({ target, clientX: x, clientY: y }) {
  clearTimeout(waiting);
  if (tip.hidden || !tip.classList.contains("settled")) return false;
  if (target === tip) return true;
  if (!towards(x, y)) return false;
  waiting = setTimeout(() => {
    left = pointer;
    show(document.elementFromPoint(x, y), false);
  }, ON_THE_WAY_MS);
  return true;
}

/** Whether a point lies between the place that the pointer left and the tip. @param {number} x @param {number} y @returns {boolean} */
function towards(x, y) {
  const { left: west, right: east, top, bottom } = tip.getBoundingClientRect();
  const beside = left.y >= top && left.y <= bottom;
  return beside ? between(x, y, left.x, left.y, [west, east], [top, bottom]) : between(y, x, left.y, left.x, [top, bottom], [west, east]);
}

/**
 * Whether a point lies in the wedge from another to a box.
 * @param {number} along of the point, in the direction of the box
 * @param {number} across
 * @param {number} from where the wedge begins
 * @param {number} middle where it begins, across
 * @param {[number, number]} ends of the box
 * @param {[number, number]} sides of the box
 * @returns {boolean}
 */
function between(along, across, from, middle, [near, far], [least, most]) {
  const part = (along - from) / ((from < near ? near : far) - from);
  return part > 0 && part <= 1 && across >= middle + part * (least - middle) - SLACK && across <= middle + part * (most - middle) + SLACK;
}

/**
 * Shows a text at a point, such as what a canvas has under the pointer.
 * @param {string} words
 * @param {number} x of the window
 * @param {number} y of the window
 */
export function tipAt(words, x, y) {
  const { width, height } = say(words);
  put(x + 12, y + 16 + height > innerHeight ? y - 8 - height : y + 16, width);
}

/** @param {string} words @returns {{width: number, height: number}} of the tip with them */
function say(words) {
  if (tip.hidden || tip.textContent !== words) {
    tip.classList.remove("settled");
    clearTimeout(settling);
    settling = setTimeout(() => tip.classList.add("settled"), SETTLED_MS);
  }
  tip.textContent = words;
  tip.hidden = false;
  return tip.getBoundingClientRect();
}

/** @param {number} x of its left edge @param {number} y of its top @param {number} width */
function put(x, y, width) {
  tip.style.left = `${Math.max(4, Math.min(x, innerWidth - width - 8))}px`;
  tip.style.top = `${Math.max(4, y)}px`;
}

/**
 * Puts the tip near what it explains: not over what tells the outcome, such as that of a slider, nor over other entries of a list of links.
 * @param {Element} owner
 * @param {number} x where it stands above or below
 * @param {{width: number, height: number}} size
 */
function putNear(owner, x, { width, height }) {
  const box = owner.getBoundingClientRect();
  const whole = owner.closest("nav")?.getBoundingClientRect();
  const { left: west, right: east, top, bottom } = whole ?? box;
  const beside = Math.min(box.top, innerHeight - height - 4);
  const [below, above, right, other] = [
    { x, y: bottom + 4 },
    { x, y: top - 4 - height },
    { x: east - 2, y: beside }, // the pointer comes to it without a gap
    { x: west + 2 - width, y: beside },
  ];
  const places = whole ? [right, below] : [below, above, right, other, { x, y: 4 }];
  const kept = Array.from(document.querySelectorAll(OUTCOMES), (each) => each.getBoundingClientRect());
  const fits = (/** @type {{x: number, y: number}} */ at) => at.y >= 0 && at.y + height <= innerHeight && (at === right || at === other ? at.x >= 4 && at.x + width + 8 <= innerWidth : true);
  const free = (/** @type {{x: number, y: number}} */ at) => kept.every((one) => at.y >= one.bottom || at.y + height <= one.top || at.x >= one.right || at.x + width <= one.left);
  const found = places.find((at) => fits(at) && free(at)) ?? places.find(fits) ?? above;
  put(found.x, found.y, width);
}

/** The pointer is on nothing that the tip would explain. @param {PointerEvent} event */
export function nothingAt(event) {
  if (event.relatedTarget !== tip && !staysFor(event)) show(null, false);
}

function hide() {
  tip.hidden = true;
  clearTimeout(settling);
  clearTimeout(waiting);
  undescribe();
}

function undescribe() {
  described?.removeAttribute("aria-describedby");
  described = null;
}

/** @param {EventTarget | null} target @param {boolean} focused whether it has the focus, so that the tip describes it */
function show(target, focused) {
  const owner = target instanceof Element ? ownerOf(target, focused) : null;
  if (!owner) {
    const stays = (target instanceof Element && target.closest("canvas")) || described?.matches(":focus-visible");
    if (!stays) hide();
    return;
  }
  undescribe();
  if (focused) {
    described = /** @type {Element} */ (target);
    described.setAttribute("aria-describedby", tip.id);
  }
  const box = owner.getBoundingClientRect();
  const x = focused ? box.left : Math.max(box.left, pointer.x - 16); // of a wide cell below the pointer
  const keys = described?.matches(":focus-visible") ? keysFrom(described) : "";
  const words = owner.getAttribute("data-tip") ?? owner.textContent ?? "";
  putNear(owner, x + 4, say(keys ? `${words}\n${keys} to the others here` : words));
}

/** What has the words of a tip: an element around, one within a cell or a row that has the focus, or a cell that is cut. @param {Element} target @param {boolean} focused @returns {Element | null} */
function ownerOf(target, focused) {
  const within = focused && target.matches("td, [role=treeitem], [role=row]") ? target.querySelector("[data-tip]") : null;
  const cell = target.closest("td");
  return target.closest("[data-tip]") ?? within ?? (cell && cell.scrollWidth > cell.clientWidth ? cell : null);
}
