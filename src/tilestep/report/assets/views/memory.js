/** What fills the fullest tile, and who would free it? */

/** @type {import("../core/page.js").View} */
export const memory = {
  name: "memory",
  title: "Memory",
  question: "What fills the fullest tile, and who would free it?",
  needs: "memory",
  render() {
    return [];
  },
};
