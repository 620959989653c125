"""From bytes to commands: cuts a stream into frames and reads their headers. Writing is in `command`.

Nothing is kept for a frame beyond the bytes that arrived, and its declared lengths are checked as soon as they are
known. Headers are copied out of the input (they are short), bodies are read-only views of it.
"""

import struct
from collections.abc import Iterable
from typing import Any, NoReturn

import msgspec

from pyromq import native
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import MAX_HEADER, RESPONSE_FLAG, Command, Serialization
from pyromq.protocol.errors import FrameError
from pyromq.protocol.headers.base import Int, header_text
from pyromq.protocol.headers.run import Run
from pyromq.protocol.release import Language, language_from_name, language_from_number

MAX_FRAME = 16 * 1024 * 1024
"""Largest frame that peers accept, its length word included."""

_unpack_words = struct.Struct(">iI").unpack_from
# Header words below this have a zero, for JSON, in their top byte.
_JSON_LIMIT = 1 << 24
_LENGTH = struct.Struct(">i")


@native.twin
def cut_run(stream: bytes | bytearray, position: int, max_frame: int, /) -> Run | None:  # noqa: ARG001 - the core's
    """The plain sends, or the plain pulls, that begin at a position of a stream of frames; None if there are none, as
    always without the core."""
    return None


class FrameReader:
    """Takes the bytes of one connection in whatever pieces they arrive and hands out commands.

    >>> reader = FrameReader()
    >>> commands = reader.feed(data)

    With `runs`, for which there must be a native core, `receive` hands out plain sends and plain pulls together.
    """

    __slots__ = ("_broken", "_buffer", "_max_frame", "_needed", "buffered", "runs")

    def __init__(self, max_frame: int = MAX_FRAME, *, runs: bool = False) -> None:
        self._max_frame = max_frame
        self.runs = runs and native.core.on
        # The start of a frame that is not complete, and how long it must get before looking at it again is of use.
        self._buffer = bytearray()
        self._needed = 0
        self._broken: str | None = None
        self.buffered = 0
        """How many bytes of an incomplete frame are kept."""

    def feed(self, data: bytes | bytearray) -> list[Command]:
        """The commands that `data` completes.

        Raises FrameError, which carries the commands before the broken frame; from then on the reader only fails.
        """
        commands: list[Command] = []
        self._feed(data, commands, 0, runs=False)
        return commands

    def receive(self, data: bytes) -> list[Command | Run]:
        """The same, for a reader with `runs` with plain requests as runs; an error carries commands only."""
        items: list[Command | Run] = []
        position, runs = 0, self.runs
        if runs and not self.buffered and self._broken is None:
            position = self._cut_runs(data, items, 0)
            if position == len(data):  # nothing but sends or pulls, as in most reads of a broker
                return items
        self._feed(data, items, position, runs=runs)
        return items

    def _feed(self, data: bytes | bytearray, items: list[Any], position: int, *, runs: bool) -> None:
        if self._broken is not None:
            raise FrameError(self._broken)
        stream: bytes | bytearray = data
        if self.buffered:
            self._buffer += data
            self.buffered = len(self._buffer)
            if self.buffered < self._needed:
                return
            # Commands keep views of the old buffer, so it must never change again.
            stream, self._buffer, self.buffered = self._buffer, bytearray(), 0
            if runs:
                position = self._cut_runs(stream, items, 0)
        try:
            end = self._cut(stream, items, position, runs=runs)
        except FrameError as error:
            self._broken = str(error)
            raise FrameError(self._broken, _flat(items) if runs else items) from None
        if end < len(stream):
            self._buffer += memoryview(stream)[end:]
            self.buffered = len(self._buffer)

    def _cut_runs(self, stream: bytes | bytearray, items: list[Any], position: int) -> int:
        """Append the runs that begin at a position, and return where they end.

        If the core fails there is none, since Python reads the frames then.
        """
        try:
            while position < len(stream) and (run := cut_run(stream, position, self._max_frame)) is not None:
                items.append(run)
                position = run.end
        except native.NativeCoreError:
            pass
        return position

    def _cut(self, stream: bytes | bytearray, items: list[Any], position: int, *, runs: bool) -> int:
        """Append the complete frames of `stream` from a position on, where no run begins, and return where they end."""
        view = memoryview(stream).toreadonly()
        size = len(stream)
        longest = self._max_frame - 4
        while size - position >= 8:
            length, word = _unpack_words(stream, position)
            header_length = word & 0xFFFFFF
            if not 4 <= length <= longest or header_length > length - 4 or header_length > MAX_HEADER:
                self._refuse(length, header_length)
            end = position + 4 + length
            if end > size:
                if word >> 24 > Serialization.ROCKETMQ:
                    raise _unknown_serialization(word >> 24)
                self._needed = end - position
                return position
            body_start = position + 8 + header_length
            header = stream[position + 8 : body_start]
            body = view[body_start:end] if body_start < end else b""
            items.append(_read_json(header, body) if word < _JSON_LIMIT else _read_other(word >> 24, header, body))
            position = self._cut_runs(stream, items, end) if runs else end
        self._needed = 8
        if size - position < 4:
            self._needed = 4
        elif not 4 <= (length := _LENGTH.unpack_from(stream, position)[0]) <= longest:
            self._refuse(length, 0)
        return position

    def _refuse(self, length: int, header_length: int) -> NoReturn:
        if length < 4:
            raise FrameError(f"frame declares {length} bytes, less than its header word")
        if length > self._max_frame - 4:
            raise FrameError(f"frame declares {length} bytes, more than the {self._max_frame} allowed")
        if header_length > length - 4:
            raise FrameError(f"frame declares {length} bytes but a header of {header_length}")
        raise FrameError(f"frame declares a header of {header_length} bytes, more than the {MAX_HEADER} allowed")


