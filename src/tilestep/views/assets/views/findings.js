/** What do I change first, and what do I win? */

import { bars } from "../core/bars.js";
import { lookOf } from "../core/colors.js";
import { h } from "../core/dom.js";
import { link } from "../core/state.js";
import { table } from "../core/table.js";
import { valueOf } from "../core/value.js";

/** @import { Side } from "../core/page.js" */

const MEMORY = new Set(["memory", "liveness"]); // views that choose a program by its side and row
const MOST_CARDS = 3; // findings that stand out
/** @type {Readonly<Record<string, string>>} */
const ORIGINS = Object.freeze({ replayed: "findings.replayed", about: "findings.about", "at least": "findings.least" }); // of gains

/** @type {import("../core/page.js").View} */
export const findings = {
  name: "findings",
  title: "What to do",
  question: "What do I change first, and what do I win?",
  needs: "head",
  absent: "The recording is damaged.",
  async render(side) {
    const found = side.has("findings") ? (await side.block("findings")).json : null;
    return [said(side, found), ...programs(side), ...(found ? notes(found) : []), ...machine(side)];
  },
};

/** @param {Side} side @param {any} found null: the recording has no profile @returns {HTMLElement} */
function said(side, found) {
  const all = /** @type {any[]} */ (found?.found ?? []).map((finding, index) => ({ ...finding, number: index + 1 }));
  const of = (/** @type {string} */ part) => all.filter((finding) => finding.part === part);
  const [first, fixed, aside] = [of("first"), of("fixed"), of("aside")];
  const most = Math.max(...first.map((finding) => weight(finding.gain)), 0);
  const nothing = found
    ? "No change is known that would make it faster by a hundredth or more, or smaller where memory is short."
    : "The recording has no profile, so nothing is known of what to change.";
  return h(
    "section",
    { "aria-label": side.label },
    found?.ended_by ? h("p", { class: "sure" }, `Ended by ${found.ended_by}: these are the figures of what ran until then.`) : null,
    found?.sure ? h("p", { class: "sure" }, `80 % sure: ${found.sure}`) : null,
    together(found?.together),
    steady(found?.steady),
    first.length ? [h("h2", {}, "First of all"), list(first, most)] : h("p", { class: "absent" }, side.head.emulated ? nothing : `Nothing ran. ${found ? "" : nothing}`),
    fixed.length ? [h("h2", {}, "Fixed costs"), h("p", { class: "note" }, "What no edit above spares weighs less the longer the program runs."), list(fixed, 0)] : null,
    aside.length ? [h("h2", {}, "Worth knowing"), list(aside, 0)] : null,
    kinds(side, found?.idle_cycles ?? 0),
  );
}

/** What the findings save if all are followed. @param {any} found @returns {HTMLElement | null} */
function together(found) {
  if (!found) return null;
  const { gain: saved, how, basis, numbers, left } = found;
  return h(
    "p",
    { class: "together" },
    `With ${numbers} all done: `,
    amount(saved, how, "findings.together"),
    `, played together${basis ? ` (${basis})` : ""}.${left.map((/** @type {string} */ phrase) => ` Not in it: ${phrase}.`).join("")}`,
  );
}

/** @param {any} found @returns {HTMLElement | null} */
function steady(found) {
  if (!found || found.step_cycles === null) return null;
  return h(
    "p",
    { class: "steady" },
    "A step takes ",
    valueOf(found.step_cycles, "cycles", "findings.step"),
    ...(found.low_cycles === null
      ? []
      : [" (", valueOf(found.low_cycles, "cycles", "findings.sure"), " to ", valueOf(found.high_cycles, "cycles", "findings.sure"), `; widest: ${found.widest})`]),
    found.reloads ? " with the loads of its programs, which other programs evict, " : " once warm, ",
    ...(found.between_share === null ? [] : [valueOf(found.between_share, "share", "findings.between"), " of it for other programs between steps and their loads, "]),
    found.others ? "set-up and other programs " : "set-up ",
    valueOf(found.set_up_cycles, "cycles", "findings.set_up"),
    ...(found.items_a_second === null ? [] : [": ", valueOf(Math.round(found.items_a_second), "count", "findings.rate"), " items a second"]),
    `. A step is a ${found.unit} of ${found.label}`,
    ...(found.samples === null ? [] : [" (", valueOf(found.samples, "count", "findings.samples"), " items)"]),
    "; ",
    valueOf(found.steps, "count", "findings.runs"),
    " ran.",
  );
}

