/** Words of the machine: where a view says one first it is marked, and its tip explains it. */

import { h } from "./dom.js";

const WITHIN = "p, h2, h3, h4, li, dt, th";
const NEVER = 'a, button, code, pre, select, summary, label, dfn, .mono, .step, .value, .live, .keys, .title, .no-room, [data-tip], [role="grid"], [role="tree"]';

const known = { terms: /** @type {Record<string, string>} */ ({}), found: /** @type {RegExp | null} */ (null) };

/** Takes the words and their sentences. @param {Record<string, string>} terms */
export function learnTerms(terms) {
  const words = Object.keys(terms).sort((one, other) => other.length - one.length);
  known.terms = Object.fromEntries(words.map((word) => [word.toLowerCase(), terms[word] ?? ""]));
  const each = words.map((word) => word.replace(/[^\w\s]/g, "\\$&")).join("|");
  known.found = words.length ? new RegExp(`(?<![\\w./_-])(${each})(s|es)?(?![\\w(_/-]|\\.\\w)`, "i") : null;
}

/** What a word means; '' if it is none of those. @param {string} word @returns {string} */
export function meaning(word) {
  return known.terms[word.toLowerCase()] ?? "";
}

/** Marks the first of each word, now and whenever the view says something else. @param {HTMLElement} view */
export function explainTerms(view) {
  mark(view);
  new MutationObserver((changes) => {
    const isText = (/** @type {MutationRecord} */ { target }) => target instanceof Element && !target.closest('[role="grid"], [role="tree"], dfn');
    if (changes.some(isText)) mark(view);
  }).observe(view, { childList: true, subtree: true });
}

/** @param {HTMLElement} view */
function mark(view) {
  const { found } = known;
  if (!found) return;
  const marked = new Set(Array.from(view.querySelectorAll("dfn"), (each) => each.dataset.term));
  const walker = document.createTreeWalker(view, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT, (node) =>
    node instanceof Element ? (node.matches(NEVER) ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_SKIP) : NodeFilter.FILTER_ACCEPT,
  );
  const texts = [];
  while (walker.nextNode()) if (walker.currentNode.parentElement?.closest(WITHIN)) texts.push(/** @type {Text} */ (walker.currentNode));
  for (const text of texts) {
    let rest = /** @type {Text | null} */ (text);
    let from = 0;
    while (rest) {
      const place = found.exec(rest.data.slice(from));
      if (!place) break;
      const [words, term = ""] = place;
      const key = term.toLowerCase();
      const at = from + place.index;
      from = at + words.length;
      if (marked.has(key)) continue;
      marked.add(key);
      const behind = rest.splitText(from);
      rest.splitText(at).replaceWith(h("dfn", { tabindex: "0", "data-term": key, "data-tip": `${term}: ${meaning(term)}` }, words));
      [rest, from] = [behind, 0];
    }
  }
}
