"""Signatures agree with other implementations, and with the habits of their clients."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.protocol.command import Command, encode
from pyromq.protocol.errors import SignatureError
from pyromq.protocol.frame import FrameReader
from pyromq.protocol.headers.consume import GetMaxOffsetHeader
from pyromq.protocol.release import CURRENT, V4_9_3
from pyromq.protocol.signature import sign, signed, verify

KEY = "12345678"
EXT = {"AccessKey": "rocketmq2", "Zed": "z", "a": "PG", "b": "TopicTest", "topic": "TopicTest"}


def test_golden_hmac() -> None:
    assert sign({"only": "RocketMQ"}, b"", KEY) == "IUc8rrO/0gDch8CjObLQsW2rsiA="


def test_golden_signature() -> None:
    assert sign(EXT, b"Hello", KEY) == "/Dk6u3WJFblxt8rI08GxNalbKqM="
    assert sign({"only": "rocketmq2zPGTopicTestTopicTest"}, b"Hello", KEY) == "/Dk6u3WJFblxt8rI08GxNalbKqM="


def test_an_old_signature_does_not_count() -> None:
    assert sign(EXT | {"Signature": "old"}, b"Hello", KEY) == sign(EXT, b"Hello", KEY)


def test_keys_are_ordered_as_java_does() -> None:
    # An astral character sorts before U+FFEE in UTF-16 but after it by code point.
    assert sign({"\uffee": "2", "\U0001f600": "1"}, b"", KEY) == sign({"only": "12"}, b"", KEY)


def test_signed_request_verifies_after_the_wire() -> None:
    command = Command.request(30, GetMaxOffsetHeader(topic="T", queue_id=0), body=b"body")
    signed(command, "ak", KEY, security_token="token")  # noqa: S106
    (received,) = FrameReader().feed(encode(command))
    assert received.ext["AccessKey"] == "ak"
    assert received.ext["SecurityToken"] == "token"
    assert received.header(GetMaxOffsetHeader).topic == "T"
    assert verify(received.ext, received.body, received.version, KEY)
    assert not verify(received.ext, received.body, received.version, "another key")
    assert not verify(received.ext, b"other body", received.version, KEY)
    assert not verify(received.ext | {"topic": "U"}, received.body, received.version, KEY)


def test_fields_java_adds_after_signing() -> None:
    ext = EXT | {"Signature": sign(EXT, b"", KEY), "__ZONE_NAME": "z1", "__ZONE_MODE": "true"}
    assert verify(ext, b"", CURRENT, KEY)


def test_token_that_go_does_not_sign() -> None:
    ext = EXT | {"Signature": sign(EXT, b"", KEY), "SecurityToken": "t"}
    assert verify(ext, b"", CURRENT, KEY)


def test_unique_key_query_is_unsigned_only_up_to_4_9_3() -> None:
    ext = EXT | {"Signature": sign(EXT, b"", KEY), "_UNIQUE_KEY_QUERY": "true"}
    assert verify(ext, b"", V4_9_3, KEY)
    assert not verify(ext, b"", V4_9_3 + 2, KEY)
    whole = EXT | {"_UNIQUE_KEY_QUERY": "true"}
    assert verify(whole | {"Signature": sign(whole, b"", KEY)}, b"", V4_9_3, KEY)


def test_all_exemptions_at_once() -> None:
    extra = {"__ZONE_NAME": "z", "SecurityToken": "t", "_UNIQUE_KEY_QUERY": "true"}
    assert verify(EXT | extra | {"Signature": sign(EXT, b"", KEY)}, b"", V4_9_3, KEY)


@pytest.mark.parametrize("signature", ["", "x", "äöü", "====", "IUc8rrO/0gDch8CjObLQsW2rsiA"])
def test_what_is_no_signature(signature: str) -> None:
    assert not verify(EXT | {"Signature": signature}, b"", CURRENT, KEY)


def test_no_signature_at_all() -> None:
    assert not verify(EXT, b"", CURRENT, KEY)


def test_empty_key_is_refused() -> None:
    with pytest.raises(SignatureError, match="empty"):
        sign(EXT, b"", "")


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=5)), st.binary(max_size=20), st.text(min_size=1))
def test_any_signature_verifies(ext: dict[str, str], body: bytes, key: str) -> None:
    try:
        signature = sign(ext, body, key)
    except SignatureError:
        return
    assert verify(ext | {"Signature": signature}, memoryview(body), CURRENT, key)
