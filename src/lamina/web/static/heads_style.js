// How heads look: the scale of the atlas, the strokes of chosen heads, the marks of roles.
const VIRIDIS = ["#440154", "#482878", "#3e4989", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"];
const DARK_TEXT_FROM = 0.2; // relative luminance above which black reads better than white

// A head's stroke is told apart by its dash too, never by colour alone.
export const STROKES = [
  { colour: "--accent", dash: [] },
  { colour: "--second", dash: [8, 4] },
  { colour: "--third", dash: [2, 3] },
  { colour: "--fourth", dash: [10, 3, 2, 3] },
  { colour: "--fifth", dash: [5, 2] },
  { colour: "--soft", dash: [14, 5] },
];

export const MOST = STROKES.length;

const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));

// Share of the way from the least to the most -> colour, as [r, g, b].
function viridis(share) {
  const place = Math.min(Math.max(share, 0), 1) * (VIRIDIS.length - 1);
  const below = Math.min(Math.floor(place), VIRIDIS.length - 2);
  const [from, to] = [channels(VIRIDIS[below]), channels(VIRIDIS[below + 1])];
  return from.map((value, at) => Math.round(value + (to[at] - value) * (place - below)));
}

function textOn(rgb) {
  const [r, g, b] = rgb.map((value) => (value / 255 <= 0.04045 ? value / 3294.6 : ((value / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > DARK_TEXT_FROM ? "#000000" : "#ffffff";
}

const painted = (rgb) => ({ fill: `rgb(${rgb.join(" ")})`, text: textOn(rgb) });

export const scaled = (share) => painted(viridis(share));

export const gradient = `linear-gradient(to right, ${VIRIDIS.join(", ")})`;

// Role -> its colour, its letters in a cell and its mark on the map (a path around 0, 0).
export const ROLES = {
  coreference: { colour: "#d55e00", short: "coref", mark: "M0-6L1.7-1.9H6L2.6 1L3.8 5.4L0 2.8L-3.8 5.4L-2.6 1L-6-1.9H-1.7Z" },
  syntactic: { colour: "#0072b2", short: "syn", mark: "M-4.5-4.5H4.5V4.5H-4.5Z" },
  previous: { colour: "#009e73", short: "prev", mark: "M5-5V5L-5 0Z" },
  next: { colour: "#56b4e9", short: "next", mark: "M-5-5V5L5 0Z" },
  separator: { colour: "#cc79a7", short: "sep", mark: "M-6-2H-2V-6H2V-2H6V2H2V6H-2V2H-6Z" },
  first: { colour: "#e69f00", short: "first", mark: "M0-6L5 4H-5Z" },
  punctuation: { colour: "#8c6d1f", short: "punct", mark: "M0 6L5-4H-5Z" },
  broad: { colour: "#707070", short: "broad", mark: "M0-6L6 0L0 6L-6 0Z" },
  other: { colour: "#b4b4b4", short: "·", mark: "M-3.5 0A3.5 3.5 0 1 0 3.5 0A3.5 3.5 0 1 0-3.5 0Z" },
};

export const roleColours = (name) => painted(channels(ROLES[name]?.colour ?? ROLES.other.colour));

// .43 where a number lies below 1: cells are small.
export function short(value) {
  if (value === null || value === undefined) return "–";
  if (Math.abs(value) < 0.005) return ".00"; // never -.00
  return Math.abs(value) < 1 ? value.toFixed(2).replace(/^(-?)0/, "$1") : value.toFixed(value < 10 ? 2 : 1);
}
