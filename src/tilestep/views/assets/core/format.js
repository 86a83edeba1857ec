/** Numbers for people, in the words of the command line (figures/quantities.py): a test compares both. A minus is U+2212, as wide as a plus. */

export const MINUS = "−";

/** @type {[number, string][]} */
const TIMES = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
/** @type {[number, string][]} */
const BYTES = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]];
/** @type {[number, string][]} */
const LARGE = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

const MANY_TIMES = 10; // from here on a change in per cent says little

/**
 * A number with so many digits behind the point. What lies in the middle goes to the even digit, as in Python; `toFixed` goes up.
 * @param {number} value
 * @param {number} digits
 * @returns {string}
 */
export function fixed(value, digits) {
  if (value < 0) {
    const text = fixed(-value, digits);
    return /[1-9]/.test(text) ? `${MINUS}${text}` : text;
  }
  const text = value.toFixed(digits);
  const middle = (value * 2 ** (digits + 1)) % 2 === 1; // exact: only odd multiples of 1/2, 1/4 or 1/8 lie in the middle
  return middle && /[13579]$/.test(text) ? (value - 0.5 / 10 ** digits).toFixed(digits) : text;
}

/** A whole number with commas. Beyond 2**53 not all of its digits are known. @param {number} value @returns {string} */
export function count(value) {
  if (Math.abs(value) > 2 ** 53) return `about ${value < 0 ? MINUS : ""}${Math.abs(value).toExponential(3)}`;
  return fixed(value, 0).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** A path without its first folders, if it is long: '…/models/train.py'. @param {string} path @param {number} most characters @returns {string} */
export function shortPath(path, most) {
  if (path.length <= most) return path;
  const end = path.slice(1 - most);
  const folder = end.indexOf("/");
  return `…${folder < 0 ? end : end.slice(folder)}`;
}

/** '1 row', '2 rows', '1 is', '0 are'. @param {number} number @param {string} one @param {string} [many] @returns {string} */
export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** '1.23 ms'. @param {number} seconds @returns {string} */
export function time(seconds) {
  if (!seconds) return "0 s";
  if (seconds < 0) return `${MINUS}${time(-seconds)}`;
  if (seconds >= 120) return seconds < 7200 ? `${fixed(seconds / 60, 1)} min` : `${fixed(seconds / 3600, 1)} h`;
  const [scale, unit] = TIMES.find(([least]) => seconds >= least) ?? [1e-9, "ns"];
  return `${threeDigits(seconds / scale)} ${unit}`;
}

/** '1.5 KiB'. @param {number} size @returns {string} */
export function bytes(size) {
  if (size < 0) return `${MINUS}${bytes(-size)}`;
  const found = BYTES.find(([least]) => size >= least);
  return found ? `${threeDigits(size / found[0])} ${found[1]}` : `${size} B`;
}

/** '12 %'. @param {number} part @param {number} whole @returns {string} */
export function share(part, whole) {
  if (whole <= 0) return "–";
  const percent = (100 * part) / whole;
  if (percent < 0) return `${MINUS}${share(-part, whole)}`;
  if (percent > 0 && percent < 0.1) return "<0.1 %";
  return percent >= 10 || percent === 0 ? `${fixed(percent, 0)} %` : `${fixed(percent, 1)} %`;
}

/** '+3.20 %' of a change; '12.5 times' of a large one, 'new' of one from nothing. @param {number} a @param {number} b @returns {string} */
export function change(a, b) {
  if (a === b) return "0 %";
  if (!a) return "new";
  if (b / a >= MANY_TIMES) return `${threeDigits(b / a)} times`;
  const percent = 100 * (b / a - 1);
  return `${percent > 0 ? "+" : ""}${fixed(percent, 2)} %`;
}

/** '1.23 G' of flops and the like. @param {number} value @returns {string} */
export function large(value) {
  const found = LARGE.find(([least]) => Math.abs(value) >= least);
  return found ? `${threeDigits(value / found[0])} ${found[1]}` : threeDigits(value).replace(/\.00?$/, "");
}

/** @param {number} value @returns {string} */
function threeDigits(value) {
  if (value >= 100) return count(value);
  return fixed(value, value >= 10 ? 1 : 2);
}
