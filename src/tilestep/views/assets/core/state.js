/** The state of the page: it stands in the URL's fragment, so that a link shows what its sender saw. */

/** @type {Set<() => void>} */
const listeners = new Set();
/** Whether the page is in a notebook's frame, whose address cannot be changed: then the state is kept beside it. */
const framed = location.href.startsWith("about:srcdoc");
let kept = "";
/** How often the user has gone elsewhere, and where the page knows him to be: the URL changes before its event comes. */
let goings = 0;
let known = fragment();

/** @returns {string} with its '#' */
function fragment() {
  return framed ? kept : location.hash;
}

/** The view, '' for none. @returns {string} */
export function viewName() {
  return decode(fragment().slice(1).split("?")[0] ?? "");
}

/** One value of the state. @param {string} key @param {string} [otherwise] @returns {string} */
export function get(key, otherwise = "") {
  return parameters().get(key) ?? otherwise;
}

/** One value as a number. @param {string} key @param {number} otherwise @returns {number} */
export function number(key, otherwise) {
  const text = parameters().get(key);
  const value = text === null || text === "" ? NaN : Number(text);
  return Number.isFinite(value) ? value : otherwise;
}

/**
 * Changes values of the state, without drawing the view anew.
 * @param {Record<string, string | number | null>} values null removes one
 */
export function set(values) {
  const next = `#${address(viewName(), { ...Object.fromEntries(parameters()), ...values })}`;
  if (framed) kept = next;
  else history.replaceState(history.state, "", next);
  known = fragment();
}

/**
 * Changes values a moment later, as `set` does, unless the user has gone elsewhere by then: browsers allow few changes of the URL a second.
 * @param {() => Record<string, string | number | null>} values
 * @param {number} wait milliseconds
 * @returns {number} the timer's
 */
export function setLater(values, wait) {
  const here = goings;
  return window.setTimeout(() => {
    if (goings === here && fragment() === known) set(values());
  }, wait);
}

/** What is noted of this visit to this address: the browser's back button brings it back. A frame has no such button. */
export const visit = {
  /** @returns {{seen?: boolean, top?: number, followed?: number}} */
  noted: () => (framed ? {} : (history.state ?? {})),
  /** @param {{seen?: boolean, top?: number, followed?: number}} more */
  note(more) {
    if (!framed) history.replaceState({ ...history.state, ...more }, "");
  },
};

/**
 * Goes to a view; the browser's back button returns.
 * @param {string} view
 * @param {Record<string, string | number | null>} [values] with those that are for all views: side, theme
 */
export function go(view, values = {}) {
  follow(link(view, values));
}

/** Follows a link to a view. @param {string} to */
function follow(to) {
  if (!framed) {
    location.hash = to.slice(1);
    return;
  }
  kept = to;
  tell();
}

function tell() {
  goings += 1;
  known = fragment();
  listeners.forEach((listener) => listener());
}

/** The link to a view. @param {string} view @param {Record<string, string | number | null>} [values] @returns {string} */
export function link(view, values = {}) {
  const kept = Object.fromEntries([...parameters()].filter(([key]) => key === "side" || key === "theme"));
  return `#${address(view, { ...kept, ...values })}`;
}

/** Calls a function when the user goes to another view or state. @param {() => void} listener */
export function onChange(listener) {
  listeners.add(listener);
}

if (framed) {
  document.addEventListener("click", (event) => {
    const anchor = event.target instanceof Element ? event.target.closest('a[href^="#"]') : null;
    if (!anchor || event.defaultPrevented) return;
    event.preventDefault(); // it would leave the frame's document
    follow(anchor.getAttribute("href") ?? "");
  });
}
addEventListener("hashchange", tell);

/** @returns {URLSearchParams} */
function parameters() {
  return new URLSearchParams(fragment().split("?")[1] ?? "");
}

/** @param {string} view @param {Record<string, string | number | null>} values @returns {string} */
function address(view, values) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) if (value !== null) query.set(key, String(value));
  const text = query.toString();
  return encodeURIComponent(view) + (text ? `?${text}` : "");
}

/** @param {string} text @returns {string} */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}
