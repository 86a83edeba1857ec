/** What all pictures of the view share: the windows on slots and on time, and the chosen task. It stands in the URL. */

import { get, set } from "../../core/state.js";
import { windowAt } from "../../core/window.js";

/** @import { Model } from "./model.js" */

export class Scene {
  /** @param {Model[]} models */
  constructor(models) {
    this.slots = windowAt("slots", 0, Math.max(...models.map(({ update }) => update.slots)), 4);
    const longest = Math.max(...models.map(({ update, pace }) => update.cycles / pace), 1);
    /** In cycles of A. */
    this.cycles = windowAt("cycles", 0, longest, Math.min(longest, 64));
    const found = /^([ab])(\d+)$/.exec(get("task"));
    const model = found && models.find(({ side }) => side.name === found[1]);
    /** @type {{side: string, place: number} | null} */
    this.chosen = found && model?.update.tasks[Number(found[2])] ? { side: model.side.name, place: Number(found[2]) } : null;
    /** @type {Set<() => void>} */
    this.listeners = new Set();
  }

  /** @param {Model} model @param {number} place @returns {boolean} */
  isChosen(model, place) {
    return place >= 0 && this.chosen?.side === model.side.name && this.chosen.place === place;
  }

  /** @param {Model} model @param {number} place of a task; -1: of none */
  choose(model, place) {
    this.chosen = place < 0 ? null : { side: model.side.name, place };
    const task = place < 0 ? undefined : model.update.tasks[place];
    if (task) {
      this.slots.reveal(task.slot, task.slot + task.slots);
      if (task.begin >= 0) this.cycles.reveal(task.begin / model.pace, task.end / model.pace);
    }
    set({ task: this.chosen ? `${this.chosen.side}${place}` : null });
    this.listeners.forEach((listener) => listener());
  }
}
