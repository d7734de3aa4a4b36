// Checks the operators that attention.mjs exports against the golden fixtures.
//
//     node check.mjs [FIXTURES_DIRECTORY]        Node 18 or newer, nothing else
//
// Exit code 0: every case passed. 1: a case failed, or none ran. 2: the fixtures are damaged.

import { fileURLToPath } from "node:url";
import { operators } from "./attention.mjs";
import { Damaged, generate, openFolder, safetensors, sizeOf } from "./fixtures.mjs";

// --- a case that is called once per part of its tokens

const WITH_TOKENS = ["query", "key", "value", "log_decay", "decay", "beta", "mask", "segment_ids"];
const NEXT_INPUT = {
  final_state: "initial_state",
  "final_state.0": "initial_state.0",
  "final_state.1": "initial_state.1",
  present_state: "past_state",
};

function mapEntries(object, change) {
  return Object.fromEntries(Object.entries(object).map(change));
}

// Tokens are axis 1: x is B blocks of T rows.
function slice({ shape: [B, T, ...rest], data }, first, last) {
  const width = sizeOf(rest);
  const part = new data.constructor(B * (last - first) * width);
  for (let b = 0; b < B; b++) {
    const rows = data.subarray((b * T + first) * width, (b * T + last) * width);
    part.set(rows, b * (last - first) * width);
  }
  return { shape: [B, last - first, ...rest], data: part };
}

function concatenate(parts) {
  const [B, , ...rest] = parts[0].shape;
  const T = parts.reduce((sum, { shape }) => sum + shape[1], 0);
  const whole = new parts[0].data.constructor(B * T * sizeOf(rest));
  let end = 0;
  for (let b = 0; b < B; b++) {
    for (const { data } of parts) {
      const rows = data.subarray((b * data.length) / B, ((b + 1) * data.length) / B);
      whole.set(rows, end);
      end += rows.length;
    }
  }
  return { shape: [B, T, ...rest], data: whole };
}

function call({ operator, dtype, arguments: options, parts }, inputs) {
  const Float = dtype === "float64" ? Float64Array : Float32Array;
  if (!parts) return operators[operator](inputs, options, Float);
  const outputs = [];
  let [first, states, given] = [0, {}, {}];
  for (const length of parts) {
    const part = mapEntries(inputs, ([name, x]) => {
      return [name, WITH_TOKENS.includes(name) ? slice(x, first, first + length) : x];
    });
    let output;
    ({ output, ...states } = operators[operator]({ ...part, ...given }, options, Float));
    given = mapEntries(states, ([name, x]) => [NEXT_INPUT[name], x]);
    outputs.push(output);
    first += length;
  }
  return { ...states, output: concatenate(outputs) };
}

// --- the comparison

// How far x is from its oracle: max |x - oracle| / max |oracle|, and where it is furthest.
function difference(x, oracle) {
  if (String(x?.shape) !== String(oracle.shape)) {
    const shape = (tensor) => (tensor ? `shape [${tensor.shape}]` : "nothing");
    return { error: Infinity, where: [], expected: shape(oracle), got: shape(x) };
  }
  let [worst, size, index] = [0, 0, 0];
  oracle.data.forEach((expected, i) => {
    const apart = Math.abs(x.data[i] - expected);
    const distance = apart < Infinity ? apart : Infinity; // NaN is as far as it gets
    if (distance > worst) [worst, index] = [distance, i];
    size = Math.max(size, Math.abs(expected));
  });
  const error = worst === 0 ? 0 : worst / size; // infinite where the oracle is 0 throughout
  const where = oracle.shape.map((length, axis) => {
    return Math.floor(index / sizeOf(oracle.shape.slice(axis + 1))) % length;
  });
  return { error, where, expected: oracle.data[index], got: x.data[index] };
}

function group(tensors, prefix) {
  const members = Object.entries(tensors).filter(([name]) => name.startsWith(prefix));
  return Object.fromEntries(members.map(([name, x]) => [name.slice(prefix.length), x]));
}

