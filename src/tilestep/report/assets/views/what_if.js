/** Which part of the machine, or which family of operations, matters? */

/** @type {import("../core/page.js").View} */
export const whatIf = {
  name: "what-if",
  title: "What if",
  question: "Which part of the machine, or which family of operations, matters?",
  needs: "what_if",
  render() {
    return [];
  },
};
