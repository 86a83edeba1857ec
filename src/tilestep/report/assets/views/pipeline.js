/** Where are the bubbles? */

/** @type {import("../core/page.js").View} */
export const pipeline = {
  name: "pipeline",
  title: "Pipeline",
  question: "Where are the bubbles?",
  needs: "pipeline",
  render() {
    return [];
  },
};
