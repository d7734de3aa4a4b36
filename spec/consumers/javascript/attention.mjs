// Linear attention in plain JavaScript. The numbers are the equations of math/linear_attention.md.
//
// A tensor is { shape, data }, row-major. `Float` is the typed array to compute in, Float64Array or
// Float32Array: whatever is stored in one, a partial sum too, is rounded to it.

const RULES = {
  linear: { decays: false, delta: false },
  gated: { decays: true, delta: false },
  delta: { decays: false, delta: true },
  gated_delta: { decays: true, delta: true },
};

function linear_attention(inputs, { update_rule = "linear", scale = null }, Float) {
  const { query, key, value, log_decay, beta, initial_state, mask, segment_ids } = inputs;
  const { decays, delta } = RULES[update_rule];
  const [B, T, Hq, Dk] = query.shape;
  const [, , Hv, Dv] = value.shape;
  const Hk = key.shape[2];
  const H = Math.max(Hq, Hv);
  const group = H / Hv; // output heads that read one state
  const output = new Float(B * T * H * Dv);
  const state = initial_state ? Float.from(initial_state.data) : new Float(B * Hv * Dk * Dv);
  const write = new Float(Dv);
  scale ??= 1 / Math.sqrt(Dk);

  for (let b = 0; b < B; b++) {
    for (let h = 0; h < Hv; h++) {
      const S = state.subarray((b * Hv + h) * Dk * Dv, (b * Hv + h + 1) * Dk * Dv);
      for (let t = 0; t < T; t++) {
        if (startsSegment(segment_ids, T, b, t)) S.fill(0); // (5)
        if (isMasked(mask, T, b, t)) continue;
        const k = head(key, b, t, Math.floor((h * Hk) / Hv));
        if (decays) {
          const g = head(log_decay, b, t, h); // one number, or Dk of them
          for (let i = 0; i < Dk; i++) {
            const decay = Math.exp(g[i % g.length]);
            for (let j = 0; j < Dv; j++) S[i * Dv + j] *= decay; // (1)
          }
        }
        write.set(head(value, b, t, h)); // (2)
        if (delta) {
          const strength = head(beta, b, t, h % beta.shape[2])[0]; // a beta of width 1 is shared
          for (let i = 0; i < Dk; i++) {
            for (let j = 0; j < Dv; j++) write[j] -= k[i] * S[i * Dv + j]; // (2)
          }
          for (let j = 0; j < Dv; j++) write[j] *= strength; // (2)
        }
        for (let i = 0; i < Dk; i++) {
          for (let j = 0; j < Dv; j++) S[i * Dv + j] += k[i] * write[j]; // (3)
        }
        for (let o = h * group; o < (h + 1) * group; o++) {
          const q = head(query, b, t, Math.floor((o * Hq) / H));
          const read = head({ shape: [B, T, H, Dv], data: output }, b, t, o);
          for (let i = 0; i < Dk; i++) {
            for (let j = 0; j < Dv; j++) read[j] += scale * q[i] * S[i * Dv + j]; // (4)
          }
        }
      }
    }
  }
  return {
    output: { shape: [B, T, H, Dv], data: output },
    final_state: { shape: [B, Hv, Dk, Dv], data: state },
  };
}

// What x [B, T, H] or [B, T, H, D] holds for one token and head.
function head({ shape: [, T, H, D = 1], data }, b, t, h) {
  const first = ((b * T + t) * H + h) * D;
  return data.subarray(first, first + D);
}

function startsSegment(segment_ids, T, b, t) {
  if (!segment_ids || t === 0) return false;
  return segment_ids.data[b * T + t] !== segment_ids.data[b * T + t - 1];
}

// A masked token is skipped, not multiplied by 0: it may hold NaN.
function isMasked(mask, T, b, t) {
  return mask !== undefined && !mask.data[b * T + t];
}

function linear_attention_step({ query, key, value, log_decay, beta, state }, options, Float) {
  const token = (x) => x && { ...x, shape: [x.shape[0], 1, ...x.shape.slice(1)] }; // (6)
  const gates = { log_decay: token(log_decay), beta: token(beta) };
  const inputs = { query: token(query), key: token(key), value: token(value), ...gates };
  const results = linear_attention({ ...inputs, initial_state: state }, options, Float);
  const [B, , H, Dv] = results.output.shape;
  return { ...results, output: { ...results.output, shape: [B, H, Dv] } };
}

function onnx_linear_attention({ query, key, value, past_state, decay, beta }, options, Float) {
  const { q_num_heads, kv_num_heads, update_rule = "gated_delta", scale = 0 } = options;
  const split = ({ shape: [B, T, W], data }, H) => ({ shape: [B, T, H, W / H], data }); // (15)
  const inputs = {
    query: split(query, q_num_heads),
    key: split(key, kv_num_heads),
    value: split(value, kv_num_heads),
    log_decay: decay && split(decay, kv_num_heads), // (16)
    beta,
    initial_state: past_state,
  };
  const chosen = { update_rule, scale: scale === 0 ? null : scale };
  const { output, final_state } = linear_attention(inputs, chosen, Float);
  const [B, T, H, Dv] = output.shape;
  return { output: { ...output, shape: [B, T, H * Dv] }, present_state: final_state };
}

