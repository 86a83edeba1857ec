/** Which of my lines costs this? */

/** @type {import("../core/page.js").View} */
export const source = {
  name: "source",
  title: "Source",
  question: "Which of my lines costs this?",
  needs: "source",
  render() {
    return [];
  },
};
