/** Unpack arrays of numbers that heedful/inspection/web.py has packed, and index them. */

/** @typedef {{type: "u8" | "u16" | "f16" | "bit", shape: number[], data: string, scales?: number[]}} PackedArray */
/** @typedef {{shape: number[], data: Float32Array}} NumberArray in row-major order */

/** @type {WeakMap<PackedArray, Promise<NumberArray>>} */
const unpackedArrays = new WeakMap();

/**
 * Unpack an array. The same object always gives the same promise.
 * @param {PackedArray} packed
 * @returns {Promise<NumberArray>}
 */
export function unpackArray(packed) {
  let promise = unpackedArrays.get(packed);
  if (!promise) {
    promise = inflateBytes(packed.data).then((bytes) => ({ shape: packed.shape, data: decodeNumbers(packed, bytes) }));
    unpackedArrays.set(packed, promise);
  }
  return promise;
}

/**
 * Return one number of an array.
 * @param {NumberArray} array
 * @param {...number} indices one for each axis
 * @returns {number}
 */
export function getNumber({ shape, data }, ...indices) {
  return data[getOffset(shape, indices)];
}

/**
 * Return the part of an array at an index of its first axis; both share the numbers.
 * @param {NumberArray} array
 * @param {number} index
 * @returns {NumberArray}
 */
export function getSubarray({ shape, data }, index) {
  const rest = shape.slice(1);
  const size = countNumbers(rest);
  return { shape: rest, data: data.subarray(index * size, (index + 1) * size) };
}

/**
 * Return one vector of an array.
 * @param {NumberArray} array
 * @param {...number} indices one for each axis except the last
 * @returns {number[]}
 */
export function getVector({ shape, data }, ...indices) {
  const width = shape[shape.length - 1];
  const start = getOffset(shape.slice(0, -1), indices) * width;
  return Array.from(data.subarray(start, start + width));
}

/**
 * Return the place of an element in row-major order.
 * @param {number[]} shape
 * @param {number[]} indices
 */
function getOffset(shape, indices) {
  return indices.reduce((offset, index, axis) => offset * shape[axis] + index, 0);
}

/** @param {number[]} shape */
function countNumbers(shape) {
  return shape.reduce((product, length) => product * length, 1);
}

/**
 * Return a smaller matrix that has the largest number of each block, so that thin lines stay visible.
 * @param {NumberArray} matrix
 * @param {number} block side of a block
 * @returns {NumberArray}
 */
export function maxPool({ shape: [rows, columns], data }, block) {
  if (block === 1) return { shape: [rows, columns], data };
  const [height, width] = [Math.ceil(rows / block), Math.ceil(columns / block)];
  const pooled = new Float32Array(height * width);
  for (let q = 0; q < rows; q += 1) {
    const start = Math.floor(q / block) * width;
    for (let k = 0; k < columns; k += 1) {
      const place = start + Math.floor(k / block);
      const number = data[q * columns + k];
      if (number > pooled[place]) pooled[place] = number;
    }
  }
  return { shape: [height, width], data: pooled };
}

/**
 * Return the largest of some numbers, at least 0.
 * @param {Iterable<number>} numbers
 * @returns {number}
 */
export function findMax(numbers) {
  let largest = 0;
  for (const number of numbers) if (number > largest) largest = number;
  return largest;
}

/**
 * Return the largest absolute value in some vectors; 0 if they are empty.
 * @param {...Iterable<number>} vectors
 * @returns {number}
 */
export function findMaxAbs(...vectors) {
  let largest = 0;
  for (const vector of vectors) for (const number of vector) largest = Math.max(largest, Math.abs(number));
  return largest;
}

/**
 * Return the index of the largest number; the first one of several.
 * @param {ArrayLike<number>} numbers
 * @returns {number}
 */
export function argmax(numbers) {
  let best = 0;
  for (let i = 1; i < numbers.length; i += 1) if (numbers[i] > numbers[best]) best = i;
  return best;
}

/**
 * Return the sum of some numbers.
 * @param {readonly number[]} numbers
 * @returns {number}
 */
export function sumNumbers(numbers) {
  return numbers.reduce((sum, number) => sum + number, 0);
}

/**
 * @param {string} text base 64 of a zlib stream
 * @returns {Promise<Uint8Array>}
 */
async function inflateBytes(text) {
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = characters.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/**
 * Convert the bytes of a packed array to numbers.
 * @param {PackedArray} packed
 * @param {Uint8Array} bytes little-endian
 * @returns {Float32Array}
 */
function decodeNumbers({ type, shape, scales = [] }, bytes) {
  const numbers = new Float32Array(countNumbers(shape));
  const getWord = (/** @type {number} */ i) => bytes[2 * i] | (bytes[2 * i + 1] << 8);
  const size = numbers.length / shape[0];
  if (type === "u8")
    for (let i = 0; i < numbers.length; i += 1) numbers[i] = (bytes[i] / 255) * scales[Math.floor(i / size)];
  else if (type === "u16") for (let i = 0; i < numbers.length; i += 1) numbers[i] = getWord(i) / 65535;
  else if (type === "f16") for (let i = 0; i < numbers.length; i += 1) numbers[i] = decodeHalf(getWord(i));
  else for (let i = 0; i < numbers.length; i += 1) numbers[i] = (bytes[i >> 3] >> (7 - (i & 7))) & 1;
  return numbers;
}

/**
 * Decode a number in half precision (IEEE 754).
 * @param {number} bits
 * @returns {number}
 */
function decodeHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
