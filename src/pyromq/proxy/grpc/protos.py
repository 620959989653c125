"""The small `.proto` files beside this module, as descriptors and message classes."""

from importlib import resources
from typing import Any, NamedTuple

from google.protobuf import message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool

from pyromq.proxy.schema.protofile import read_proto


class Proto(NamedTuple):
    """One file: its descriptor, and the classes of its messages by name."""

    file: FileDescriptorProto
    messages: dict[str, Any]


def load_proto(resource: str, name: str, package: str | None = None) -> Proto:
    """Read a file; `name` is what it is called among files, `package` replaces its own. Raises ProtoFileError.

    Classes live in a pool of their own, since others may have registered the same names in the default one.
    """
    text = resources.files("pyromq.proxy.grpc").joinpath(resource).read_text()
    if package is not None:
        own = read_proto(name, text).package
        text = text.replace(f"package {own};", f"package {package};")
    file = read_proto(name, text)
    pool = DescriptorPool()
    pool.Add(file)
    found = pool.FindFileByName(name)
    classes = {key: message_factory.GetMessageClass(each) for key, each in found.message_types_by_name.items()}
    return Proto(file, classes)
