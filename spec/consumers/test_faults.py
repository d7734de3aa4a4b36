"""A consumer with one fault in its recurrence fails, so what it checks is the recurrence."""

import pytest
from consumers import MANIFEST, Copy, covered, prepared, run

# What to replace in each source, and by what.
FAULTS = {
    "the write decays too": {
        "javascript": (
            "+= k[i] * write[j]; // (3)",
            "+= k[i] * write[j] * (decays ? Math.exp(head(log_decay, b, t, h)[0]) : 1);",
        ),
        "c": (
            "+ k[i] * write); /* (3) */",
            "+ k[i] * write * (call->decays ? exp(*at(&call->log_decay, b, t, h)) : 1));",
        ),
    },
    "a decay per key is that of the first key": {
        "javascript": ("g[i % g.length]", "g[0]"),
        "c": ("g[call->log_decay.rank == 4 ? i : 0]", "g[0 * i]"),
    },
    "beta is ignored": {
        "javascript": ("write[j] *= strength;", "write[j] *= 1;"),
        "c": ("write = rounded(call, write * beta);", "(void)beta;"),
    },
    "the mask is ignored": {
        "javascript": ("if (isMasked(mask, T, b, t)) continue;", ""),
        "c": ("if (mask && !mask[n]) continue;", "(void)mask;"),
    },
    "segments leak": {
        "javascript": ("if (startsSegment(segment_ids, T, b, t)) S.fill(0);", ""),
        "c": ("if (starts) memset(S, 0, size * sizeof *S);", "(void)starts;"),
    },
    "query heads are tiled": {
        "javascript": ("Math.floor((o * Hq) / H)", "o % Hq"),
        "c": ("o * Hq / H)", "o % Hq)"),
    },
    "a scale of 0 is replaced": {
        "javascript": ("scale ??=", "scale ||="),
        "c": ("call.scale = is_null(scale)", "call.scale = is_null(scale) || scale->number == 0"),
    },
    "every part starts from the initial state": {
        "javascript": ("...part, ...given", "...part"),
        "c": (
            "linear_attention(&part, &read, state);",
            "Tensor fresh = shaped(4, state->shape, 1); linear_attention(&part, &read, &fresh);",
        ),
    },
}


@pytest.fixture(scope="module")
def short_cases(tmp_path_factory):
    """The cases of the recurrence in float64 that are stored in full."""
    return Copy(
        tmp_path_factory.mktemp("short") / "fixtures",
        [
            case
            for case in MANIFEST["cases"]
            if covered(case, "c") and case["dtype"] == "float64" and not case["generated"]
        ],
    )


def test_the_sources_without_a_fault_pass(consumer, short_cases):
    assert run(consumer, short_cases.folder).returncode == 0


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_recurrence_fails(language, fault, short_cases, tmp_path):
    right, wrong = FAULTS[fault][language]
    altered = []

    def alter(source):
        altered.append(right in source)
        return source.replace(right, wrong)

    process = run(prepared(language, tmp_path, alter), short_cases.folder)
    assert any(altered)
    assert process.returncode == 1, process.stderr
    assert process.stdout.startswith("FAILED ")
