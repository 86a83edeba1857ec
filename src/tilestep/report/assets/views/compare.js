/** What changed, and where? */

/** @type {import("../core/page.js").View} */
export const compare = {
  name: "compare",
  title: "Compare",
  question: "What changed, and where?",
  needs: "",
  render() {
    return [];
  },
};
