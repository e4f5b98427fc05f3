// @ts-check
// How long things take, in words.

const MINUTE = 60;
const HOUR = 3600;

/**
 * Rounded as an estimate deserves: 40 s, 3 min, 1 h 20 min.
 * @param {number} seconds
 */
export function duration(seconds) {
  if (seconds < 1.5 * MINUTE) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 1.5 * HOUR) return `${Math.round(seconds / MINUTE)} min`;
  const minutes = Math.round(seconds / MINUTE / 10) * 10;
  return minutes % 60 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${minutes / 60} h`;
}
