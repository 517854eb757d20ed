/** Arrays of numbers as heedful/inspection/packing.py packs them. */

/** @typedef {{type: "u8" | "u16" | "f16" | "bit", shape: number[], data: string, scales?: number[]}} Packed */
/** @typedef {{shape: number[], data: Float32Array}} Numbers  row by row, the last axis fastest */

/** @type {WeakMap<Packed, Promise<Numbers>>} */
const unpacked = new WeakMap();

/**
 * The numbers of a packed array; the same promise for the same object.
 * @param {Packed} packed
 * @returns {Promise<Numbers>}
 */
export function unpack(packed) {
  let promise = unpacked.get(packed);
  if (!promise) {
    promise = inflate(packed.data).then((bytes) => ({ shape: packed.shape, data: decode(packed, bytes) }));
    unpacked.set(packed, promise);
  }
  return promise;
}

/**
 * One number of an array, by as many indices as it has axes.
 * @param {Numbers} array
 * @param {...number} indices
 * @returns {number}
 */
export function at({ shape, data }, ...indices) {
  return data[indices.reduce((place, index, axis) => place * shape[axis] + index, 0)];
}

/**
 * The part of an array at one index of its first axis; it shares the numbers.
 * @param {Numbers} array
 * @param {number} index
 * @returns {Numbers}
 */
export function part({ shape, data }, index) {
  const rest = shape.slice(1);
  const size = rest.reduce((product, length) => product * length, 1);
  return { shape: rest, data: data.subarray(index * size, (index + 1) * size) };
}

/**
 * A coarser matrix: of each block of numbers the largest, so that thin lines stay.
 * @param {Numbers} matrix
 * @param {number} block its side
 * @returns {Numbers}
 */
export function pooled({ shape: [rows, columns], data }, block) {
  if (block === 1) return { shape: [rows, columns], data };
  const [height, width] = [Math.ceil(rows / block), Math.ceil(columns / block)];
  const small = new Float32Array(height * width);
  for (let q = 0; q < rows; q += 1) {
    const start = Math.floor(q / block) * width;
    for (let k = 0; k < columns; k += 1) {
      const place = start + Math.floor(k / block);
      const number = data[q * columns + k];
      if (number > small[place]) small[place] = number;
    }
  }
  return { shape: [height, width], data: small };
}

/**
 * @param {string} text  base 64 of a zlib stream
 * @returns {Promise<Uint8Array>}
 */
async function inflate(text) {
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = characters.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/**
 * @param {Packed} packed
 * @param {Uint8Array} bytes  little-endian
 * @returns {Float32Array}
 */
function decode({ type, shape, scales = [] }, bytes) {
  const numbers = new Float32Array(shape.reduce((product, length) => product * length, 1));
  const two = (/** @type {number} */ i) => bytes[2 * i] | (bytes[2 * i + 1] << 8);
  const size = numbers.length / shape[0];
  if (type === "u8")
    for (let i = 0; i < numbers.length; i += 1) numbers[i] = (bytes[i] / 255) * scales[Math.floor(i / size)];
  else if (type === "u16") for (let i = 0; i < numbers.length; i += 1) numbers[i] = two(i) / 65535;
  else if (type === "f16") for (let i = 0; i < numbers.length; i += 1) numbers[i] = half(two(i));
  else for (let i = 0; i < numbers.length; i += 1) numbers[i] = (bytes[i >> 3] >> (7 - (i & 7))) & 1;
  return numbers;
}

/**
 * A number in half precision (IEEE 754).
 * @param {number} bits
 * @returns {number}
 */
function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
