"""What twins are given is what it claims to be, and a difference between twins is noticed."""

import pytest
from hypothesis import given

from pyromq.protocol.frame import FrameReader
from pyromq.protocol.headers.consume import GetMaxOffsetHeader
from pyromq.protocol.properties import decode_properties
from pyromq.protocol.records.batch import iter_batch
from pyromq.protocol.records.record import Blank, RecordError, check_record, decode_records
from tests.unit.native import samples
from tests.unit.native.twins import Outcome, as_values, outcome


@given(samples.pieces())
def test_streams_are_frames(parts: list[bytes]) -> None:
    reader = FrameReader()
    commands = [command for part in parts for command in reader.feed(part)]
    assert reader.buffered == 0
    assert all(isinstance(command.ext, dict) for command in commands)


@given(samples.PULLED, samples.BATCHES, samples.PROPERTY_TEXTS)
def test_records_batches_and_properties_can_be_read(pulled: bytes, batch: bytes, properties: bytes) -> None:
    assert all(message.fault is None for message in decode_records(pulled, check_crc=True))
    list(iter_batch(batch))
    decode_properties(properties)


@given(samples.LOGS)
def test_logs_are_walked_to_their_end(log: bytes) -> None:
    at = 0
    while at < len(log) and any(log[at:]):
        record = check_record(log, at, len(log), verify_crc=True, verify_record_crc=True)
        assert isinstance(record, Blank) or record.physical_offset == at
        at += record.size
    assert not any(log[at:])


def test_damage_is_found_by_readers() -> None:
    seen: set[bool] = set()

    @given(samples.mutated(samples.RECORDS))
    def read(data: bytes) -> None:
        try:
            decode_records(data, check_crc=True)
            seen.add(True)
        except RecordError:
            seen.add(False)

    read()
    assert False in seen


def test_an_outcome_is_the_value_the_error_and_what_was_written() -> None:
    def write(target: bytearray, number: int) -> memoryview:
        target[0] = number
        return memoryview(target)

    target = bytearray(2)
    assert outcome(write, target, 7) == Outcome(b"\x07\0", None, [b"\x07\0"])
    assert target == bytearray(2), "the arguments are for the other twin too"
    failed = outcome(write, target, 256)
    assert failed.value is None
    assert failed.error is not None
    assert failed.error[0] is ValueError
    assert failed != outcome(write, bytearray(2), 1)


@given(samples.messages())
def test_objects_are_compared_by_what_they_hold(message: object) -> None:
    assert as_values([message]) == as_values((message,))


def test_headers_differ_when_one_field_does() -> None:
    one, other = (GetMaxOffsetHeader(topic="t", queue_id=queue) for queue in (0, 1))
    assert as_values(one) != as_values(other)


def test_a_panic_is_no_outcome() -> None:
    class Panic(BaseException):
        pass

    def panics() -> None:
        raise Panic

    with pytest.raises(Panic):
        outcome(panics)
