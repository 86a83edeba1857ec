/** The updates of one recording: tasks, what their devices did, and what stages keep, as block `pipeline` has them. */

import { count, plural } from "../../core/format.js";
import { number } from "../../core/state.js";
import { exact, paceOf, text } from "../../core/value.js";

/** @import { Side } from "../../core/page.js" */
/** @typedef {{ipus: number[], stages: number[]}} Device */
/**
 * @typedef {object} Task
 * @property {number} place among those of the update
 * @property {number} stage
 * @property {string} kind
 * @property {string} letter '' if its kind has none
 * @property {number} microbatch -1: for all
 * @property {number} device
 * @property {boolean} both forward and backward in one
 * @property {number} run the first of its runs
 * @property {number} slot in the schedule
 * @property {number} slots that it takes
 * @property {number} cycles of its own work; -1: unknown
 * @property {number} begin cycle; -1: unknown
 * @property {number} end
 */
/** @typedef {{device: number, task: number, group: string, begin: number, end: number}} Piece */
/** @typedef {{device: number, why: string, reason: string, begin: number, end: number}} Gap */
/** @typedef {{stage: number, slot: number, cycle: number, count: number}} Change */
/** @typedef {{whole: number, bubble: number, busy: (number | null)[]}} Simulated */
/**
 * @typedef {object} Update
 * @property {number} number
 * @property {boolean} inDetail
 * @property {boolean} trains
 * @property {boolean} serial
 * @property {number} slots
 * @property {number} cycles 0: unknown
 * @property {number} from cycle of the recording at which it begins
 * @property {Simulated} even
 * @property {Simulated} measured
 * @property {Task[]} tasks
 * @property {Piece[]} pieces
 * @property {Gap[]} gaps
 * @property {Change[]} stash
 */

/** The kind of a task as pictures of time have it: one that is forward and backward has its own. @param {Task} task @returns {string} */
export function drawnKind({ both, kind }) {
  return both ? "forward and backward" : kind;
}

export class Model {
  /** @param {Side} side @param {import("../../core/data.js").Block} block */
  constructor(side, { json, columns }) {
    /** @param {string} name @param {number} row @returns {number} */
    const of = (name, row) => /** @type {number} */ (columns[name]?.[row]);
    this.side = side;
    /** Its cycles in the time of one of the window that recordings share. */
    this.pace = paceOf(side.name);
    this.json = json;
    /** @type {Device[]} */
    this.devices = json.devices;
    let [task, piece, gap, change] = [0, 0, 0, 0];
    /** @type {Update[]} */
    this.updates = json.updates.map((/** @type {any} */ update) => ({
      number: update.number,
      inDetail: update.in_detail,
      trains: update.trains,
      serial: update.serial,
      slots: update.slots,
      cycles: update.cycles ?? 0,
      from: update.from ?? 0,
      even: update.even,
      measured: update.measured,
      tasks: Array.from({ length: update.tasks }, (_, place) => {
        const row = task++;
        const { name, letter } = json.kinds[of("kind", row)];
        return {
          place, kind: name, letter, stage: of("stage", row), microbatch: of("microbatch", row), device: of("device", row), both: of("both", row) === 1,
          run: of("run", row), slot: of("slot", row), slots: of("slots", row), cycles: of("cycles", row), begin: of("begin", row), end: of("end", row),
        };
      }),
      pieces: Array.from({ length: update.pieces }, () => {
        const row = piece++;
        return { device: of("piece_device", row), task: of("piece_task", row), group: json.groups[of("piece_group", row)], begin: of("piece_begin", row), end: of("piece_end", row) };
      }),
      gaps: Array.from({ length: update.gaps }, () => {
        const row = gap++;
        return { device: of("gap_device", row), why: json.waits[of("gap_why", row)], reason: json.reasons[of("gap_reason", row)], begin: of("gap_begin", row), end: of("gap_end", row) };
      }),
      stash: Array.from({ length: update.stash }, () => {
        const row = change++;
        return { stage: of("stash_stage", row), slot: of("stash_slot", row), cycle: of("stash_cycle", row), count: of("stash_count", row) };
      }),
    }));
    const wanted = this.updates.findIndex((update) => update.number === number(`update_${side.name}`, -1));
    const best = (/** @type {(update: Update) => boolean} */ test) => this.updates.findLastIndex(test);
    /** Place of the update that is shown. */
    this.chosen = [wanted, best((update) => update.inDetail && update.trains), best((update) => update.inDetail), this.updates.length - 1].find((place) => place >= 0) ?? 0;
  }

  /** The update that is shown. @returns {Update} */
  get update() {
    return /** @type {Update} */ (this.updates[this.chosen]);
  }

  /** @param {Update} update @returns {string} */
  nameOf(update) {
    const what = update.trains ? "update" : "pass without an update";
    return `${what} ${count(update.number + 1)} of ${count(this.json.total)}${update.inDetail ? "" : " (order alone)"}`;
  }

  /** @param {number} device @returns {string} */
  deviceName(device) {
    const { ipus, stages } = this.devices[device] ?? { ipus: [], stages: [] };
    const where = ipus.length > 1 ? `IPUs ${ipus[0]} and ${ipus.length - 1} more` : ipus.length ? `IPU ${ipus[0]}` : "unknown IPU";
    return `${where} · ${stages.length > 1 ? `stages ${stages.join(", ")}` : `stage ${stages[0]}`}`;
  }

  /** The stages of a device. @param {number} device @returns {string} */
  stagesOf(device) {
    return this.devices[device]?.stages.join(", ") ?? "";
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
    const took = task.cycles < 0 ? "its events were not kept" : `its own work took ${text(task.cycles, this.side.cycles)} (${exact(task.cycles, this.side.cycles)})`;
    const when = task.begin < 0 ? "" : `, from cycle ${count(task.begin)} to ${count(task.end)} of the update`;
    return `${this.label(task)}: ${kind}${of}, stage ${task.stage}, ${this.deviceName(task.device).split(" · ")[0]}; ${took}${when}; run ${count(task.run)}`;
  }

  /** @returns {string} */
  coverage() {
    const { total, in_detail: kept, journal } = this.json;
    const shown = this.updates.filter(({ inDetail }) => inDetail).length;
    const parts = [`${count(kept)} of ${plural(total, "update")} ha${kept === 1 ? "s" : "ve"} events of all tasks.`];
    if (shown < kept) parts.push(`This page has the last ${count(shown)} of these, to stay small.`);
    if (!journal) parts.push("The journal was not kept, or is very long: each stage is taken to wait for the one before it.");
    return parts.join(" ");
  }
}
