"""Damage done at random to bytes, JSON texts and safetensors files, by a `random.Random`."""

import json

import numpy as np

from linattn_spec.safetensors_format import DTYPES, encode

# Numbers, texts and literals that a parser, NumPy or a file system may trip over.
AWKWARD = [
    *(-1, 0, 1, 2, 3, 4, 8, 2**31, 2**32, 2**53 - 1, 2**53, 2**63 - 1, 2**63, 2**64, 10**4200),
    *(0.0, 1.0, -0.5, 1e308, float("inf"), float("-inf"), float("nan"), True, False, None),
    *("", "F32", "F8_E4M3", "BOOL", "shape", "dtype", "__metadata__", "\ud800", "\0", "x" * 300),
    *("output", "input.query", "relu", "../secret.safetensors", "/etc/passwd", "cases"),
    *("index.sha256", "cases/x.safetensors", "a\nb", "(a+)+$", "\u2028", "CON", "C:x"),
]
PIECES = [b"[" * 50, b"[" * 100_000, b"{", b"}", b'"', b"\\", b"NaN", b"\xff", b"9" * 5000, b"\0"]


def value(random, depth=3):
    """Any JSON value."""
    kind = random.randrange(6) if depth else 0
    if kind == 1:
        return [value(random, depth - 1) for _ in range(random.randrange(4))]
    if kind == 2:
        return {key(random): value(random, depth - 1) for _ in range(random.randrange(4))}
    return random.choice(AWKWARD) if kind else random.randrange(-9, 99)


def key(random):
    return random.choice([x for x in AWKWARD if isinstance(x, str)])


def edited_json(text, random):
    """The text with one to three of its values replaced, renamed, doubled or taken away."""
    edited = json.loads(text)
    for _ in range(random.choice([1, 1, 2, 3])):
        edited = _edited(edited, random)
    return json.dumps(edited).encode()


def _edited(old, random):
    if not isinstance(old, (dict, list)) or not old or random.randrange(12) == 0:
        return value(random)
    new = old.copy()
    where = random.choice(list(old)) if isinstance(old, dict) else random.randrange(len(old))
    action = random.choice(["edit"] * 9 + ["remove", "rename", "repeat"])
    if action == "edit":
        new[where] = _edited(old[where], random)
    elif action == "remove":
        del new[where]
    elif isinstance(old, list):
        new.append(old[where])
    elif action == "rename":
        new[key(random)] = new.pop(where)
    else:
        new[random.choice(list(old))] = old[where]
    return new


def edited_bytes(data, random):
    """The bytes with one to three bits flipped, or pieces cut out, doubled or put in."""
    for _ in range(random.choice([1, 1, 2, 3])):
        # A header and its length are at the front, so half of the damage is done there.
        start = random.randint(0, min(len(data), random.choice([200, len(data)])))
        end = min(len(data), start + random.choice([0, 1, 8, 20]))
        action = random.randrange(4)
        if action == 0 and start < len(data):
            flipped = data[start] ^ 1 << random.randrange(8)
            data = data[:start] + bytes([flipped]) + data[start + 1 :]
        elif action == 1:
            data = data[:start]
        else:
            piece = random.choice([*PIECES, b"", data[start:end] * 2, random.randbytes(5)])
            data = data[:start] + piece + data[end:]
    return data


def tensors(random):
    """A few small arrays of any dtypes, with any bits."""
    arrays = {}
    for name in random.sample(["x", "y", "input.query", "z.0"], random.randrange(5)):
        dtype = random.choice(list(DTYPES.values()))
        shape = [random.randrange(4) for _ in range(random.randrange(4))]
        data = random.randbytes(int(np.prod(shape)) * dtype.itemsize)
        if dtype == np.bool_:
            data = bytes(byte & 1 for byte in data)
        arrays[name] = np.frombuffer(data, dtype).reshape(shape)
    return arrays


def file(header, data):
    return len(header).to_bytes(8, "little") + header + data


def edited_file(random):
    """A safetensors file that was valid: damaged anywhere, or in its header alone."""
    data = encode(tensors(random))
    where = random.randrange(3)
    if where == 0:
        return edited_bytes(data, random)
    start = 8 + int.from_bytes(data[:8], "little")
    header = data[8:start]
    if where == 1:
        return file(edited_bytes(header, random), data[start:])
    padding = random.choice([b""] * 9 + [b" ", b"\n", b"\0", b"{}"])
    return file(edited_json(header, random) + padding, data[start:])
