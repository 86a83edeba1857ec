/** Figures of bubbles, waits and stages, of one recording or of two. */

import { h } from "../../core/dom.js";
import { columnsOf, either, joined } from "../../core/pairs.js";
import { count } from "../../core/format.js";
import { table } from "../../core/table.js";
import { valueOf } from "../../core/value.js";
import { waitLook } from "./looks.js";

/** @import { Model } from "./model.js" */
/**
 * How a device spent an update.
 * @typedef {object} Spent
 * @property {string} device
 * @property {string} stages by which two recordings are matched
 * @property {number | null} own cycles
 * @property {number | null} host
 * @property {number | null} ipus
 * @property {number | null} other
 * @property {number | null} waiting
 * @property {number | null} unkept cycles in which events are missing
 * @property {number | null} share of the update's time that is waiting
 * @property {number | null} even share of waiting with equal costs
 * @property {number | null} measured share of waiting with measured costs
 */

/** @param {Model} model @returns {Spent[]} */
export function spentOf(model) {
  const { update } = model;
  const waits = (/** @type {import("./model.js").Simulated} */ simulated, /** @type {number} */ device) => {
    const busy = simulated.busy[device];
    return busy === null || busy === undefined || !simulated.whole ? null : 1 - busy / simulated.whole;
  };
  return model.devices.map((_, device) => {
    const of = (/** @type {string} */ group) =>
      update.inDetail ? update.pieces.reduce((sum, piece) => sum + (piece.device === device && piece.group === group ? piece.end - piece.begin : 0), 0) : null;
    const gaps = (/** @type {boolean} */ unkept) =>
      update.inDetail ? update.gaps.reduce((sum, gap) => sum + (gap.device === device && (gap.why === "unkept") === unkept ? gap.end - gap.begin : 0), 0) : null;
    const waiting = gaps(false);
    return {
      device: model.deviceName(device),
      stages: model.stagesOf(device),
      own: of("own"),
      host: of("host"),
      ipus: of("ipus"),
      other: of("other"),
      waiting,
      unkept: gaps(true),
      share: waiting === null ? null : waiting / update.cycles,
      even: waits(update.even, device),
      measured: waits(update.measured, device),
    };
  });
}

/** @param {Model[]} models @returns {HTMLElement[]} */
export function bubbleSection(models) {
  const sides = models.map(({ side }) => side);
  const rows = joined(models.map((model) => ({ name: model.side.name, rows: spentOf(model) })), ({ stages }) => stages);
  /** @param {keyof Spent} key @param {string} name @param {string} origin @param {"cycles" | "share"} unit */
  const column = (key, name, origin, unit) => columnsOf(sides, { name, unit, origin, of: (/** @type {Spent} */ row) => /** @type {number | null} */ (row[key]) });
  return [
    h("h2", {}, "Bubbles"),
    ...models.map((model) => sentence(model, models.length > 1)),
    table({
      label: "how devices spent the update",
      rows,
      columns: [
        { name: "device", of: either(({ device }) => device) },
        ...column("own", "own work", "pipeline.happened", "cycles"),
        ...column("host", "with the host", "pipeline.happened", "cycles"),
        ...column("ipus", "between IPUs", "pipeline.happened", "cycles"),
        ...column("other", "of no stage", "pipeline.happened", "cycles"),
        ...column("waiting", "waits", "pipeline.happened", "cycles"),
        ...column("share", "of the time", "pipeline.happened", "share"),
        ...(models.some(({ update }) => update.gaps.some(({ why }) => why === "unkept")) ? column("unkept", "not recorded", "pipeline.happened", "cycles") : []),
        ...column("even", "at equal costs", "pipeline.schedule", "share"),
        ...column("measured", "at measured costs", "pipeline.simulated", "share"),
      ],
    }),
  ];
}

/** What the figures say. @param {Model} model @param {boolean} many @returns {HTMLElement} */
function sentence(model, many) {
  const { update } = model;
  const spent = spentOf(model);
  const waiting = update.inDetail && update.cycles ? spent.reduce((sum, { waiting: of }) => sum + (of ?? 0), 0) / (update.cycles * spent.length) : null;
  const happened = waiting === null ? "" : [" In what happened they wait ", valueOf(waiting, "share", "pipeline.happened"), " of ", valueOf(update.cycles, model.side.cycles, "pipeline.happened"), "."];
  return h(
    "p",
    {},
    many ? h("strong", {}, `${model.side.name.toUpperCase()} `) : null,
    "With equal costs the schedule lets its devices wait ",
    valueOf(update.even.bubble, "share", "pipeline.schedule"),
    " of the time; with the measured cost of each task ",
    valueOf(update.measured.bubble, "share", "pipeline.simulated"),
    " of ",
    valueOf(Math.round(update.measured.whole), model.side.cycles, "pipeline.simulated"),
    ".",
    happened,
    update.serial ? " Each microbatch passes all stages before the next one begins." : null,
  );
}

