/** All views, in the order of the navigation. */

import { compare } from "./compare.js";
import { execution } from "./execution.js";
import { findings } from "./findings.js";
import { liveness } from "./liveness.js";
import { memory } from "./memory.js";
import { operations } from "./operations.js";
import { pipeline } from "./pipeline.js";
import { program } from "./program.js";
import { source } from "./source.js";

/** @type {import("../core/page.js").View[]} */
export const VIEWS = [
  findings,
  source,
  memory,
  liveness,
  program,
  operations,
  execution,
  pipeline,
  compare,
];
