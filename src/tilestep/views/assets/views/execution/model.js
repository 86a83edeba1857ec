/** The events of one recording: columns, lanes, runs and causes, as block `execution` has them. */

import { count, plural } from "../../core/format.js";
import { lookOf } from "../../core/colors.js";
import { at, lowerBound } from "../../core/lanes.js";

/** @import { Side } from "../../core/page.js" */
/**
 * A row of bars. A lane has several if its events overlap, as transfers that share a link do.
 * @typedef {object} Track
 * @property {number} first row of the first event, if `rows` is null
 * @property {Int32Array | null} rows row of each event; null: they follow each other
 * @property {Float64Array} start
 * @property {Float64Array} end
 * @property {Uint8Array} kind
 */
/**
 * @typedef {object} Lane
 * @property {number} index
 * @property {string} name
 * @property {string} kind
 * @property {number} number of the IPU or IPU-Machine
 * @property {number} begin first row
 * @property {number} end behind the last
 * @property {Track[]} tracks
 * @property {number} unkept cycles of the gaps in which the recording lacks events
 * @property {number} span cycles from its first event to its last
 * @property {Holes} holes
 */

/**
 * The gaps of a lane that lack events, in order of time.
 * @typedef {object} Holes
 * @property {Float64Array} start
 * @property {Float64Array} end
 * @property {Int32Array} before row of the event behind each
 * @property {number[]} sums cycles of all up to each
 */

const MOST_TRACKS = 4; // of one lane; more events at once are drawn over each other
/** @type {Readonly<Record<string, string>>} */
export const LANE_KINDS = Object.freeze({
  host: "host",
  "to-ipus": "host links to IPUs",
  "to-host": "host links to the host",
  ipu: "IPUs",
  io: "I/O tiles",
  link: "IPU-Links",
  gateway: "gateways",
  memory: "streaming memory",
});

/** The reason of a wait whose cause nobody knows, as the reader has it. */
export const UNKNOWN_CAUSE = "what it waited for is not in the recording";

export class Model {
  /** @param {Side} side @param {import("../../core/data.js").Block} block */
  constructor(side, block) {
    const { json, columns } = block;
    /** @param {string} name @returns {Float64Array} */
    const column = (name) => columns[name] ?? new Float64Array();
    this.side = side;
    this.json = json;
    /** @type {string[]} */
    this.kinds = json.kinds;
    this.size = column("kind").length;
    this.kind = new Uint8Array(column("kind"));
    this.lane = new Int32Array(this.size);
    this.start = new Float64Array(this.size);
    this.end = new Float64Array(this.size);
    this.run = new Int32Array(this.size);
    this.cause = new Int32Array(this.size); // -1: none, -2: not on the page
    this.program = new Int32Array(column("program"));
    this.layout = new Int32Array(column("layout"));
    this.path = new Int32Array(column("path"));
    this.column = column;
    let [row, run] = [0, 0];
    const [gaps, cycles, steps, back] = [column("gap"), column("cycles"), column("run"), column("back")];
    /** Of the gap before each event: 1 if its events were not recorded, 2 if they are not on the page. */
    this.hole = column("hole");
    /** @type {Lane[]} */
    this.lanes = json.lanes.map((/** @type {any} */ lane, /** @type {number} */ index) => {
      const begin = row;
      let clock = lane.first;
      let [latest, overlaps] = [-1, false];
      /** @type {[number, number, number][]} */
      const holes = [];
      for (; row < begin + lane.events; row++) {
        clock += at(gaps, row);
        if (clock < latest) overlaps = true;
        if (at(this.hole, row) && clock > latest) holes.push([latest, clock, row]);
        this.lane[row] = index;
        this.start[row] = clock;
        clock += at(cycles, row);
        if (clock > latest) latest = clock;
        this.end[row] = clock;
        run += at(steps, row);
        this.run[row] = run;
        const behind = at(back, row);
        this.cause[row] = behind === 0 ? -1 : behind === json.cut ? -2 : row - behind;
      }
      const made = { index, name: lane.name, kind: lane.kind, number: lane.number, begin, end: row, tracks: /** @type {Track[]} */ ([]), unkept: lane.unkept, span: lane.span, holes: holesOf(holes) };
      made.tracks = overlaps ? this.split(made) : [this.track(made)];
      return made;
    });
    this.from = Infinity;
    this.to = 0;
    for (const lane of this.lanes) {
      if (lane.end > lane.begin) this.from = Math.min(this.from, at(this.start, lane.begin));
      for (const { end } of lane.tracks) if (end.length) this.to = Math.max(this.to, at(end, end.length - 1));
    }
    const hosts = column("runs_host_cycle");
    for (let index = 0; index < hosts.length; index++) this.to = Math.max(this.to, at(hosts, index));
    if (!Number.isFinite(this.from)) this.from = 0;
    /** @type {{offsets: Int32Array, rows: Int32Array} | null} */
    this.effects = null;
  }

