"""The kinds of fault that the cases catch.

`report` names a published implementation that had it, as owner/repository#number of a report on
GitHub; None for the two kinds without one.
"""


def _flag(fault: str, report: str | None = None) -> dict[str, str | None]:
    return {"fault": fault, "report": report}


FLAGS = {
    "bad-input": _flag(
        "A call that makes no sense is computed all the same, by broadcasting or by conversion.",
        "prob-ml/bliss#1063",
    ),
    "beta-clamped": _flag("beta is clamped at 1, or scales only the value and not the erasure."),
    "beta-shared": _flag(
        "beta [B, T, 1] is refused, or [1, T, H] is read as [B, T, 1] without a word."
    ),
    "chunk-remainder": _flag(
        "The last chunk is wrong when the length is not a multiple of the chunk size.",
        "fla-org/flash-linear-attention#1142",
    ),
    "compiled-differs": _flag(
        "A program compiled for one length or without a state answers for another.",
        "fla-org/flash-linear-attention#52",
    ),
    "difference-of-cumulative-sums": _flag(
        "Decays between two tokens are differences of a cumulative sum, which cancel when gates "
        "are strong and are NaN when one is minus infinity.",
        "ohdearquant/lattice#235",
    ),
    "elu-at-zero": _flag(
        "The derivative of elu(x) + 1 is 0.5 at 0, or NaN where exp(x) would overflow.",
        "huggingface/candle#2328",
    ),
    "elu-cancels": _flag(
        "elu(x) + 1 is computed by that sum, which is 0 in bfloat16 from x = -8 down.",
        "fla-org/flash-linear-attention#1261",
    ),
    "epsilon-ignored": _flag(
        "epsilon is a constant, or is missing in one of the places that it belongs to.",
        "apple/axlearn#397",
    ),
    "error-before-decay": _flag(
        "The error of the delta rule is taken from the state before it decays.",
        "fla-org/flash-linear-attention#885",
    ),
    "exp-before-mask": _flag(
        "exp is taken before the causal mask, so that the gradient is 0 times infinity.",
        "huggingface/transformers#48455",
    ),
    "future-leak": _flag(
        "A result depends on a later token: on the rest of its chunk, or on the length.",
        "fla-org/flash-linear-attention#1240",
    ),
    "gate-gradient-cancels": _flag(
        "The gate's gradient is a difference of large sums and is noise where gates are strong.",
        "QwenLM/FlashQLA#28",
    ),
    "gate-zero": _flag(
        "A guard against overflow changes gates of 0, which must be the rule without gates.",
        "fla-org/flash-linear-attention#104",
    ),
    "half-range": _flag(
        "float16 overflows or loses its subnormal numbers, or bfloat16 has float16's range.",
        "idiap/fast-transformers#32",
    ),
    "inverse-explodes": _flag(
        "The triangular inverse is a product of powers, which explodes when keys resemble "
        "each other.",
        "fla-org/flash-linear-attention#537",
    ),
    "l2-normalize-zero": _flag(
        "The gradient of a normalised vector is NaN where the vector is 0.",
        "AI-Hypercomputer/maxtext#5295",
    ),
    "long-sequence": _flag(
        "Positions or chunks are counted in 16 bits, or errors grow with the length.",
        "fla-org/flash-linear-attention#906",
    ),
    "low-precision-product": _flag(
        "What meets in a product, or a sum of products, is rounded to the inputs' low precision.",
        "antirez/h3.c#3",
    ),
    "mask-skipped-batch-one": _flag(
        "The mask is left out when the batch has one entry.", "huggingface/transformers#46773"
    ),
    "masked-keys-in-denominator": _flag(
        "Masked keys are mapped after the mask and stay in the denominator.",
        "fla-org/flash-linear-attention#1263",
    ),
    "mixed-dtypes": _flag(
        "Gates or states in another dtype than query are refused, or rounded to that dtype.",
        "sgl-project/sglang#40362",
    ),
    "normalizer-state-dropped": _flag(
        "The sum of keys is not carried in the state, only the sum of outer products.",
        "fla-org/flash-linear-attention#268",
    ),
    "output-heads": _flag(
        "The output has the wrong number of heads when queries or values are grouped.",
        "microsoft/onnxruntime#29892",
    ),
    "padding-decays": _flag(
        "A masked token still decays the state, or what it holds reaches a result.",
        "fla-org/flash-linear-attention#1272",
    ),
    "positive-difference": _flag(
        "A parallel cumulative sum is not monotonic, so a causal difference becomes positive.",
        "vllm-project/vllm#37501",
    ),
    "scale-replaced": _flag(
        "A scale of 0, or any given scale, is replaced by the default.", "onnxruntime/mobius#36"
    ),
    "segment-leak": _flag(
        "The state, or the decay, leaks from one packed document into the next.", "THUDM/slime#1686"
    ),
    "short-sequence": _flag(
        "Sequences of length 0 or 1 fail or lose the state.", "keras-team/keras#22050"
    ),
    "state-gradient-dropped": _flag(
        "The gradient through the final or initial state is dropped.", "state-spaces/mamba#258"
    ),
    "state-one-token": _flag(
        "The initial state is honoured for one token only, or lost at a chunk boundary.",
        "huggingface/transformers#45513",
    ),
    "state-precision": _flag(
        "The state is kept or returned in the inputs' low precision.", "ollama/ollama#15865"
    ),
    "tile-for-repeat": _flag(
        "Shared heads are tiled, where neighbours must share a head.", "onnx/onnx#7274"
    ),
    "transposed-state": _flag(
        "The state is transposed, or decays along the values' axis.",
        "gittensor-ai-lab/sparkinfer#615",
    ),
    "zero-times-infinity": _flag(
        "A decay is split in two factors, one 0 and one infinite.", "tenstorrent/tt-metal#56550"
    ),
}
