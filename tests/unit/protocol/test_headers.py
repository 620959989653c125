"""Typed headers: every class survives the wire in both forms, and what clients really send is understood."""

import json
import re
from functools import cache
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command, Serialization, encode
from pyromq.protocol.errors import HeaderError
from pyromq.protocol.frame import FrameReader
from pyromq.protocol.headers.admin import InvokeBrokerToResetOffsetHeader
from pyromq.protocol.headers.base import Header, decode_header, encode_header
from pyromq.protocol.headers.consume import (
    GetMaxOffsetHeader,
    PullMessageHeader,
    PullMessageResponseHeader,
    UnregisterClientHeader,
)
from pyromq.protocol.headers.namesrv import BrokerHeartbeatHeader, RegisterBrokerHeader
from pyromq.protocol.headers.pop import NotificationResponseHeader
from pyromq.protocol.headers.send import SendMessageHeader, SendMessageResponseHeader, SendMessageV2Header
from tests.vocabulary import HEADERS

SHARED = {"Header", "RpcHeader", "TopicHeader"}

# Binary headers cannot tell an empty text from none, so it is tested apart.
TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)


def values_of(kind: msgspec.inspect.Type) -> st.SearchStrategy[object]:
    match kind:
        case msgspec.inspect.UnionType(types=types):
            return st.one_of(*(values_of(member) for member in types))
        case msgspec.inspect.NoneType():
            return st.none()
        case msgspec.inspect.Metadata(type=inner):
            return values_of(inner)
        case msgspec.inspect.StrType():
            return TEXT
        case msgspec.inspect.BoolType():
            return st.booleans()
        case msgspec.inspect.IntType(ge=low, le=high):
            return st.integers(low, high)
        case _:
            raise AssertionError(f"a field type this test does not know: {kind}")


@cache
def examples_of(cls: type[Header]) -> st.SearchStrategy[Header]:
    info = cast("msgspec.inspect.StructType", msgspec.inspect.type_info(cls))
    return st.builds(cls, **{field.name: values_of(field.type) for field in info.fields})


def through_the_wire(header: Header, serialization: Serialization) -> Header:
    sent = Command.request(1, header, serialization=serialization)
    (received,) = FrameReader().feed(encode(sent))
    return received.header(type(header))


def json_command(ext: object) -> Command:
    header = json.dumps({"code": 310, "extFields": ext}).encode()
    frame = (4 + len(header)).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header
    (command,) = FrameReader().feed(frame)
    return command


@pytest.mark.parametrize("cls", HEADERS, ids=lambda cls: cls.__name__)
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_every_header_round_trips(cls: type[Header], data: st.DataObject) -> None:
    header = data.draw(examples_of(cls))
    ext = encode_header(header)
    assert all(type(value) is str for value in ext.values())
    assert decode_header(cls, ext) == header
    assert json.loads(header.to_json()) == ext
    assert through_the_wire(header, Serialization.JSON) == header
    assert through_the_wire(header, Serialization.ROCKETMQ) == header


def test_headers_are_named_after_request_codes() -> None:
    codes = {code.name.replace("_", "").lower() for code in RequestCode}
    for cls in HEADERS:
        if cls.__name__ not in SHARED:
            assert re.sub(r"(Response)?Header$", "", cls.__name__).lower() in codes


def test_every_area_is_exported() -> None:
    defined = {cls.__name__ for cls in _subclasses(Header) if cls.__module__.startswith("pyromq.protocol.headers")}
    assert defined | {"Header"} == {cls.__name__ for cls in HEADERS}


def _subclasses(cls: type[Header]) -> set[type[Header]]:
    return {found for child in cls.__subclasses__() for found in {child} | _subclasses(child)}


SEND = {
    "a": "PG",
    "b": "TopicTest",
    "c": "TBW102",
    "d": "4",
    "e": "-1",
    "f": "0",
    "g": "1700000000000",
    "h": "0",
    "i": "TAGS\x01TagA\x02",
}


def test_send_v2_names() -> None:
    header = json_command(SEND | {"j": "2", "k": "false", "l": "16", "m": "true", "n": "broker-a"}).header(
        SendMessageV2Header
    )
    assert header == SendMessageV2Header(
        producer_group="PG",
        topic="TopicTest",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=-1,
        sys_flag=0,
        born_timestamp=1700000000000,
        flag=0,
        properties="TAGS\x01TagA\x02",
        reconsume_times=2,
        unit_mode=False,
        max_reconsume_times=16,
        batch=True,
        bname="broker-a",
    )


def test_send_v1_and_v2_share_their_attributes() -> None:
    assert SendMessageV2Header.__struct_fields__ == SendMessageHeader.__struct_fields__
    assert "producerGroup" in SendMessageHeader.__struct_encode_fields__
    assert set("abcdefghijklmn") < set(SendMessageV2Header.__struct_encode_fields__)


def test_raw_numbers_booleans_and_nulls() -> None:
    # The JS client writes values with their JSON types.
    ext: dict[str, object] = {**SEND, "d": 4, "e": 0, "g": 1700000000000, "j": None, "k": False, "m": True, "b": 12}
    command = json_command(ext)
    header = command.header(SendMessageV2Header)
    assert (header.topic, header.default_topic_queue_nums, header.queue_id) == ("12", 4, 0)
    assert (header.reconsume_times, header.unit_mode, header.batch) == (None, False, True)
    assert command.ext["k"] == "false"
    assert command.ext["m"] == "true"
    assert "j" not in command.ext


