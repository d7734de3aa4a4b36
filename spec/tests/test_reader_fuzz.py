"""Whatever a folder holds, the reader gives what is there or one FixtureError.

10,000 inputs: bytes, headers, valid files that are cut, spliced and edited, and whole folders.
What is accepted must be read alike by the safetensors library and follow the JSON Schema. No file
outside the folder may be opened, and nothing run.
"""

import json
import pickle
import re
import sys
from contextlib import contextmanager
from pathlib import Path

import jsonschema
import numpy as np
import pytest
import safetensors
import safetensors.numpy
from damage import edited_bytes, edited_file, edited_json, file, tensors
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_folder import FOLDER, contents, index, make

from linattn_spec.fixtures import FixtureError, load_cases
from linattn_spec.safetensors_format import NAMES, decode, encode

VALIDATOR = jsonschema.Draft202012Validator(
    json.loads((FOLDER / "manifest.schema.json").read_text())
)
FILES = contents(
    [
        "linear-attention-gated-delta-edge-16-length-15-float32",  # generated, with tokens
        "tiny-two-calls-float64",
        "invalid-elu-plus-one-x-int32",
    ]
)


def fuzz(examples):
    checks = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
    return settings(
        max_examples=examples, deadline=None, derandomize=True, suppress_health_check=checks
    )


# A generator of its own for each input: drawing every choice by itself would take far longer.
RANDOMS = st.randoms(use_true_random=True)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


def refused(error, source):
    """An error of one printable line that begins with the name of the file."""
    text = str(error)
    assert re.match(source, text), text
    assert len(text.encode()) < 700
    assert text.isprintable()


def check_bytes(data):
    try:
        ours = decode(data, "the file")
    except FixtureError as error:
        refused(error, "the file: ")
        return
    theirs = dict(safetensors.deserialize(data))
    assert set(ours) == set(theirs)
    for name, x in ours.items():
        parts = {"dtype": NAMES[x.dtype], "shape": list(x.shape), "data": x.tobytes()}
        assert parts == theirs[name]
    start = 8 + int.from_bytes(data[:8], "little")
    assert sum(x.nbytes for x in ours.values()) == len(data) - start
    again = encode(ours)
    assert encode(decode(again)) == again


@fuzz(1500)
@given(st.binary(max_size=100))
def test_any_bytes(data):
    check_bytes(data)


@fuzz(1000)
@given(st.binary(max_size=60) | JSON.map(json.dumps).map(str.encode), st.binary(max_size=20))
def test_any_header(header, data):
    check_bytes(file(header, data))


@fuzz(5500)
@given(RANDOMS)
def test_a_damaged_file(random):
    check_bytes(edited_file(random))


@fuzz(500)
@given(RANDOMS)
def test_a_valid_file(random):
    """So that the others do not pass by refusing everything."""
    arrays = tensors(random)
    back = decode(encode(arrays))
    assert list(back) == sorted(arrays)
    for name, array in arrays.items():
        assert (back[name].dtype, back[name].shape) == (array.dtype, array.shape)
        assert back[name].tobytes() == array.tobytes()
    check_bytes(encode(arrays))


# --- whole folders


class Watch:
    """What Python reports of files opened and code run while this is on."""

    RUN = ("exec", "compile", "os.system", "os.exec", "subprocess", "pickle", "ctypes", "socket")

    def __init__(self):
        self.events = None
        sys.addaudithook(self._hook)  # for good: there is no way to take it away

    def _hook(self, event, arguments):
        if self.events is not None and (event == "open" or event.startswith(self.RUN)):
            self.events.append((event, arguments[0] if arguments else None))

    @contextmanager
    def __call__(self, folder):
        self.events = []
        try:
            yield
        finally:
            events, self.events = self.events, None
            outside = [e for e in events if e[0] != "open" or not inside(e[1], folder)]
            assert not outside


def inside(path, folder):
    return isinstance(path, (str, bytes, Path)) and Path(str(path)).resolve().is_relative_to(folder)


@pytest.fixture(scope="module")
def watch():
    return Watch()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz").resolve() / "fixtures"
    make(folder, FILES)
    # What the damage may refer to.
    secret = folder.parent / "secret.safetensors"
    secret.write_bytes(FILES["cases/invalid-elu-plus-one-x-int32.safetensors"])
    load_cases(directory=folder)  # whatever Python loads late is loaded now
    return folder


def damaged_files(random):
    """What two files hold instead: one is damaged, and the index knows of it, in nine of ten."""
    path = random.choice(["manifest.json"] * 9 + sorted(FILES))
    if path.endswith(".json") and random.randrange(5):
        data = edited_json(FILES[path], random)
    else:
        data = edited_bytes(FILES[path], random)
    changed = FILES | {path: data}
    if path != "index.sha256" and random.randrange(10):
        del changed["index.sha256"]
        changed["index.sha256"] = index(changed)
    return {path: changed[path], "index.sha256": changed["index.sha256"]}


BEGINNINGS = (
    r"(manifest|versions|flags)\.json: |index\.sha256: |cases/[a-z0-9-]+\.safetensors: |"
    r"manifest\.json lacks \[|version must be one of \["
)


@fuzz(1500)
@given(random=RANDOMS)
def test_a_damaged_folder(folder, watch, random):
    changed = damaged_files(random)
    for path, data in changed.items():
        (folder / path).write_bytes(data)
    try:
        with watch(folder):
            cases = load_cases(directory=folder)
    except FixtureError as error:
        refused(error, BEGINNINGS)
    else:
        check_cases(cases, folder)
    finally:
        for path in changed:
            (folder / path).write_bytes(FILES[path])


def check_cases(cases, folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    VALIDATOR.validate(manifest)
    wanted = json.loads((folder / "versions.json").read_text())["linattn-1"]
    entries = [entry for entry in manifest["cases"] if entry["id"] in wanted]
    assert [case.id for case in cases] == [entry["id"] for entry in entries]
    for case, entry in zip(cases, entries, strict=True):
        read = {f"input.{name}": x for name, x in case.inputs.items()}
        for group in ("output", "cotangent", "gradient"):
            read |= {f"{group}.{name}": x for name, x in getattr(case, f"{group}s").items()}
        stored = safetensors.numpy.load_file(folder / entry["file"])
        assert set(read) == set(stored) | set(entry["generated"])
        for name, x in stored.items():
            np.testing.assert_array_equal(read[name], x, strict=name.startswith("input."))


def test_the_watch_sees_what_is_opened_and_run(folder, watch):
    with watch(folder):
        (folder / "manifest.json").read_bytes()
    for trespass in (
        (folder.parent / "secret.safetensors").read_bytes,
        lambda: eval("1 + 1"),
        lambda: pickle.loads(pickle.dumps(Path)),
    ):
        with pytest.raises(AssertionError), watch(folder):
            trespass()
