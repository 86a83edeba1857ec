/** The page: its head, its navigation, and the view that the URL names. */

import { arrive, rememberPlaces } from "./core/arrive.js";
import { redrawAll } from "./core/figure.js";
import { h, replace } from "./core/dom.js";
import { plural } from "./core/format.js";
import { openPage } from "./core/page.js";
import { get, link, onChange, set, viewName } from "./core/state.js";
import { groupStops } from "./core/stops.js";
import { explainTerms, learnTerms } from "./core/terms.js";
import { startTips } from "./core/tip.js";
import { learn, valueOf } from "./core/value.js";
import { VIEWS } from "./views/views.js";

/** @import { Page } from "./core/page.js" */

/** What the user sees of an error that nobody expected. @param {unknown} error */
function tell(error) {
  const words = error instanceof Error ? error.message : String(error);
  document.getElementById("main")?.prepend(h("p", { role: "alert", class: "alert" }, `This view cannot be drawn: ${words}`));
}

/** @param {Page} page @returns {import("./core/page.js").Side[]} */
function shownSides(page) {
  const wanted = get("side", page.sides.length > 1 ? "ab" : "a");
  const found = page.sides.filter((side) => wanted.includes(side.name));
  return found.length ? found : page.sides;
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
      emulated ? [" ", valueOf(emulated_cycles, side.cycles, "head.total"), ` emulated on ${where}`] : where ? ` ${where}` : null,
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
    const side = h("select", { id: "side" }, [["ab", "A and B"], ["a", "A"], ["b", "B"]].map(([value, words]) => h("option", { value }, words)));
    side.addEventListener("change", () => {
      set({ side: side.value });
      show(page);
    });
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
  const view = VIEWS.find(({ name }) => name === viewName()) ?? VIEWS[0];
  const main = document.getElementById("main");
  if (!view || !main) return;
  delete document.documentElement.dataset.ready;
  for (const anchor of document.querySelectorAll("nav a")) {
    const name = anchor.getAttribute("data-view") ?? "";
    anchor.setAttribute("href", link(name));
    if (name === view.name) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
  showChoices();
  applyTheme();
  const sides = shownSides(page).filter((side) => !view.needs || side.has(view.needs));
  const title = [h("h1", { tabindex: "-1" }, view.title), h("p", { class: "question" }, view.question)];
  document.title = `${view.title} · ${page.sides.map((side) => side.label).join(" and ")} · tilestep`;
  let held = false;
  try {
    const parts = sides.length ? await view.render(sides, page) : [h("p", { class: "absent" }, whyAbsent(page, view))];
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
  if (first) learn({ a: first.head.clock_hz, b: (second ?? first).head.clock_hz }, page.origins);
  learnTerms(page.terms);
  const views = VIEWS.filter((view) => view.name !== "compare" || page.sides.length > 1);
  const nav = h("nav", { "aria-label": "views" }, h("ul", {}, views.map((view) => h("li", {}, entry(page, view)))));
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

/** Why a view has nothing to show. @param {Page} page @param {import("./core/page.js").View} view @returns {string} */
function whyAbsent(page, { absent }) {
  return (typeof absent === "function" ? absent(page) : absent) ?? "The recording has nothing of this.";
}

/** A view in the navigation; one that has nothing to show is dim, and says why. @param {Page} page @param {import("./core/page.js").View} view @returns {HTMLElement} */
function entry(page, view) {
  const { name, title, needs } = view;
  const empty = needs && !page.sides.some((side) => side.has(needs));
  return h("a", { href: link(name), "data-view": name, class: empty ? "empty" : null, "data-tip": empty ? whyAbsent(page, view) : null }, title);
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
