"""Bytes to tensors and back: reproducible, as the safetensors library reads them, or refused."""

import json
import re

import numpy as np
import pytest
import safetensors.numpy

from linattn_spec.fixtures import FixtureError, fixtures_directory
from linattn_spec.safetensors_format import DTYPES, LARGEST, MOST_AXES, decode, encode

FOLDER = fixtures_directory()
FILES = sorted((FOLDER / "cases").iterdir())


def header(data):
    start = 8 + int.from_bytes(data[:8], "little")
    return json.loads(data[8:start]), data[start:]


def file(entries, data=b""):
    text = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(dtype="F32", shape=(1,), offsets=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_safetensors_library_reads_the_same(path):
    ours, theirs = decode(path.read_bytes()), safetensors.numpy.load_file(path)
    assert set(ours) == set(theirs)
    for name, tensor in ours.items():
        assert (tensor.dtype, tensor.shape) == (theirs[name].dtype, theirs[name].shape)
        assert tensor.tobytes() == theirs[name].tobytes()


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)], ids=str)
def test_what_is_written_is_read_back(dtype, shape):
    tensors = {"x": np.ones(shape, dtype), "a": np.zeros((5,), dtype)}
    back = decode(encode(tensors))
    for name, tensor in tensors.items():
        assert (back[name].dtype, back[name].shape) == (dtype, shape if name == "x" else (5,))
        np.testing.assert_array_equal(back[name], tensor)


def test_the_bytes_depend_on_the_tensors_alone():
    x, y = np.arange(6.0).reshape(2, 3), np.arange(3)
    assert encode({"x": x, "y": y}) == encode({"y": y.copy(), "x": np.asfortranarray(x)})
    entries, _ = header(encode({"y": y, "x": x}))
    assert list(entries) == ["x", "y"]


def test_the_reader_in_the_readme_reads_every_file():
    (code,) = re.findall(
        r"```python\n(import json\n.*?)```", (FOLDER / "README.md").read_text(), re.S
    )
    namespace = {}
    exec(code, namespace)
    for path in FILES:
        ours, theirs = decode(path.read_bytes()), namespace["read"](path)
        assert set(ours) == set(theirs)
        for name, tensor in ours.items():
            expected = tensor.astype(np.float32) if tensor.dtype.name == "bfloat16" else tensor
            assert expected.dtype == theirs[name].dtype
            np.testing.assert_array_equal(expected, theirs[name])


