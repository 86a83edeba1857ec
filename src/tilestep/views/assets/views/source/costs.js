/** What each line costs: the block `source` of one recording, or of two with the lines of A where B has them now. */

import { once } from "../../core/data.js";

/** @import { Side } from "../../core/page.js" */
/**
 * @typedef {object} Cost
 * @property {string} file
 * @property {number} line
 * @property {string} function
 * @property {number} steps
 * @property {number} executions
 * @property {number} cycles
 * @property {number} compute
 * @property {number} exchange
 * @property {number} sync
 * @property {number} collective
 * @property {number} host_call
 * @property {number} flops
 * @property {number} exchangeBytes
 * @property {number} tileBytes 0: none is known
 * @property {number} dispatches
 * @property {number} waits
 * @property {number} reads
 * @property {number} moved cycles of loads and transfers
 */
/** @typedef {{file: string, lines: string[] | null, code: string | null, why: string, cycles: number, costs: Map<number, Cost>}} SourceFile */
/** @typedef {{side: Side, files: Map<string, SourceFile>, cycles: number, inTurn: boolean, unknown: number, kept: boolean, hasCalls: boolean, hasLives: boolean}} Source */
/** A line of a file, with what it costs in each recording. @typedef {{number: number, text: string | null, a?: Cost, b?: Cost}} CodeLine */

/** The costs of a recording; read once. */
export const sourceOf = once(read);

/** @param {Side} side @returns {Promise<Source>} */
async function read(side) {
  const { json, columns } = await side.block("source");
  const at = (/** @type {string} */ name, /** @type {number} */ row) => /** @type {number} */ (/** @type {Float64Array} */ (columns[name])[row]);
  /** @type {Map<string, SourceFile>} */
  const files = new Map();
  for (const { file, code, why } of json.files) {
    files.set(file, { file, code, lines: code === null ? null : code.split(/\r\n|\r|\n|\f/), why, cycles: 0, costs: new Map() });
  }
  for (let row = 0; row < (columns.line?.length ?? 0); row++) {
    const cost = {
      file: json.texts[at("file", row)] ?? "",
      line: at("line", row),
      function: json.texts[at("function", row)] ?? "",
      steps: at("steps", row),
      executions: at("executions", row),
      cycles: at("cycles", row),
      compute: at("compute", row),
      exchange: at("exchange", row),
      sync: at("sync", row),
      collective: at("collective", row),
      host_call: at("host_call", row),
      flops: at("flops", row),
      exchangeBytes: at("exchange_bytes", row),
      tileBytes: at("tile_bytes", row),
      dispatches: at("dispatches", row),
      waits: at("waits", row),
      reads: at("reads", row),
      moved: at("moved", row),
    };
    const file = files.get(cost.file);
    if (!file) continue;
    file.costs.set(cost.line, cost);
    file.cycles += cost.cycles;
  }
  return { side, files, cycles: json.cycles, inTurn: json.in_turn, unknown: json.unknown_cycles, kept: json.kept, hasCalls: json.has_calls, hasLives: json.has_lives };
}

/**
 * Both recordings with the files that belong together under B's name: those of the same path, else of the same content, else of the same base
 * name, where only one of each recording has it. Costs keep the names that their recording has.
 * @param {Source[]} sources one or two
 * @returns {{sources: Source[], names: Map<string, string>}} and the name here of each file of A that has another
 */
export function matchedFiles(sources) {
  const [a, b] = sources;
  /** @type {Map<string, string>} */
  const names = new Map();
  if (!a || !b) return { sources, names };
  /** @type {((file: SourceFile) => string | null)[]} */
  const ways = [({ file }) => file, ({ code }) => code || null, ({ file }) => file.split("/").at(-1) ?? file];
  let [ofA, ofB] = [[...a.files.values()], [...b.files.values()]];
  for (const way of ways) {
    const [one, other] = [onlyOnes(ofA, way), onlyOnes(ofB, way)];
    for (const [key, { file }] of one) {
      const same = other.get(key)?.file;
      if (same !== undefined) names.set(file, same);
    }
    const taken = new Set(names.values());
    ofA = ofA.filter(({ file }) => !names.has(file));
    ofB = ofB.filter(({ file }) => !taken.has(file));
  }
  const files = new Map([...a.files].map(([file, of]) => [names.get(file) ?? file, of]));
  return { sources: [{ ...a, files }, b], names };
}

