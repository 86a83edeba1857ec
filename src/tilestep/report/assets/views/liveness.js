/** When is memory full, and what is alive then? */

/** @type {import("../core/page.js").View} */
export const liveness = {
  name: "liveness",
  title: "Liveness",
  question: "When is memory full, and what is alive then?",
  needs: "memory",
  render() {
    return [];
  },
};
