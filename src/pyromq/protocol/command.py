"""`Command`, one request or response, and how it is written. Reading one off the wire is in `frame`.

Frame: total length 4 | serialization << 24 + header length 4 | header | body, the total not counting its own word.
"""

import struct
from enum import IntEnum
from typing import TypeVar, final

import msgspec

from pyromq.protocol.codes import ResponseCode, request_name, response_name
from pyromq.protocol.errors import HeaderError
from pyromq.protocol.headers.base import Header, decode_header, encode_header, header_text, json_reader
from pyromq.protocol.release import CURRENT, Language

RESPONSE_FLAG = 1
ONEWAY_FLAG = 2
MAX_HEADER = 1024 * 1024
"""Largest header we read or write. The format allows 16 MiB, but its fields take many times that in memory."""


class Serialization(IntEnum):
    """How the header of a frame is written; the top byte of the header word."""

    JSON = 0
    ROCKETMQ = 1


H = TypeVar("H", bound=Header)
_Raw = msgspec.Raw
Body = bytes | bytearray | memoryview


@final
class Command(msgspec.Struct, eq=False, gc=False):
    """One request or response.

    `fields` are the extra fields of the header in the form they came in: JSON text, a typed header or a dictionary; a
    `str` is JSON text that we wrote ourselves, an object of texts. They become a dictionary when somebody asks for
    `ext`; neither `header()` nor `encode()` needs that.
    """

    code: int
    flag: int = 0
    opaque: int = 0
    fields: dict[str, str] | Header | msgspec.Raw | str | None = None
    body: Body = b""
    remark: str | None = None
    language: Language | None = Language.PYTHON
    version: int = CURRENT
    serialization: Serialization = Serialization.JSON

    @classmethod
    def request(
        cls,
        code: int,
        header: Header | None = None,
        *,
        body: Body = b"",
        ext: dict[str, str] | None = None,
        opaque: int = 0,
        oneway: bool = False,
        serialization: Serialization = Serialization.JSON,
    ) -> "Command":
        """A request of our own; `ext` adds fields to those of the header.

        >>> Command.request(RequestCode.GET_MAX_OFFSET, GetMaxOffsetHeader(topic="orders", queue_id=0))
        """
        flag = ONEWAY_FLAG if oneway else 0
        return cls(code, flag, opaque, _merge(header, ext), body, serialization=serialization)

    def reply(
        self,
        code: int = ResponseCode.SUCCESS,
        header: Header | None = None,
        *,
        remark: str | None = None,
        body: Body = b"",
        ext: dict[str, str] | None = None,
    ) -> "Command":
        """The response to this request: same opaque and serialization, response bit set."""
        fields = header if ext is None else _merge(header, ext)
        return Command(code, RESPONSE_FLAG, self.opaque, fields, body, remark, serialization=self.serialization)

    @property
    def is_response(self) -> bool:
        return self.flag & RESPONSE_FLAG != 0

    @property
    def is_oneway(self) -> bool:
        return self.flag & ONEWAY_FLAG != 0

    @property
    def name(self) -> str:
        """The official name of the code, its number when it has none."""
        return response_name(self.code) if self.flag & RESPONSE_FLAG else request_name(self.code)

    @property
    def ext(self) -> dict[str, str]:
        """The fields as text. Raises HeaderError when the peer sent something that is no set of fields."""
        fields = self.fields
        if not isinstance(fields, dict):
            fields = _as_ext(fields)
            self.fields = fields
        return fields

    @ext.setter
    def ext(self, fields: dict[str, str]) -> None:
        self.fields = fields

    def field(self, name: str) -> str | None:
        """One of the fields as text, without reading the others when it is not there. For plain names."""
        fields = self.fields
        if type(fields) is _Raw and f'"{name}"'.encode() not in bytes(fields):
            return None
        return self.ext.get(name)

    def header(self, cls: type[H]) -> H:
        """The typed header. Raises HeaderError, with field, header and code, when the fields do not fit."""
        fields = self.fields
        if type(fields) is _Raw:
            header: H | None = json_reader(cls)(fields)
            if header is not None:
                return header
        elif type(fields) is cls:
            return fields
        try:
            return decode_header(cls, self.ext)
        except HeaderError as error:
            raise HeaderError(f"{self.name}: {error}") from None

    def __repr__(self) -> str:
        kind = "response" if self.is_response else "oneway" if self.is_oneway else "request"
        return f"<Command {kind} {self.name} opaque={self.opaque} remark={self.remark!r} body={len(self.body)} bytes>"


