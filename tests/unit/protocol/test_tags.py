"""Java's string hash and what is derived from it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.protocol.records.tags import java_hash, tags_code


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TagA", 2598919),
        ("TagB", 2598920),
        ("TagC", 2598921),
        ("*", 42),
        ("", 0),
        ("中文", 646394),
        ("polygenelubricants", -2147483648),
        ("a😀", 1866116),
        ("TopicTest#KEY1", -1656969516),
        ("订单#键", 1085449374),
        ("OrderID188", -1566895736),
        ("order-1", -1207111310),
        ("user-7", -836031819),
    ],
)
def test_hash_values_of_a_jvm(text: str, expected: int) -> None:
    assert java_hash(text) == expected
    assert tags_code(text) == expected


def test_no_tag_has_code_zero() -> None:
    assert tags_code(None) == 0
    assert tags_code("") == 0


def test_long_tags_are_hashed_whole() -> None:
    text = "TagA || TagB" * 100
    assert tags_code(text) == java_hash(text)
    assert tags_code(text) != tags_code(text[:-1])


@given(st.text(st.characters()))
def test_hash_agrees_with_its_definition(text: str) -> None:
    units = text.encode("utf-16-le", "surrogatepass")
    expected = 0
    for i in range(0, len(units), 2):
        expected = 31 * expected + int.from_bytes(units[i : i + 2], "little")
    assert java_hash(text) == (expected + 2**31) % 2**32 - 2**31
