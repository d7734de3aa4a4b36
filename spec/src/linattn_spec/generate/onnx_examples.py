"""The 17 examples of the ONNX operator's text (ai.onnx LinearAttention, opset 27), as printed.

Their results are the decimals printed there, in the order of the elements, not this project's: an
outside check of the definitions. The table's tolerances cover the printing. float32 is printed
to 8 digits, 5e-8 of an entry. float16 is printed to 4, and its 2.102 is a rounding tie, so a
right result may be half a printed unit and one unit of float16 away: 5e-4 + 2**-9, of 2.8.
"""

from typing import Any

import numpy as np

from linattn_spec import tolerances
from linattn_spec.fixtures import Arrays, Case
from linattn_spec.generate.scenario import DTYPES

QUERY = np.array([[[1.0, 0.0, 0.5, 0.5], [0.0, 1.0, 1.0, -1.0]]])
QUERY_4 = np.array(
    [[[1.0, 0.0, 0.5, 0.5, -1.0, 1.0, 0.2, 0.3], [0.0, 1.0, 1.0, -1.0, 0.5, 0.5, -0.5, 0.5]]]
)
KEY = np.array([[[1.0, 0.0, 0.5, 0.5], [0.0, 1.0, -0.5, 0.5]]])
VALUE = np.array([[[1.0, 2.0, 0.5, -0.5], [3.0, 4.0, -1.0, 1.0]]])
PAST = np.array([[[[0.5, -0.5], [0.0, 0.5]], [[1.0, 0.0], [-0.5, 1.0]]]])
PER_HEAD = np.array([[[-0.1, -0.2], [-0.3, -0.05]]])
PER_KEY = np.array([[[-0.1, -0.2, -0.3, -0.4], [-0.05, -0.1, -0.15, -0.2]]])
BETA = np.array([[[0.8, 0.9], [0.7, 0.6]]])


def _example(
    name: str,
    summary: str,
    flags: tuple[str, ...],
    arguments: dict[str, Any],
    inputs: Arrays,
    *,
    output: list[float],
    present_state: list[float],
    dtype: str = "float32",
) -> Case:
    B, T, width = inputs["query"].shape
    q_heads, heads = arguments["q_num_heads"], arguments["kv_num_heads"]
    Dk, Dv = width // q_heads, inputs["value"].shape[2] // heads
    outputs = {
        "output": np.reshape(output, (B, T, q_heads * Dv)).astype(np.float64),
        "present_state": np.reshape(present_state, (B, heads, Dk, Dv)).astype(np.float64),
    }
    return Case(
        id=f"onnx-example-{name}",
        summary=summary,
        flags=flags,
        clause="ai.onnx LinearAttention-27, example",
        operator="onnx_linear_attention",
        dtype=dtype,
        arguments=arguments,
        inputs={argument: x.astype(DTYPES[dtype]) for argument, x in inputs.items()},
        outputs=outputs,
        tolerances=dict.fromkeys(outputs, tolerances.VALUE[dtype]),
    )


