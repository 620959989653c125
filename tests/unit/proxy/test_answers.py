"""Answers that are written by hand are those that protobuf writes."""

import pytest

from pyromq.proxy.messages.answers import acknowledged, stored, varint
from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import Code

OK = messages.Status(code=int(Code.OK), message="OK")


@pytest.mark.parametrize("offset", [0, 1, 127, 128, 300, 2**31, 2**63 - 1])
@pytest.mark.parametrize("name", ["a", "a" * 34, "é" * 100])
def test_a_stored_message(offset: int, name: str) -> None:
    entry = messages.SendResultEntry(status=OK, message_id=name, offset=offset)
    assert stored(name, offset) == messages.SendMessageResponse(status=OK, entries=[entry]).SerializeToString()


@pytest.mark.parametrize("name", ["", "a", "a" * 34])
@pytest.mark.parametrize("handle", ["h", "5 1700000000000 60000 2 0 broker-a 1 7 4096" * 20])
def test_an_acknowledged_message(name: str, handle: str) -> None:
    entry = messages.AckMessageResultEntry(message_id=name, receipt_handle=handle, status=OK)
    assert acknowledged(name, handle) == messages.AckMessageResponse(status=OK, entries=[entry]).SerializeToString()


def test_numbers_are_written_seven_bits_a_byte() -> None:
    assert [varint(number).hex() for number in (0, 127, 128, 300)] == ["00", "7f", "8001", "ac02"]