def _merge(header: Header | None, ext: dict[str, str] | None) -> dict[str, str] | Header | None:
    if header is None or ext is None:
        return header or ext
    return encode_header(header) | ext


_TEXT_FIELDS = msgspec.json.Decoder(dict[str, str])
_ANY_FIELDS = msgspec.json.Decoder(dict[str, object] | None)


def _as_ext(fields: msgspec.Raw | Header | str | None) -> dict[str, str]:
    if fields is None:
        return {}
    if isinstance(fields, Header):
        return encode_header(fields)
    try:
        return _TEXT_FIELDS.decode(fields)
    except (ValueError, RecursionError):
        pass
    try:
        values = _ANY_FIELDS.decode(fields) or {}
    except (ValueError, RecursionError) as error:
        raise HeaderError(f"extFields cannot be read: {error}") from None
    return {name: _as_text(value) for name, value in values.items() if value is not None}


def _as_text(value: object) -> str:
    # Java's reader turns whatever is not text into text; nested values keep their JSON form.
    return header_text(value) if isinstance(value, str | int | float) else msgspec.json.encode(value).decode()


_to_json = msgspec.json.Encoder().encode
_WORDS = struct.Struct(">II")
# code, language, version, opaque, flag, remark length
_BINARY_HEAD = struct.Struct(">hBhiiI")
_SHORT = struct.Struct(">H")
_INT = struct.Struct(">I")
_UNKNOWN_LANGUAGE = 0xFF
_PYTHON = Language.PYTHON


def encode(command: Command) -> bytes:
    """The whole frame. Raises HeaderError for what has no form on the wire, such as text with half a surrogate pair."""
    body = command.body
    head = encode_head(command, len(body))
    return head + body if body else head


def encode_head(command: Command, body_length: int) -> bytes:
    """The frame up to its body, for writers that send the body, of `body_length` bytes, from where it lies."""
    try:
        header = _binary_header(command) if command.serialization else _json_header(command)
    except (UnicodeEncodeError, struct.error) as error:
        raise HeaderError(f"{command.name} cannot be written: {error}") from None
    length = len(header)
    if length > MAX_HEADER:
        raise HeaderError(f"{command.name} cannot be written: a header of {length} bytes, more than {MAX_HEADER}")
    return _WORDS.pack(4 + length + body_length, command.serialization << 24 | length) + header


def _json_header(command: Command) -> bytes:
    fields = command.fields
    if fields is None:
        ext = ""
    else:
        if type(fields) is str:
            text = fields
        else:
            text = fields.to_json() if isinstance(fields, Header) else _to_json(command.ext).decode()
        ext = f',"extFields":{text}' if text != "{}" else ""
    language = command.language
    if language is _PYTHON:
        spoken = ',"language":"PYTHON"'
    else:
        spoken = "" if language is None else f',"language":"{language.name}"'
    remark = command.remark
    said = "" if remark is None else f',"remark":{_to_json(remark).decode()}'
    return (
        f'{{"code":{command.code}{ext},"flag":{command.flag}{spoken},"opaque":{command.opaque}{said},'
        f'"serializeTypeCurrentRPC":"JSON","version":{command.version}}}'
    ).encode()


def _binary_header(command: Command) -> bytes:
    language = command.language
    remark = (command.remark or "").encode()
    entries: list[bytes] = []
    for name, value in command.ext.items():
        key, text = name.encode(), value.encode()
        entries += (_SHORT.pack(len(key)), key, _INT.pack(len(text)), text)
    block = b"".join(entries)
    head = _BINARY_HEAD.pack(
        _truncate(command.code),
        _UNKNOWN_LANGUAGE if language is None else language,
        _truncate(command.version),
        command.opaque,
        command.flag,
        len(remark),
    )
    return b"".join((head, remark, _INT.pack(len(block)), block))


def _truncate(number: int) -> int:
    """The low 16 bits as a signed number: binary headers cut off larger codes, and readers know it."""
    return (number + 0x8000 & 0xFFFF) - 0x8000
