/** The trace of one recording in wall time, as block `system` has it. */

/** @import { Side } from "../../core/page.js" */

export class Model {
  /** @param {Side} side @param {import("../../core/data.js").Block} block */
  constructor(side, { json, columns }) {
    this.side = side;
    this.json = json;
    /** @param {string} name @returns {Float64Array} */
    this.column = (name) => columns[name] ?? new Float64Array();
    /** @type {string[]} */
    this.labels = json.labels;
    this.size = this.column("start").length;
  }

  /** @param {number} thread @returns {string} */
  threadName(thread) {
    const found = this.json.threads[thread];
    if (!found) return "unknown thread";
    const process = this.json.processes.length > 1 ? `${this.json.processes[found.process]?.pid} · ` : "";
    return `${process}${found.name || `thread ${found.tid}`}`;
  }

  /** @param {number} channel @returns {string} */
  channelName(channel) {
    return channel < 0 ? "no channel" : (this.json.channels[channel] ?? "");
  }
}

/** Begin and size of each of several parts of a column. @param {number[]} sizes @returns {[number, number][]} */
export function parts(sizes) {
  let begin = 0;
  return sizes.map((size) => {
    begin += size;
    return [begin - size, begin];
  });
}
