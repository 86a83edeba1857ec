/** What all pictures of the view share: the windows on slots and on time, and the chosen task. It stands in the URL. */

import { number, set } from "../../core/state.js";
import { windowAt } from "../../core/window.js";

/** @import { Model } from "./model.js" */

export class Scene {
  /** @param {Model} model */
  constructor({ update }) {
    const longest = Math.max(update.cycles, 1);
    this.tasks = update.tasks;
    this.slots = windowAt("slots", 0, update.slots, 4);
    this.cycles = windowAt("cycles", 0, longest, Math.min(longest, 64));
    /** Place of the chosen task; -1: none. */
    this.chosen = this.tasks[number("task", -1)]?.place ?? -1;
    /** @type {Set<() => void>} */
    this.listeners = new Set();
  }

  /** @param {number} place of a task; -1: of none */
  choose(place) {
    this.chosen = place;
    const task = this.tasks[place];
    if (task) {
      this.slots.reveal(task.slot, task.slot + task.slots);
      if (task.begin >= 0) this.cycles.reveal(task.begin, task.end);
    }
    set({ task: task ? place : null });
    this.listeners.forEach((listener) => listener());
  }
}
