/** Colours of weights, of heads and of signed numbers. */

/** @typedef {[number, number, number]} Colour  red, green, blue, 0 to 255 */

/**
 * Ramps as in heedful/inspection/heatmap.py: lightness in OKLab at weight 0 and at weight 1, and tints along the way;
 * those without tints are plain grey, those without a title are the dark variant of another one.
 * @type {Record<string, {title?: string, lightness: [number, number], tints: [number, number][]}>}
 */
const RAMPS = {
  glow: {
    title: "Glow: bright is high",
    lightness: [0.2, 0.97],
    tints: [[0.005, -0.055], [0.075, -0.14], [0.18, -0.05], [0.15, 0.085], [0.03, 0.145], [-0.01, 0.05]],
  },
  ink: {
    title: "Ink: strong contrast is high",
    lightness: [0.985, 0.28],
    tints: [[-0.002, 0.002], [-0.02, -0.035], [-0.015, -0.085], [0.01, -0.11], [0.015, -0.08]],
  },
  inkOnDark: {
    lightness: [0.22, 0.96],
    tints: [[0, -0.005], [0.005, -0.09], [-0.02, -0.11], [-0.03, -0.06], [-0.005, -0.01]],
  },
  grey: { title: "Grey: white is high", lightness: [0, 1], tints: [] },
  black: { title: "Grey: black is high", lightness: [1, 0], tints: [] },
};

/** Ramps that follow the paper, on light and on dark. @type {Record<string, [string, string]>} */
const BY_PAPER = { paper: ["ink", "glow"], ink: ["ink", "inkOnDark"] };

/** Ramps and their titles, the default first. */
export const ramps = [
  { name: "paper", title: "By theme: ink or glow" },
  ...Object.entries(RAMPS).flatMap(([name, { title }]) => (title ? [{ name, title }] : [])),
];

/**
 * The ramp that is drawn where one of `ramps` is chosen.
 * @param {string} name
 * @param {boolean} dark whether the paper is
 * @returns {string}
 */
export function onPaper(name, dark) {
  return BY_PAPER[name]?.[dark ? 1 : 0] ?? name;
}

/**
 * @param {string} name as `onPaper` gives it
 * @returns {(value: number) => Colour} of a weight; beyond 0 and 1 as at them
 */
export function ramp(name) {
  const table = tableOf(name);
  return (value) => table[level(value)];
}

/**
 * The 256 steps of a ramp, for pictures: red, green, blue, opaque, each in a byte of a number as ImageData wants it.
 * @param {string} name
 * @returns {(value: number) => number}
 */
export function pixels(name) {
  const words = Uint32Array.from(tableOf(name), ([r, g, b]) => (255 << 24) | (b << 16) | (g << 8) | r);
  return (value) => words[level(value)];
}

/**
 * A colour that tells this head from others, on light and on dark paper.
 * @param {number} head
 * @returns {string}
 */
export function headColour(head) {
  const angle = (Math.PI * (255 + head * 137.508)) / 180; // the golden angle: neighbours differ most
  const lightness = [0.6, 0.56, 0.64][Math.floor(head / 6) % 3];
  return css(shown(lightness, 0.15 * Math.cos(angle), 0.15 * Math.sin(angle)));
}

/**
 * Orange for positive, blue for negative, paper for 0.
 * @param {number} value -1 to 1
 * @param {boolean} dark whether the paper is
 * @returns {Colour}
 */
export function signed(value, dark) {
  const size = Math.min(1, Math.abs(value)) || 0;
  const [a, b] = value < 0 ? [-0.04, -0.14] : [0.09, 0.11];
  return shown(dark ? 0.22 + 0.53 * size : 0.985 - 0.43 * size, a * size, b * size);
}

/**
 * @param {Colour} colour
 * @param {number} [opacity]
 * @returns {string}
 */
export function css([r, g, b], opacity = 1) {
  return opacity === 1 ? `rgb(${r} ${g} ${b})` : `rgb(${r} ${g} ${b} / ${opacity})`;
}

/**
 * Black or white, with more contrast to a colour.
 * @param {Colour} colour
 * @returns {string}
 */
export function standingOut([r, g, b]) {
  return 0.2126 * (r / 255) ** 2.2 + 0.7152 * (g / 255) ** 2.2 + 0.0722 * (b / 255) ** 2.2 > 0.18 ? "#000" : "#fff";
}

/** @type {Map<string, Colour[]>} */
const tables = new Map();

/**
 * @param {string} name
 * @returns {Colour[]}
 */
function tableOf(name) {
  let table = tables.get(name);
  if (!table) {
    table = Array.from({ length: 256 }, (_, i) => (RAMPS[name].tints.length ? tinted(name, i / 255) : grey(name, i)));
    tables.set(name, table);
  }
  return table;
}

/** @param {number} value */
function level(value) {
  return value >= 1 ? 255 : value > 0 ? Math.round(255 * value) : 0;
}

/**
 * The decks' grey: brightness as the screen counts it, not as the eye does.
 * @param {string} name
 * @param {number} i
 * @returns {Colour}
 */
function grey(name, i) {
  const [low, high] = RAMPS[name].lightness;
  const value = low < high ? i : 255 - i;
  return [value, value, value];
}

/**
 * @param {string} name
 * @param {number} weight
 * @returns {Colour}
 */
function tinted(name, weight) {
  const { lightness: [low, high], tints } = RAMPS[name];
  const place = weight * (tints.length - 1);
  const left = Math.min(Math.floor(place), tints.length - 2);
  const [a, b] = [0, 1].map((i) => tints[left][i] + (place - left) * (tints[left + 1][i] - tints[left][i]));
  return shown(low + weight * (high - low), a, b);
}

/**
 * sRGB of an OKLab colour (Ottosson 2020), cut to what screens can show.
 * @param {number} lightness
 * @param {number} a
 * @param {number} b
 * @returns {Colour}
 */
function shown(lightness, a, b) {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const byte = (/** @type {number} */ linear) => {
    const c = Math.min(1, Math.max(0, linear));
    return Math.round(255 * (c <= 0.0031308 ? 12.92 * c : 1.055 * c ** (1 / 2.4) - 0.055));
  };
  return [
    byte(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
    byte(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
    byte(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s),
  ];
}
