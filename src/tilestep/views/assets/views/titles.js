/** Titles of the views that other views link to. */

/** @type {Readonly<Record<string, string>>} */
const TITLES = Object.freeze({
  memory: "Memory",
  execution: "Execution",
  operations: "Operations",
  pipeline: "Pipeline",
  source: "Source",
});

/** @param {string} view @returns {string} */
export function proofTitle(view) {
  return TITLES[view] ?? view;
}