  /** The only track of a lane. @param {{begin: number, end: number}} lane @returns {Track} */
  track({ begin, end }) {
    return { first: begin, rows: null, start: this.start.subarray(begin, end), end: this.end.subarray(begin, end), kind: this.kind.subarray(begin, end) };
  }

  /** Events that overlap, each in the first track with room. @param {{begin: number, end: number}} lane @returns {Track[]} */
  split({ begin, end }) {
    /** @type {number[][]} */
    const rows = [];
    /** @type {number[]} */
    const ends = [];
    for (let row = begin; row < end; row++) {
      let place = ends.findIndex((busy) => busy <= at(this.start, row));
      if (place < 0) place = ends.length < MOST_TRACKS ? ends.length : MOST_TRACKS - 1;
      (rows[place] ??= []).push(row);
      ends[place] = Math.max(ends[place] ?? 0, at(this.end, row));
    }
    return rows.map((of) => {
      const chosen = Int32Array.from(of);
      return {
        first: 0,
        rows: chosen,
        start: Float64Array.from(chosen, (row) => at(this.start, row)),
        end: Float64Array.from(chosen, (row) => at(this.end, row)),
        kind: Uint8Array.from(chosen, (row) => at(this.kind, row)),
      };
    });
  }

  /** @param {number} row @returns {Lane} */
  laneOf(row) {
    return /** @type {Lane} */ (this.lanes[at(this.lane, row)]);
  }

  /** The kind of an event, as the reader names it. @param {number} row @returns {string} */
  kindOf(row) {
    return this.kinds[at(this.kind, row)] ?? "";
  }

  /** The name of a program, as the reader names it. @param {number} program its row @returns {string} */
  programName(program) {
    return program < 0 ? "" : (this.side.head.programs[program]?.name ?? `program ${program}`);
  }

  /** The name of a program, with its number where another has the same. @param {number} program its row @returns {string} */
  programLabel(program) {
    return program < 0 ? "" : (this.side.head.programs[program]?.label ?? this.programName(program));
  }

  /** @param {string} name @param {number} run @returns {number} */
  ofRun(name, run) {
    return run < 0 ? -1 : (this.column(`runs_${name}`)[run] ?? -1);
  }

  /** @param {string} name @param {number} run @returns {string} */
  textOfRun(name, run) {
    return this.json.strings[this.ofRun(name, run)] ?? "";
  }

  /** What people call an event's work: the run's own name, or its program. @param {number} row @returns {string} */
  workOf(row) {
    const run = at(this.run, row);
    const task = this.ofRun("stage", run) < 0 ? this.textOfRun("task", run) : "";
    return task || this.programLabel(at(this.program, row));
  }

  /** 'compute · jit_update': words of an event. @param {number} row @returns {string} */
  words(row) {
    return called(this.kindOf(row), this.programName(at(this.program, row)));
  }

  /**
   * Why an event could not begin before: the sentence of the reader's `Wait.reason`.
   * @param {number} lane that waited
   * @param {number} causeLane -1 if the cause is not in the recording, -2 if it is not on the page
   * @param {number} kind of the cause
   * @param {number} program of the cause
   * @returns {string}
   */
  reason(lane, causeLane, kind, program) {
    if (causeLane === -2) return "what it waited for is not on this page";
    const cause = this.lanes[causeLane];
    if (!cause) return UNKNOWN_CAUSE;
    const what = called(this.kinds[kind] ?? "", this.programName(program));
    if (cause.kind === "host") return `the host had not dispatched it before: ${what}`;
    if (cause.index === lane) return `its own work had to end: ${what}`;
    return `${cause.name} had to end: ${what}`;
  }

  /** The reason of the gap before an event. @param {number} row @returns {string} */
  reasonOf(row) {
    const hole = at(this.hole, row);
    if (hole) return HOLES[hole] ?? "";
    const cause = at(this.cause, row);
    if (cause < 0) return this.reason(at(this.lane, row), cause, 0, -1);
    return this.reason(at(this.lane, row), at(this.lane, cause), at(this.kind, cause), at(this.program, cause));
  }

