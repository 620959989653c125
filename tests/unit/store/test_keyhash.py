"""The index hash against Java's definition of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.protocol.tags import java_hash
from pyromq.store.keyhash import KeyHasher, index_hash, text_hash


def expected(topic: str, key: str) -> int:
    h = abs(java_hash(f"{topic}#{key}"))
    return 0 if h == 1 << 31 else h


@pytest.mark.parametrize(
    ("topic", "key", "hashed"), [("TopicTest", "KEY1", 1656969516), ("订单", "键", 1085449374)]
)  # S-13, values of a JVM
def test_known_values(topic: str, key: str, hashed: int) -> None:
    assert KeyHasher().key(topic, key) == KeyHasher().unique(topic, key) == hashed


def test_absolute_value_of_the_least_number_is_zero() -> None:
    assert index_hash(text_hash("polygenelubricants")) == 0  # S-13


@given(st.text(max_size=100) | st.text("0123456789ABCDEF", max_size=100), st.text(max_size=40))
def test_same_as_java(key: str, topic: str) -> None:
    hasher = KeyHasher()
    assert hasher.key(topic, key) == expected(topic, key)
    assert hasher.unique(topic, key) == expected(topic, key)
    assert hasher.unique(topic, key) == expected(topic, key)  # now from memory


@given(st.lists(st.tuples(st.sampled_from("AB"), st.text("01é😀", max_size=9)), max_size=60))
def test_remembered_parts_never_mix(keys: list[tuple[str, str]]) -> None:
    hasher = KeyHasher()
    for topic, key in keys:
        assert hasher.unique(topic, key) == expected(topic, key)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyromq.store.keyhash._MAX_REMEMBERED", 8)
    hasher = KeyHasher()
    for n in range(100):
        assert hasher.unique(f"T{n}", f"{n:012d}") == expected(f"T{n}", f"{n:012d}")
        assert hasher.key(f"T{n}", "k") == expected(f"T{n}", "k")
    assert len(hasher._tails) <= 8
    assert len(hasher._topics) <= 8
    assert sum(map(len, hasher._heads.values())) <= 9
