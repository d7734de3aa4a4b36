"""What is written is what runners read, and nothing that goes wrong with it goes unsaid."""

import filecmp
import json
import shutil
import sys
from dataclasses import replace

import check
import numpy as np
import onnx
import pytest
from directories import failure, read
from known_failures import KNOWN, surprises
from onnx import numpy_helper
from runtimes import RUNTIMES

from linattn_spec.fixtures import load_cases
from linattn_spec.onnx_node_tests import Call, node_test, obstacle
from linattn_spec.onnx_node_tests.__main__ import main as write_all
from linattn_spec.onnx_node_tests.write import write

TESTS = {test.name: test for test in (node_test(c) for c in load_cases() if obstacle(c) is None)}
PLAIN = TESTS["test_linattn_onnx_linear_attention_gated_delta_past_float32"]
BFLOAT16 = TESTS["test_linattn_onnx_linear_attention_gated_delta_past_bfloat16"]
EMPTY = TESTS["test_linattn_onnx_linear_attention_gated_delta_length_0_float32"]
IN_PARTS = TESTS["test_linattn_onnx_linear_attention_gated_delta_parts_5_7_float32"]
FEW = [PLAIN, BFLOAT16, EMPTY, IN_PARTS]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("written") / "node_tests"
    assert write_all([str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def results(directory):
    return check.run(directory, list(TESTS.values()))


def test_there_is_a_directory_for_every_test(directory):
    assert {path.name for path in directory.iterdir()} == TESTS.keys()


def test_no_failure_is_unknown_and_no_known_failure_passes(results):
    assert surprises(list(TESTS.values()), results) == []


def test_the_readme_lists_what_is_seen_to_fail(results):
    readme = (check.HERE / "README.md").read_text(encoding="utf-8")
    assert check.table(list(TESTS.values()), results) in readme


@pytest.mark.parametrize("test", FEW, ids=lambda test: test.name)
def test_equal_tests_are_equal_bytes(test, directory, tmp_path):
    write(test, tmp_path)
    files = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) >= 2 + len(test.calls) * 5
    same, different, missing = filecmp.cmpfiles(tmp_path, directory, files, shallow=False)
    assert (len(same), different, missing) == (len(files), [], [])


@pytest.mark.parametrize("test", FEW, ids=lambda test: test.name)
def test_what_is_read_back_is_what_was_to_be_written(test, directory):
    model, data_sets = read(directory / test.name)
    assert [(x.domain, x.version) for x in model.opset_import] == [("", 27)]
    assert model.ir_version == onnx.helper.find_min_ir_version_for(model.opset_import)
    assert [x.name for x in data_sets] == [f"test_data_set_{i}" for i in range(len(test.calls))]
    for call, data in zip(test.calls, data_sets, strict=True):
        for written, kept in ((call.inputs, data.inputs), (call.outputs, data.outputs)):
            assert list(written) == list(kept)
            for name, x in written.items():
                assert kept[name].dtype == x.dtype
                np.testing.assert_array_equal(kept[name], x)


@pytest.mark.parametrize("output", [0, 1])
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_wrong_expectation_is_reported_on_every_runtime(runtime, output, directory, tmp_path):
    shutil.copytree(directory / IN_PARTS.name, tmp_path / "planted" / IN_PARTS.name)
    plant(tmp_path / "planted" / IN_PARTS.name / "test_data_set_1" / f"output_{output}.pb")
    found = {runtime: RUNTIMES[runtime](tmp_path / "planted", [IN_PARTS])}
    (surprise,) = surprises([IN_PARTS], found)
    assert surprise.startswith(f"{runtime}: {IN_PARTS.name}: ")
    assert "passes" not in surprise


@pytest.mark.parametrize("k", KNOWN, ids=lambda k: f"{k.runtime}: {k.tests}")
def test_a_failure_that_is_taken_from_the_table_is_reported(k, results):
    table = tuple(other for other in KNOWN if other is not k)
    found = surprises(list(TESTS.values()), results, table)
    assert len(found) == sum(k.applies(test) for test in TESTS.values()) > 0
    assert all(surprise.startswith(f"{k.runtime}: ") for surprise in found)


def test_a_known_failure_that_passes_is_reported(results):
    wrong = replace(KNOWN[0], tests="everything", applies=lambda test: True)
    found = surprises([PLAIN], results, (*KNOWN, wrong))
    assert found == [f"{wrong.runtime}: {PLAIN.name}: passes, but is known to fail: everything"]


def test_a_known_failure_with_another_message_is_reported(results):
    wrong = tuple(replace(k, pattern="out of memory") for k in KNOWN)
    assert len(surprises([EMPTY], results, wrong)) == 2
    assert surprises([EMPTY], results) == []


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_an_empty_batch_fails_where_it_is_known(runtime, tmp_path):
    (call,) = PLAIN.calls
    none = Call(*({n: x[:0] for n, x in group.items()} for group in (call.inputs, call.outputs)))
    test = replace(PLAIN, calls=(none,))
    (tmp_path / "empty").mkdir()
    write(test, tmp_path / "empty")
    failures = {runtime: RUNTIMES[runtime](tmp_path / "empty", [test])}
    assert surprises([test], failures) == []
    known = [k for k in KNOWN if k.runtime == runtime and k.applies(test)]
    assert (failures[runtime][test.name] is not None) == bool(known)


@pytest.mark.parametrize(
    "answer",
    [
        lambda output, state: [output, state.astype(np.float64)],
        lambda output, state: [output[:, 1:], state],
        lambda output, state: [np.full_like(output, np.nan), state],
        lambda output, state: [output],
    ],
    ids=["dtype", "shape", "nan", "count"],
)
def test_an_answer_of_another_kind_is_a_failure(answer, directory):
    (call,) = PLAIN.calls
    _, data_sets = read(directory / PLAIN.name)
    given = answer(*call.outputs.values())
    assert failure(lambda inputs: given, data_sets, PLAIN.tolerances) is not None
    right = list(call.outputs.values())
    assert failure(lambda inputs: right, data_sets, PLAIN.tolerances) is None


def test_an_onnx_without_the_opset_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "linattn_spec.onnx_node_tests.write")
    monkeypatch.setattr(onnx.defs, "onnx_opset_version", lambda: 26)
    with pytest.raises(SystemExit, match="2"):
        write_all([str(tmp_path / "new")])
    message = f"onnx {onnx.__version__} does not know opset 27; needed is: pip install"
    assert message in capsys.readouterr().err


def test_the_command_fails_with_what_it_did_not_expect(directory, tmp_path, monkeypatch, capsys):
    (case,) = (c for c in load_cases() if PLAIN.name.endswith(c.id.replace("-", "_")))
    monkeypatch.setattr(check, "load_cases", lambda: [case])
    planted, results = tmp_path / "planted", tmp_path / "results.json"
    shutil.copytree(directory / PLAIN.name, planted / PLAIN.name)
    arguments = [str(planted), "--results", str(results)]
    assert check.main(arguments) == 0
    plant(planted / PLAIN.name / "test_data_set_0" / "output_0.pb")
    assert check.main(arguments) == 1
    assert f"onnxruntime, ai.onnx: {PLAIN.name}: test_data_set_0: " in capsys.readouterr().out
    failures = json.loads(results.read_text())["failures"]
    assert all(PLAIN.name in failures[runtime] for runtime in RUNTIMES)


def plant(file):
    """Makes one element of a tensor wrong, by twenty times the tolerance of float32."""
    x = numpy_helper.to_array(onnx.load_tensor(file)).copy()
    x.flat[3] += 1e-4 * np.max(np.abs(x))
    file.write_bytes(numpy_helper.from_array(x).SerializeToString())
