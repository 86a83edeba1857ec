/** What do I change first, and what do I win? */

/** @type {import("../core/page.js").View} */
export const findings = {
  name: "findings",
  title: "What to do",
  question: "What do I change first, and what do I win?",
  needs: "findings",
  render() {
    return [];
  },
};
