"""The schema of gRPC calls: read from text into what protobuf works with."""

from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor_pool import DescriptorPool

from pyromq.proxy.schema import enums, messages
from pyromq.proxy.schema.protofile import ProtoFileError, read_proto


def test_a_message_survives_the_wire() -> None:
    sent = messages.SendMessageRequest()
    message = sent.messages.add(body=b"hello")
    message.topic.name = "orders"
    message.user_properties["k"] = "v"
    message.system_properties.tag = ""
    message.system_properties.born_timestamp.FromMilliseconds(1234)
    read = messages.SendMessageRequest.FromString(sent.SerializeToString()).messages[0]
    assert (read.topic.name, read.body, dict(read.user_properties)) == ("orders", b"hello", {"k": "v"})
    assert read.system_properties.HasField("tag"), "an empty tag is not a missing one"
    assert not read.system_properties.HasField("message_group")
    assert read.system_properties.born_timestamp.ToMilliseconds() == 1234


def test_the_numbers_of_fields_are_those_of_the_protocol() -> None:
    settings = messages.Settings(subscription=messages.Subscription(receive_batch_size=32))
    assert settings.SerializeToString() == b"\x32\x02\x20\x20"
    assert settings.WhichOneof("pub_sub") == "subscription"


@pytest.mark.parametrize("enum", messages.POOL.FindFileByName(messages.FILE_NAME).enum_types_by_name.values())
def test_the_typed_enumerations_are_those_of_the_schema(enum: Any) -> None:
    typed = getattr(enums, enum.name)
    assert {value.name: value.value for value in typed} == {value.name: value.number for value in enum.values}


def test_every_call_of_the_service_is_there() -> None:
    service = messages.POOL.FindServiceByName(messages.SERVICE)
    assert len(service.methods) == 17
    streams = {method.name for method in service.methods if method.server_streaming}
    assert streams == {"ReceiveMessage", "PullMessage", "Telemetry"}


def test_types_are_found_from_the_inside_out() -> None:
    text = """
        syntax = "proto3"; package p;
        message Kind { int32 a = 1; }
        message Outer {
          enum Kind { NONE = 0; } Kind kind = 1;
          map<string, Inner> all = 2; message Inner { bool b = 1; }
        }
    """
    pool = DescriptorPool()
    pool.Add(read_proto("p.proto", text))
    fields: Any = pool.FindMessageTypeByName("p.Outer").fields_by_name
    assert fields["kind"].enum_type.full_name == "p.Outer.Kind"
    value = fields["all"].message_type.fields_by_name["value"]
    assert value.message_type.full_name == "p.Outer.Inner"


@pytest.mark.parametrize(
    "text", ["message A { int32 a = 1;", "message A { int32 a = x; }", "extend A {}", "message A { B b = 1; }", "@"]
)
def test_what_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(ProtoFileError):
        read_proto("bad.proto", text)


def test_a_name_that_no_message_has() -> None:
    assert isinstance(messages.POOL.FindFileByName(messages.FILE_NAME).serialized_pb, bytes)
    with pytest.raises(AttributeError):
        _ = messages.NoSuchMessage
    assert (
        descriptor_pb2.FileDescriptorProto.FromString(messages.POOL.FindFileByName(messages.FILE_NAME).serialized_pb)
        .service[0]
        .name
        == "MessagingService"
    )
