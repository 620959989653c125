"""The classes of the messages, made from `messaging.proto` in a pool of their own.

A pool of their own, since the official Python client registers the same names in the default one. The classes come from
Google's library at run time, so to type checkers they are `Any`; what calls work with further inside has types.

    request = messages.SendMessageRequest.FromString(data)
    answer = messages.SendMessageResponse(status=status(Code.OK))
"""

from importlib import resources
from typing import Any, Final

from google.protobuf import descriptor_pb2, duration_pb2, message_factory, timestamp_pb2
from google.protobuf.descriptor_pool import DescriptorPool

from pyromq.proxy.schema.protofile import read_proto

SERVICE: Final = "apache.rocketmq.v2.MessagingService"
FILE_NAME: Final = "apache/rocketmq/v2/messaging.proto"


def _files() -> list[descriptor_pb2.FileDescriptorProto]:
    found = []
    for well_known in (duration_pb2, timestamp_pb2):
        file = descriptor_pb2.FileDescriptorProto()
        well_known.DESCRIPTOR.CopyToProto(file)
        found.append(file)
    text = resources.files("pyromq.proxy.schema").joinpath("messaging.proto").read_text()
    return [*found, read_proto(FILE_NAME, text)]


def _pool() -> DescriptorPool:
    pool = DescriptorPool()
    for file in FILES:
        pool.Add(file)
    return pool


FILES: Final = _files()
"""The schema with what it imports, for those who ask what there is to call."""
POOL: Final = _pool()
_FILE = POOL.FindFileByName(FILE_NAME)
_CLASSES: dict[str, Any] = {
    name: message_factory.GetMessageClass(descriptor) for name, descriptor in _FILE.message_types_by_name.items()
}
Duration: Any = message_factory.GetMessageClass(POOL.FindMessageTypeByName("google.protobuf.Duration"))
Timestamp: Any = message_factory.GetMessageClass(POOL.FindMessageTypeByName("google.protobuf.Timestamp"))


def __getattr__(name: str) -> Any:
    try:
        return _CLASSES[name]
    except KeyError:
        raise AttributeError(f"there is no message {name}") from None
