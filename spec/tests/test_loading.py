"""A fixtures folder is read from where it is, and a damaged one is refused with a clear error."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from small_folder import change_case, contents, hash_anew, make

from linattn_spec.fixtures import FixtureError, fixtures_directory, load_cases
from linattn_spec.folder import Folder, hashes
from linattn_spec.safetensors_format import encode

CASES = load_cases()


@pytest.fixture
def copy(tmp_path):
    """A copy of the folder with one case, to damage."""
    make(tmp_path / "fixtures", contents([CASES[0].id]))
    return tmp_path / "fixtures"


def test_a_copied_folder_is_read_from_where_it_is(copy):
    (case,) = load_cases(directory=copy)
    assert case.id == CASES[0].id
    np.testing.assert_array_equal(case.outputs["output"], CASES[0].outputs["output"])


def test_a_file_that_is_not_the_one_indexed_is_refused(copy):
    path = next((copy / "cases").iterdir())
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(FixtureError, match=rf"^cases/{path.name}: sha256 is "):
        load_cases(directory=copy)


@pytest.mark.parametrize("name", ["index.sha256", "manifest.json", "versions.json"])
def test_a_missing_file_is_refused(copy, name):
    (copy / name).unlink()
    with pytest.raises(FixtureError, match=rf"^{name}: No such file"):
        load_cases(directory=copy)


def test_a_missing_case_is_refused(copy):
    path = next((copy / "cases").iterdir())
    path.unlink()
    with pytest.raises(FixtureError, match=rf"^cases/{path.name}: No such file"):
        load_cases(directory=copy)


def test_an_edited_manifest_is_refused(copy):
    path = copy / "manifest.json"
    path.write_text(path.read_text().replace("1e-12", "1e-2"))
    with pytest.raises(FixtureError, match=r"^manifest\.json: sha256 is "):
        load_cases(directory=copy)


def test_a_file_that_is_not_indexed_is_refused(copy):
    shutil.copy(next((copy / "cases").iterdir()), copy / "cases" / "other.safetensors")
    manifest = json.loads((copy / "manifest.json").read_text())
    manifest["cases"][0]["file"] = "cases/other.safetensors"
    (copy / "manifest.json").write_text(json.dumps(manifest))
    hash_anew(copy)
    index = copy / "index.sha256"
    kept = [line for line in index.read_text().splitlines() if "other" not in line]
    index.write_text("\n".join(kept))
    with pytest.raises(FixtureError, match=r"^cases/other\.safetensors: not in index\.sha256"):
        load_cases(directory=copy)


OUTSIDE = ["../secret.safetensors", "cases/../../secret.safetensors", "/etc/passwd", "C:secret"]
NO_PATHS = [
    *OUTSIDE,
    "",
    ".",
    "..",
    "cases/",
    "cases//x",
    "./x",
    "cases\\x",
    "x\0",
    "x\n",
    "x " * 9,
    "é",
]


@pytest.mark.parametrize("path", NO_PATHS)
def test_a_path_that_leaves_the_folder_is_refused_by_its_form(copy, path):
    with pytest.raises(FixtureError, match="leaves the fixtures folder or is no plain path"):
        Folder(copy).read(path)
    index = copy / "index.sha256"
    index.write_text(f"{'0' * 64}  {path}\n" + index.read_text())
    with pytest.raises(FixtureError, match=r"^index\.sha256: line \d "):
        load_cases(directory=copy)


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_case_outside_the_folder_is_refused(copy, path):
    shutil.copy(next((copy / "cases").iterdir()), copy.parent / "secret.safetensors")
    change_case(copy, file=path)
    with pytest.raises(FixtureError, match=r"^manifest\.json: .*file must be a path of the form"):
        load_cases(directory=copy)


def test_a_link_out_of_the_folder_is_refused(copy):
    secret = copy.parent / "secret.safetensors"
    shutil.copy(next((copy / "cases").iterdir()), secret)
    (copy / "cases" / "link.safetensors").symlink_to(secret)
    change_case(copy, file="cases/link.safetensors")
    with pytest.raises(FixtureError, match=r"^cases/link\.safetensors: leaves the fixtures folder"):
        load_cases(directory=copy)


@pytest.mark.parametrize("name", ["cases", "index.sha256", "manifest.json"])
def test_a_part_of_the_folder_that_is_a_link_out_of_it_is_refused(copy, name):
    (copy / name).rename(copy.parent / name)
    (copy / name).symlink_to(copy.parent / name)
    with pytest.raises(FixtureError, match=rf"^{name}.*: leaves the fixtures folder"):
        load_cases(directory=copy)


def test_the_folder_itself_may_be_a_link(copy):
    (copy.parent / "link").symlink_to(copy)
    assert len(load_cases(directory=copy.parent / "link")) == 1


def in_place_of_the_case(copy):
    path = next((copy / "cases").iterdir())
    path.unlink()
    return path


def test_a_pipe_is_refused_without_waiting_for_it(copy):
    os.mkfifo(in_place_of_the_case(copy))
    with pytest.raises(FixtureError, match=r"^cases/.*: is not a regular file"):
        load_cases(directory=copy)


def test_a_directory_in_place_of_a_file_is_refused(copy):
    in_place_of_the_case(copy).mkdir()
    with pytest.raises(FixtureError, match=r"^cases/.*: is not a regular file"):
        load_cases(directory=copy)


def test_a_circle_of_links_is_refused(copy):
    path = in_place_of_the_case(copy)
    path.symlink_to(path.name)
    with pytest.raises(FixtureError, match=r"^cases/.*: (is a link to itself|Too many levels)"):
        load_cases(directory=copy)


@pytest.mark.parametrize("name", ["index.sha256", "manifest.json", "case"])
def test_a_file_of_many_gigabytes_is_refused_before_it_is_read(copy, name):
    path = next((copy / "cases").iterdir()) if name == "case" else copy / name
    os.truncate(path, 2**40)  # a hole: it takes no space
    with pytest.raises(FixtureError, match=r": is larger than 16,777,216 bytes"):
        load_cases(directory=copy)


def test_a_path_too_long_for_the_system_is_refused(copy):
    path = "/".join(["x" * 99] * 10) + "/" + "y" * 99
    index = copy / "index.sha256"
    index.write_text(index.read_text() + f"{'0' * 64}  {'a' * 100}/{'b' * 100}\n")
    with pytest.raises(FixtureError, match="is no plain path"):
        Folder(copy).read(path)
    with pytest.raises(FixtureError, match=r"No such file"):
        Folder(copy).read(f"{'a' * 100}/{'b' * 100}")


DIGEST = "0123456789abcdef" * 4
INDEXES = {
    "one space": f"{DIGEST} x\n",
    "binary mode": f"{DIGEST} *x\n",
    "upper case": f"{DIGEST.upper()}  x\n",
    "short hash": f"{DIGEST[1:]}  x\n",
    "no path": f"{DIGEST}  \n",
    "carriage return": f"{DIGEST}  x\r\n",
    "empty line": f"{DIGEST}  x\n\n",
    "line separator": f"{DIGEST}  x\u2028{DIGEST}  y\n",
    "the same path twice": f"{DIGEST}  x\n{DIGEST}  x\n",
    "the same path in capitals": f"{DIGEST}  x\n{DIGEST}  X\n",
    "no text": b"\xff",
    "one null": "\0",
}


@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
def test_an_index_that_is_not_hashes_and_plain_paths_is_refused(copy, index):
    (copy / "index.sha256").write_bytes(index.encode() if isinstance(index, str) else index)
    with pytest.raises(FixtureError, match=r"^index\.sha256: "):
        Folder(copy)


def test_an_index_may_be_empty_or_lack_its_last_newline(copy):
    assert hashes(b"") == {}
    assert hashes(f"{DIGEST}  a/b.c".encode()) == {"a/b.c": DIGEST}


@pytest.mark.parametrize("name", ["manifest.json", "versions.json", "flags.json"])
@pytest.mark.parametrize("text", [b"", b"[]", b"null", b"{", b'{"cases": NaN}', b"[" * 100_000])
def test_a_json_file_that_is_no_strict_object_is_refused(copy, name, text):
    (copy / name).write_bytes(text)
    hash_anew(copy)
    with pytest.raises(FixtureError, match=rf"^{name}: "):
        load_cases(directory=copy)


def test_a_tensor_of_no_group_is_refused(copy):
    path = next((copy / "cases").iterdir())
    path.write_bytes(encode({"query": np.ones(3)}))
    hash_anew(copy)
    with pytest.raises(FixtureError, match="tensor 'query' belongs to no group"):
        load_cases(directory=copy)


def test_an_unknown_version_is_refused_and_the_known_ones_are_named():
    with pytest.raises(FixtureError, match=r"one of \['linattn-1', 'onnx-27', .*\], got 'foo'"):
        load_cases("foo")


def test_a_generated_tensor_that_is_not_the_one_hashed_is_refused(tmp_path):
    make(
        tmp_path / "fixtures", contents(["linear-attention-gated-delta-edge-16-length-15-float32"])
    )
    manifest = json.loads((tmp_path / "fixtures" / "manifest.json").read_text())
    generated = manifest["cases"][0]["generated"]
    generated["input.query"]["seed"] += 1
    change_case(tmp_path / "fixtures", generated=generated)
    with pytest.raises(FixtureError, match=r"^manifest\.json: .*input\.query does not have "):
        load_cases(directory=tmp_path / "fixtures")


@pytest.mark.parametrize("ids", [["no-such-case"], [f"no-such-case-{i}" for i in range(1000)]])
def test_a_case_of_the_version_that_the_manifest_lacks_is_refused_in_few_words(copy, ids):
    (copy / "versions.json").write_text(json.dumps({"linattn-1": ids}))
    hash_anew(copy)
    with pytest.raises(FixtureError, match=r"lacks \['no-such-case") as raised:
        load_cases(directory=copy)
    assert len(str(raised.value)) < 300


def test_the_fixtures_beside_the_module_come_before_those_of_a_checkout(tmp_path, monkeypatch):
    package = tmp_path / "site" / "linattn_spec"
    package.mkdir(parents=True)
    monkeypatch.setattr("linattn_spec.fixtures.__file__", str(package / "fixtures.py"))
    with pytest.raises(FixtureError, match="no fixtures beside"):
        fixtures_directory()
    checkout = tmp_path / "fixtures"
    checkout.mkdir()
    monkeypatch.setattr("linattn_spec.fixtures.__file__", str(package / "fixtures.py"))
    assert fixtures_directory() == Path(checkout)
    (package / "fixtures_data").mkdir()
    assert fixtures_directory() == package / "fixtures_data"
