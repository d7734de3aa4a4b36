"""JSON that two parsers could read differently, or that would hurt one, is refused."""

import pytest

from linattn_spec.strict_json import DEEPEST, LARGEST_INTEGER, parse

REFUSED = {
    "nothing": b"",
    "no UTF-8": b'"\xff"',
    "byte order mark": b"\xef\xbb\xbf{}",
    "UTF-16": "{}".encode("utf-16"),
    "two values": b"{} {}",
    "comma too many": b"[1,]",
    "control character in a text": b'"\n"',
    "key twice": b'{"a": 1, "a": 1}',
    "key twice, escaped": b'{"a": 1, "\\u0061": 1}',
    "key twice inside": b'[{"b": {"a": 1, "a": 2}}]',
    "NaN": b"NaN",
    "Infinity": b"[Infinity]",
    "-Infinity": b'{"a": -Infinity}',
    "beyond float64": b"1e999",
    "integer beyond float64's": b"9007199254740992",
    "negative integer beyond float64's": b"-9007199254740992",
    "integer of 5,000 digits": b"9" * 5000,
    "half a surrogate pair": b'"\\ud800"',
    "half a surrogate pair in a key": b'{"\\udfff": 1}',
    "nested a level too deep": b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1),
    "100,000 open lists": b"[" * 100_000,
    "100,000 open objects": b'{"a":' * 100_000,
    # A search for texts that starts anew at every quote takes the square of these lengths.
    "1,000,000 quotes in an open text": b'"' + b'\\"' * 1_000_000,
    "1,000,000 backslashes in an open text": b'"' + b"\\" * 1_000_001,
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
def test_what_is_not_strict_json_is_refused_in_few_printable_words(data):
    with pytest.raises(ValueError, match=r".") as raised:
        parse(data)
    assert len(str(raised.value).encode()) < 200


def test_what_every_parser_reads_alike_is_read():
    text = b' {"a": [1, -2.5e3, true, false, null, "[{\\"\\\\", "\\ud83d\\ude00"], "b": {"a": 0}}\n'
    value = {"a": [1, -2500.0, True, False, None, '[{"\\', "\U0001f600"], "b": {"a": 0}}
    assert parse(text) == value
    assert parse(str(-LARGEST_INTEGER).encode()) == -LARGEST_INTEGER
    assert parse(b"[" * DEEPEST + b"]" * DEEPEST)
    assert parse(b'"' + b"[" * 1000 + b'"') == "[" * 1000
