/** When does what happen, and why does an IPU wait? */

import { h } from "../core/dom.js";
import { table } from "../core/table.js";

/** @type {import("../core/page.js").View} */
export const execution = {
  name: "execution",
  title: "Execution",
  question: "When does what happen, and why does an IPU wait?",
  needs: "execution",
  absent: "Nothing ran in this recording.",
  async render(sides) {
    const parts = [];
    for (const side of sides) {
      const { json } = await side.block("execution");
      parts.push(h("h2", {}, side.label));
      parts.push(table({ label: "lanes", columns: [{ name: "lane", of: (row) => row.name }, { name: "events", unit: "count", of: (row) => row.events }], rows: json.lanes }));
    }
    return parts;
  },
};
