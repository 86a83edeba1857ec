/** The roofline: what each operation reaches, against what exchange and the matrix units allow. */

import { fillOf, themeColor } from "../../core/colors.js";
import { h } from "../../core/dom.js";
import { figure } from "../../core/figure.js";
import { large, share } from "../../core/format.js";
import { text } from "../../core/value.js";
import { SEVERAL } from "../steps/families.js";
import { intensityOf, peakOf, rateOf, titleOf } from "./rows.js";
import { drawShape } from "./shapes.js";

/** @import { Operation, OperationPair } from "./rows.js" */
/** @typedef {{pair: OperationPair, operation: Operation, x: number, y: number, hollow: boolean}} Point */
/** @typedef {{rate: number, words: string, dashed: boolean}} Line */

const HEIGHT = 430;
const MARGIN = { left: 92, right: 20, top: 14, bottom: 44 };
const NO_EXCHANGE = 84; // px at the right for operations that exchange nothing
const MOST_POINTS = 4000;
const NEAR = 12; // px
const LABEL = { height: 15, left: 8, right: 12 }; // px: of a roof's words, and beside them
const MOST_FOR_LABELS = 0.5; // of the width

/** The operations that have a place in the picture, those of most cycles first; A's are hollow if there are two recordings. @param {OperationPair[]} pairs @returns {Point[]} */
export function pointsOf(pairs) {
  const two = inBoth(pairs);
  return pairs
    .flatMap((pair) => [pair.a, pair.b].flatMap((operation) => (operation ? [{ pair, operation }] : [])))
    .flatMap(({ pair, operation }) => {
      const [x, y] = [intensityOf(operation), rateOf(operation)];
      return x === null || y === null ? [] : [{ pair, operation, x, y, hollow: two && operation === pair.a }];
    })
    .sort((one, other) => other.operation.cycles - one.operation.cycles)
    .slice(0, MOST_POINTS);
}

/** Whether there are operations of A and of B. @param {OperationPair[]} pairs @returns {boolean} */
export function inBoth(pairs) {
  return pairs.some(({ a }) => a) && pairs.some(({ b }) => b);
}

/** Time in the clock of its recording; cycles without one. @param {import("../steps/read.js").Steps} steps @param {number} cycles @returns {number} */
function secondsOf({ side }, cycles) {
  return cycles / (side.head.clock_hz || 1);
}

/**
 * @param {object} options
 * @param {OperationPair[]} options.pairs
 * @param {import("./rows.js").Grouping} options.grouping
 * @param {boolean} options.two
 * @param {Map<string, import("../steps/families.js").FamilyLook>} options.looks
 * @param {() => OperationPair | null} options.chosen
 * @param {(pair: OperationPair) => void} options.choose
 * @param {() => HTMLElement} options.table
 */
