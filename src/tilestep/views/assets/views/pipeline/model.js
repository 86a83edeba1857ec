/** The updates of a recording: tasks and what their devices did, as block `pipeline` has them. */

import { objectsOf } from "../../core/data.js";
import { count, plural } from "../../core/format.js";
import { number } from "../../core/state.js";
import { exact, text } from "../../core/value.js";

/** @import { Side } from "../../core/page.js" */
/** @typedef {{ipus: number[], stages: number[]}} Device */
/**
 * A task. Its slots are those of the schedule; cycles, begin and end are -1 where they are not known, and microbatch where it is for all.
 * @typedef {Record<"place" | "stage" | "microbatch" | "device" | "run" | "slot" | "slots" | "cycles" | "begin" | "end", number>
 *   & {kind: string, letter: string, both: boolean}} Task
 */
/** @typedef {{device: number, task: number, group: string, begin: number, end: number}} Piece */
/** @typedef {{device: number, why: string, reason: string, begin: number, end: number}} Gap */
/** @typedef {{whole: number, bubble: number, busy: (number | null)[]}} Simulated */
/**
 * @typedef {object} Update
 * @property {number} number
 * @property {boolean} in_detail
 * @property {boolean} trains
 * @property {boolean} serial
 * @property {number} slots
 * @property {number} cycles 0: unknown
 * @property {Simulated} even
 * @property {Simulated} measured
 * @property {Task[]} tasks
 * @property {Piece[]} pieces
 * @property {Gap[]} gaps
 */

/** The kind of a task as pictures of time have it: one that is forward and backward has its own. @param {Task} task @returns {string} */
export function drawnKind({ both, kind }) {
  return both ? "forward and backward" : kind;
}

/** Hands out rows, so many at a time. @param {any[]} rows @returns {(count: number) => any[]} */
function inTurn(rows) {
  let from = 0;
  return (count) => rows.slice(from, (from += count));
}

export class Model {
  /** @param {Side} side @param {import("../../core/data.js").Block} block */
  constructor(side, block) {
    const { json } = block;
    const [tasks, pieces, gaps] = [inTurn(objectsOf(block, "task_")), inTurn(objectsOf(block, "piece_")), inTurn(objectsOf(block, "gap_"))];
    this.side = side;
    this.json = json;
    /** @type {Device[]} */
    this.devices = json.devices;
    /** @type {Update[]} */
    this.updates = json.updates.map((/** @type {any} */ update) => ({
      ...update,
      cycles: update.cycles ?? 0,
      tasks: tasks(update.tasks).map((task, place) => ({ ...task, place, both: task.both === 1, kind: json.kinds[task.kind].name, letter: json.kinds[task.kind].letter })),
      pieces: pieces(update.pieces).map((piece) => ({ ...piece, group: json.groups[piece.group] })),
      gaps: gaps(update.gaps).map((gap) => ({ ...gap, why: json.waits[gap.why], reason: json.reasons[gap.reason] })),
    }));
    const wanted = this.updates.findIndex((update) => update.number === number("update", -1));
    const best = (/** @type {(update: Update) => boolean} */ test) => this.updates.findLastIndex(test);
    /** Place of the update that is shown. */
    this.chosen = [wanted, best((update) => update.in_detail && update.trains), best((update) => update.in_detail), this.updates.length - 1].find((place) => place >= 0) ?? 0;
  }

  /** The update that is shown. @returns {Update} */
  get update() {
    return /** @type {Update} */ (this.updates[this.chosen]);
  }

  /** @param {Update} update @returns {string} */
  nameOf(update) {
    const what = update.trains ? "update" : "pass without an update";
    return `${what} ${count(update.number + 1)} of ${count(this.json.total)}${update.in_detail ? "" : " (order alone)"}`;
  }

  /** @param {number} device @returns {string} */
  deviceName(device) {
    const { ipus, stages } = this.devices[device] ?? { ipus: [], stages: [] };
    const where = ipus.length > 1 ? `IPUs ${ipus[0]} and ${ipus.length - 1} more` : ipus.length ? `IPU ${ipus[0]}` : "unknown IPU";
    return `${where} · ${stages.length > 1 ? `stages ${stages.join(", ")}` : `stage ${stages[0]}`}`;
  }

  /** As pictures of schedules write a task: 'F3', 'FB3'; with its stage where its device has several. @param {Task} task @returns {string} */
  label(task) {
    const letter = task.both ? "FB" : task.letter;
    const stage = (this.devices[task.device]?.stages.length ?? 1) > 1 ? String(task.stage) : "";
    return `${stage}${letter || "?"}${task.microbatch < 0 ? "" : task.microbatch}`;
  }

  /** A task in words. @param {Task} task @returns {string} */
  words(task) {
    const kind = task.both ? "forward and backward in one program" : task.kind;
    const of = task.microbatch < 0 ? "" : ` of microbatch ${task.microbatch}`;
    const took = task.cycles < 0 ? "its events were not kept" : `its own work took ${text(task.cycles, "cycles")} (${exact(task.cycles, "cycles")})`;
    const when = task.begin < 0 ? "" : `, from cycle ${count(task.begin)} to ${count(task.end)} of the update`;
    return `${this.label(task)}: ${kind}${of}, stage ${task.stage}, ${this.deviceName(task.device).split(" · ")[0]}; ${took}${when}; run ${count(task.run)}`;
  }

  /** @returns {string} */
  coverage() {
    const { total, in_detail: kept, journal } = this.json;
    const shown = this.updates.filter((update) => update.in_detail).length;
    const parts = [`${count(kept)} of ${plural(total, "update")} ha${kept === 1 ? "s" : "ve"} events of all tasks.`];
    if (shown < kept) parts.push(`This page has the last ${count(shown)} of these, to stay small.`);
    if (!journal) parts.push("The journal was not kept, or is very long: each stage is taken to wait for the one before it.");
    return parts.join(" ");
  }
}
