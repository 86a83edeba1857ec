/** Is the real host the bottleneck? */

/** @type {import("../core/page.js").View} */
export const system = {
  name: "system",
  title: "System",
  question: "Is the real host the bottleneck?",
  needs: "system",
  render() {
    return [];
  },
};