def commands_of(run: Run) -> list[Command]:
    """The requests of a run, as they are read without the core."""
    stream = run.stream
    return [_request_at(stream, start) for start in run.starts]


def first_of(run: Run) -> Command:
    """The first of them."""
    return _request_at(run.stream, run.starts[0])


def _request_at(stream: bytes | bytearray, start: int) -> Command:
    """What a whole frame holds that can be read."""
    length, word = _unpack_words(stream, start)
    end, body_start = start + 4 + length, start + 8 + (word & 0xFFFFFF)
    header = stream[start + 8 : body_start]
    body = memoryview(stream).toreadonly()[body_start:end] if body_start < end else b""
    return _read_json(header, body) if word < _JSON_LIMIT else _read_other(word >> 24, header, body)


def _flat(items: Iterable[Command | Run]) -> list[Command]:
    return [each for item in items for each in ((item,) if isinstance(item, Command) else commands_of(item))]


def decode(frame: bytes) -> Command:
    """Read one frame, given without its length word. Raises FrameError."""
    commands = FrameReader(len(frame) + 4).feed(_LENGTH.pack(len(frame)) + frame)
    return commands[0]


def _read_other(serialization: int, header: bytes | bytearray, body: bytes | memoryview) -> Command:
    if serialization == Serialization.ROCKETMQ:
        return _read_binary(bytes(header), body)
    raise _unknown_serialization(serialization)


def _unknown_serialization(serialization: int) -> FrameError:
    return FrameError(f"unknown serialization type {serialization} in the header word")


class _JsonHead(msgspec.Struct, gc=False):
    """A JSON header as writers should write it, numbers in quotes included."""

    code: Int = 0
    flag: Int = 0
    opaque: Int = 0
    version: Int = 0
    language: str | int | None = "JAVA"
    remark: str | None = None
    ext: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="extFields")


class _LooseHead(msgspec.Struct):
    """The same with nulls for numbers and anything simple for texts."""

    code: Int | None = 0
    flag: Int | None = 0
    opaque: Int | None = 0
    version: Int | None = 0
    language: str | int | float | bool | None = "JAVA"
    remark: str | int | float | bool | None = None
    ext: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="extFields")


