/** Compute the colours of weights, of heads and of signed numbers. */

/** @typedef {[red: number, green: number, blue: number]} Colour from 0 to 255 */

/**
 * The colour ramps of heedful/inspection/heatmap.py: lightness in OKLab at weight 0 and at weight 1, and tints between
 * them. A ramp without tints is grey. A ramp without a title is the dark variant of another ramp.
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

/** Ramps that depend on the theme: the light variant and the dark one. @type {Record<string, [string, string]>} */
const THEME_RAMPS = { paper: ["ink", "glow"], ink: ["ink", "inkOnDark"] };

/** Names and titles of the ramps that users can choose, the default first. */
export const RAMP_CHOICES = [
  { name: "paper", title: "By theme: ink or glow" },
  ...Object.entries(RAMPS).flatMap(([name, { title }]) => (title ? [{ name, title }] : [])),
];

/**
 * Return the name of the ramp to draw with.
 * @param {string} name one of `RAMP_CHOICES`
 * @param {boolean} dark whether the page is dark
 * @returns {string}
 */
export function resolveRamp(name, dark) {
  return THEME_RAMPS[name]?.[dark ? 1 : 0] ?? name;
}

/**
 * Return the function from weights to the colours of a ramp. Weights beyond 0 and 1 get the colours at the ends.
 * @param {string} name as `resolveRamp` returns it
 * @returns {(weight: number) => Colour}
 */
export function getRamp(name) {
  const table = getRampTable(name);
  return (weight) => table[getLevel(weight)];
}

/**
 * Return the function from weights to the pixels of a ramp: red, green, blue and opacity in the bytes of one number, in
 * the order of ImageData.
 * @param {string} name as `resolveRamp` returns it
 * @returns {(weight: number) => number}
 */
export function getPixelRamp(name) {
  const words = Uint32Array.from(getRampTable(name), ([r, g, b]) => (255 << 24) | (b << 16) | (g << 8) | r);
  return (weight) => words[getLevel(weight)];
}

/**
 * Return a colour that distinguishes a head from others, on light and on dark pages.
 * @param {number} head
 * @returns {string}
 */
export function getHeadColour(head) {
  const angle = (Math.PI * (255 + head * 137.508)) / 180; // the golden angle separates neighbours most
  const lightness = [0.6, 0.56, 0.64][Math.floor(head / 6) % 3];
  return formatColour(convertOklab(lightness, 0.15 * Math.cos(angle), 0.15 * Math.sin(angle)));
}

/**
 * Return the colour of a signed number: orange if positive, blue if negative, the background for 0.
 * @param {number} value from -1 to 1
 * @param {boolean} dark whether the page is dark
 * @returns {Colour}
 */
export function getSignedColour(value, dark) {
  const size = Math.min(1, Math.abs(value)) || 0;
  const [a, b] = value < 0 ? [-0.04, -0.14] : [0.09, 0.11];
  return convertOklab(dark ? 0.22 + 0.53 * size : 0.985 - 0.43 * size, a * size, b * size);
}

/**
 * Format a colour for CSS.
 * @param {Colour} colour
 * @returns {string}
 */
export function formatColour([r, g, b]) {
  return `rgb(${r} ${g} ${b})`;
}

/**
 * Return black or white, whichever has more contrast to a colour.
 * @param {Colour} colour
 * @returns {string}
 */
export function getContrastColour([r, g, b]) {
  return 0.2126 * (r / 255) ** 2.2 + 0.7152 * (g / 255) ** 2.2 + 0.0722 * (b / 255) ** 2.2 > 0.18 ? "#000" : "#fff";
}

/** @type {Map<string, Colour[]>} */
const rampTables = new Map();

/**
 * Return the 256 colours of a ramp.
 * @param {string} name
 * @returns {Colour[]}
 */
function getRampTable(name) {
  let table = rampTables.get(name);
  if (!table) {
    const compute = RAMPS[name].tints.length ? computeTint : computeGrey;
    table = Array.from({ length: 256 }, (_, i) => compute(name, i));
    rampTables.set(name, table);
  }
  return table;
}

/** @param {number} weight */
function getLevel(weight) {
  return weight >= 1 ? 255 : weight > 0 ? Math.round(255 * weight) : 0;
}

/**
 * Compute a colour of a grey ramp, which is linear in sRGB and not in lightness.
 * @param {string} name
 * @param {number} level from 0 to 255
 * @returns {Colour}
 */
function computeGrey(name, level) {
  const [low, high] = RAMPS[name].lightness;
  const value = low < high ? level : 255 - level;
  return [value, value, value];
}

/**
 * Compute a colour of a tinted ramp.
 * @param {string} name
 * @param {number} level from 0 to 255
 * @returns {Colour}
 */
function computeTint(name, level) {
  const { lightness: [low, high], tints } = RAMPS[name];
  const weight = level / 255;
  const place = weight * (tints.length - 1);
  const left = Math.min(Math.floor(place), tints.length - 2);
  const [a, b] = [0, 1].map((i) => tints[left][i] + (place - left) * (tints[left + 1][i] - tints[left][i]));
  return convertOklab(low + weight * (high - low), a, b);
}

/**
 * Convert an OKLab colour (Ottosson 2020) to sRGB, clipped to what screens can show.
 * @param {number} lightness
 * @param {number} a
 * @param {number} b
 * @returns {Colour}
 */
function convertOklab(lightness, a, b) {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  return [
    encodeByte(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
    encodeByte(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
    encodeByte(-0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s),
  ];
}

/**
 * Convert linear light to a byte of sRGB.
 * @param {number} linear from 0 to 1
 */
function encodeByte(linear) {
  const c = Math.min(1, Math.max(0, linear));
  return Math.round(255 * (c <= 0.0031308 ? 12.92 * c : 1.055 * c ** (1 / 2.4) - 0.055));
}