/** Files by what only one of them has. @param {SourceFile[]} files @param {(file: SourceFile) => string | null} key @returns {Map<string, SourceFile>} */
function onlyOnes(files, key) {
  /** @type {Map<string, SourceFile | null>} */
  const found = new Map();
  for (const file of files) {
    const of = key(file);
    if (of !== null) found.set(of, found.has(of) ? null : file);
  }
  return new Map([...found].flatMap(([of, file]) => (file ? [/** @type {[string, SourceFile]} */ ([of, file])] : [])));
}

/** Names of the files of all recordings, those of most cycles first. @param {Source[]} sources @returns {{file: string, cycles: number}[]} */
export function filesOf(sources) {
  /** @type {Map<string, number>} */
  const most = new Map();
  for (const { files } of sources) for (const [file, { cycles }] of files) most.set(file, Math.max(most.get(file) ?? 0, cycles));
  return [...most].map(([file, cycles]) => ({ file, cycles })).sort((a, b) => b.cycles - a.cycles);
}

/**
 * The lines of a file: all of them if a recording has its code, else those that cost something.
 * @param {Source[]} sources one or two
 * @param {string} file
 * @returns {{lines: CodeLine[], lost: Cost[], of: Source | null}} with the lines of A that B's code has no more, and whose code it is
 */
export function linesOf(sources, file) {
  const [first, second] = sources;
  const [one, other] = [first?.files.get(file), second?.files.get(file)];
  const shown = other?.lines ? second : one?.lines ? first : null;
  /** @type {Map<number, CodeLine>} */
  const rows = new Map();
  (shown?.files.get(file)?.lines ?? []).forEach((text, place) => rows.set(place + 1, { number: place + 1, text }));
  /** @type {Cost[]} */
  const lost = [];
  const places = one && other ? moved(one, other) : null;
  for (const source of sources) {
    for (const cost of source.files.get(file)?.costs.values() ?? []) {
      const place = source === first && places ? places.get(cost.line) : cost.line;
      if (place === undefined) {
        lost.push(cost);
        continue;
      }
      const row = rows.get(place) ?? { number: place, text: null };
      row[source.side.name] = cost;
      rows.set(place, row);
    }
  }
  return { lines: [...rows.values()].sort((a, b) => a.number - b.number), lost, of: shown ?? null };
}

/**
 * Where the lines of A that cost something are in B. Code that was put above them moves them, so their text decides, with their function where
 * it is known; of several places the nearest to where the line before went.
 * @param {SourceFile} a
 * @param {SourceFile} b
 * @returns {Map<number, number>}
 */
export function moved(a, b) {
  /** @type {Map<number, number>} */
  const found = new Map();
  const costs = [...a.costs.values()].sort((one, other) => one.line - other.line);
  if (!a.lines || !b.lines || a.code === b.code) {
    for (const { line } of costs) found.set(line, line);
    return found;
  }
  /** @type {Map<string, number[]>} */
  const places = new Map();
  b.lines.forEach((text, place) => {
    const bare = text.trim();
    places.set(bare, [...(places.get(bare) ?? []), place + 1]);
  });
  const taken = new Set();
  let shift = 0;
  for (const cost of costs) {
    const text = a.lines[cost.line - 1]?.trim();
    const free = (text ? (places.get(text) ?? []) : []).filter((place) => !taken.has(place));
    const same = free.filter((place) => (b.costs.get(place)?.function ?? cost.function) === cost.function);
    const target = cost.line + shift;
    const [best] = same.sort((one, other) => Math.abs(one - target) - Math.abs(other - target));
    if (best === undefined) continue;
    taken.add(best);
    shift = best - cost.line;
    found.set(cost.line, best);
  }
  return found;
}