/** @param {any[]} found @param {number} most the largest share, whose bar is full; 0: no bars @returns {HTMLElement} */
function list(found, most) {
  const classes = (/** @type {any} */ finding) => [finding.urgent ? "urgent" : "", finding.part === "first" && finding.number <= MOST_CARDS ? "card" : ""].filter(Boolean).join(" ");
  return h("ol", { class: "findings" }, found.map((finding) => h("li", { value: finding.number, class: classes(finding) || false, "data-one-stop": true }, entry(finding, most))));
}

/** @param {any} finding @param {number} most @returns {import("../core/dom.js").Children} */
function entry(finding, most) {
  const { edit, text, part, line, others, unknown, ways } = finding;
  const links = [
    line ? h("a", { href: link("source", { file: line.file, line: line.number }) }, line.label) : null,
    others.length > 1 ? h("span", {}, `and ${others.length - 1} other ${others.length === 2 ? "line" : "lines"}`) : null,
    proof(finding),
  ];
  return [
    h("h3", { class: edit ? "edit-title" : part !== "first" && "told" }, edit ? edit : text),
    gain(finding, most),
    unknown ? h("p", { class: "unknown" }, `What that saves is not known: ${unknown}.`) : null,
    edit ? h("p", {}, text) : null,
    ways.length ? h("ul", { class: "ways" }, ways.map((/** @type {any} */ way) => h("li", {}, `or ${way.edit}: `, amount(way.gain, way.how), way.basis ? ` (${way.basis})` : ""))) : null,
    others.length > 1 ? h("ul", { class: "others" }, others.map((/** @type {any} */ other) => h("li", {}, h("a", { href: link("source", { file: other.file, line: other.number }) }, other.label), " ", valueOf(other.share, "share", "findings.replayed")))) : null,
    h("p", { class: "links" }, links.flatMap((each) => (each ? [each, " "] : []))),
  ];
}

/** The link to the view that shows what a finding is about. @param {any} finding @returns {HTMLElement} */
function proof({ proof: view, see, program }) {
  const of = MEMORY.has(view) && program !== null ? { program } : {};
  const words = see.kinds ? ", other events hidden" : see.q ? " of this line" : "";
  const title = document.querySelector(`nav a[data-view="${view}"]`)?.textContent;
  return h("a", { href: link(view, { ...see, ...of }) }, `see ${title}${words}`);
}

/** @param {any} finding @param {number} most @returns {HTMLElement | null} */
function gain({ gain: found, how, basis, then }, most) {
  if (!found) return null;
  const note = [how === "within 2 %" ? "within 2 %" : "", basis].filter(Boolean).join("; ");
  if (found.tile_bytes !== null) return h("p", { class: "gain" }, amount(found, how), " on the fullest tile", note ? ` (${note})` : "");
  const nothing = then && !found.cycles && !found.step_cycles;
  const width = most > 0 ? Math.max(1, (100 * weight(found)) / most) : 0;
  return h(
    "p",
    { class: "gain" },
    width && !nothing ? h("span", { class: "gain-bar", "aria-hidden": "true", style: { width: `${width * 0.12}rem` } }) : null,
    ...(nothing ? ["saves nothing by itself"] : [amount(found, how), note ? ` (${note})` : ""]),
    then ? [`; after ${then.numbers}: `, valueOf(then.share, "share", "findings.then"), ` of the ${found.step_share === null ? "time" : "warm step"} that is left`] : null,
  );
}

/** By which gains are ranked. @param {any} found @returns {number} */
function weight(found) {
  return Math.max(found?.step_share ?? found?.share ?? 0, 0);
}

