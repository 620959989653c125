"""Reads the text of a `.proto` file into a descriptor, so that nothing generated is kept.

It knows the part of proto3 that the files here use: enums, messages and enums in them, `optional`, `repeated`, `oneof`,
`map`, services. Type names are found in the enclosing messages first, then in the package, then as they stand.
"""

import re
from collections.abc import Iterator

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)

from pyromq.errors import PyroMQError

_TOKEN = re.compile(r'//[^\n]*|\s+|"([^"]*)"|([A-Za-z_][\w.]*|-?\d+|[{}()<>=;,])')
_SCALARS = {
    "double": FieldDescriptorProto.TYPE_DOUBLE,
    "float": FieldDescriptorProto.TYPE_FLOAT,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "uint32": FieldDescriptorProto.TYPE_UINT32,
    "uint64": FieldDescriptorProto.TYPE_UINT64,
    "bool": FieldDescriptorProto.TYPE_BOOL,
    "string": FieldDescriptorProto.TYPE_STRING,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
}


class ProtoFileError(PyroMQError):
    """The text is not the part of proto3 that is known here."""


def read_proto(name: str, text: str) -> FileDescriptorProto:
    """The descriptor of a file. Raises ProtoFileError."""
    return _Reader(name, text).read()


def _tokens(text: str) -> Iterator[str]:
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ProtoFileError(f"cannot read {text[position : position + 20]!r}")
        position = match.end()
        token = match.group(1) if match.group(1) is not None else match.group(2)
        if token is not None:
            yield token


class _Reader:
    def __init__(self, name: str, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._position = 0
        self._file = FileDescriptorProto(name=name, syntax="proto3")
        self._enums: set[str] = set()
        self._messages: set[str] = set()

    def read(self) -> FileDescriptorProto:
        file = self._file
        while self._position < len(self._tokens):
            match self._next():
                case "syntax":
                    self._expect("=", "proto3", ";")
                case "package":
                    file.package = self._next()
                    self._expect(";")
                case "import":
                    file.dependency.append(self._next())
                    self._expect(";")
                case "enum":
                    self._enum(file.enum_type.add(), "")
                case "message":
                    self._message(file.message_type.add(), "")
                case "service":
                    self._service(file.service.add())
                case other:
                    raise ProtoFileError(f"{other!r} begins nothing that is known at this place")
        for message in file.message_type:
            self._resolve(message, message.name)
        for service in file.service:
            for method in service.method:
                method.input_type = self._full_name(method.input_type, "")
                method.output_type = self._full_name(method.output_type, "")
        return file

    def _next(self) -> str:
        if self._position >= len(self._tokens):
            raise ProtoFileError("the file ends too early")
        self._position += 1
        return self._tokens[self._position - 1]

    def _at(self, token: str) -> bool:
        """Whether this is next; it is taken if so."""
        found = self._position < len(self._tokens) and self._tokens[self._position] == token
        self._position += found
        return found

    def _expect(self, *tokens: str) -> None:
        for token in tokens:
            if (found := self._next()) != token:
                raise ProtoFileError(f"{token!r} is missing before {found!r}")

    def _number(self) -> int:
        self._expect("=")
        token = self._next()
        try:
            number = int(token)
        except ValueError:
            raise ProtoFileError(f"{token!r} is no number") from None
        self._expect(";")
        return number

    def _enum(self, enum: EnumDescriptorProto, scope: str) -> None:
        enum.name = self._next()
        self._enums.add(_inside(scope, enum.name))
        self._expect("{")
        while not self._at("}"):
            value = enum.value.add(name=self._next())
            value.number = self._number()

    def _message(self, message: DescriptorProto, scope: str) -> None:
        message.name = self._next()
        here = _inside(scope, message.name)
        self._messages.add(here)
        self._expect("{")
        optionals: list[FieldDescriptorProto] = []
        while not self._at("}"):
            if self._at("enum"):
                self._enum(message.enum_type.add(), here)
            elif self._at("message"):
                self._message(message.nested_type.add(), here)
            elif self._at("oneof"):
                message.oneof_decl.add(name=self._next())
                self._expect("{")
                while not self._at("}"):
                    self._field(message).oneof_index = len(message.oneof_decl) - 1
            elif self._at("map"):
                self._map(message)
            elif self._at("optional"):
                optionals.append(self._field(message))
            elif self._at("repeated"):
                self._field(message).label = FieldDescriptorProto.LABEL_REPEATED
            else:
                self._field(message)
        for field in optionals:  # each is a oneof of its own, and those come last
            field.proto3_optional = True
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")

    def _field(self, message: DescriptorProto) -> FieldDescriptorProto:
        kind, name = self._next(), self._next()
        field = message.field.add(name=name, label=FieldDescriptorProto.LABEL_OPTIONAL)
        if kind in _SCALARS:
            field.type = _SCALARS[kind]
        else:
            field.type_name = kind
        field.number = self._number()
        return field

    def _map(self, message: DescriptorProto) -> None:
        self._expect("<")
        key = self._next()
        self._expect(",")
        value = self._next()
        self._expect(">")
        name = self._next()
        entry = message.nested_type.add(name="".join(part.title() for part in name.split("_")) + "Entry")
        entry.options.map_entry = True
        for number, (part, kind) in enumerate((("key", key), ("value", value)), 1):
            field = entry.field.add(name=part, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
            if kind in _SCALARS:
                field.type = _SCALARS[kind]
            else:
                field.type_name = kind
        message.field.add(
            name=name, number=self._number(), label=FieldDescriptorProto.LABEL_REPEATED, type_name=entry.name
        )
        self._messages.add(entry.name)

    def _service(self, service: ServiceDescriptorProto) -> None:
        service.name = self._next()
        self._expect("{")
        while not self._at("}"):
            self._expect("rpc")
            method = service.method.add(name=self._next())
            self._expect("(")
            method.client_streaming = self._at("stream")
            method.input_type = self._next()
            self._expect(")", "returns", "(")
            method.server_streaming = self._at("stream")
            method.output_type = self._next()
            self._expect(")", ";")

    def _resolve(self, message: DescriptorProto, scope: str) -> None:
        """Give the fields of a message, and of those inside it, the kinds and full names of their types."""
        entries = {nested.name for nested in message.nested_type if nested.options.map_entry}
        for field in message.field:
            if not field.type_name:
                continue
            name = field.type_name
            is_enum = any(_inside(prefix, name) in self._enums for prefix in _scopes(scope))
            field.type = FieldDescriptorProto.TYPE_ENUM if is_enum else FieldDescriptorProto.TYPE_MESSAGE
            field.type_name = (
                f".{self._file.package}.{scope}.{name}" if name in entries else self._full_name(name, scope)
            )
        for nested in message.nested_type:
            self._resolve(nested, _inside(scope, nested.name))

    def _full_name(self, name: str, scope: str) -> str:
        for prefix in _scopes(scope):
            inside = _inside(prefix, name)
            if inside in self._messages or inside in self._enums:
                return f".{self._file.package}.{inside}"
        if "." in name:
            return f".{name}"
        raise ProtoFileError(f"there is no type {name!r}")


def _inside(scope: str, name: str) -> str:
    return f"{scope}.{name}" if scope else name


def _scopes(scope: str) -> Iterator[str]:
    """A scope and those around it, the innermost first."""
    while scope:
        yield scope
        scope = scope.rpartition(".")[0]
    yield ""
