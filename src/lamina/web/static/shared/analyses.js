// @ts-check
// The analyses as they declare themselves: titles, order, inputs and settings all come from the server.
/** @import { AnalysisCard, JobRequest } from "./api_types.js" */
import { read } from "./api.js";

/** @type {Promise<AnalysisCard[]> | null} */
let asked = null;

// All of them, in the order of the report; asked for once.
export function analyses() {
  asked ??= read("/analyses").catch((error) => {
    asked = null;
    throw error;
  });
  return asked;
}

/**
 * What to send for an analysis with the settings of a report.
 * @param {string} name
 * @param {{ model: string, other?: string, data?: Record<string, unknown> }} inputs
 * @returns {Promise<JobRequest>}
 */
export async function asInReport(name, inputs) {
  const found = (await analyses()).find((each) => each.name === name);
  return { analysis: name, ...inputs, settings: found?.report ?? {} };
}
