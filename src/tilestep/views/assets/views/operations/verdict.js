/** Sentences: what limits an operation, and how far it is from what the machine can do. */

import { h } from "../../core/dom.js";
import { count, share } from "../../core/format.js";
import { link } from "../../core/state.js";
import { valueOf } from "../../core/value.js";
import { bytesPerCycle, limitsOf, peakOf, rateOf, titleOf } from "./rows.js";

/** @import { Operation } from "./rows.js" */

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
 * @returns {HTMLElement}
 */
export function verdict(operation, grouping) {
  const parts = limitsOf(operation);
  const [first, ...rest] = parts;
  const title = titleOf(operation, grouping);
  if (!first) return h("p", { class: "verdict" }, `${title} takes no time.`);
  const [limit, cycles] = first;
  const unknown = operation.overhead < 0 && operation.sync > 0;
  const apart = operation.overhead > 0; // the column has both as sync
  const name = limit === "sync" && (unknown || apart) ? `Sync, ${unknown ? "with" : "beside"} the fixed cost of supersteps, limits` : WORDS[limit][0];
  const sync = unknown ? "sync and fixed cost" : apart ? "the rest of sync" : WORDS.sync[1];
  const others = rest.map(([kind, part]) => `${kind === "sync" ? sync : WORDS[kind][1]} ${share(part, operation.cycles)}`);
  return h(
    "p",
    { class: "verdict", "data-limit": limit, "data-cycles": cycles },
    `${title} takes `,
    valueOf(operation.cycles, "cycles", "steps.cycles"),
    ", ",
    valueOf(operation.cycles / operation.steps.cycles, "share", "steps.share"),
    ` of all steps. ${name} it: `,
    valueOf(cycles, "cycles", "steps.cycles"),
    `, ${share(cycles, operation.cycles)} of it.`,
    others.length ? ` The rest is ${others.join(", ")}.` : null,
    reached(operation),
    " ",
    links(operation, grouping),
  );
}

/** @param {Operation} operation @returns {import("../../core/dom.js").Children} */
function reached(operation) {
  const [rate, peak, bytes] = [rateOf(operation), peakOf(operation), bytesPerCycle(operation)];
  const roof = operation.steps.roofs[operation.roof];
  const tile = operation.steps.side.head.fields.find((/** @type {any} */ field) => field.path === "ipu.tile.exchange_bytes_per_cycle")?.value;
  return [
    rate === null ? " It has no floating-point operations." : [" It reaches ", valueOf(rate, "flop/s", "steps.rate")].flat(),
    rate !== null && peak !== null && roof ? [", ", valueOf(peak, "share", "steps.peak"), ` of the matrix unit's peak for ${roof.words}`] : null,
    rate === null ? null : ".",
    bytes === null ? null : [" While it exchanges, the busiest tile receives ", valueOf(bytes, "B/cycle", "steps.per_cycle"), tile ? `; a tile can take ${tile}, or ${2 * tile} where the two tiles that share a bus take the same bytes.` : "."],
  ].flat();
}

/** Where to go on: of a step its places, of a group its steps. @param {Operation} operation @param {import("./rows.js").Grouping} grouping @returns {import("../../core/dom.js").Children} */
function links({ leaves, steps, id }, grouping) {
  const [leaf] = leaves;
  if (!leaf) return null;
  const program = steps.programs[leaf.program];
  const one = leaves.length === 1;
  const line = one || grouping === "line" ? leaf.line : null;
  return [
    one ? h("a", { href: link("program", { program: program?.row ?? 0, leaf: leaf.number }) }, "see it in the program") : null,
    !one && id ? h("a", { href: link("operations", { group: "none", ...(grouping === "family" ? { family: id } : { q: id }) }) }, `see its ${count(leaves.length)} steps`) : null,
    line ? [one || id ? ", " : null, h("a", { href: link("source", { file: line.file, line: line.line }) }, `in the source (${line.name})`)] : null,
  ].flat();
}
