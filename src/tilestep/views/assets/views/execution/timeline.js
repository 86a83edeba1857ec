/** The timeline of one recording: lanes below an axis, with the whole as a small picture on top. */

import { themeColor } from "../../core/colors.js";
import { figure } from "../../core/figure.js";
import { count, plural } from "../../core/format.js";
import { exact, text } from "../../core/value.js";
import { ticks } from "../../core/axis.js";
import { at, AXIS, cut, drawAxis, FONT, gutter, lowerBound, nearest, windowWheel } from "../../core/lanes.js";
import { Bars } from "./bars.js";
import { KEYS, press } from "./keys.js";
import { arrange, named } from "./lanes.js";
import { called, rowAt } from "./model.js";
import { eventWords, waitWords } from "./words.js";
import { drawPath, drawRange, drawRuns, drawSelected, drawWords } from "./overlay.js";
import { layoutOver } from "./spans.js";
import { windowTable } from "./window_table.js";

/** @import { Model } from "./model.js" */
/** @import { Area } from "./overlay.js" */

const MINI = 30; // CSS pixels: the whole
const MOST_HEIGHT = 560;
const NEAR = 4; // pixels: as far beside an event the pointer still means it

export class Timeline {
  /**
   * @param {Model} model
   * @param {import("./spans.js").Layouts} layouts
   * @param {import("./scene.js").Scene} scene
   */
  constructor(model, layouts, scene) {
    this.model = model;
    this.layouts = layouts;
    this.scene = scene;
    this.bars = new Bars(model, layouts);
    this.bars.hide([...scene.hiddenKinds]);
    this.hiddenKey = [...scene.hiddenKinds].join();
    this.scroll = 0;
    /** Time of the cursor while it goes from lane to lane; null: the selected event's. @type {number | null} */
    this.cursor = null;
    this.top = MINI + AXIS;
    this.placed = arrange(model, scene, MOST_HEIGHT - this.top);
    /** @type {{key: string, canvas: HTMLCanvasElement} | null} */
    this.mini = null;
    this.area = this.areaOf(800);
    this.figure = figure({
      label: `Timeline of ${model.side.label}: ${plural(model.lanes.length, "lane")}, ${plural(model.size, "event")}`,
      height: this.heightOf(),
      keys: KEYS,
      draw: (drawing) => this.draw(drawing),
      table: () => windowTable(model, scene),
      describe: (x, y) => this.describe(x, y),
      onKey: (key, event) => press(this, key, event),
      onPress: (x, y, event) => this.press(x, y, event),
      onDrag: (x, y) => this.drag(x, y),
      onWheel: (x, _, delta, event) => this.wheel(x, delta, event),
    });
    /** @type {{x: number, y: number, from: number, to: number, scroll: number, part: "mini" | "range" | "lanes", moved: boolean} | null} */
    this.pressed = null;
    const { canvas } = this.figure;
    canvas.addEventListener("pointerup", (event) => this.release(event.offsetX, event.offsetY));
    canvas.addEventListener("dblclick", (event) => {
      const found = this.hit(event.offsetX, event.offsetY);
      if (found && found.row >= 0) scene.fit(...scene.timesOf(model, found.row));
    });
    scene.listeners.add((change) => this.changed(change));
  }

  /** @param {import("../../core/window.js").Change} change */
  changed(change) {
    if (change === "shown") {
      const key = [...this.scene.hiddenKinds].join();
      if (key !== this.hiddenKey) this.bars.hide([...this.scene.hiddenKinds]);
      this.hiddenKey = key;
      this.placed = arrange(this.model, this.scene, MOST_HEIGHT - this.top);
      this.figure.resize(this.heightOf());
    }
    if (change === "selection" && this.scene.selected?.model === this.model) this.reveal(at(this.model.lane, this.scene.selected.row));
    this.figure.redraw();
  }

  heightOf() {
    return Math.max(this.top + 40, Math.min(MOST_HEIGHT, this.top + this.placed.height));
  }

  /** @param {number} width CSS pixels of the canvas @returns {Area} */
  areaOf(width) {
    const left = gutter(this.scene.names, width);
    const height = this.heightOf() - this.top;
    const { from, to } = this.scene.windowOf(this.model);
    this.scroll = Math.max(0, Math.min(this.scroll, this.placed.height - height));
    return { left, top: this.top, width: width - left - 8, height, scroll: this.scroll, from, to };
  }

  /** Scrolls a lane into the area. @param {number} lane */
  reveal(lane) {
    const box = this.placed.lanes.get(lane);
    if (!box) return;
    const height = this.heightOf() - this.top;
    if (box.top < this.scroll) this.scroll = box.top;
    else if (box.bottom > this.scroll + height) this.scroll = box.bottom - height + 4;
  }

