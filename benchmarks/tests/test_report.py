"""What a run writes: JSON that can be read again, a page and pictures."""

import json
from dataclasses import replace
from types import SimpleNamespace

from benchmarks import limits, pictures, readme, report
from benchmarks.measurement import Measurement
from benchmarks.problems import Problem
from benchmarks.targets import TARGETS

RUN = SimpleNamespace(versions={"numpy": "2"}, absent={"keras-hub": "not installed"})


def measurements():
    """A field at two lengths, softmax attention, and a contender that is wrong."""
    for tokens in (1024, 2048, 4096):
        for which in ("forward", "gradient"):
            for name, cost in (("torch-eager-parallel", 1e-6), ("transformers-chunk", 4e-6)):
                seconds = [cost * tokens * noise for noise in (1.0, 1.1, 3.0)]
                problem = Problem("gated_delta", (1, tokens, 8, 64))
                m = Measurement(name, problem, which, seconds, 1.0, {"output": 1e-7}, 2**20)
                yield m
        softmax = Problem("softmax", (1, tokens, 8, 64))
        yield Measurement("torch-softmax", softmax, "forward", [1e-9 * tokens**2], 1.0)
    square = Problem("matmul", (1, 1024, 1, 1024))
    yield Measurement("torch-matmul", square, "forward", [2 * 1024**3 / 50e9])
    yield Measurement("numpy-copy", Problem("copy", (1, 1024, 8, 64)), "forward", [2**22 / 8e9])
    for name, rule, microseconds in (
        ("numpy-copy", "copy", 25),
        ("torch-copy", "copy", 50),
        ("torch-eager-auto", "gated_delta", 100),
    ):
        seconds = 200 * microseconds * 1e-6
        yield Measurement(name, Problem(rule, (1, 200, 16, 128)), "step", [seconds])
    yield Measurement("wrong", problem, "forward", reason="off", errors={"output": float("inf")})


def test_results_can_be_read_again(tmp_path):
    found = list(measurements())
    report.write(tmp_path / "results.json", {"cores": 2}, RUN, found, TARGETS)
    text = (tmp_path / "results.json").read_text()
    assert report.read(tmp_path / "results.json")["measurements"] == found
    document = json.loads(text, parse_constant=lambda name: 1 / 0)  # no NaN, no Infinity
    assert document["absent"] == RUN.absent
    assert document["measurements"][0]["median"] == 1.1e-6 * 1024
    ratios = {x["name"]: x["ratio"] for x in document["targets"]}
    assert round(ratios["torch than transformers, forward"], 6) == 4
    (step,) = (x for x in document["targets"] if x["name"].startswith("torch-eager-auto, a step"))
    assert (step["ratio"], step["met"], step["bound"]) == (4, False, 2)


def test_the_page_has_every_measurement_and_every_reason(tmp_path):
    found = list(measurements())
    drawn = pictures.draw(tmp_path, found)
    assert set(drawn) == {"time.png", "memory.png", "speedup.png", "softmax.png"}
    assert all((tmp_path / name).stat().st_size > 10_000 for name in drawn)
    path = tmp_path / "README.md"
    readme.write(path, {"cores": 2}, RUN.versions, RUN.absent, found, TARGETS, drawn)
    page = path.read_text()
    assert "absent: keras-hub, because not installed" in page
    assert "Not timed: wrong, off." in page
    assert page.count("| torch-eager-parallel |") == 6
    assert "| torch-matmul, matmul 1×1024×1×1024 float32 | 50 |  |  |" in page
    assert "| numpy-copy, copy 1×1024×8×64 float32 |  | 8.0 |  |" in page
    step = "| torch-eager-auto, a step to a copy of its state | ≤ 3 | 4"
    assert f"{step} | **no** |" in page
    assert f"{step} | 2 | a call that reads the state and writes it |" in page
    assert page.count("| torch than transformers, forward |") == 1
    assert "| numpy-copy, a step |  |  | 25.0 |" in page


def test_the_share_is_of_the_fastest_large_product():
    found = list(measurements())
    fastest = limits.rate(found)
    assert round(fastest) == 50e9
    (m,) = (m for m in found if m.contender == "torch-matmul")
    assert limits.share(m, fastest) == 1
    twice_as_slow = replace(m, seconds=[2 * m.median])
    assert limits.share(twice_as_slow, fastest) == 0.5
    assert limits.rate([]) is None
    assert limits.share(m, None) is None
    assert limits.share(replace(m, which="step"), fastest) is None


def test_no_picture_is_drawn_of_nothing(tmp_path):
    assert pictures.draw(tmp_path, []) == {}
