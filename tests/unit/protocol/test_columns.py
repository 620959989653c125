"""A batch by columns says what it says message by message."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyromq.protocol.errors import MessageError
from pyromq.protocol.message import Message
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.records.batch import encode_batch, iter_batch
from pyromq.protocol.records.columns import batch_columns, property_columns

Items = list[tuple[int, bytes, bytes]]

MESSAGES = st.lists(
    st.builds(
        lambda body, flag, tags: Message("t", body, tags=tags, flag=flag),
        st.binary(max_size=40),
        st.integers(-(2**31), 2**31 - 1),
        st.sampled_from([None, "a", "größe"]),
    ),
    max_size=5,
)
# Four bytes anywhere, so that sizes and lengths become negative, huge or a little off.
NUMBERS = st.sampled_from([0, 1, 2, 19, 20, 21, 22, 23, 64, 2**31 - 1, 0xFFFFFFFF, 0x80000000])
CHANGES = st.lists(st.tuples(st.integers(0, 200), NUMBERS), max_size=2)


def one_by_one(data: bytes) -> Items | str:
    try:
        return [(item.flag, bytes(item.body), bytes(item.properties)) for item in iter_batch(data)]
    except MessageError as error:
        return str(error)


def by_columns(data: bytes) -> Items | str:
    try:
        columns = batch_columns(data)
    except MessageError as error:
        return str(error)
    for tail in columns.tails:
        assert int.from_bytes(tail[:2]) == len(tail) - 2
    return [(flag, body, tail[2:]) for flag, body, tail in zip(*columns, strict=True)]


@given(messages=MESSAGES, changes=CHANGES, cut=st.integers(0, 30), more=st.binary(max_size=30))
def test_a_batch_and_what_is_none(
    messages: list[Message], changes: list[tuple[int, int]], cut: int, more: bytes
) -> None:
    data = bytearray(encode_batch(messages))
    for at, number in changes:
        if at + 4 <= len(data):
            data[at : at + 4] = number.to_bytes(4)
    mutated = bytes(data[: max(len(data) - cut, 0)] + more)
    assert by_columns(mutated) == one_by_one(mutated)
    whole = encode_batch(messages)
    assert by_columns(whole) == one_by_one(whole)


@pytest.mark.parametrize("size", [0, 21, 22, -1, -(2**31)])
def test_a_size_that_would_not_get_further_is_refused(size: int) -> None:
    data = bytearray(encode_batch([Message("t", b"abc"), Message("t", b"")]))
    data[0:4] = size.to_bytes(4, signed=True)
    with pytest.raises(MessageError, match="batch item at 0"):
        batch_columns(bytes(data))


NAMES = st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "größe", "x"])
VALUES = st.text(st.sampled_from("aä \x01"), min_size=1, max_size=3)
PIECES = st.sampled_from(
    [
        b"TAGS\x01a\x02",
        b"TAGS\x01b\x02",
        b"x\x01y\x02",
        b"x\x01y",
        b"x\x01\x02",
        b"\x01y\x02",
        b"x\x02",
        b"\x02",
        b"\xff",
    ]
)


@st.composite
def alike(draw: st.DrawFn) -> list[bytes]:
    """Texts with the same names in the same order."""
    names = draw(st.lists(NAMES, unique=True, max_size=4))
    rows = draw(st.lists(st.tuples(*[VALUES] * len(names)), min_size=1, max_size=5))
    return ["".join(f"{name}\x01{value}\x02" for name, value in zip(names, row, strict=True)).encode() for row in rows]


def rows_of(columns: dict[str, list[str]], count: int) -> list[dict[str, str]]:
    return [{name: values[row] for name, values in columns.items()} for row in range(count)]


@given(alike())
def test_messages_with_the_same_properties_have_columns(texts: list[bytes]) -> None:
    columns = property_columns(texts)
    assert columns is not None
    assert rows_of(columns, len(texts)) == [decode_properties(text) for text in texts]


@given(st.one_of(st.lists(st.lists(PIECES, max_size=4).map(b"".join), max_size=4), alike()))
@example([b"x\x01y", b"TAGS\x01a\x02\x02x\x01y\x02TAGS\x01a\x02"])  # as many pieces as two whole ones have
@example([b"x\x01y\x02x\x01z\x02"])
@example([b"x\x01y\xe4\xbd\x02", b"x\x01\xa0z\x02"])
@example([])
def test_columns_are_never_wrong(texts: list[bytes]) -> None:
    columns = property_columns(texts)
    if columns is not None:
        assert rows_of(columns, len(texts)) == [decode_properties(text) for text in texts]