/** How much an edit saves. @param {any} found @param {string} how @param {string} [known] @returns {import("../core/dom.js").Children} */
function amount(found, how, known) {
  const origin = known ?? ORIGINS[how] ?? "findings.within";
  const sure = how === "about" || how === "at least" ? `${how} ` : "";
  if (found.tile_bytes !== null) return [h("strong", {}, "frees ", sure, valueOf(found.tile_bytes, "bytes", origin))];
  const whole = found.share === null ? [] : [valueOf(found.share, "share", origin), " of the time, ", valueOf(found.cycles, "cycles", origin)];
  if (found.step_share === null) return [h("strong", {}, "saves ", sure, whole[0]), ...whole.slice(1)];
  if (found.step_share <= 0) return [h("strong", {}, "saves ", sure, whole[0]), ...whole.slice(1), ", once"];
  const step = h("strong", {}, "saves ", sure, valueOf(found.step_share, "share", origin), " of a warm step");
  return [step, ", ", valueOf(found.step_cycles, "cycles", origin), ...(found.share === null ? [] : ["; of all ", ...whole])];
}

/** @param {Side} side @param {number | null} idle @returns {HTMLElement[] | null} */
function kinds(side, idle) {
  const { cycles_by_kind: spent, busiest_ipu: ipu, emulated_cycles: whole } = side.head;
  const all = { ...spent, ...(idle ? { idle } : {}) };
  const rows = Object.keys(all)
    .filter((kind) => all[kind] > 0)
    .sort((a, b) => all[b] - all[a])
    .map((kind) => ({ key: kind, ...lookOf(kind), values: [all[kind]] }));
  if (!rows.length || !side.head.emulated) return null;
  return [h("h2", {}, `Time of IPU ${ipu}, the busiest`), bars({ label: `time of IPU ${ipu} by kind`, rows, unit: "cycles", origin: "head.kinds", whole })];
}

/** @param {Side} side @returns {HTMLElement[]} */
function programs({ head }) {
  const rows = /** @type {any[]} */ (head.programs);
  if (!rows.length) return [];
  /** @type {import("../core/table.js").Column<any>[]} */
  const columns = [
    { name: "program", of: (row) => row.label },
    { name: "runs", unit: "count", origin: "findings.runs", of: (row) => row.runs },
    { name: "loads", unit: "count", origin: "findings.loads", of: (row) => row.loads },
    { name: "time", unit: "cycles", origin: "findings.program", of: (row) => row.cycles },
    { name: "of it loading", unit: "cycles", origin: "findings.loading", of: (row) => row.cycles_by_kind.load ?? 0 },
    { name: "fullest tile", unit: "bytes", origin: "findings.tile", of: (row) => row.peak_tile_bytes },
  ];
  return [h("h2", {}, "Programs"), table({ label: "programs", columns, rows, sortBy: 3, filter: rows.length > 20 })];
}

/** @param {any} found @returns {HTMLElement[]} */
function notes({ assumptions, fallbacks, options }) {
  const rough = fallbacks.map((/** @type {string} */ op) => `Priced roughly, without an estimator of its own: ${op}.`);
  const words = /** @type {string[]} */ ([...assumptions, ...rough]);
  const columns = [
    { name: "option", of: (/** @type {string[]} */ row) => row[0] },
    { name: "value", of: (/** @type {string[]} */ row) => row[1] },
  ];
  return [
    ...(words.length ? [h("h2", {}, "Assumptions"), h("ul", {}, words.map((each) => h("li", {}, each)))] : []),
    ...(options.length ? [h("h2", {}, "Engine options"), table({ label: "engine options", columns, rows: options })] : []),
  ];
}

/** @param {Side} side @returns {HTMLElement[]} */
function machine(side) {
  if (!side.head.fields.length) return [];
  /** @type {import("../core/table.js").Column<any>[]} */
  const columns = [
    { name: "field", of: (row) => row.path },
    { name: "value", of: (row) => (typeof row.value === "number" ? `${row.value.toLocaleString("en", { maximumSignificantDigits: 12 })} ${row.unit}` : row.value) },
    { name: "basis", of: (row) => row.basis },
    { name: "source", of: (row) => row.source },
  ];
  const fields = table({ label: "fields of the machine", columns, rows: side.head.fields, filter: true });
  return [h("h2", {}, `Machine: ${side.head.machine}`), h("details", {}, h("summary", {}, `${side.head.fields.length} fields, each with its source`), fields)];
}
