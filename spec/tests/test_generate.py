"""What is in the fixtures folder is what the generator writes, and --check knows the difference."""

import json
from dataclasses import replace

import numpy as np
import pytest

from linattn_spec.fixtures import fixtures_directory, load_cases
from linattn_spec.generate import __main__ as command
from linattn_spec.generate import catalogue, feature_maps, linear_attention, released, tiny
from linattn_spec.generate.__main__ import main, write
from linattn_spec.generate.check import PLATFORM, problems
from linattn_spec.generate.write import files, index
from linattn_spec.safetensors_format import decode, encode

# Of every kind of file some: the longest cases take a minute.
_MODULES = (linear_attention, feature_maps, tiny)
CASES = [case for module in _MODULES for x in module.scenarios() for case in x.cases()]
GENERATED = files(CASES)
FILE = "cases/linear-attention-gated-delta-float64.safetensors"


@pytest.fixture
def folder(tmp_path):
    write(tmp_path, GENERATED)
    return tmp_path


def rewrite(folder, change):
    """Changes the tensors of one file, and the index with it."""
    tensors = {name: x.copy() for name, x in decode((folder / FILE).read_bytes()).items()}
    change(tensors)
    (folder / FILE).write_bytes(encode(tensors))
    present = {path: (folder / path).read_bytes() for path in GENERATED if path != "index.sha256"}
    (folder / "index.sha256").write_bytes(index(present))


def test_the_committed_fixtures_are_as_generated():
    assert problems(fixtures_directory(), files(catalogue.cases())) == []


def test_generating_twice_gives_the_same_bytes():
    again = [case for module in _MODULES for x in module.scenarios() for case in x.cases()]
    assert files(again) == GENERATED


def test_what_is_written_loads(folder):
    assert [case.id for case in load_cases(directory=folder)] == [case.id for case in CASES]
    assert problems(folder, GENERATED) == []


def test_writing_removes_what_is_no_longer_generated_and_keeps_the_readme(folder):
    (folder / "cases" / "old.safetensors").write_bytes(b"")
    (folder / "README.md").write_text("by hand")
    write(folder, GENERATED)
    assert not (folder / "cases" / "old.safetensors").exists()
    assert (folder / "README.md").read_text() == "by hand"


def test_the_command_writes_and_checks(folder, capsys, monkeypatch):
    monkeypatch.setattr(command, "cases", lambda: CASES)
    monkeypatch.setattr(released, "read", dict)
    arguments = ["--directory", str(folder)]
    assert main([*arguments, "--check"]) == 0
    (folder / FILE).unlink()
    assert main([*arguments, "--check"]) == 1
    assert f"{FILE}: is missing" in capsys.readouterr().out
    assert not (folder / FILE).exists()
    assert main(arguments) == 0
    assert main([*arguments, "--check"]) == 0


def test_check_finds_a_missing_and_a_surplus_file(folder):
    (folder / FILE).rename(folder / "cases" / "new.safetensors")
    found = problems(folder, GENERATED)
    assert f"{FILE}: is missing" in found
    assert "cases/new.safetensors: is not generated" in found


@pytest.mark.parametrize("path", ["manifest.json", "manifest.schema.json", "flags.json"])
def test_check_finds_an_edited_text(folder, path):
    (folder / path).write_bytes((folder / path).read_bytes().replace(b"the", b"teh", 1))
    found = problems(folder, GENERATED)
    assert f"{path}: differs" in found
    assert "index.sha256: does not have the hashes of the files beside it" in found


def test_check_finds_one_edited_bit_of_an_input_or_a_cotangent(folder):
    for name in ("input.query", "cotangent.output"):

        def flip(tensors, name=name):
            tensors[name].view(np.uint8).ravel()[0] ^= 1

        rewrite(folder, flip)
        assert problems(folder, GENERATED) == [f"{FILE}: {name} differs"]
        rewrite(folder, flip)


def test_check_finds_an_edited_result_but_not_the_last_bits_of_another_platform(folder):
    for name in ("output.output", "gradient.beta"):

        def nudge(tensors, size, name=name):
            tensors[name].ravel()[0] += size * PLATFORM * np.max(np.abs(tensors[name]))

        rewrite(folder, lambda tensors, nudge=nudge: nudge(tensors, 0.01))
        assert problems(folder, GENERATED) == []
        rewrite(folder, lambda tensors, nudge=nudge: nudge(tensors, 10))
        assert problems(folder, GENERATED) == [f"{FILE}: {name} differs"]
        write(folder, GENERATED)


def test_check_finds_a_renamed_tensor_and_another_dtype(folder):
    rewrite(folder, lambda tensors: tensors.update({"input.k": tensors.pop("input.key")}))
    assert problems(folder, GENERATED) == [f"{FILE}: holds other tensors"]
    write(folder, GENERATED)
    rewrite(folder, lambda t: t.update({"output.output": t["output.output"].astype(np.float32)}))
    assert problems(folder, GENERATED) == [f"{FILE}: output.output differs"]


