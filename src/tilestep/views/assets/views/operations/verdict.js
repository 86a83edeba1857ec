/** Sentences: what limits an operation, and how far it is from what the machine can do. */

import { h } from "../../core/dom.js";
import { share } from "../../core/format.js";
import { link } from "../../core/state.js";
import { valueOf } from "../../core/value.js";
import { bytesPerCycle, limitsOf, peakOf, rateOf, titleOf } from "./rows.js";

/** @typedef {import("./rows.js").Operation} Operation */

/** What limits, as the begin of a sentence and as a noun. @type {Readonly<Record<import("./rows.js").Limit, [string, string]>>} */
const WORDS = Object.freeze({
  compute: ["Compute limits", "compute"],
  exchange: ["Exchange between tiles limits", "exchange"],
  sync: ["Sync limits", "sync"],
  overhead: ["The fixed cost of its supersteps limits", "fixed cost of supersteps"],
  collective: ["Exchange between IPUs limits", "exchange between IPUs"],
  host_call: ["Transfers to and from the host limit", "transfers to and from the host"],
});

/**
 * @param {Operation} operation
 * @param {import("./rows.js").Grouping} grouping
 * @param {boolean} two whether to say of which recording
 * @returns {HTMLElement}
 */
export function verdict(operation, grouping, two) {
  const parts = limitsOf(operation);
  const [first, ...rest] = parts;
  const before = two ? h("strong", {}, `${operation.steps.side.name.toUpperCase()}: `) : null;
  const title = titleOf(operation, grouping);
  if (!first) return h("p", { class: "verdict" }, before, `${title} takes no time.`);
  const [limit, cycles] = first;
  const unknown = operation.overhead < 0 && operation.sync > 0;
  const apart = operation.overhead > 0; // the column has both as sync
  const name = limit === "sync" && (unknown || apart) ? `Sync, ${unknown ? "with" : "beside"} the fixed cost of supersteps, limits` : WORDS[limit][0];
  const sync = unknown ? "sync and fixed cost" : apart ? "the rest of sync" : WORDS.sync[1];
  const others = rest.map(([kind, part]) => `${kind === "sync" ? sync : WORDS[kind][1]} ${share(part, operation.cycles)}`);
  return h(
    "p",
    { class: "verdict", "data-limit": limit, "data-cycles": cycles },
    before,
    `${title} takes `,
    valueOf(operation.cycles, operation.steps.side.cycles, "steps.cycles"),
    ", ",
    valueOf(operation.cycles / operation.steps.cycles, "share", "steps.share"),
    ` of all steps. ${name} it: `,
    valueOf(cycles, operation.steps.side.cycles, "steps.cycles"),
    `, ${share(cycles, operation.cycles)} of it.`,
    others.length ? ` The rest is ${others.join(", ")}.` : null,
    reached(operation),
    " ",
    links(operation),
  );
}

/** @param {Operation} operation @returns {import("../../core/dom.js").Children} */
function reached(operation) {
  const [rate, peak, bytes] = [rateOf(operation), peakOf(operation), bytesPerCycle(operation)];
  const roof = operation.steps.roofs.flops[operation.roof];
  const tile = operation.steps.side.head.fields.find((/** @type {any} */ field) => field.path === "ipu.tile.exchange_bytes_per_cycle")?.value;
  return [
    rate === null ? " It has no floating-point operations." : [" It reaches ", valueOf(rate, "flop/s", "steps.rate")].flat(),
    rate !== null && peak !== null && roof ? [", ", valueOf(peak, "share", "steps.peak"), ` of the matrix unit's peak for ${roof.words}`] : null,
    rate === null ? null : ".",
    bytes === null ? null : [" While it exchanges, the busiest tile receives ", valueOf(bytes, "B/cycle", "steps.per_cycle"), tile ? `; a tile can take ${tile}, or ${2 * tile} where the two tiles that share a bus take the same bytes.` : "."],
  ].flat();
}

/** @param {Operation} operation @returns {import("../../core/dom.js").Children} */
function links(operation) {
  const [leaf] = operation.leaves;
  if (operation.leaves.length !== 1 || !leaf) return null;
  const program = operation.steps.programs[leaf.program];
  return [
    h("a", { href: link("program", { program: `${operation.steps.side.name}${program?.row ?? 0}`, leaf: leaf.number }) }, "see it in the program"),
    leaf.line ? [", ", h("a", { href: link("source", { file: leaf.line.file, line: leaf.line.line }) }, `in the source (${leaf.line.name})`)] : null,
  ].flat();
}
