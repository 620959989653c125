"""The index hash against Java's definition of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.protocol.records.tags import java_hash
from pyromq.store.index.keyhash import MAX_AT_ONCE, KeyHasher, text_hash, text_hashes


def expected(topic: str, key: str) -> int:
    h = abs(java_hash(f"{topic}#{key}"))
    return 0 if h == 1 << 31 else h


@pytest.mark.parametrize(
    ("topic", "key", "hashed"), [("TopicTest", "KEY1", 1656969516), ("订单", "键", 1085449374)]
)  # S-13, values of a JVM
def test_known_values(topic: str, key: str, hashed: int) -> None:
    assert KeyHasher().key(topic, key) == hashed


def test_absolute_value_of_the_least_number_is_zero() -> None:
    # "topic#key" = "polygenelubricants" has no '#', so look for a key that gives the least number.
    assert text_hash("polygenelubricants") == 1 << 31
    hasher = KeyHasher()
    wanted = (1 << 31) - text_hash("T#") * pow(31, 7, 1 << 32) & 0xFFFFFFFF
    key = _text_with_hash(wanted)
    assert java_hash(f"T#{key}") == -(1 << 31)
    assert hasher.key("T", key) == 0


def _text_with_hash(wanted: int) -> str:
    """Seven characters with a given hash."""
    for total in range(wanted, 31**7 * 128, 1 << 32):
        digits = [total // 31**n % 31 for n in range(5, -1, -1)]
        if total // 31**6 < 128:
            return "".join(map(chr, (total // 31**6, *digits)))
    raise AssertionError("there is none")


@given(st.text(max_size=100) | st.text("0123456789ABCDEF", max_size=100), st.text(max_size=40))
def test_same_as_java(key: str, topic: str) -> None:
    assert KeyHasher().key(topic, key) == expected(topic, key)
    assert text_hash(key) == java_hash(key) & 0xFFFFFFFF


@given(st.lists(st.text("01\x7f", max_size=32) | st.text("0é😀", max_size=40), max_size=MAX_AT_ONCE))
def test_many_at_once(keys: list[str]) -> None:
    assert text_hashes(keys) == [java_hash(key) & 0xFFFFFFFF for key in keys]
    topics = [f"T{n % 3}" for n in range(len(keys))]
    hashes = KeyHasher().keys([(topic, key, 0, 0) for topic, key in zip(topics, keys, strict=True)])
    assert hashes == [expected(topic, key) for topic, key in zip(topics, keys, strict=True)]


def test_a_full_batch_of_unique_ids() -> None:
    keys = [f"7F00000100002A9F18B4{n * 7919:012X}" for n in range(MAX_AT_ONCE)]
    assert text_hashes(keys) == [java_hash(key) & 0xFFFFFFFF for key in keys]
    hasher = KeyHasher()
    for _ in range(2):  # the topic is remembered the second time
        assert hasher.keys([("T", key, 0, 0) for key in keys]) == [expected("T", key) for key in keys]
    assert text_hash("\x7f" * 10_000) == java_hash("\x7f" * 10_000) & 0xFFFFFFFF


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyromq.store.index.keyhash._MAX_REMEMBERED", 8)
    hasher = KeyHasher()
    for n in range(100):
        assert hasher.key(f"T{n}", "k") == expected(f"T{n}", "k")
    assert len(hasher._prefixes) <= 8
    assert len(hasher._shifted) <= 8
