"""The standard reflection service (grpc.reflection, v1 and v1alpha): tools learn from it what there is to call.

Both versions have the same messages under another package name.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.message import DecodeError

from pyromq.proxy.grpc.method import Call, Conversation, GrpcError, GrpcStatus, Service
from pyromq.proxy.grpc.protos import Proto, load_proto

_PACKAGES = {
    "grpc.reflection.v1": "grpc/reflection/v1/reflection.proto",
    "grpc.reflection.v1alpha": "grpc/reflection/v1alpha/reflection.proto",
}


def reflection(files: Iterable[FileDescriptorProto]) -> Service:
    """The methods, to be served beside the services of `files`; what these import must be among them."""
    protos = {package: load_proto("reflection.proto", name, package) for package, name in _PACKAGES.items()}
    catalog = Catalog([*files, *(proto.file for proto in protos.values())])
    return {
        f"/{package}.ServerReflection/ServerReflectionInfo": Conversation(
            lambda call, proto=proto: Tour(catalog, proto, call)  # type: ignore[misc] # of this turn of the loop
        )
        for package, proto in protos.items()
    }


class Catalog:
    """Files by name and by what they declare."""

    def __init__(self, files: Iterable[FileDescriptorProto]) -> None:
        self._files = {file.name: file for file in files}
        self._symbols = {symbol: file.name for file in self._files.values() for symbol in _symbols(file)}
        self.services = sorted(
            _full(file.package, service.name) for file in self._files.values() for service in file.service
        )

    def file_of(self, symbol: str) -> str | None:
        """The name of the file that declares a service, method, message, field or enum."""
        return self._symbols.get(symbol)

    def with_imports(self, name: str) -> list[bytes] | None:
        """A file and, behind it, all that it imports, encoded; None if there is no such file."""
        if name not in self._files:
            return None
        found: dict[str, bytes] = {}
        wanted = [name]
        while wanted:
            name = wanted.pop()
            if name in self._files and name not in found:
                found[name] = self._files[name].SerializeToString()
                wanted += self._files[name].dependency
        return list(found.values())


class Tour:
    """One caller's questions, each answered at once."""

    def __init__(self, catalog: Catalog, proto: Proto, call: Call) -> None:
        self._catalog = catalog
        self._request = proto.messages["ServerReflectionRequest"]
        self._response = proto.messages["ServerReflectionResponse"]
        self._call = call

    def received(self, message: bytes) -> None:
        try:
            request = self._request.FromString(message)
        except DecodeError as error:
            raise GrpcError(GrpcStatus.INVALID_ARGUMENT, f"not a ServerReflectionRequest: {error}") from error
        response = self._response(valid_host=request.host, original_request=request)
        self._answer(request, response)
        self._call.send(response.SerializeToString())

    def closed(self) -> None:
        self._call.finish()

    def _answer(self, request: Any, response: Any) -> None:
        kind = request.WhichOneof("message_request")
        catalog = self._catalog
        if kind == "list_services":
            for name in catalog.services:
                response.list_services_response.service.add(name=name)
        elif kind == "file_by_filename":
            self._files(response, request.file_by_filename)
        elif kind == "file_containing_symbol":
            self._files(response, catalog.file_of(request.file_containing_symbol.lstrip(".")))
        elif kind == "all_extension_numbers_of_type" and catalog.file_of(request.all_extension_numbers_of_type):
            response.all_extension_numbers_response.base_type_name = request.all_extension_numbers_of_type
        elif kind is None:
            _refuse(response, GrpcStatus.INVALID_ARGUMENT, "nothing was asked")
        else:
            _refuse(response, GrpcStatus.NOT_FOUND, "there are no extensions")

    def _files(self, response: Any, name: str | None) -> None:
        files = self._catalog.with_imports(name) if name is not None else None
        if files is None:
            _refuse(response, GrpcStatus.NOT_FOUND, "no file has it")
        else:
            response.file_descriptor_response.file_descriptor_proto.extend(files)


def _refuse(response: Any, status: GrpcStatus, text: str) -> None:
    response.error_response.error_code = int(status)
    response.error_response.error_message = text


def _symbols(file: FileDescriptorProto) -> Iterator[str]:
    for service in file.service:
        name = _full(file.package, service.name)
        yield name
        for method in service.method:
            yield f"{name}.{method.name}"
    for enum in file.enum_type:
        yield _full(file.package, enum.name)
    for message in file.message_type:
        yield from _symbols_of(message, file.package)


def _symbols_of(message: DescriptorProto, scope: str) -> Iterator[str]:
    name = _full(scope, message.name)
    yield name
    for field in message.field:
        yield f"{name}.{field.name}"
    for enum in message.enum_type:
        yield f"{name}.{enum.name}"
    for nested in message.nested_type:
        yield from _symbols_of(nested, name)


def _full(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name