  /** @param {import("../../core/figure.js").Drawing} drawing */
  draw({ context, width, scale }) {
    const { model, scene } = this;
    if (!scene.idle) this.placed = arrange(model, scene, MOST_HEIGHT - this.top);
    const area = (this.area = this.areaOf(width));
    const seen = this.placed.rows.filter((row) => row.top + row.height >= area.scroll && row.top <= area.scroll + area.height);
    this.bars.draw(context, seen, { ...area, scale });
    context.save();
    context.beginPath();
    context.rect(area.left, area.top, area.width, area.height);
    context.clip();
    if (this.placed.runs) drawRuns(context, model, seen, area, this.placed.runs);
    drawWords(context, model, this.bars, seen, area);
    context.restore();
    const range = scene.rangeOf(model);
    if (range) drawRange(context, range, text(range[1] - range[0], model.side.cycles), area);
    const places = this.places();
    if (scene.path) drawPath(context, model, places, area);
    const { selected } = scene;
    if (selected?.model === model) {
      const box = places.get(at(model.lane, selected.row));
      if (box) drawSelected(context, at(model.start, selected.row), at(model.end, selected.row), box, area);
    }
    this.drawNames(context, area);
    this.drawAxis(context, area);
    this.drawMini(context, area, scale);
  }

  /** Where each lane stands on the canvas. */
  places() {
    const shift = this.area.top - this.area.scroll;
    return new Map([...this.placed.lanes].map(([lane, { top, bottom }]) => [lane, { top: top + shift, bottom: bottom + shift }]));
  }

  /** @param {CanvasRenderingContext2D} context @param {Area} area */
  drawNames(context, area) {
    context.font = FONT;
    context.textBaseline = "middle";
    context.fillStyle = themeColor("ink");
    const lanes = this.model.lanes;
    for (const [index, y] of named(this.places(), (lane) => lanes[lane]?.kind ?? "", area.top, area.top + area.height)) {
      context.fillText(cut(context, lanes[index]?.name ?? "", area.left - 10), 4, y);
    }
    if (this.placed.height <= area.height) return;
    const size = Math.max(20, (area.height * area.height) / this.placed.height);
    const y = area.top + ((area.height - size) * area.scroll) / (this.placed.height - area.height);
    context.fillStyle = themeColor("edge");
    context.fillRect(area.left + area.width + 2, y, 5, size);
  }

  /** @param {CanvasRenderingContext2D} context @param {Area} area */
  drawAxis(context, area) {
    const zoom = area.width / (area.to - area.from);
    const bottom = MINI + AXIS;
    const [from, to] = this.scene.seenBy(this.model);
    const marks = ticks(Math.max(0, area.from), area.to, Math.floor(area.width / 110), this.model.side.head.clock_hz);
    drawAxis(context, marks, (cycle) => area.left + (cycle - area.from) * zoom, area, bottom);
    context.fillStyle = themeColor("faint");
    context.fillText(cut(context, `${text(to - from, this.model.side.cycles)} shown`, area.left - 10), 4, bottom - 12);
    context.fillStyle = themeColor("grid");
    context.fillRect(area.left, area.top - 1, area.width, 1);
  }

  /** The whole, with the window framed. @param {CanvasRenderingContext2D} context @param {Area} area @param {number} scale */
  drawMini(context, area, scale) {
    const { whole, hiddenLanes, from, to } = this.scene;
    const { pace } = this.model;
    const width = Math.max(1, Math.round(area.width));
    const key = [width, scale, this.hiddenKey, [...hiddenLanes].join(), themeColor("ground")].join();
    if (this.mini?.key !== key) {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [Math.round(width * scale), Math.round((MINI - 4) * scale)];
      const pen = canvas.getContext("2d");
      const all = this.placed.rows.filter(({ place }) => place === 0);
      const step = Math.max(1, Math.ceil(all.length / (MINI - 4)));
      const chosen = all.filter((_, index) => index % step === 0);
      const height = (MINI - 4) / Math.max(1, chosen.length);
      const rows = chosen.map((row, index) => ({ ...row, top: index * height, height }));
      if (pen) this.bars.draw(pen, rows, { left: 0, top: 0, width, height: MINI - 4, scroll: 0, scale, from: whole.from * pace, to: whole.to * pace });
      this.mini = { key, canvas };
    }
    context.drawImage(this.mini.canvas, area.left, 0, width, MINI - 4);
    const zoom = area.width / (whole.to - whole.from);
    const [x0, x1] = [area.left + (from - whole.from) * zoom, area.left + (to - whole.from) * zoom];
    context.fillStyle = themeColor("ground");
    context.globalAlpha = 0.6;
    context.fillRect(area.left, 0, x0 - area.left, MINI - 4);
    context.fillRect(x1, 0, area.left + area.width - x1, MINI - 4);
    context.globalAlpha = 1;
    context.strokeStyle = themeColor("focus");
    context.lineWidth = 2;
    context.strokeRect(x0, 1, Math.max(2, x1 - x0), MINI - 6);
    context.font = FONT;
    context.textBaseline = "middle";
    context.fillStyle = themeColor("faint");
    context.fillText(cut(context, "whole", area.left - 10), 4, MINI / 2);
  }

