"""Lines of the log: what is written, and what is taken."""

import json
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnback.records.codec import BadLine, decode, decode_line, dumps, encode_group, loads
from turnback.records.events import Record, StoredRecord

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
records = st.builds(
    Record, st.text(min_size=1, max_size=20), st.dictionaries(st.text(), json_values, max_size=5)
)


def line_of(**members: Any) -> bytes:
    """A line with a right checksum and whatever members."""
    body = dumps(members)[:-1]
    return b'%b,"sum":"%08x"}' % (body, crc32(body))


GOOD: dict[str, Any] = {"seq": 3, "ts": 5, "type": "x", "data": {}, "left": 0}


# --- the form ------------------------------------------------------------------------------------------------------


def test_a_line_is_what_the_document_says() -> None:
    """One record alone is one JSON object with its members in order, and a checksum of all that is before it."""
    data = encode_group([Record("turn.started", {"agent": "a2", "turn": "t1"})], 7, 1794225850120)
    body = b'{"seq":7,"ts":1794225850120,"type":"turn.started","data":{"agent":"a2","turn":"t1"},"left":0'
    assert data == body + b',"sum":"%08x"}\n' % crc32(body)
    assert json.loads(data)["seq"] == 7


def test_a_group_counts_down() -> None:
    """In a group of three every line says how many are still to come and how many there are."""
    data = encode_group([Record("a", {}), Record("b", {}), Record("c", {})], 4, 9)
    lines = [json.loads(line) for line in data.splitlines()]
    assert [(line["seq"], line["left"], line["of"]) for line in lines] == [(4, 2, 3), (5, 1, 3), (6, 0, 3)]
    assert {line["ts"] for line in lines} == {9}
    assert [decode(line).group_start for line in data.splitlines()] == [4, 4, 4]


@given(st.lists(records, min_size=1, max_size=5), st.integers(1, 2**40), st.integers(0, 2**50))
def test_what_is_written_is_what_is_read(group: list[Record], first: int, ts: int) -> None:
    """Any records come out as they went in, numbered and in order, on lines without line ends inside."""
    lines = encode_group(group, first, ts).split(b"\n")
    assert lines.pop() == b""
    found = [decode_line(line) for line in lines]
    assert [record for record, _ in found] == [
        StoredRecord(first + index, ts, *record) for index, record in enumerate(group)
    ]
    assert [left for _, left in found] == list(range(len(group) - 1, -1, -1))


# --- what is refused -----------------------------------------------------------------------------------------------


@given(records, st.data())
def test_no_changed_byte_goes_unseen(record: Record, data: st.DataObject) -> None:
    """A line of which any byte is another one, or which is cut anywhere, is not taken."""
    line = encode_group([record], 1, 2).rstrip(b"\n")
    at = data.draw(st.integers(0, len(line) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != line[at]))
    for bad in (line[:at], line[:at] + bytes([other]) + line[at + 1 :]):
        with pytest.raises(BadLine):
            decode_line(bad)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_in_one_way(data: bytes) -> None:
    """Bytes that no writer wrote raise the one error that says so, and nothing else."""
    with pytest.raises(BadLine):
        decode_line(data)


@pytest.mark.parametrize(
    "members",
    [
        {"seq": 0},
        {"seq": True},
        {"seq": "3"},
        {"seq": 3.0},
        {"ts": None},
        {"left": 1},
        {"left": -1},
        {"left": 1, "of": 1},
        {"left": 0, "of": 4},
        {"of": 0},
        {"of": "1"},
        {"type": 3},
        {"type": None},
        {"data": []},
        {"data": None},
    ],
)
def test_a_right_checksum_is_not_enough(members: dict[str, Any]) -> None:
    """A line whose checksum fits is refused when a member can't be what it says."""
    decode_line(line_of(**GOOD))
    with pytest.raises(BadLine):
        decode_line(line_of(**(GOOD | members)))


@pytest.mark.parametrize("missing", sorted(GOOD))
def test_every_member_must_be_there(missing: str) -> None:
    """A line whose checksum fits is refused when a member is missing."""
    with pytest.raises(BadLine):
        decode_line(line_of(**{name: value for name, value in GOOD.items() if name != missing}))


@pytest.mark.parametrize("body", [b"[1", b'"', b"", b"7"])
def test_a_checksum_of_something_else_is_refused(body: bytes) -> None:
    """Something that is no object is refused although its checksum fits."""
    with pytest.raises(BadLine):
        decode_line(b'%b,"sum":"%08x"}' % (body, crc32(body)))


def test_a_member_that_a_newer_version_added_is_no_fault() -> None:
    """A line may have members that this version does not know."""
    record, left = decode_line(line_of(**GOOD, new="thing"))
    assert (record, left) == (StoredRecord(3, 5, "x", {}), 0)


# --- JSON for everybody --------------------------------------------------------------------------------------------


def test_json_is_compact_and_utf8() -> None:
    """No spaces, no escapes that aren't needed, order kept."""
    assert dumps({"b": [1, None], "a": "grün"}) == '{"b":[1,null],"a":"grün"}'.encode()
    assert loads(b'{"a":1}') == loads('{"a":1}') == {"a": 1}
    with pytest.raises(ValueError, match=r"unexpected|end"):
        loads(b'{"a"')


def test_lone_surrogates_never_stop_a_write() -> None:
    """A name that was decoded from bad bytes gets U+FFFD wherever it stands; a pair of halves becomes its character."""
    value = {"\udcff": ["a\udcffb", ("\ud83d\ude00",), {"k": "\udc80"}], "plain": 1}
    assert loads(dumps(value)) == {"\ufffd": ["a\ufffdb", ["\U0001f600"], {"k": "\ufffd"}], "plain": 1}
    group = encode_group([Record("note.pending", {"text": "\udcff"})], 1, 1)
    assert decode_line(group[:-1])[0].data == {"text": "\ufffd"}


@given(st.text(st.characters(categories=None), max_size=20))
def test_any_string_at_all_can_be_written(text: str) -> None:
    """Every string that Python can hold is written as JSON that can be read."""
    loads(dumps([text, {text: text}]))


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, {1: 2}, 2**64, {"a": {"\udcff": b"x"}}])
def test_what_json_cannot_hold_is_a_type_error(value: object) -> None:
    """Bytes, sets, keys that are no strings and giant integers are the caller's mistake."""
    with pytest.raises(TypeError):
        dumps(value)