@pytest.mark.parametrize(
    ("text", "expected"),
    [("true", True), ("TRUE", True), ("True", True), ("false", False), ("1", False), ("yes", False), ("", None)],
)
def test_booleans_follow_java(text: str, expected: bool | None) -> None:
    assert json_command(SEND | {"m": text}).header(SendMessageV2Header).batch is expected
    assert decode_header(SendMessageV2Header, SEND | {"m": text}).batch is expected


def test_the_number_one_is_not_true() -> None:
    assert json_command({**SEND, "m": 1}).header(SendMessageV2Header).batch is False


@pytest.mark.parametrize("text", ["+7", "007", "7.0"])
def test_integers_in_unusual_clothes(text: str) -> None:
    assert json_command(SEND | {"e": text}).header(SendMessageV2Header).queue_id == 7
    assert decode_header(SendMessageV2Header, SEND | {"e": text}).queue_id == 7


@pytest.mark.parametrize("text", ["x", "7x", "1_000", " 7", "2147483648", "-2147483649", "9" * 5000, "٣", "7.5"])
def test_what_is_no_int_is_refused(text: str) -> None:
    with pytest.raises(HeaderError, match=r"SEND_MESSAGE_V2: SendMessageV2Header: field 'e'"):
        json_command(SEND | {"e": text}).header(SendMessageV2Header)
    with pytest.raises(HeaderError, match="field 'e'"):
        decode_header(SendMessageV2Header, SEND | {"e": text})


def test_missing_required_field_is_named_with_header_and_code() -> None:
    ext = {name: value for name, value in SEND.items() if name != "e"}
    with pytest.raises(HeaderError, match=r"SEND_MESSAGE_V2: SendMessageV2Header: required field 'e' is missing"):
        json_command(ext).header(SendMessageV2Header)


@pytest.mark.parametrize("ext", [None, {"e": None}, {}])
def test_null_counts_as_missing(ext: object) -> None:
    with pytest.raises(HeaderError, match="is missing"):
        json_command(ext).header(SendMessageV2Header)


def test_unknown_fields_are_left_alone() -> None:
    command = json_command({"topic": "T", "queueId": "0", "AccessKey": "ak"})
    assert command.header(GetMaxOffsetHeader) == GetMaxOffsetHeader(topic="T", queue_id=0)
    assert command.ext["AccessKey"] == "ak"


@pytest.mark.parametrize("ext", ["text", 5, ["a"], True])
def test_ext_fields_that_are_no_object(ext: object) -> None:
    command = json_command(ext)
    with pytest.raises(HeaderError, match="extFields"):
        command.header(UnregisterClientHeader)
    with pytest.raises(HeaderError, match="extFields"):
        _ = command.ext


def test_nested_values_become_text() -> None:
    assert json_command({"a": {"b": [1, None]}, "x": 1.5}).ext == {"a": '{"b":[1,null]}', "x": "1.5"}


def test_names_that_do_not_follow_the_rule() -> None:
    assert UnregisterClientHeader.__struct_encode_fields__[-3] == "clientID"
    assert "proxyFrowardClientId" in PullMessageHeader.__struct_encode_fields__
    assert {"heartbeatTimeoutMillis", "bodyCrc32", "__ZONE_NAME"} < set(RegisterBrokerHeader.__struct_encode_fields__)
    assert "heartbeatTimeoutMills" in BrokerHeartbeatHeader.__struct_encode_fields__
    assert "isForce" in InvokeBrokerToResetOffsetHeader.__struct_encode_fields__


def test_send_response_is_complete_by_default() -> None:
    header = SendMessageResponseHeader(msg_id="ID", queue_id=1, queue_offset=2)
    assert encode_header(header) == {
        "msgId": "ID",
        "queueId": "1",
        "queueOffset": "2",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }


def test_responses_with_all_and_with_usual_fields_agree() -> None:
    usual = PullMessageResponseHeader(suggest_which_broker_id=0, next_begin_offset=5, min_offset=0, max_offset=9)
    assert json.loads(usual.to_json()) == encode_header(usual)
    assert usual.to_json() == Header.to_json(usual)


def test_quick_and_general_json_of_a_send_agree() -> None:
    fields: dict[str, Any] = {
        "producer_group": 'g"1',
        "topic": "T\u00e9",
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 1,
        "sys_flag": 0,
        "born_timestamp": 1,
        "flag": 0,
    }
    usual = fields | {"properties": "a\x01b\x02", "reconsume_times": 0, "unit_mode": False, "batch": True, "bname": "b"}
    for values in (usual, fields, usual | {"max_reconsume_times": 3}, usual | {"ns": "N", "nsd": True}):
        header = SendMessageV2Header(**values)
        assert json.loads(header.to_json()) == encode_header(header)


def test_required_false_is_not_missing() -> None:
    assert decode_header(NotificationResponseHeader, {"hasMsg": "false"}).has_msg is False


@pytest.mark.parametrize("serialization", list(Serialization))
def test_one_field_is_found_without_the_others(serialization: Serialization) -> None:
    fields = {"a": "1", "b": '"c"'}
    request = Command.request(RequestCode.GET_MAX_OFFSET, ext=fields, serialization=serialization)
    (command,) = FrameReader().feed(encode(request))
    assert command.field("d") is None
    assert command.field("c") is None
    assert command.field("b") == '"c"'
    assert Command.request(RequestCode.GET_MAX_OFFSET).field("a") is None