  /** @param {number} x CSS pixels @returns {number} */
  cycleAt(x) {
    const { left, width, from, to } = this.area;
    return from + ((x - left) / width) * (to - from);
  }

  /**
   * What is at a place.
   * @param {number} x @param {number} y CSS pixels
   * @returns {{lane: import("./model.js").Lane, row: number, next: number, cycle: number} | null} row: the event, -1 for none; next: the event behind a gap
   */
  hit(x, y) {
    const { area } = this;
    if (x < area.left || x > area.left + area.width || y < area.top) return null;
    const wanted = y - area.top + area.scroll;
    const rows = this.placed.rows;
    const row = rows.find(({ top, height, place, lane }) => wanted >= top - (place === 0 && lane.kind === "ipu" ? this.placed.runs : 0) && wanted < top + height);
    const track = row?.lane.tracks[row.place];
    if (!row || !track) return null;
    const cycle = this.cycleAt(x);
    const size = track.start.length;
    const place = lowerBound(track.end, 0, size, cycle + 1e-9);
    const best = nearest(track.start, track.end, cycle, ((area.to - area.from) / area.width) * NEAR);
    const next = place > 0 && place < size ? rowAt(track, place) : -1;
    return { lane: row.lane, row: best < 0 ? -1 : rowAt(track, best), next, cycle };
  }

  /** The name of a lane that may have no room, or is cut. @param {number} y @returns {string | null} */
  laneWords(y) {
    if (y < this.top) return null;
    const near = [...this.places()].find(([, { top, bottom }]) => y >= top && y < bottom + 1);
    const lane = near && this.model.lanes[near[0]];
    return lane ? `${lane.name}: ${plural(lane.end - lane.begin, "event")}` : null;
  }

  /** @param {number} x @param {number} y @returns {string | null} */
  describe(x, y) {
    const { model, layouts } = this;
    if (y < MINI) return "the whole recording: press or drag to move the window";
    if (x < this.area.left) return this.laneWords(y);
    const found = this.hit(x, y);
    if (!found) return null;
    if (found.row < 0) return found.next < 0 ? null : waitWords(model, found.next);
    const over = found.lane.kind === "ipu" ? layoutOver(model, layouts, found.row, found.cycle) : -1;
    const parts = [eventWords(model, found.row)];
    if (over >= 0) {
      const begin = at(model.start, over);
      const [index, behind] = layouts.range(at(model.layout, over), found.cycle - begin, found.cycle - begin + 1);
      if (index < behind) {
        const span = layouts.span(index, begin);
        const { leaf } = span;
        const times = span.times > 1 ? `, ${count(span.times)} times` : "";
        parts.push(`step: ${called(model.kinds[span.kind] ?? "", leaf?.name ?? "")}${times}, ${exact(span.to - span.from, model.side.cycles)}`);
        if (leaf) parts.push([leaf.scope, leaf.line].filter(Boolean).join(" · "));
      }
    }
    return parts.join("\n");
  }

  /** @param {number} x @param {number} y @param {PointerEvent} event */
  press(x, y, event) {
    const part = y < MINI ? "mini" : y < this.top || event.shiftKey ? "range" : "lanes";
    this.pressed = { x, y, from: this.scene.from, to: this.scene.to, scroll: this.scroll, part, moved: false };
    if (part === "mini") this.drag(x, y);
  }

  /** @param {number} x @param {number} y */
  drag(x, y) {
    const { pressed, scene, area } = this;
    if (!pressed) return;
    if (Math.abs(x - pressed.x) + Math.abs(y - pressed.y) > 3) pressed.moved = true;
    if (pressed.part === "mini") {
      const middle = scene.whole.from + ((x - area.left) / area.width) * (scene.whole.to - scene.whole.from);
      const half = (pressed.to - pressed.from) / 2;
      scene.show(middle - half, middle + half);
    } else if (pressed.moved && pressed.part === "range") {
      scene.measure(this.model, this.cycleAt(pressed.x), this.cycleAt(x));
    } else if (pressed.moved) {
      const by = ((pressed.x - x) / area.width) * (pressed.to - pressed.from);
      this.scroll = pressed.scroll + pressed.y - y;
      scene.show(pressed.from + by, pressed.to + by);
    }
  }

  /** @param {number} x @param {number} y */
  release(x, y) {
    const { pressed, scene, model } = this;
    this.pressed = null;
    if (!pressed || pressed.moved || pressed.part !== "lanes") return;
    const found = this.hit(x, y);
    const row = found ? (found.row >= 0 ? found.row : found.next) : -1;
    if (row >= 0) {
      scene.select(model, row);
      this.figure.say(eventWords(model, row));
    } else scene.clear();
  }

  /** The wheel alone scrolls lanes. @param {number} x @param {number} delta @param {WheelEvent} event */
  wheel(x, delta, event) {
    if (windowWheel(this.scene, this.cycleAt(x) / this.model.pace, delta, event)) return true;
    const before = this.scroll;
    this.scroll += delta;
    this.areaOf(this.area.left + this.area.width + 8);
    this.figure.redraw();
    return this.scroll !== before;
  }
}
