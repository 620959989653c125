"""Recall handles."""

import base64
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.errors import ValidationError
from pyromq.protocol.handles.recall import RecallHandle, decode_recall_handle, encode_recall_handle

HANDLE = RecallHandle("TopicTest", "broker-a", 1700000060001, "0A00000910E118B4AAC2000000010000")
TEXT = "djEgVG9waWNUZXN0IGJyb2tlci1hIDE3MDAwMDAwNjAwMDEgMEEwMDAwMDkxMEUxMThCNEFBQzIwMDAwMDAwMTAwMDA="


def test_golden() -> None:
    assert encode_recall_handle(HANDLE) == TEXT
    assert decode_recall_handle(TEXT) == HANDLE
    assert decode_recall_handle(TEXT.rstrip("=")) == HANDLE


@pytest.mark.parametrize(
    "plain", ["", "v1", "v2 t b 1 id", "v1 t b x id", "v1  b 1 id", "v1 t b 1 id more", "v1 t b -1 id", "\xff"]
)
def test_wrong_content(plain: str) -> None:
    text = base64.urlsafe_b64encode(plain.encode("latin-1")).decode()
    with pytest.raises(ValidationError, match="invalid recall handle") as caught:
        decode_recall_handle(text)
    assert caught.value.code is ResponseCode.ILLEGAL_OPERATION


@pytest.mark.parametrize("text", ["!", "ä", "djEg=", "A" * 100_000])
def test_no_base64(text: str) -> None:
    with pytest.raises(ValidationError, match="invalid recall handle"):
        decode_recall_handle(text)


@pytest.mark.parametrize("handle", [RecallHandle("", "b", 1, "id"), RecallHandle("a b", "b", 1, "id")])
def test_names_that_cannot_be_written(handle: RecallHandle) -> None:
    with pytest.raises(ValidationError):
        encode_recall_handle(handle)


NAME = st.text(st.characters(codec="utf-8", exclude_characters=" "), min_size=1, max_size=30)


@given(NAME, NAME, st.integers(0, 2**63 - 1), NAME)
def test_round_trip(topic: str, broker_name: str, deliver_time: int, unique_id: str) -> None:
    handle = RecallHandle(topic, broker_name, deliver_time, unique_id)
    assert decode_recall_handle(encode_recall_handle(handle)) == handle


@given(st.text(max_size=60))
def test_any_text(text: str) -> None:
    with contextlib.suppress(ValidationError):
        decode_recall_handle(text)
