// Reads the golden fixtures: files that hash as indexed, tensors by byte slicing, and tensors that
// are computed. A tensor is { shape, data }, row-major, data a typed array of numbers.

import { createHash } from "node:crypto";
import { readFileSync, realpathSync } from "node:fs";
import { join, sep } from "node:path";

// --- the folder and its files

export class Damaged extends Error {}

function sha256(bytes) {
  return createHash("sha256").update(bytes).digest("hex");
}

// A function from a path to the bytes of that file, once they are inside and hash as indexed.
export function openFolder(directory) {
  const read = (path) => {
    try {
      const root = realpathSync(directory) + sep;
      const file = realpathSync(join(directory, path));
      if (file.startsWith(root)) return readFileSync(file);
    } catch (error) {
      throw new Damaged(`${path}: ${error.message}`);
    }
    throw new Damaged(`${path}: leaves the fixtures folder`);
  };
  const lines = read("index.sha256").toString().split("\n");
  const hashes = new Map(lines.map((line) => [line.slice(66), line.slice(0, 64)]));
  return (path) => {
    const bytes = read(path);
    if (sha256(bytes) !== hashes.get(path)) throw new Damaged(`${path}: not the indexed sha256`);
    return bytes;
  };
}

// --- tensors: bytes to numbers; typed arrays are little-endian wherever Node runs, but on s390x

const ARRAYS = {
  F64: Float64Array,
  F32: Float32Array,
  F16: Uint16Array, // bits
  BF16: Uint16Array, // bits
  I64: BigInt64Array,
  I32: Int32Array,
  BOOL: Uint8Array,
};

export function sizeOf(shape) {
  return shape.reduce((product, length) => product * length, 1);
}

function tensor(name, dtype, shape, bytes) {
  const Bits = ARRAYS[dtype];
  if (!Bits) throw new Damaged(`${name}: unknown dtype ${dtype}`);
  const size = sizeOf(shape);
  if (bytes.length !== size * Bits.BYTES_PER_ELEMENT) {
    throw new Damaged(`${name}: ${bytes.length} bytes for ${dtype} [${shape}]`);
  }
  const bits = new Bits(Uint8Array.from(bytes).buffer); // a copy, because a view must be aligned
  if (dtype === "F16") return { shape, data: Float32Array.from(bits, halfToNumber) };
  if (dtype === "BF16") {
    return { shape, data: new Float32Array(Uint32Array.from(bits, (x) => x << 16).buffer) };
  }
  return { shape, data: bits };
}

function halfToNumber(bits) {
  const [sign, exponent, fraction] = [bits >> 15 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1024 + fraction) * 2 ** (exponent - 25);
}

// The bits of a number that float16 can hold.
function numberToHalf(x) {
  const sign = x < 0 ? 0x8000 : 0;
  const exponent = Math.max(Math.floor(Math.log2(Math.abs(x))), -14);
  const fraction = Math.abs(x) * 2 ** (10 - exponent);
  return sign + ((exponent + 14) << 10) + fraction; // 1024, the leading bit, counts one exponent up
}

export function safetensors(path, bytes) {
  const tensors = {};
  try {
    const start = 8 + Number(bytes.readBigUInt64LE(0));
    let end = start;
    for (const [name, entry] of Object.entries(JSON.parse(bytes.toString("utf8", 8, start)))) {
      const [first, last] = entry.data_offsets.map((offset) => start + offset);
      if (first !== end) throw new Damaged(`${name} does not start where the one before it ends`);
      tensors[name] = tensor(name, entry.dtype, entry.shape, bytes.subarray(first, last));
      end = last;
    }
    if (end !== bytes.length) throw new Damaged(`${bytes.length} bytes where ${end} are described`);
  } catch (error) {
    throw new Damaged(`${path}: ${error.message}`);
  }
  return tensors;
}

// --- tensors that are computed, not stored

function fmix(x) {
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b);
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35);
  return (x ^ (x >>> 16)) >>> 0;
}

export function generate(name, { dtype, shape, seed, offset, exponent, sha256: expected }) {
  const Bits = ARRAYS[dtype];
  const upperHalf = (x) => new Uint32Array(Float32Array.of(x).buffer)[0] >>> 16;
  const encode = { F16: numberToHalf, BF16: upperHalf }[dtype] ?? ((x) => x);
  const values = Bits.from({ length: 256 }, (_, m) => encode((m + offset) * 2 ** exponent));
  const start = fmix(seed);
  const bits = Bits.from({ length: sizeOf(shape) }, (_, i) => values[fmix(i + start) >>> 24]);
  const bytes = new Uint8Array(bits.buffer);
  if (sha256(bytes) !== expected) throw new Damaged(`${name}: generated with another sha256`);
  return tensor(name, dtype, shape, bytes);
}
