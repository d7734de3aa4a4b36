"""What is in the fixtures folder is what the generator writes, and --check knows the difference."""

import json

import numpy as np
import pytest

from linattn_spec.fixtures import fixtures_directory, load_cases
from linattn_spec.generate import __main__ as command
from linattn_spec.generate import catalogue, feature_maps
from linattn_spec.generate.__main__ import main, write
from linattn_spec.generate.check import PLATFORM, problems
from linattn_spec.generate.write import files, index
from linattn_spec.safetensors_format import decode, encode

GENERATED = files(catalogue.cases())
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
    assert problems(fixtures_directory(), GENERATED) == []


def test_generating_twice_gives_the_same_bytes():
    assert files(catalogue.cases()) == GENERATED


def test_what_is_written_loads(folder):
    assert [case.id for case in load_cases(directory=folder)] == [c.id for c in load_cases()]
    assert problems(folder, GENERATED) == []


def test_writing_removes_what_is_no_longer_generated_and_keeps_the_readme(folder):
    (folder / "cases" / "old.safetensors").write_bytes(b"")
    (folder / "README.md").write_text("by hand")
    write(folder, GENERATED)
    assert not (folder / "cases" / "old.safetensors").exists()
    assert (folder / "README.md").read_text() == "by hand"


def test_the_command_writes_and_checks(folder, capsys, monkeypatch):
    monkeypatch.setattr(command, "files", lambda cases: GENERATED)
    monkeypatch.setattr(command, "cases", list)
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