_HEAD = msgspec.json.Decoder(_JsonHead, strict=False)
_LOOSE_HEAD = msgspec.json.Decoder(_LooseHead, strict=False)
_LANGUAGES: dict[str | int | None, Language] = {member.name: member for member in Language}


def _read_json(header: bytes | bytearray, body: bytes | memoryview) -> Command:
    try:
        head = _HEAD.decode(header)
    except (ValueError, RecursionError):
        head = _loose_head(header)
    try:
        language: Language | None = _LANGUAGES[head.language]
    except KeyError:
        language = _language(head.language)
    return Command(head.code, head.flag, head.opaque, head.ext or None, body, head.remark, language, head.version)


def _loose_head(header: bytes | bytearray) -> _JsonHead:
    try:
        head = _LOOSE_HEAD.decode(header)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"JSON header cannot be read: {error}") from None
    return _JsonHead(
        head.code or 0,
        head.flag or 0,
        head.opaque or 0,
        head.version or 0,
        None if head.language is None else header_text(head.language),
        None if head.remark is None else header_text(head.remark),
        head.ext,
    )


def _language(value: str | int | None) -> Language | None:
    if value is None:
        return None
    return language_from_number(value) if isinstance(value, int) else language_from_name(value)


# code 2 | language 1 | version 2 | opaque 4 | flag 4 | remark length 4 | remark | ext length 4 | entries
_BINARY_HEAD = struct.Struct(">hBhiii")
_BINARY_MINIMUM = _BINARY_HEAD.size + 4
# Codes above 32767 lose their upper half in a binary header. What is left of the POP family has no other meaning.
_TRUNCATED = {code.value & 0xFFFF: code.value for code in RequestCode if code > 0x7FFF}


def _read_binary(header: bytes, body: bytes | memoryview) -> Command:
    if len(header) < _BINARY_MINIMUM:
        raise FrameError(f"binary header of {len(header)} bytes, at least {_BINARY_MINIMUM} are needed")
    code, language, version, opaque, flag, remark_length = _BINARY_HEAD.unpack_from(header)
    if not 0 <= remark_length <= len(header) - _BINARY_MINIMUM:
        raise FrameError(f"binary header of {len(header)} bytes declares a remark of {remark_length}")
    entries = _BINARY_MINIMUM + remark_length
    (ext_length,) = _LENGTH.unpack_from(header, entries - 4)
    if ext_length != len(header) - entries:
        raise FrameError(f"binary header declares {ext_length} bytes of fields but has {len(header) - entries}")
    try:
        remark = header[_BINARY_HEAD.size : entries - 4].decode()
        ext = _read_entries(header, entries)
    except UnicodeDecodeError as error:
        raise FrameError(f"binary header holds text that is not UTF-8: {error}") from None
    if not flag & RESPONSE_FLAG:
        code = _TRUNCATED.get(code, code)
    speaks = language_from_number(language)
    return Command(code, flag, opaque, ext, body, remark or None, speaks, version, Serialization.ROCKETMQ)


def _read_entries(header: bytes, position: int) -> dict[str, str]:
    """Fields up to the end of the header: key length 2 | key | value length 4 | value. Empty ones stand for null."""
    ext: dict[str, str] = {}
    while position < len(header):
        key_end = position + 2 + int.from_bytes(header[position : position + 2], "big")
        value_start = key_end + 4
        if value_start > len(header):
            raise FrameError(f"binary header ends within the key or value length of field {len(ext) + 1}")
        end = value_start + _LENGTH.unpack_from(header, key_end)[0]
        if not value_start <= end <= len(header):
            raise FrameError(f"binary header declares {end - value_start} bytes for the value of field {len(ext) + 1}")
        if position + 2 < key_end and value_start < end:
            ext[header[position + 2 : key_end].decode()] = header[value_start:end].decode()
        position = end
    return ext