def test_check_finds_a_damaged_file(folder):
    (folder / FILE).write_bytes((folder / FILE).read_bytes()[:-1])
    assert any(found.startswith(f"{FILE}: truncated") for found in problems(folder, GENERATED))


def test_an_id_used_twice_or_after_it_was_withdrawn_is_refused(monkeypatch):
    monkeypatch.setattr(catalogue, "_SCENARIOS", (feature_maps,))
    taken = catalogue.cases()[0].id
    monkeypatch.setattr(catalogue, "WITHDRAWN", (taken,))
    with pytest.raises(ValueError, match=taken):
        catalogue.cases()
    monkeypatch.setattr(catalogue, "WITHDRAWN", ())
    monkeypatch.setattr(catalogue, "_SCENARIOS", (feature_maps, feature_maps))
    with pytest.raises(ValueError, match=taken):
        catalogue.cases()


def test_the_manifest_is_readable_text():
    manifest = GENERATED["manifest.json"].decode()
    assert json.loads(manifest)["cases"]
    assert manifest.count("\n") > 1000


def test_check_finds_a_tiny_case_whose_text_is_not_its_file(folder):
    path = "tiny/tiny-gated-float64.json"
    text = (folder / path).read_text()
    (folder / path).write_text(text.replace('bits": ["3ff', 'bits": ["3fe', 1))
    found = problems(folder, GENERATED)
    assert f"{path}: differs from cases/tiny-gated-float64.safetensors" in found


# --- what a release promises


def changed(case, **changes):
    return [replace(x, **changes) if x is case else x for x in CASES]


def noted(tmp_path, monkeypatch):
    """The cases of this file as those of a release."""
    monkeypatch.setattr(released, "FILE", tmp_path / "released.json")
    released.FILE.write_text("{}")
    assert released.release(CASES, "0.1.0") == len(CASES)
    assert released.release(CASES, "0.2.0") == 0
    return released.read()


def test_every_case_of_a_release_is_still_the_same_call():
    assert released.broken_promises(load_cases(), released.read(), catalogue.WITHDRAWN) == []
    assert sum(entry["release"] == "0.1.0" for entry in released.read().values()) == 432


@pytest.mark.parametrize(
    "changes",
    [
        {"operator": "linear_attention_step"},
        {"arguments": {"update_rule": "gated", "chunk_size": 8}},
        {"parts": (5, 6)},
        {"error": ("ValueError", "^x$")},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_an_id_of_a_release_cannot_become_another_call(changes, tmp_path, monkeypatch):
    before = noted(tmp_path, monkeypatch)
    assert released.broken_promises(CASES, before, ()) == []
    (broken,) = released.broken_promises(changed(CASES[0], **changes), before, ())
    assert broken.startswith(f"{CASES[0].id}: is another call than in release 0.1.0")


@pytest.mark.parametrize("group", ["inputs", "cotangents"])
def test_an_id_of_a_release_keeps_every_bit_of_its_tensors(group, tmp_path, monkeypatch):
    before = noted(tmp_path, monkeypatch)
    tensors = {name: x.copy() for name, x in getattr(CASES[0], group).items()}
    next(iter(tensors.values())).view(np.uint8).ravel()[0] ^= 1
    assert len(released.broken_promises(changed(CASES[0], **{group: tensors}), before, ())) == 1


def test_sentence_results_and_tolerances_may_change(tmp_path, monkeypatch):
    before = noted(tmp_path, monkeypatch)
    better = changed(CASES[0], summary="Better.", outputs={}, tolerances={}, flags=())
    assert released.broken_promises(better, before, ()) == []


def test_a_case_of_a_release_may_go_only_when_it_is_withdrawn(tmp_path, monkeypatch):
    before, gone = noted(tmp_path, monkeypatch), CASES[0].id
    (broken,) = released.broken_promises(CASES[1:], before, ())
    assert gone in broken
    assert released.broken_promises(CASES[1:], before, (gone,)) == []


def test_the_command_writes_nothing_that_breaks_a_promise(folder, tmp_path, monkeypatch, capsys):
    before = noted(tmp_path, monkeypatch)
    monkeypatch.setattr(command, "cases", lambda: changed(CASES[0], parts=(5, 6)))
    monkeypatch.setattr(released, "read", lambda: before)
    (folder / FILE).unlink()
    assert main(["--directory", str(folder)]) == 1
    assert CASES[0].id in capsys.readouterr().out
    assert not (folder / FILE).exists()


def test_nothing_is_written_into_a_folder_that_holds_something_else(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "cases", lambda: CASES)
    monkeypatch.setattr(released, "read", dict)
    thesis = tmp_path / "chapters" / "one.tex"
    thesis.parent.mkdir()
    thesis.write_text("years of work")
    assert main(["--directory", str(tmp_path)]) == 1
    assert "chapters/one.tex" in capsys.readouterr().out
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [thesis]