# fmt: off
EXAMPLES = (
    _example(
        "decode-step", "One token from a past state, rule gated_delta, one gate per key.",
        ("state-one-token", "transposed-state"),
        dict(update_rule="gated_delta", q_num_heads=2, kv_num_heads=2),
        dict(query=QUERY[:, :1], key=KEY[:, :1], value=VALUE[:, :1], past_state=PAST,
             decay=PER_KEY[:, :1], beta=BETA[:, :1]),
        output=[0.6296671, 1.0673892, 0.23798102, -0.02875237],
        present_state=[0.89048374, 1.5095164, 0, 0.4093654, 0.8745451, -0.375822, -0.2014331,
                       0.29449803],
    ),
    _example(
        "delta", "Rule delta.",
        ("transposed-state", "low-precision-product"),
        dict(update_rule="delta", q_num_heads=2, kv_num_heads=2),
        dict(query=QUERY, key=KEY, value=VALUE, beta=BETA),
        output=[0.56568545, 1.1313709, 0.15909901, -0.15909901, 1.4849242, 1.9798989, 0.42426407,
                -0.42426407],
        present_state=[0.8, 1.6, 2.1, 2.8, 0.525, -0.525, -0.07500002, 0.07500002],
    ),
    _example(
        "explicit-scale", "An explicit scale of 2.",
        ("scale-replaced",),
        dict(update_rule="linear", q_num_heads=2, kv_num_heads=2, scale=2.0),
        dict(query=QUERY, key=KEY, value=VALUE),
        output=[2, 4, 0.5, -0.5, 6, 8, 2, -2],
        present_state=[1, 2, 3, 4, 0.75, -0.75, -0.25, 0.25],
    ),
    _example(
        "fp16", "Rule gated_delta in float16.",
        ("state-precision",),
        dict(update_rule="gated_delta", q_num_heads=2, kv_num_heads=2),
        dict(query=QUERY, key=KEY, value=VALUE, decay=PER_KEY, beta=BETA),
        output=[0.5654, 1.131, 0.159, -0.159, 1.485, 1.98, 0.429, -0.429],
        present_state=[0.7607, 1.521, 2.102, 2.8, 0.4922, -0.4922, -0.11444, 0.11444],
        dtype="float16",
    ),
    _example(
        "gated", "Rule gated, one gate per head.",
        ("transposed-state",),
        dict(update_rule="gated", q_num_heads=2, kv_num_heads=2),
        dict(query=QUERY, key=KEY, value=VALUE, decay=PER_HEAD),
        output=[0.70710677, 1.4142135, 0.17677669, -0.17677669, 2.1213202, 2.828427, 0.70710677,
                -0.70710677],
        present_state=[0.7408182, 1.4816364, 3, 4, 0.7378074, -0.7378074, -0.26219264, 0.26219264],
    ),
    _example(
        "gated-delta", "Rule gated_delta, one gate per head.",
        ("transposed-state", "low-precision-product"),
        dict(update_rule="gated_delta", q_num_heads=2, kv_num_heads=2),
        dict(query=QUERY, key=KEY, value=VALUE, decay=PER_HEAD, beta=BETA),
        output=[0.56568545, 1.1313709, 0.15909901, -0.15909901, 1.4849242, 1.9798989, 0.42426407,
                -0.42426407],
        present_state=[0.5926546, 1.1853092, 2.1, 2.8, 0.51402664, -0.51402664, -0.0859734,
                       0.0859734],
    ),
    _example(
        "gated-delta-beta-scalar", "One beta for all heads.",
        ("beta-shared",),
        dict(update_rule="gated_delta", q_num_heads=2, kv_num_heads=2),
        dict(query=QUERY, key=KEY, value=VALUE, decay=PER_KEY, beta=BETA[..., :1]),
        output=[0.56568545, 1.1313709, 0.14142136, -0.14142136, 1.4849242, 1.9798989, 0.49883345,
                -0.49883345],
        present_state=[0.7609836, 1.5219672, 2.1, 2.8, 0.5206724, -0.5206724, -0.18478464,
                       0.18478464],
    ),
    _example(
        "gated-delta-gqa", "Two query heads share each state, rule gated_delta.",
        ("tile-for-repeat", "output-heads"),
        dict(update_rule="gated_delta", q_num_heads=4, kv_num_heads=2),
        dict(query=QUERY_4, key=KEY, value=VALUE, decay=PER_KEY, beta=BETA),
        output=[0.56568545, 1.1313709, 0.28284273, 0.56568545, 0, 0, 0.07954951, -0.07954951,
                1.4849242, 1.9798989, -0.94682753, -0.90370566, 0.13359852, -0.13359852,
                -0.21446955, 0.21446955],
        present_state=[0.7609836, 1.5219672, 2.1, 2.8, 0.49224257, -0.49224257, -0.11436889,
                       0.11436889],
    ),
    _example(
        "gated-delta-mqa", "All four query heads share one state.",
        ("output-heads",),
        dict(update_rule="gated_delta", q_num_heads=4, kv_num_heads=1),
        dict(query=QUERY_4, key=QUERY[..., :2], value=VALUE[..., :2], decay=PER_KEY[..., :2],
             beta=BETA[..., :1]),
        output=[0.56568545, 1.1313709, 0.28284273, 0.56568545, -0.56568545, -1.1313709, 0.11313709,
                0.22627418, 1.4849242, 1.9798989, -0.94682753, -0.90370566, 1.0115104, 1.5280461,
                0.47341377, 0.45185283],
        present_state=[0.7609836, 1.5219672, 2.1, 2.8],
    ),
    _example(
        "gated-per-head-decay", "Rule gated, one gate per head, under its second name.",
        ("transposed-state",),
        dict(update_rule="gated", q_num_heads=2, kv_num_heads=2),
        dict(query=QUERY, key=KEY, value=VALUE, decay=PER_HEAD),
        output=[0.70710677, 1.4142135, 0.17677669, -0.17677669, 2.1213202, 2.828427, 0.70710677,
                -0.70710677],
        present_state=[0.7408182, 1.4816364, 3, 4, 0.7378074, -0.7378074, -0.26219264, 0.26219264],
    ),
    _example(
        "gated-perdim-decay", "Rule gated, one gate per key.",
        ("transposed-state",),
        dict(update_rule="gated", q_num_heads=2, kv_num_heads=2),
        dict(query=QUERY, key=KEY, value=VALUE, decay=PER_KEY),
        output=[0.70710677, 1.4142135, 0.17677669, -0.17677669, 2.1213202, 2.828427, 0.7145273,
                -0.7145273],
        present_state=[0.95122945, 1.9024589, 3, 4, 0.715177, -0.715177, -0.2953173, 0.2953173],
    ),
    _example(
        "gqa", "Two query heads share each state, rule linear.",
        ("tile-for-repeat", "output-heads"),
        dict(update_rule="linear", q_num_heads=4, kv_num_heads=2),
        dict(query=QUERY_4, key=KEY, value=VALUE),
        output=[0.70710677, 1.4142135, 0.35355338, 0.70710677, 0, 0, 0.08838835, -0.08838835,
                2.1213202, 2.828427, -1.4142135, -1.4142135, 0.17677669, -0.17677669, -0.35355338,
                0.35355338],
        present_state=[1, 2, 3, 4, 0.75, -0.75, -0.25, 0.25],
    ),
    _example(
        "linear", "Rule linear.",
        ("transposed-state",),
        dict(update_rule="linear", q_num_heads=2, kv_num_heads=2),
        dict(query=QUERY, key=KEY, value=VALUE),
        output=[0.70710677, 1.4142135, 0.17677669, -0.17677669, 2.1213202, 2.828427, 0.70710677,
                -0.70710677],
        present_state=[1, 2, 3, 4, 0.75, -0.75, -0.25, 0.25],
    ),
    _example(
        "linear-t1-no-past", "One token without a past state.",
        ("short-sequence",),
        dict(update_rule="linear", q_num_heads=2, kv_num_heads=2),
        dict(query=QUERY[:, :1], key=KEY[:, :1], value=VALUE[:, :1]),
        output=[0.70710677, 1.4142135, 0.17677669, -0.17677669],
        present_state=[1, 2, 0, 0, 0.25, -0.25, 0.25, -0.25],
    ),
    _example(
        "no-past-explicit-zeros", "A past state of zeros is no past state.",
        ("error-before-decay", "transposed-state"),
        dict(update_rule="gated_delta", q_num_heads=2, kv_num_heads=2),
        dict(query=QUERY, key=KEY, value=VALUE, past_state=np.zeros((1, 2, 2, 2)), decay=PER_KEY,
             beta=BETA),
        output=[0.56568545, 1.1313709, 0.15909901, -0.15909901, 1.4849242, 1.9798989, 0.4289391,
                -0.4289391],
        present_state=[0.7609836, 1.5219672, 2.1, 2.8, 0.49224257, -0.49224257, -0.11436889,
                       0.11436889],
    ),
    _example(
        "prefill-with-past", "Two tokens from a past state, rule gated_delta.",
        ("state-one-token", "transposed-state"),
        dict(update_rule="gated_delta", q_num_heads=2, kv_num_heads=2),
        dict(query=QUERY, key=KEY, value=VALUE, past_state=PAST, decay=PER_KEY, beta=BETA),
        output=[0.6296671, 1.0673892, 0.23798102, -0.02875237, 1.4849242, 2.0584745, 0.8784764,
                -0.7037207],
        present_state=[0.84705436, 1.4358964, 2.1, 2.9111228, 0.9150809, -0.53878486, -0.32727236,
                       0.45642647],
    ),
    _example(
        "with-past-state", "Two tokens from a past state, rule linear.",
        ("state-one-token", "transposed-state"),
        dict(update_rule="linear", q_num_heads=2, kv_num_heads=2),
        dict(query=QUERY, key=KEY, value=VALUE, past_state=PAST),
        output=[1.0606601, 1.0606601, 0.35355338, 0.17677669, 2.1213202, 3.1819804, 1.767767,
                -1.4142135],
        present_state=[1.5, 1.5, 3, 4.5, 1.75, -0.75, -0.75, 1.25],
    ),
)
