/** Bytes of all tiles at all steps, as a grid of so many cells as a picture has places, and the colours of it. */

import { at } from "./lives.js";
import { sweep } from "./peaks.js";

/** @import { Memory } from "./lives.js" */
/** @import { Runs } from "./peaks.js" */
/**
 * @typedef {object} Grid
 * @property {number} columns of steps
 * @property {number} rows of tiles
 * @property {Float64Array} bytes row by row: the most of any tile and step of the cell
 */

// Cividis (Nunez, Anderton and Renslow 2018): as light as it is large, also for those who see fewer colours.
const CIVIDIS = ["00224e", "123570", "3b496c", "575d6d", "707173", "8a8678", "a59c74", "c3b369", "e1cc55", "fee838"].map((color) => parseInt(color, 16));
const STEPS = 1024; // of the colour scale

/** Where a part of so many begins. @param {number} part @param {number} parts @param {number} whole @returns {number} */
export function partAt(part, parts, whole) {
  return Math.floor((part * whole) / parts);
}

/**
 * The grid of the ticks from `from` to before `to`.
 * @param {Memory} memory
 * @param {Runs} runs
 * @param {number} from
 * @param {number} to
 * @param {number} mostColumns
 * @param {number} mostRows
 * @returns {Grid}
 */
export function grid(memory, runs, from, to, mostColumns, mostRows) {
  const [columns, rows] = [Math.max(1, Math.min(mostColumns, to - from)), Math.max(1, Math.min(mostRows, memory.numTiles))];
  const bytes = new Float64Array(columns * rows).fill(-1);
  const [firstRun, lastRun] = [new Int32Array(rows), new Int32Array(rows)]; // that tiles of a row belong to
  for (let row = 0, run = 0; row < rows; row++) {
    while (run + 1 < runs.tiles.length && at(runs.tiles, run + 1) <= partAt(row, rows, memory.numTiles)) run++;
    firstRun[row] = run;
    let last = run;
    while (last + 1 < runs.tiles.length && at(runs.tiles, last + 1) < partAt(row + 1, rows, memory.numTiles)) last++;
    lastRun[row] = last;
  }
  const most = new Float64Array(rows);
  let column = 0;
  sweep(memory, runs, from, to, (tick, values, changed) => {
    if (changed) {
      for (let row = 0; row < rows; row++) {
        const first = /** @type {number} */ (firstRun[row]);
        const last = /** @type {number} */ (lastRun[row]);
        let best = /** @type {number} */ (values[first]);
        for (let run = first + 1; run <= last; run++) {
          const size = /** @type {number} */ (values[run]);
          if (size > best) best = size;
        }
        most[row] = best;
      }
    }
    while (partAt(column + 1, columns, to - from) <= tick - from) column++;
    const everywhere = memory.always + at(memory.temporary, tick);
    for (let row = 0; row < rows; row++) {
      const cell = row * columns + column;
      const sum = /** @type {number} */ (most[row]) + everywhere;
      if (sum > /** @type {number} */ (bytes[cell])) bytes[cell] = sum;
    }
  });
  return { columns, rows, bytes };
}

/** The colour of a share of the scale, as 0xRRGGBB. @param {number} share from 0 to 1 @returns {number} */
export function colorAt(share) {
  const place = Math.min(Math.max(share, 0), 1) * (CIVIDIS.length - 1);
  const low = Math.min(Math.floor(place), CIVIDIS.length - 2);
  const [one, other] = [at(CIVIDIS, low), at(CIVIDIS, low + 1)];
  let color = 0;
  for (const shift of [16, 8, 0]) {
    const [a, b] = [(one >> shift) & 255, (other >> shift) & 255];
    color |= Math.round(a + (b - a) * (place - low)) << shift;
  }
  return color;
}

/** A small picture with one pixel for each cell. @param {Grid} cells @param {number} low @param {number} high of the scale @returns {HTMLCanvasElement} */
export function picture(cells, low, high) {
  const canvas = document.createElement("canvas");
  canvas.width = cells.columns;
  canvas.height = cells.rows;
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const image = context.createImageData(cells.columns, cells.rows);
  const pixels = new Uint32Array(image.data.buffer);
  const table = Uint32Array.from({ length: STEPS }, (_, step) => {
    const color = colorAt(step / (STEPS - 1));
    return (255 << 24) | ((color & 255) << 16) | (color & 0xff00) | (color >> 16); // little-endian, as all that runs browsers
  });
  const scale = (STEPS - 1) / (high - low || 1);
  const { bytes } = cells;
  for (let cell = 0; cell < pixels.length; cell++) {
    const step = Math.round((/** @type {number} */ (bytes[cell]) - low) * scale);
    pixels[cell] = /** @type {number} */ (table[step < 0 ? 0 : step >= STEPS ? STEPS - 1 : step]);
  }
  context.putImageData(image, 0, 0);
  return canvas;
}