export function roofline({ pairs, grouping, two, looks, chosen, choose, table }) {
  const points = pointsOf(pairs);
  const all = [...new Set(pairs.flatMap(({ a, b }) => [a, b].flatMap((operation) => (operation ? [operation.steps] : []))))];
  const most = Math.max(...points.map(({ operation }) => secondsOf(operation.steps, operation.cycles)), 0) || 1;
  const exchange = unique(all.flatMap((steps) => steps.roofs.exchange.map(({ rate, words }, place) => ({ rate, words, dashed: place > 0 }))));
  const used = new Set(points.map(({ operation }) => operation.roof));
  const isUsed = (/** @type {number} */ place) => used.has(place) || (place === 0 && used.size === 0);
  const flat = unique(all.flatMap(({ side, roofs }) => roofs.flops.flatMap(({ rate, words }, place) => (rate && isUsed(place) ? [{ rate, words: alike(all, place) ? words : `${side.name.toUpperCase()}: ${words}`, dashed: false }] : []))));
  flat.sort((one, other) => one.rate - other.rate);
  const finite = points.filter(({ x }) => Number.isFinite(x));
  const [steepest, lowest] = [Math.max(...exchange.map(({ rate }) => rate)), flat[0]?.rate ?? 0];
  const ridge = flat[0] && exchange[0] ? [Math.max(...flat.map(({ rate }) => rate)) / exchange[0].rate] : []; // where the roofs meet
  const xs = range([...finite.map(({ x }) => x), ...ridge], [1, 1e4]);
  const [left] = xs;
  const ys = range([...points.map(({ y }) => y), ...flat.map(({ rate }) => rate)], [1e6, 1e12]);
  let cursor = Math.max(0, points.findIndex(({ pair }) => pair === chosen()));
  let size = { width: 800, height: HEIGHT };

  const handle = figure({
    label: `roofline of ${points.length} operations: what they reach by the floating-point operations for each exchanged byte`,
    height: HEIGHT,
    keys: "left and right go to the next operation by intensity, up and down by what it reaches; Enter chooses it",
    draw,
    table,
    describe(x, y) {
      const point = near(x, y);
      return point ? tell(point) : null;
    },
    onPress(x, y) {
      const point = near(x, y);
      if (!point) return;
      cursor = points.indexOf(point);
      choose(point.pair);
      handle.say(tell(point));
      handle.redraw();
    },
    onKey,
  });
  handle.canvas.addEventListener("focus", () => handle.redraw());
  handle.canvas.addEventListener("blur", () => handle.redraw());

  const plotRight = () => size.width - MARGIN.right - NO_EXCHANGE;
  const px = (/** @type {number} */ x) =>
    Number.isFinite(x) ? MARGIN.left + ((Math.log10(x) - xs[0]) / (xs[1] - xs[0])) * (plotRight() - MARGIN.left) : size.width - MARGIN.right - NO_EXCHANGE / 2;
  const py = (/** @type {number} */ y) => size.height - MARGIN.bottom - ((Math.log10(y) - ys[0]) / (ys[1] - ys[0])) * (size.height - MARGIN.bottom - MARGIN.top);

  const rateAt = (/** @type {number} */ y) => 10 ** (ys[0] + ((size.height - MARGIN.bottom - y) / (size.height - MARGIN.bottom - MARGIN.top)) * (ys[1] - ys[0]));

  /** @param {import("../../core/figure.js").Drawing} drawing */
  function draw({ context, width, height }) {
    size = { width, height };
    const colors = { ink: themeColor("ink"), faint: themeColor("faint"), grid: themeColor("grid"), edge: themeColor("edge"), focus: themeColor("focus"), ground: themeColor("ground"), mark: themeColor("mark") };
    const [right, bottom] = [plotRight(), height - MARGIN.bottom];
    context.font = "12px system-ui, sans-serif";
    context.lineWidth = 1;
    context.textBaseline = "middle";
    xs[0] = Math.min(left, withRoom(context, right));
    axis(context, colors, right, bottom);
    roofs(context, colors, bottom);
    if (two) {
      context.strokeStyle = colors.edge;
      context.lineWidth = 1;
      for (const point of points) {
        const other = point.hollow ? points.find(({ pair, hollow }) => pair === point.pair && !hollow) : undefined;
        if (other) segment(context, px(point.x), py(point.y), px(other.x), py(other.y));
      }
    }
    for (let place = points.length - 1; place >= 0; place--) {
      const { operation, x, y, hollow } = /** @type {Point} */ (points[place]);
      const look = looks.get(operation.family) ?? SEVERAL;
      drawShape(context, look.shape, px(x), py(y), radius(operation), hollow ? null : fillOf(context, look), hollow ? look.color : colors.ink);
    }
    const marked = points.filter(({ pair }) => pair === chosen());
    for (const point of marked) ring(context, point, colors.mark);
    const here = points[cursor];
    if (here && document.activeElement === handle.canvas) ring(context, here, colors.focus, 4);
    if (!points.length) {
      context.fillStyle = colors.ink;
      context.textAlign = "left";
      context.fillText("No operation has floating-point operations.", MARGIN.left + 12, MARGIN.top + 20);
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {Record<string, string>} colors @param {number} right @param {number} bottom */
  function axis(context, colors, right, bottom) {
    context.strokeStyle = colors.grid ?? "";
    context.fillStyle = colors.faint ?? "";
    context.textAlign = "center";
    const wide = Math.max(1, Math.ceil((xs[1] - xs[0]) / ((right - MARGIN.left) / 64)));
    for (let power = Math.ceil(xs[0]); power <= xs[1]; power += wide) {
      segment(context, px(10 ** power), MARGIN.top, px(10 ** power), bottom);
      context.fillText(powerWords(power).trim(), px(10 ** power), bottom + 12);
    }
    context.textAlign = "right";
    for (let power = Math.ceil(ys[0]); power <= ys[1]; power++) {
      segment(context, MARGIN.left, py(10 ** power), size.width - MARGIN.right, py(10 ** power));
      context.fillText(`${powerWords(power)}flop/s`, MARGIN.left - 6, py(10 ** power));
    }
    context.textAlign = "center";
    context.fillStyle = colors.ink ?? "";
    const words = ["flop for each byte that the busiest tile receives", "flop for each byte received"].find((each) => context.measureText(each).width < right - MARGIN.left) ?? "flop for each byte";
    context.fillText(words, (MARGIN.left + right) / 2, bottom + 31);
    context.fillText("no exchange", right + NO_EXCHANGE / 2, bottom + 31);
    context.strokeStyle = colors.edge ?? "";
    segment(context, MARGIN.left, MARGIN.top, MARGIN.left, bottom);
    segment(context, MARGIN.left, bottom, size.width - MARGIN.right, bottom);
    context.setLineDash([2, 3]);
    segment(context, right, MARGIN.top, right, bottom);
    context.setLineDash([]);
  }

  /** @param {CanvasRenderingContext2D} context @param {Record<string, string>} colors @param {number} bottom */
  function roofs(context, colors, bottom) {
    context.save();
    context.beginPath();
    context.rect(MARGIN.left, MARGIN.top, size.width - MARGIN.left - MARGIN.right, bottom - MARGIN.top);
    context.clip();
    context.strokeStyle = context.fillStyle = colors.ink ?? "";
    const peak = Math.max(...flat.map(({ rate }) => rate), 0);
    for (const { rate, dashed } of exchange) {
      // y = x × rate is a straight line on two logarithmic axes; it ends where the highest peak begins.
      const to = peak ? Math.min(10 ** xs[1], peak / rate) : 10 ** xs[1];
      context.lineWidth = dashed ? 1 : 2;
      context.setLineDash(dashed ? [6, 4] : []);
      segment(context, px(10 ** xs[0]), py(10 ** xs[0] * rate), px(to), py(to * rate));
    }
    context.setLineDash([]);
    context.lineWidth = 2;
    for (const { rate } of flat) segment(context, beginOf(rate), py(rate), size.width - MARGIN.right, py(rate));
    context.restore();
    names(context, colors);
  }

  /** Where a level roof begins. @param {number} rate */
  function beginOf(rate) {
    return exchange[0] ? px(Math.max(10 ** xs[0], Math.min(rate / exchange[0].rate, 10 ** xs[1]))) : MARGIN.left;
  }

  /** The least power of ten of the axis that leaves room for the roofs' words to the left of them. @param {CanvasRenderingContext2D} context @param {number} right */
  function withRoom(context, right) {
    if (!lowest || !exchange.length) return Infinity;
    const wide = Math.max(...flat.map((roof) => context.measureText(wordsOf(roof)).width)) + LABEL.left + LABEL.right;
    const share = Math.min(MOST_FOR_LABELS, wide / (right - MARGIN.left));
    return (Math.log10(lowest / steepest) - share * xs[1]) / (1 - share);
  }

  /** The roofs' words, above the slopes and left of the level roofs, where no point can be. @param {CanvasRenderingContext2D} context @param {Record<string, string>} colors */
  function names(context, colors) {
    if (!exchange.length) return;
    context.textAlign = "right";
    /** @type {number[]} */
    const rows = [];
    for (const { rate } of flat) rows.push(Math.min(py(rate), (rows[rows.length - 1] ?? Infinity) - LABEL.height));
    const down = Math.max(0, MARGIN.top + LABEL.height / 2 - (rows[rows.length - 1] ?? Infinity));
    const end = px(rateAt(down + (rows[0] ?? 0) + LABEL.height / 2) / steepest) - LABEL.right;
    flat.forEach((roof, place) => {
      const [words, y] = [wordsOf(roof), down + (rows[place] ?? 0)];
      if (end - context.measureText(words).width < MARGIN.left + LABEL.left) return; // the list below has it
      context.strokeStyle = colors.edge ?? "";
      context.lineWidth = 1;
      segment(context, end + 4, y, beginOf(roof.rate), py(roof.rate));
      label(context, colors, words, end, y);
    });
  }

  /** @param {CanvasRenderingContext2D} context @param {Record<string, string>} colors @param {string} words @param {number} x @param {number} y */
  function label(context, colors, words, x, y) {
    const { width } = context.measureText(words);
    context.fillStyle = colors.ground ?? "";
    context.fillRect(x - width - 2, y - LABEL.height / 2, width + 4, LABEL.height);
    context.fillStyle = colors.ink ?? "";
    context.fillText(words, x, y);
  }

  /** @param {CanvasRenderingContext2D} context @param {Point} point @param {string} color @param {number} [more] */
  function ring(context, { operation, x, y }, color, more = 7) {
    context.strokeStyle = color;
    context.lineWidth = 2.5;
    context.beginPath();
    context.arc(px(x), py(y), radius(operation) + more, 0, 2 * Math.PI);
    context.stroke();
  }

  /** @param {Operation} operation @returns {number} */
  function radius(operation) {
    return 4 + 9 * Math.sqrt(secondsOf(operation.steps, operation.cycles) / most);
  }

  /** @param {number} x @param {number} y @returns {Point | undefined} */
  function near(x, y) {
    const distance = (/** @type {Point} */ point) => Math.hypot(px(point.x) - x, py(point.y) - y) - radius(point.operation);
    const found = points.reduce((/** @type {Point | undefined} */ best, point) => (best && distance(best) <= distance(point) ? best : point), undefined);
    return found && distance(found) < NEAR ? found : undefined;
  }

  /** @param {Point} point @returns {string} */
  function tell({ operation, x, y }) {
    const peak = peakOf(operation);
    const roof = operation.steps.roofs.flops[operation.roof];
    const whose = two ? `${operation.steps.side.name.toUpperCase()}: ` : "";
    const of = peak !== null && roof ? `, ${share(peak, 1)} of the peak for ${roof.words}` : "";
    const moved = Number.isFinite(x) ? `${text(x, "flops")} for each byte that the busiest tile receives` : "no exchange";
    return `${whose}${titleOf(operation, grouping)}: ${text(y, "flop/s")}${of}; ${moved}; ${text(operation.cycles, operation.steps.side.cycles)} in all, ${share(operation.cycles, operation.steps.cycles)}.`;
  }

  /** @param {string} key @returns {string | null | undefined} */
  function onKey(key) {
    const here = points[cursor];
    if (!here) return undefined;
    if (key === "Enter") {
      choose(here.pair);
      handle.redraw();
      return tell(here);
    }
    const along = key === "ArrowLeft" || key === "ArrowRight" ? "x" : key === "ArrowUp" || key === "ArrowDown" ? "y" : null;
    if (!along && key !== "Home" && key !== "End") return undefined;
    const order = [...points].sort((a, b) => compared(a[along ?? "x"], b[along ?? "x"]) || compared(a.y, b.y) || points.indexOf(a) - points.indexOf(b));
    const place = order.indexOf(here) + (key === "ArrowRight" || key === "ArrowUp" ? 1 : -1);
    const next = key === "Home" ? order[0] : key === "End" ? order[order.length - 1] : order[place];
    if (next) cursor = points.indexOf(next);
    handle.redraw();
    return tell(points[cursor] ?? here);
  }

  return handle;
}

/** Numbers, of which some are infinite. @param {number} a @param {number} b @returns {number} */
function compared(a, b) {
  return a === b ? 0 : a < b ? -1 : 1;
}

/** '1 k', '10 k': a power of ten without digits behind its point. @param {number} power */
function powerWords(power) {
  return power < 0 ? (10 ** power).toFixed(-power) : large(10 ** power).replace(/\.0+(?= )/, "");
}

/** Powers of ten around some numbers. @param {number[]} values @param {[number, number]} otherwise @returns {[number, number]} */
function range(values, otherwise) {
  const found = values.filter((value) => value > 0 && Number.isFinite(value));
  const [least, most] = found.length ? [Math.min(...found), Math.max(...found)] : otherwise;
  const [low, high] = [Math.log10(least), Math.log10(most)];
  return [Math.floor(low - 0.15), Math.ceil(high + 0.15)];
}

/** Whether a roof of the matrix units is the same for all. @param {import("../steps/read.js").Steps[]} all @param {number} place */
function alike(all, place) {
  return new Set(all.map(({ roofs }) => roofs.flops[place]?.rate)).size === 1;
}

/** @param {Line} roof @returns {string} */
function wordsOf({ words, rate }) {
  return `${words}: ${text(rate, "flop/s")}`;
}

/** @param {Line[]} lines @returns {Line[]} */
function unique(lines) {
  return [...new Map(lines.map((line) => [`${line.words} ${line.rate}`, line])).values()];
}

/** @param {CanvasRenderingContext2D} context @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 */
function segment(context, x0, y0, x1, y1) {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}

/** The roofs in words, with their sources. @param {import("../steps/read.js").Steps[]} all @returns {HTMLElement} */
export function roofList(all) {
  const rows = all.flatMap((steps) =>
    [...steps.roofs.flops, ...steps.roofs.exchange].filter(({ rate }) => rate).map((roof, place) => ({ ...roof, side: steps.side.name.toUpperCase(), bytes: roof.field.includes("exchange"), key: `${roof.words} ${roof.rate} ${roof.source}`, place })),
  );
  const shown = [...new Map(rows.map((row) => [row.key, row])).values()];
  return h(
    "details",
    { class: "roofs" },
    h("summary", {}, "The roofs, and where they come from"),
    h(
      "ul",
      {},
      shown.map((row) =>
        h("li", {}, `${row.bytes ? "" : "matrix units, "}${row.words}: ${row.bytes ? `${large(row.rate)}B/s of a tile` : text(row.rate, "flop/s")}${row.bytes ? "" : " of an IPU"} (`, h("code", {}, row.field), `, ${row.basis}: ${row.source})`),
      ),
    ),
    h("p", { class: "note" }, "A matrix unit's peak is twice its multiply-adds a cycle, of all tiles. Other operations run on the vector unit, whose peak no field of the machine has."),
  );
}