  /** Rows whose start an event decided. @param {number} row @returns {Int32Array} */
  causedBy(row) {
    if (!this.effects) {
      const offsets = new Int32Array(this.size + 1);
      for (const cause of this.cause) if (cause >= 0) offsets[cause + 1] = at(offsets, cause + 1) + 1;
      for (let index = 0; index < this.size; index++) offsets[index + 1] = at(offsets, index + 1) + at(offsets, index);
      const next = offsets.slice();
      const rows = new Int32Array(at(offsets, this.size));
      for (let index = 0; index < this.size; index++) {
        const cause = at(this.cause, index);
        if (cause < 0) continue;
        const place = at(next, cause);
        rows[place] = index;
        next[cause] = place + 1;
      }
      this.effects = { offsets, rows };
    }
    return this.effects.rows.subarray(at(this.effects.offsets, row), at(this.effects.offsets, row + 1));
  }

  /** What an event without a cause of its own is a part of, as a transfer is of the load of its program; -1: of nothing. @param {number} row @returns {number} */
  wholeOf(row) {
    const [run, cause] = [at(this.run, row), at(this.cause, row)];
    if (run < 0 || this.kindOf(row) !== "transfer") return -1;
    const isOf = (/** @type {number} */ place) => cause === -1 || (this.kindOf(place) === "load" && cause === at(this.cause, place));
    for (const { kind, begin, end } of this.lanes) {
      const place = kind === "ipu" ? lowerBound(this.end, begin, end, at(this.end, row)) : end;
      if (place < end && at(this.run, place) === run && at(this.start, place) <= at(this.start, row) && isOf(place)) return place;
    }
    return -1;
  }

  /** A sentence: which runs have events here. @returns {string} */
  coverage() {
    const runs = this.column("runs_program").length;
    const { runs_in_detail: kept, events, left_out: leftOut, idle_lanes: idle, not_simulated: left } = this.json;
    const parts = [`${plural(events, "event")} of ${plural(this.lanes.length, "lane")}.`];
    if (kept < runs) {
      parts.push(
        `${count(kept)} of ${plural(runs, "run")} ${kept === 1 ? "has" : "have"} events: the recording kept those of each program's first and last runs, and of a pipeline's last update `
          + "(autoReport.executionProfileProgramRunCount). Sums of time by kind have all runs.",
      );
    }
    if (leftOut) parts.push(`This page leaves out ${plural(leftOut, "event")} between the first and the last, to stay small: the recording has them, and sums of waits count them.`);
    if (this.json.layouts.left_out) {
      parts.push(`The steps within ${plural(this.json.layouts.left_out, "part")} of runs are left out, because too many runs differ in their times.`);
    }
    if (idle) parts.push(`${plural(idle, "lane")} did nothing.`);
    if (left) parts.push(`${plural(left, "IPU")} did the same as those above, and ${left === 1 ? "was" : "were"} not simulated (simulated_ipus).`);
    return parts.join(" ");
  }
}

/** Why a gap is no wait. @type {readonly string[]} */
const HOLES = Object.freeze(["", "the events of runs in this time were not kept, so it may have worked", "the recording has events in this time, this page does not"]);

/** @param {[number, number, number][]} found @returns {Holes} */
function holesOf(found) {
  let sum = 0;
  return {
    start: Float64Array.from(found, ([from]) => from),
    end: Float64Array.from(found, ([, to]) => to),
    before: Int32Array.from(found, ([, , row]) => row),
    sums: found.map(([from, to]) => (sum += to - from)),
  };
}

/** Cycles of the gaps without events of a lane in a stretch of time. @param {Lane} lane @param {number} from @param {number} to @returns {number} */
export function unkeptIn({ holes }, from, to) {
  const [first, behind] = [lowerBound(holes.end, 0, holes.end.length, from + 1e-9), lowerBound(holes.start, 0, holes.start.length, to)];
  if (behind <= first) return 0;
  const all = at(holes.sums, behind - 1) - (first ? at(holes.sums, first - 1) : 0);
  return all - Math.max(0, from - at(holes.start, first)) - Math.max(0, at(holes.end, behind - 1) - to);
}

/** The row of a place in a track. @param {Track} track @param {number} place @returns {number} */
export function rowAt(track, place) {
  return track.rows ? at(track.rows, place) : track.first + place;
}

/** 'compute · jit_update'. @param {string} kind @param {string} of '' for nothing @returns {string} */
export function called(kind, of) {
  return of ? `${kindWords(kind)} · ${of}` : kindWords(kind);
}

/** Words for a kind, for people. @param {string} kind */
export function kindWords(kind) {
  return lookOf(kind).words;
}
