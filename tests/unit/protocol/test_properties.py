"""The property text: both endings, the pieces readers drop, size limits, single look-ups."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.protocol.errors import MessageError
from pyromq.protocol.properties import (
    MAX_PROPERTIES,
    RESERVED,
    Property,
    append_properties,
    decode_properties,
    encode_properties,
    find_property,
)

names = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), min_size=1)
values = st.text(st.characters(exclude_characters="\x02", exclude_categories=["Cs"]), min_size=1)
property_maps = st.dictionaries(names, values, max_size=8)
# Texts that hit the separators and the names looked for much more often than chance would.
raw_texts = st.lists(
    st.sampled_from([b"\x01", b"\x02", b"TAGS", b"KEYS", b"a", b"\xff", b"\xe4\xb8"]), max_size=24
).map(b"".join)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", {}),
        (b"a\x01b", {"a": "b"}),
        (b"a\x01b\x02", {"a": "b"}),
        (b"a\x01\x02c\x01d", {"c": "d"}),
        (b"k\x01v\x01w\x02", {"k": "v\x01w"}),
        (b"\x01v\x02a\x01b", {"a": "b"}),
        (b"\x01a\x01b", {}),
        (b"ab\x02\x02c\x01d\x02", {"c": "d"}),
        (b"a\x011\x02a\x012\x02", {"a": "2"}),
        (b"a\x01\xff\x02", {"a": "�"}),
        ("键\x01值\x02".encode(), {"键": "值"}),
    ],
)
def test_parse_rules(raw: bytes, expected: dict[str, str]) -> None:
    assert decode_properties(raw) == expected
    assert decode_properties(memoryview(raw)) == expected
    assert decode_properties(raw.decode("utf-8", "replace")) == expected


@given(property_maps)
def test_round_trip_in_both_endings(properties: dict[str, str]) -> None:
    raw = encode_properties(properties)
    assert decode_properties(raw) == properties
    assert decode_properties(raw.removesuffix(b"\x02")) == properties
    assert not raw or raw.endswith(b"\x02")


def test_empty_entries_are_not_written() -> None:
    assert encode_properties({"a": "", "": "b", "c": "d"}) == b"c\x01d\x02"
    assert encode_properties({}) == b""


@pytest.mark.parametrize(
    "properties", [{"a\x01": "b"}, {"a\x02": "b"}, {"a": "b\x02c"}, {"a": "b\x02c\x01d\x02", "": "x"}]
)
def test_separators_cannot_be_smuggled_in(properties: dict[str, str]) -> None:
    with pytest.raises(MessageError, match="separator"):
        encode_properties(properties)


def test_lone_surrogates_are_refused() -> None:
    with pytest.raises(MessageError, match="Unicode"):
        encode_properties({"a": "\ud800"})


def test_size_limit_counts_bytes() -> None:
    fits = "中" * ((MAX_PROPERTIES - 4) // 3)
    assert len(encode_properties({"ab": fits})) == MAX_PROPERTIES
    with pytest.raises(MessageError, match="32768 bytes"):
        encode_properties({"abc": fits})


@given(raw_texts, st.sampled_from(["TAGS", "KEYS", "a", "AGS"]))
def test_find_agrees_with_decode(raw: bytes, name: str) -> None:
    assert find_property(raw, name) == decode_properties(raw).get(name)
    assert find_property(memoryview(raw), name) == decode_properties(raw).get(name)


def test_find_does_not_mix_up_names() -> None:
    raw = b"XTAGS\x01a\x02KEYS\x01TAGS\x01b\x02"
    assert find_property(raw, Property.TAGS) is None
    assert find_property(raw, Property.KEYS) == "TAGS\x01b"


@given(raw_texts, property_maps)
def test_appended_entries_override(raw: bytes, extra: dict[str, str]) -> None:
    assert decode_properties(append_properties(raw, extra)) == decode_properties(raw) | extra


def test_append_repairs_a_missing_separator_and_keeps_the_limit() -> None:
    assert append_properties(b"a\x01b", {"c": "d"}) == b"a\x01b\x02c\x01d\x02"
    assert append_properties(b"", {"c": "d"}) == b"c\x01d\x02"
    with pytest.raises(MessageError, match="more than"):
        append_properties(b"x" * MAX_PROPERTIES, {"c": "d"})


# P-20b
def test_reserved_names_are_those_of_other_clients() -> None:
    reserved = """
    KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET BUYER_ID
    ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME MSG_REGION TRACE_ON UNIQ_KEY
    EXTEND_UNIQ_INFO MAX_RECONSUME_TIMES CONSUME_START_TIME POP_CK POP_CK_OFFSET 1ST_POP_TIME
    TRAN_PREPARED_QUEUE_OFFSET DUP_INFO INSTANCE_ID CORRELATION_ID REPLY_TO_CLIENT TTL ARRIVE_TIME PUSH_REPLY_TIME
    CLUSTER MSG_TYPE INNER_MULTI_QUEUE_OFFSET TIMER_DELAY_MS TIMER_DELAY_SEC TIMER_DELIVER_MS TIMER_ENQUEUE_MS
    TIMER_DEQUEUE_MS TIMER_ROLL_TIMES TIMER_OUT_MS TIMER_DEL_UNIQKEY TIMER_DELAY_LEVEL __BORNHOST BORN_TIMESTAMP
    DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID __CRC32#
    """
    assert set(reserved.split()) == RESERVED
