/** Fields above views. */

import { h } from "../../core/dom.js";
import { get, set } from "../../core/state.js";

/**
 * A choice with its words.
 * @param {string} words
 * @param {[string, string][]} options value and words of each
 * @param {string} chosen
 * @param {(value: string) => void} change
 * @returns {HTMLLabelElement}
 */
export function choice(words, options, chosen, change) {
  const select = h("select", {}, options.map(([value, text]) => h("option", { value }, text.length > 80 ? `${text.slice(0, 79)}…` : text)));
  select.value = chosen;
  if (select.selectedIndex < 0) select.selectedIndex = 0;
  select.addEventListener("change", () => change(select.value));
  return h("label", { class: "choice" }, words, " ", select);
}

/**
 * A field that finds rows of a list, and what it found; the words stand in the URL.
 * @param {string} words
 * @param {{find: (query: string) => number, next: (forward: boolean) => string}} list
 * @param {(found: number, query: string) => string} told
 */
export function listSearch(words, list, told) {
  const note = h("span", { class: "note", role: "status" });
  const find = (/** @type {string} */ query) => {
    const found = list.find(query);
    note.textContent = told(found, query.trim());
    return found;
  };
  const changed = (/** @type {string} */ query) => {
    set({ q: query || null });
    if (find(query)) list.next(true);
  };
  const field = searchField(words, get("q"), changed, (forward) => (note.textContent = list.next(forward)));
  return { field, note, find };
}

/** A choice that stands in the URL; the first option does not. @param {string} words @param {[string, string][]} options @param {string} key there @param {() => void} changed @returns {HTMLLabelElement} */
export function stateChoice(words, options, key, changed) {
  const [[none] = [""]] = options;
  return choice(words, options, get(key, none), (value) => {
    set({ [key]: value === none ? null : value });
    changed();
  });
}

/**
 * A field to search in; Enter goes to the next place, Shift and Enter to the one before.
 * @param {string} words
 * @param {string} value
 * @param {(value: string) => void} change
 * @param {(forward: boolean) => void} [next]
 * @returns {HTMLInputElement}
 */
export function searchField(words, value, change, next) {
  const field = h("input", { type: "search", class: "wide", "aria-label": words, placeholder: words, value });
  field.addEventListener("input", () => change(field.value));
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !next) return;
    event.preventDefault();
    next(!event.shiftKey);
  });
  return field;
}