// Causal, each token writes and then reads; else a whole segment writes before any of it reads.
function kernelized_attention(inputs, options, Float) {
  const { feature_map = "elu_plus_one", causal = false } = options;
  const { use_normalizer = true, epsilon = 1e-6 } = options;
  const { value, mask, segment_ids } = inputs;
  const query = elementwise(MAPS[feature_map], inputs.query, epsilon, Float);
  const key = elementwise(MAPS[feature_map], inputs.key, epsilon, Float);
  const [B, T, Hq, Dk] = query.shape;
  const [, , Hv, Dv] = value.shape;
  const Hk = key.shape[2];
  const H = Math.max(Hq, Hv);
  const group = H / Hv;
  const output = new Float(B * T * H * Dv);
  const keyValueState = new Float(inputs["initial_state.0"]?.data ?? B * Hv * Dk * Dv);
  const keyState = new Float(inputs["initial_state.1"]?.data ?? B * Hv * Dk);
  const denominator = new Float(1);

  for (let b = 0; b < B; b++) {
    for (let h = 0; h < Hv; h++) {
      const S = keyValueState.subarray((b * Hv + h) * Dk * Dv, (b * Hv + h + 1) * Dk * Dv);
      const Z = keyState.subarray((b * Hv + h) * Dk, (b * Hv + h + 1) * Dk);
      for (let first = 0, last; first < T; first = last) {
        if (startsSegment(segment_ids, T, b, first)) [S, Z].forEach((x) => x.fill(0)); // (5)
        last = first + 1;
        while (!causal && last < T && !startsSegment(segment_ids, T, b, last)) last++;
        const tokens = Array.from({ length: last - first }, (_, i) => first + i);
        const unmasked = tokens.filter((t) => !isMasked(mask, T, b, t));
        for (const t of unmasked) {
          const k = head(key, b, t, Math.floor((h * Hk) / Hv));
          const v = head(value, b, t, h);
          for (let i = 0; i < Dk; i++) {
            for (let j = 0; j < Dv; j++) S[i * Dv + j] += k[i] * v[j]; // (7) (13)
            Z[i] += k[i]; // (7) (13)
          }
        }
        for (const t of unmasked) {
          for (let o = h * group; o < (h + 1) * group; o++) {
            const q = head(query, b, t, Math.floor((o * Hq) / H));
            const read = head({ shape: [B, T, H, Dv], data: output }, b, t, o);
            denominator[0] = use_normalizer ? epsilon : 1;
            for (let i = 0; i < Dk; i++) {
              for (let j = 0; j < Dv; j++) read[j] += q[i] * S[i * Dv + j]; // (8) (14)
              if (use_normalizer) denominator[0] += q[i] * Z[i]; // (8) (14)
            }
            for (let j = 0; j < Dv; j++) read[j] /= denominator[0]; // (8) (14)
          }
        }
      }
    }
  }
  const results = { output: { shape: [B, T, H, Dv], data: output } };
  if (causal) results["final_state.0"] = { shape: [B, Hv, Dk, Dv], data: keyValueState };
  if (causal && use_normalizer) results["final_state.1"] = { shape: [B, Hv, Dk], data: keyState };
  return results;
}

const MAPS = {
  elu_plus_one: (x) => (x > 0 ? x + 1 : Math.exp(x)), // (9)
  relu: (x, epsilon) => Math.max(x, 0) + epsilon, // (10)
  identity: (x) => x, // (11)
};

function elementwise(map, { shape, data }, epsilon, Float) {
  return { shape, data: Float.from(data, (x) => map(x, epsilon)) };
}

function l2_normalize({ x: { shape, data } }, { epsilon = 1e-6 }, Float) {
  const D = shape.at(-1);
  const result = Float.from(data);
  const square = new Float(1);
  for (let first = 0; first < data.length; first += D) {
    const row = result.subarray(first, first + D);
    square[0] = epsilon;
    for (const x of row) square[0] += x * x;
    row.forEach((x, i) => (row[i] = x / Math.sqrt(square[0]))); // (12)
  }
  return { output: { shape, data: result } };
}

const mapOperator = (name) => (inputs, { epsilon = 1e-6 }, Float) => ({
  output: elementwise(MAPS[name], inputs.x, epsilon, Float),
});

// Every operator by name: (inputs, options, Float) => results, both objects of tensors.
export const operators = {
  linear_attention,
  linear_attention_step,
  onnx_linear_attention,
  kernelized_attention,
  elu_plus_one: mapOperator("elu_plus_one"),
  relu: mapOperator("relu"),
  l2_normalize,
};
