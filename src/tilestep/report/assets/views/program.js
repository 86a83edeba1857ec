/** What did my program become? */

/** @type {import("../core/page.js").View} */
export const program = {
  name: "program",
  title: "Program",
  question: "What did my program become?",
  needs: "steps",
  render() {
    return [];
  },
};
