/** The page: its head, its navigation, and the view that the URL names. */

import { arrive, rememberPlaces } from "./core/arrive.js";
import { redrawAll } from "./core/figure.js";
import { h, replace } from "./core/dom.js";
import { plural } from "./core/format.js";
import { openPage } from "./core/page.js";
import { get, go, link, onChange, set, viewName } from "./core/state.js";
import { groupStops } from "./core/stops.js";
import { explainTerms, learnTerms } from "./core/terms.js";
import { startTips } from "./core/tip.js";
import { learnClocks, learnOrigins, ofSide, valueOf } from "./core/value.js";
import { VIEWS } from "./views/views.js";

/** @import { Page, Side, View } from "./core/page.js" */

/** What the user sees of an error that nobody expected. @param {unknown} error */
function tell(error) {
  const words = error instanceof Error ? error.message : String(error);
  document.getElementById("main")?.prepend(h("p", { role: "alert", class: "alert" }, `This view cannot be drawn: ${words}`));
}

/** The recording that views show. @param {Page} page @returns {Side} */
function shownSide({ sides }) {
  return sides.find(({ name }) => name === get("side")) ?? /** @type {Side} */ (sides[0]);
}

/** @param {Page} page @returns {HTMLElement} */
function head(page) {
  const names = page.sides.map((side) => {
    const { machine, num_ipus, emulated_cycles, emulated, verdict } = side.head;
    const where = machine ? `${machine} (${plural(num_ipus, "IPU")})` : "";
    return h(
      "p",
      { class: "recording" },
      page.sides.length > 1 ? h("strong", {}, `${side.name.toUpperCase()} `) : null,
      h("span", { class: "title" }, side.label),
      verdict ? h("span", { class: "fits" }, ` ${verdict}.`) : null,
      emulated ? [" ", valueOf(emulated_cycles, ofSide("cycles", side.name), "head.total"), ` emulated on ${where}`] : where ? ` ${where}` : null,
    );
  });
  const theme = h("select", { id: "theme" }, ["auto", "light", "dark"].map((name) => h("option", { value: name }, name)));
  theme.addEventListener("change", () => {
    set({ theme: theme.value === "auto" ? null : theme.value });
    show(page); // links within the view keep the theme, too
  });
  /** @type {HTMLElement[]} */
  const controls = [h("label", {}, "theme ", theme)];
  if (page.sides.length > 1) {
    const side = h("select", { id: "side" }, page.sides.map(({ name }) => h("option", { value: name }, name.toUpperCase())));
    side.addEventListener("change", () => go(viewName(), { side: side.value })); // what else the address holds is of the other recording
    controls.unshift(h("label", {}, "show ", side));
  }
  controls.push(h("button", { type: "button", onclick: () => print() }, "Print"));
  return h("header", {}, h("div", { class: "names" }, names), h("div", { class: "controls" }, controls));
}

/** The choices for all views are those of the URL, also after the browser's back button. */
function showChoices() {
  const fields = /** @type {NodeListOf<HTMLSelectElement>} */ (document.querySelectorAll("header select"));
  for (const field of fields) field.value = get(field.id, field.options[0]?.value);
}

function applyTheme() {
  const theme = get("theme", "auto");
  const root = document.documentElement;
  if (theme === "light" || theme === "dark") root.dataset.theme = theme;
  else delete root.dataset.theme;
  redrawAll();
}

let shownCount = 0;