// The worst error of a case, and a line for every tensor that exceeds its tolerance.
function check(entry, tensors) {
  const inputs = group(tensors, "input.");
  const oracles = group(tensors, "output.");
  const toCompare = Object.keys(entry.tolerances).filter((name) => !name.startsWith("gradient."));
  if (toCompare.length === 0 || String(toCompare.sort()) !== String(Object.keys(oracles).sort())) {
    throw new Damaged(`${entry.id}: outputs ${Object.keys(oracles)} instead of ${toCompare}`);
  }
  const results = call(entry, inputs);
  let worst = 0;
  const report = [];
  for (const [name, oracle] of Object.entries(oracles)) {
    const tolerance = entry.tolerances[name];
    let x = results[name];
    const sampled = entry.tokens && name === "output";
    if (sampled && x.shape[1] === inputs.query.shape[1]) {
      x = concatenate(entry.tokens.map((t) => slice(x, t, t + 1)));
    }
    const { error, where, expected, got } = difference(x, oracle);
    if (sampled && where.length) where[1] = entry.tokens[where[1]];
    worst = Math.max(worst, error);
    if (error <= tolerance) continue;
    const figures = `error ${error.toExponential(2)}, tolerance ${tolerance}`;
    report.push(`${name}[${where}]: expected ${expected}, got ${got}, ${figures}`);
  }
  return { worst, report };
}

// --- all cases

const PROPERTIES = [
  ...["id", "summary", "flags", "clause", "operator", "dtype", "arguments", "parts", "tokens"],
  ...["file", "generated", "tolerances", "tolerance_reason", "error"],
];

// A case with a property that this program does not know asks for something else.
function known(entry) {
  const unknown = Object.keys(entry).filter((name) => !PROPERTIES.includes(name));
  if (unknown.length) throw new Damaged(`${entry.id}: unknown property ${unknown[0]}`);
  return entry;
}

function run(directory) {
  const read = openFolder(directory);
  const rows = new Map();
  const { cases } = JSON.parse(read("manifest.json"));
  if (!Array.isArray(cases)) throw new Damaged("manifest.json: no list of cases");
  for (const entry of cases.map(known)) {
    if (!(entry.operator in operators) || !["float64", "float32"].includes(entry.dtype)) continue;
    if (entry.error) continue;
    const tensors = safetensors(entry.file, read(entry.file));
    for (const [name, recipe] of Object.entries(entry.generated)) {
      if (name.startsWith("input.")) tensors[name] = generate(`${entry.id}: ${name}`, recipe);
    }
    const row = `${entry.operator.padEnd(22)} ${entry.dtype}`;
    const sum = rows.get(row) ?? { passed: 0, failed: 0, worst: 0 };
    let outcome;
    try {
      outcome = check(entry, tensors);
    } catch (error) {
      if (error instanceof Damaged) throw error;
      outcome = { worst: Infinity, report: [String(error)] };
    }
    const { worst, report } = outcome;
    const title = `FAILED ${entry.id}: ${entry.summary}`;
    if (report.length) console.log([title, ...report].join("\n  "));
    sum[report.length ? "failed" : "passed"] += 1;
    sum.worst = Math.max(sum.worst, worst);
    rows.set(row, sum);
  }
  return rows;
}

function main(directory = fileURLToPath(new URL("../../fixtures", import.meta.url))) {
  const rows = run(directory);
  console.log("operator               dtype    passed  failed  worst error");
  for (const [row, { passed, failed, worst }] of rows) {
    const figures = [String(passed).padStart(6), String(failed).padStart(6)].join("  ");
    console.log(`${row}  ${figures}  ${worst.toExponential(1).padStart(11)}`);
  }
  const sums = [...rows.values()];
  return sums.length > 0 && sums.every(({ failed }) => failed === 0) ? 0 : 1;
}

try {
  process.exitCode = main(process.argv[2]);
} catch (error) {
  if (!(error instanceof Damaged || error instanceof SyntaxError)) throw error;
  console.error(`damaged fixtures: ${error.message}`);
  process.exitCode = 2;
}
