// @ts-check
// The analyses as they declare themselves: titles, order, inputs and settings all come from the server.
/** @import { AnalysisCard, JobRequest } from "./api_types.js" */
import { read } from "./api.js";

/** @type {Promise<AnalysisCard[]> | null} */
let pending = null;

// All of them, in the order of the report; asked for once.
export function analyses() {
  pending ??= read("/analyses").catch((error) => {
    pending = null;
    throw error;
  });
  return pending;
}

/**
 * What to send for an analysis with the settings of a report.
 * @param {string} name
 * @param {{ model: string, other?: string, data?: Record<string, unknown> }} inputs
 * @returns {Promise<JobRequest>}
 */
export async function asInReport(name, inputs) {
  const card = (await analyses()).find((analysis) => analysis.name === name);
  return { analysis: name, ...inputs, settings: card?.report ?? {} };
}