/** Draws the view that the URL names. @param {Page} page */
async function show(page) {
  const turn = ++shownCount;
  const [first, second] = page.sides;
  const view = VIEWS.find(({ name }) => name === viewName()) ?? VIEWS[second ? VIEWS.length - 1 : 0];
  const main = document.getElementById("main");
  if (!view || !first || !main) return;
  delete document.documentElement.dataset.ready;
  const side = shownSide(page);
  if (view.name === "compare") learnClocks(first.head.clock_hz, second?.head.clock_hz);
  else learnClocks(side.head.clock_hz);
  for (const anchor of document.querySelectorAll("nav a")) {
    const each = /** @type {View} */ (VIEWS.find(({ name }) => name === anchor.getAttribute("data-view")));
    anchor.setAttribute("href", link(each.name));
    mark(anchor, "aria-current", each === view ? "page" : "");
    mark(anchor, "class", lacks(side, each) ? "empty" : "");
    mark(anchor, "data-tip", lacks(side, each) ? whyAbsent(side, each) : "");
  }
  showChoices();
  applyTheme();
  const title = [h("h1", { tabindex: "-1" }, view.title), h("p", { class: "question" }, view.question)];
  document.title = `${view.title} · ${page.sides.map((side) => side.label).join(" and ")} · tilestep`;
  let held = false;
  try {
    const parts = lacks(side, view) ? [h("p", { class: "absent" }, whyAbsent(side, view))] : await view.render(side, page);
    if (turn !== shownCount) return;
    held = main.contains(document.activeElement);
    replace(main, title, parts);
  } catch (error) {
    if (turn !== shownCount) return;
    replace(main, title);
    tell(error);
    console.error(error);
  }
  const toPicture = document.getElementById("to-picture");
  toPicture?.toggleAttribute("hidden", !main.querySelector("figure canvas"));
  if (toPicture) toPicture.textContent = `Skip to the ${view.picture ?? "picture"}`;
  arrive(main, view.name, held);
  document.documentElement.dataset.ready = view.name;
}

async function start() {
  const page = await openPage();
  const [first, second] = page.sides;
  if (first) learnClocks(first.head.clock_hz, second?.head.clock_hz);
  learnOrigins(page.origins);
  learnTerms(page.terms);
  const views = VIEWS.filter(({ name }) => name !== "compare" || second);
  const nav = h("nav", { "aria-label": "views" }, h("ul", {}, views.map(({ name, title }) => h("li", {}, h("a", { "data-view": name, href: link(name) }, title)))));
  // The data stay where they are, behind what is seen: views unpack them when they are opened.
  document.body.prepend(h("a", { class: "skip", href: "#main", onclick: skip }, "Skip to the view"), h("a", { class: "skip", id: "to-picture", href: "#main", onclick: skip }, "Skip to the picture"), head(page), nav, h("main", { id: "main", tabindex: "-1" }));
  startTips();
  const main = /** @type {HTMLElement} */ (document.getElementById("main"));
  explainTerms(main);
  groupStops(main);
  rememberPlaces(main);
  onChange(() => show(page));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redrawAll());
  await show(page);
}

/** Whether a view has nothing to show. @param {Side} side @param {View} view @returns {boolean} */
function lacks(side, { needs }) {
  return needs !== "" && !side.has(needs);
}

/** Why a view has nothing to show. @param {Side} side @param {View} view @returns {string} */
function whyAbsent(side, { absent }) {
  return (typeof absent === "function" ? absent(side) : absent) ?? "The recording has nothing of this.";
}

/** Sets an attribute, or takes it away where it is ''. @param {Element} element @param {string} name @param {string} value */
function mark(element, name, value) {
  if (value) element.setAttribute(name, value);
  else element.removeAttribute(name);
}

/** @param {Event} event */
function skip(event) {
  event.preventDefault(); // the fragment is the page's state
  const picture = event.currentTarget instanceof Element && event.currentTarget.id === "to-picture";
  const target = picture ? document.querySelector("#main figure canvas") : document.getElementById("main");
  if (!(target instanceof HTMLElement)) return;
  target.focus();
  if (picture) target.scrollIntoView({ block: "nearest" });
}

start().catch((error) => {
  document.body.append(h("p", { role: "alert", class: "alert" }, `This page cannot be opened: ${error instanceof Error ? error.message : error}`));
  console.error(error);
});