DAMAGED = {
    "empty": b"",
    "cut in the length": encode({"x": np.ones(3)})[:5],
    "cut in the header": encode({"x": np.ones(3)})[:20],
    "cut in the data": encode({"x": np.ones(3)})[:-1],
    "data too long": encode({"x": np.ones(3)}) + b"\0",
    "length beyond the file": (2**63).to_bytes(8, "little") + b"{}",
    "no json": file(b"{'x'"),
    "no text": file(b"\xff\xfe"),
    "no object": file([1]),
    "entry is no object": file({"x": 3}),
    "entry lacks a shape": file({"x": {"dtype": "F32", "data_offsets": [0, 4]}}, bytes(4)),
    "metadata": file({"__metadata__": {"format": "np"}}),
    "unknown dtype": file({"x": entry("F8_E4M3")}, bytes(4)),
    "dtype is no text": file({"x": entry(["F32"])}, bytes(4)),
    "shape larger than the bytes": file({"x": entry(shape=(2,))}, bytes(4)),
    "shape of huge numbers": file({"x": entry(shape=(2**40, 2**40))}, bytes(4)),
    "negative shape": file({"x": entry(shape=(-1,))}, bytes(4)),
    "shape of fractions": file({"x": entry(shape=(1.0,))}, bytes(4)),
    "shape of booleans": file({"x": entry(shape=(True,))}, bytes(4)),
    "negative offset": file({"x": entry(offsets=(-4, 0))}, bytes(4)),
    "backward offsets": file({"x": entry(offsets=(4, 0))}, bytes(4)),
    "three offsets": file({"x": entry(offsets=(0, 4, 8))}, bytes(8)),
    "offset beyond the file": file({"x": entry(offsets=(0, 4))}, bytes(3)),
    "gap": file({"x": entry(), "y": entry(offsets=(8, 12))}, bytes(12)),
    "gap at the front": file({"x": entry(offsets=(4, 8))}, bytes(8)),
    "overlap": file({"x": entry(), "y": entry(offsets=(0, 4))}, bytes(4)),
    "name twice": file(
        f'{{"x": {json.dumps(entry())}, "x": {json.dumps(entry())}}}'.encode(), bytes(4)
    ),
    "name twice, escaped": file(
        f'{{"x": {json.dumps(entry())}, "\\u0078": {json.dumps(entry())}}}'.encode(), bytes(4)
    ),
    "dtype twice": file(
        b'{"x": {"dtype": "F32", "dtype": "I32", "shape": [1], "data_offsets": [0, 4]}}', bytes(4)
    ),
    "no header": file(b""),
    "byte order mark": file(b"\xef\xbb\xbf{}"),
    "space before the header": file(b" {}"),
    "newline behind the header": file(b"{}\n"),
    "length of 2**64 - 1": (2**64 - 1).to_bytes(8, "little") + b"{}",
    "nested deeply": file(b'{"x":' * 100_000 + b"0" + b"}" * 100_000),
    "integer of 5,000 digits": file(b'{"x":' + b"9" * 5000 + b"}"),
    "shape of NaN": file(
        b'{"x": {"dtype": "F32", "shape": [NaN], "data_offsets": [0, 4]}}', bytes(4)
    ),
    "shape beyond any integer": file({"x": entry(shape=(0, 2**70), offsets=(0, 0))}),
    "shape with strides beyond any integer": file({"x": entry(shape=(0, 2**52), offsets=(0, 0))}),
    "shape whose parts overflow": file({"x": entry(shape=(2**52, 2**52, 0), offsets=(0, 0))}),
    "shape of 2,000 huge numbers": file({"x": entry(shape=(2**600,) * 2000)}),
    "more axes than NumPy has": file({"x": entry(shape=(1,) * (MOST_AXES + 1))}, bytes(4)),
    "offsets beyond any integer": file({"x": entry(offsets=(2**70, 2**70 + 4))}, bytes(4)),
    "offset is a boolean": file({"x": entry(offsets=(False, 4))}, bytes(4)),
    "offset is a fraction": file({"x": entry(offsets=(0.0, 4))}, bytes(4)),
    "metadata in the form of a tensor": file({"__metadata__": entry()}, bytes(4)),
    "name is empty": file({"": entry()}, bytes(4)),
    "name is half a surrogate pair": file({"\ud800": entry()}, bytes(4)),
    "name with a null": file({"x\0": entry()}, bytes(4)),
    "name of a million letters": file({"x" * 1_000_000: entry()}, bytes(4)),
    "dtype of a million letters": file({"x": entry("F" * 1_000_000)}, bytes(4)),
    "boolean of 2": file({"x": entry("BOOL", offsets=(0, 1))}, b"\2"),
}


@pytest.mark.parametrize("data", DAMAGED.values(), ids=DAMAGED)
def test_damaged_bytes_are_refused_by_name_in_few_printable_words(data):
    with pytest.raises(FixtureError, match=r"^broken\.safetensors: ") as raised:
        decode(data, "broken.safetensors")
    assert len(str(raised.value).encode()) < 300


def test_the_limits_are_no_tighter_than_they_say():
    for shape in [(1,) * MOST_AXES, (0, LARGEST // 4), (LARGEST // 4, 0)]:
        size = 4 * int(np.prod(shape))
        (x,) = decode(file({"x": entry(shape=shape, offsets=(0, size))}, bytes(size))).values()
        assert x.shape == shape
    assert list(decode(file(b'{"a.b_c-0": ' + json.dumps(entry()).encode() + b"}   ", bytes(4))))
