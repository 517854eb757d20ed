/** Format tokens and numbers as text. */

/** Characters that are invisible, or that change how others are shown: controls, formats, separators, lone surrogates. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu;

/**
 * Format a token, with a visible sign for each invisible character.
 * @param {string} token
 * @returns {string}
 */
export function formatToken(token) {
  if (token === "") return "∅";
  const spaced = token.replace(/^ +| +$/g, (spaces) => "␣".repeat(spaces.length));
  return spaced.replace(INVISIBLE, (character) => {
    const code = character.codePointAt(0) ?? 0;
    if (code === 0x200c || code === 0x200d) return character; // Persian words and emoji need them
    return code < 0x20 ? String.fromCodePoint(0x2400 + code) : `[U+${code.toString(16).toUpperCase().padStart(4, "0")}]`;
  });
}

/**
 * Shorten a text, with an ellipsis at the end if something is missing.
 * @param {string} text
 * @param {number} length maximum, in characters
 * @returns {string}
 */
export function shortenText(text, length) {
  const letters = [...text];
  return letters.length <= length ? text : `${letters.slice(0, length - 1).join("")}…`;
}

/**
 * Begin a text with a capital letter.
 * @param {string} text
 * @returns {string}
 */
export function capitalizeText(text) {
  return text.slice(0, 1).toUpperCase() + text.slice(1);
}

/**
 * Format a number as text.
 * @param {number} value
 * @param {number} [digits] after the decimal point
 * @returns {string}
 */
export function formatNumber(value, digits = 2) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "?" : value > 0 ? "∞" : "−∞";
  const text = Math.abs(value) >= 1e4 ? value.toExponential(1) : value.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−");
}

/**
 * Name the head, or the mean over heads, whose weights are shown.
 * @param {number | "mean"} head
 * @param {number} count number of heads in the map
 * @returns {string}
 */
export function formatHead(head, count) {
  if (head !== "mean") return `head ${head}`;
  return count > 1 ? "mean of its heads" : "its only head";
}
