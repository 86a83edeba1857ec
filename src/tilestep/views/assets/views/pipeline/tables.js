/** Figures of bubbles, waits and stages. */

import { h } from "../../core/dom.js";
import { count } from "../../core/format.js";
import { table } from "../../core/table.js";
import { valueOf } from "../../core/value.js";
import { waitLook } from "./looks.js";

/** @import { Model, Simulated } from "./model.js" */
/**
 * How a device spent an update: cycles by what it did; null: unknown. `share` is the part of the time in which it waited,
 * and `even` and `measured` are that part with equal and with measured costs.
 * @typedef {Record<"own" | "host" | "ipus" | "other" | "waiting" | "unkept" | "share" | "even" | "measured", number | null> & {device: string}} Spent
 */

/** @param {Model} model @returns {Spent[]} */
function spentOf(model) {
  const { update } = model;
  const sum = (/** @type {{device: number, begin: number, end: number}[]} */ all, /** @type {number} */ device) =>
    update.in_detail ? all.reduce((total, each) => total + (each.device === device ? each.end - each.begin : 0), 0) : null;
  const waits = (/** @type {Simulated} */ { busy, whole }, /** @type {number} */ device) => {
    const own = busy[device] ?? null;
    return own === null || !whole ? null : 1 - own / whole;
  };
  return model.devices.map((_, device) => {
    const of = (/** @type {string} */ group) => sum(update.pieces.filter((piece) => piece.group === group), device);
    const waiting = sum(update.gaps.filter(({ why }) => why !== "unkept"), device);
    return {
      device: model.deviceName(device),
      own: of("own"),
      host: of("host"),
      ipus: of("ipus"),
      other: of("other"),
      waiting,
      unkept: sum(update.gaps.filter(({ why }) => why === "unkept"), device),
      share: waiting === null ? null : waiting / update.cycles,
      even: waits(update.even, device),
      measured: waits(update.measured, device),
    };
  });
}

/** @param {Model} model @returns {HTMLElement[]} */
export function bubbleSection(model) {
  const { update } = model;
  const rows = spentOf(model);
  const waiting = update.in_detail && update.cycles ? rows.reduce((sum, { waiting: of }) => sum + (of ?? 0), 0) / (update.cycles * rows.length) : null;
  const happened = waiting === null ? "" : [" In what happened they wait ", valueOf(waiting, "share", "pipeline.happened"), " of ", valueOf(update.cycles, "cycles", "pipeline.happened"), "."];
  /** @param {Exclude<keyof Spent, "device">} key @param {string} name @param {"cycles" | "share"} [unit] @param {string} [origin] */
  const column = (key, name, unit = "cycles", origin = "pipeline.happened") => ({ name, unit, origin, of: (/** @type {Spent} */ row) => row[key] });
  return [
    h("h2", {}, "Bubbles"),
    h(
      "p",
      {},
      "With equal costs the schedule lets its devices wait ",
      valueOf(update.even.bubble, "share", "pipeline.schedule"),
      " of the time; with the measured cost of each task ",
      valueOf(update.measured.bubble, "share", "pipeline.simulated"),
      " of ",
      valueOf(Math.round(update.measured.whole), "cycles", "pipeline.simulated"),
      ".",
      happened,
      update.serial ? " Each microbatch passes all stages before the next one begins." : null,
    ),
    table({
      label: "how devices spent the update",
      rows,
      columns: [
        { name: "device", of: ({ device }) => device },
        column("own", "own work"),
        column("host", "with the host"),
        column("ipus", "between IPUs"),
        column("other", "of no stage"),
        column("waiting", "waits"),
        column("share", "of the time", "share"),
        ...(update.gaps.some(({ why }) => why === "unkept") ? [column("unkept", "not recorded")] : []),
        column("even", "at equal costs", "share", "pipeline.schedule"),
        column("measured", "at measured costs", "share", "pipeline.simulated"),
      ],
    }),
  ];
}

/** Why devices wait. @param {Model} model of an update with events @returns {HTMLElement[]} */
export function waitsSection(model) {
  /** @type {Map<string, {device: string, why: string, reason: string, times: number, cycles: number}>} */
  const found = new Map();
  for (const { device, why, reason, begin, end } of model.update.gaps) {
    const key = `${device} ${why} ${reason}`;
    const row = found.get(key) ?? { device: model.deviceName(device), why, reason, times: 0, cycles: 0 };
    row.times += 1;
    row.cycles += end - begin;
    found.set(key, row);
  }
  return [
    h("h3", {}, "Why devices wait in this update"),
    table({
      label: "waits of devices by reason",
      rows: [...found.values()].sort((a, b) => b.cycles - a.cycles),
      filter: true,
      empty: "no device waits",
      columns: [
        { name: "device", of: ({ device }) => device },
        { name: "waited", unit: "cycles", origin: "pipeline.happened", of: ({ cycles }) => cycles },
        { name: "times", unit: "count", origin: "pipeline.happened", of: ({ times }) => times },
        { name: "kind", of: ({ why }) => waitLook(why).words },
        { name: "reason", of: ({ reason }) => reason },
      ],
    }),
  ];
}

/** @param {Model} model @returns {HTMLElement[]} */
export function stagesSection({ side, json }) {
  const stages = /** @type {any[]} */ (json.stages);
  const kinds = [...new Set(stages.flatMap(({ cycles }) => Object.keys(cycles)))];
  const [longest, shortest] = [1, -1].map((way) => stages.reduce((best, stage) => (way * (stage.microbatch - best.microbatch) > 0 ? stage : best)));
  const whole = Math.max(longest.microbatch, 1);
  /** @param {string} name @param {import("../../core/value.js").Unit} unit @param {string} origin @param {(row: any) => number | null | undefined} of */
  const column = (name, unit, origin, of) => ({ name, unit, origin, of: (/** @type {any} */ row) => of(row) ?? null });
  return [
    h("h2", {}, "Stages"),
    h(
      "p",
      {},
      `The longest is stage ${longest.stage}: `,
      valueOf(Math.round(longest.microbatch), "cycles", "pipeline.task"),
      " for a microbatch. ",
      stages.length > 1 ? [`The shortest, stage ${shortest.stage}, takes `, valueOf(longest.microbatch ? shortest.microbatch / longest.microbatch : 1, "share", "pipeline.task"), " of that."] : null,
    ),
    table({
      label: "stages",
      rows: stages,
      columns: [
        { name: "stage", of: ({ stage }) => count(stage) },
        { name: "IPUs", of: ({ ipus }) => ipus.join(", ") },
        ...kinds.map((kind) => column(kind, "cycles", "pipeline.task", ({ cycles }) => cycles[kind])),
        column("a microbatch", "cycles", "pipeline.task", ({ microbatch }) => microbatch),
        column("of the longest", "share", "pipeline.task", ({ microbatch }) => microbatch / whole),
        { name: "programs", of: ({ both }) => (both ? "forward and backward in one" : "forward and backward apart") },
        column("kept at most", "count", "pipeline.stash", ({ stash }) => stash),
        column("bytes of a microbatch", "bytes", "pipeline.kept", (row) => row.kept_bytes),
        column("kept bytes at most", "bytes", "pipeline.kept", (row) => (row.kept_bytes === null || row.stash === null ? null : row.kept_bytes * row.stash)),
        column("fullest tile", "bytes", "pipeline.tile", (row) => row.tile_bytes),
        { name: "by", of: ({ fullest }) => side.head.programs[fullest]?.label ?? "" },
      ],
    }),
  ];
}