/** Why devices wait. @param {Model[]} models those with events @returns {HTMLElement[]} */
export function waitsSection(models) {
  if (!models.length) return [];
  const sides = models.map(({ side }) => side);
  const all = models.map((model) => {
    /** @type {Map<string, {device: string, stages: string, why: string, reason: string, times: number, cycles: number}>} */
    const found = new Map();
    for (const { device, why, reason, begin, end } of model.update.gaps) {
      const key = `${device} ${why} ${reason}`;
      const row = found.get(key) ?? { device: model.deviceName(device), stages: model.stagesOf(device), why, reason, times: 0, cycles: 0 };
      row.times += 1;
      row.cycles += end - begin;
      found.set(key, row);
    }
    return { name: model.side.name, rows: [...found.values()].sort((a, b) => b.cycles - a.cycles) };
  });
  return [
    h("h3", {}, "Why devices wait in this update"),
    table({
      label: "waits of devices by reason",
      rows: joined(all, ({ stages, reason }) => `${stages}\n${reason}`),
      filter: true,
      empty: "no device waits",
      columns: [
        { name: "device", of: either(({ device }) => device) },
        ...columnsOf(sides, { name: "waited", unit: "cycles", origin: "pipeline.happened", of: (/** @type {{cycles: number}} */ row) => row.cycles }),
        ...columnsOf(sides, { name: "times", unit: "count", origin: "pipeline.happened", of: (/** @type {{times: number}} */ row) => row.times }),
        { name: "kind", of: either(({ why }) => waitLook(why).words) },
        { name: "reason", of: either(({ reason }) => reason) },
      ],
    }),
  ];
}

/** @param {Model[]} models @returns {HTMLElement[]} */
export function stagesSection(models) {
  const sides = models.map(({ side }) => side);
  const kinds = [...new Set(models.flatMap(({ json }) => json.stages.flatMap((/** @type {any} */ stage) => Object.keys(stage.cycles))))];
  const all = models.map(({ side, json }) => {
    const longest = Math.max(...json.stages.map((/** @type {any} */ stage) => stage.microbatch), 1);
    return { name: side.name, rows: json.stages.map((/** @type {any} */ stage) => ({ ...stage, balance: stage.microbatch / longest, label: side.head.programs[stage.fullest]?.label ?? "" })) };
  });
  /** @param {string} name @param {import("../../core/value.js").Unit} unit @param {string} origin @param {(row: any) => number | null | undefined} of */
  const column = (name, unit, origin, of) => columnsOf(sides, { name, unit, origin, of: (row) => of(row) ?? null });
  return [
    h("h2", {}, "Stages"),
    ...models.map(({ side, json }) => {
      const longest = json.stages.reduce((/** @type {any} */ best, /** @type {any} */ stage) => (stage.microbatch > best.microbatch ? stage : best));
      const shortest = json.stages.reduce((/** @type {any} */ best, /** @type {any} */ stage) => (stage.microbatch < best.microbatch ? stage : best));
      return h(
        "p",
        {},
        sides.length > 1 ? h("strong", {}, `${side.name.toUpperCase()} `) : null,
        `The longest is stage ${longest.stage}: `,
        valueOf(Math.round(longest.microbatch), side.cycles, "pipeline.task"),
        " for a microbatch. ",
        json.stages.length > 1 ? [`The shortest, stage ${shortest.stage}, takes `, valueOf(longest.microbatch ? shortest.microbatch / longest.microbatch : 1, "share", "pipeline.task"), " of that."] : null,
      );
    }),
    table({
      label: "stages",
      rows: joined(all, ({ stage }) => String(stage)),
      columns: [
        { name: "stage", of: either(({ stage }) => count(stage)) },
        { name: "IPUs", of: either(({ ipus }) => ipus.join(", ")) },
        ...kinds.flatMap((kind) => column(kind, "cycles", "pipeline.task", (row) => row.cycles[kind])),
        ...column("a microbatch", "cycles", "pipeline.task", (row) => row.microbatch),
        ...column("of the longest", "share", "pipeline.task", (row) => row.balance),
        { name: "programs", of: either(({ both }) => (both ? "forward and backward in one" : "forward and backward apart")) },
        ...column("kept at most", "count", "pipeline.stash", (row) => row.stash),
        ...column("bytes of a microbatch", "bytes", "pipeline.kept", (row) => row.kept_bytes),
        ...column("kept bytes at most", "bytes", "pipeline.kept", (row) => (row.kept_bytes === null || row.stash === null ? null : row.kept_bytes * row.stash)),
        ...column("fullest tile", "bytes", "pipeline.tile", (row) => row.tile_bytes),
        { name: "by", of: either(({ label }) => label) },
      ],
    }),
  ];
}
