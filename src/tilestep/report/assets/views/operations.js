/** Which operation takes long, and how far is it from what the machine can do? */

/** @type {import("../core/page.js").View} */
export const operations = {
  name: "operations",
  title: "Operations",
  question: "Which operation takes long, and how far is it from what the machine can do?",
  needs: "steps",
  render() {
    return [];
  },
};
