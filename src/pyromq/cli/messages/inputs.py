"""Messages out of files, standard input and the command line.

Inputs are read as they are sent, never more at a time than a message may have; what is wrong in them is said with its
place.
"""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from pyromq.cli.messages.form import Format, read_form, read_forms
from pyromq.client.errors import ClientError
from pyromq.protocol.message import Message

MAX_BODY = 4 * 1024 * 1024


def messages_of(
    topic: str, form: Format, separator: str | None, files: list[Path], given: list[str] | None
) -> Iterator[Message]:
    """The messages of all inputs, one after the other. Raises ClientError, OSError."""
    if separator is not None and form is not Format.LINES:
        raise ClientError("--key-separator is for the format lines")
    if separator == "":
        raise ClientError("--key-separator must not be empty")
    if given:
        if files:
            raise ClientError("give messages (-m) or files, not both")
        for text in given:
            yield from _split(topic, form, separator, f"message {text[:20]!r}", _Once(text.encode()))
        return
    for path in files or [Path("-")]:
        if str(path) == "-":
            yield from _split(topic, form, separator, "standard input", sys.stdin.buffer)
        else:
            with path.open("rb") as stream:
                yield from _split(topic, form, separator, str(path), stream)


class _Once:
    """Text of the command line, read as a file is."""

    def __init__(self, data: bytes) -> None:
        self._rest = data

    def read(self, size: int) -> bytes:
        data, self._rest = self._rest[:size], self._rest[size:]
        return data

    def readline(self, size: int) -> bytes:
        end = self._rest.find(b"\n") + 1 or len(self._rest)
        return self.read(min(end, size))


def _split(topic: str, form: Format, separator: str | None, source: str, stream: BinaryIO | _Once) -> Iterator[Message]:
    """Messages of one input; nothing is read beyond what a message may have. Errors say where they are."""
    if form in (Format.RAW, Format.JSON):
        # A JSON document holds many messages; it is still bounded.
        limit = MAX_BODY if form is Format.RAW else 64 * MAX_BODY
        data = _bounded(stream.read, limit, source)
        if form is Format.RAW:
            yield Message(topic, data)
        else:
            yield from (each.message(topic) for each in _located(read_forms, data, source))
        return
    number = 0
    while line := _bounded(stream.readline, 2 * MAX_BODY, f"{source}, line {number + 1}"):
        number += 1
        line = line.rstrip(b"\r\n")
        if not line:
            continue
        if form is Format.JSONL:
            form_of_line = _located(read_form, line, f"{source}, line {number}")
            yield form_of_line.message(topic)
        else:
            yield _line_message(topic, line, separator)


def _line_message(topic: str, line: bytes, separator: str | None) -> Message:
    key, found, body = line.partition(separator.encode()) if separator is not None else (b"", b"", line)
    if not found:
        return Message(topic, line)
    return Message(topic, body, keys=key.decode("utf-8", "replace") if key else ())


def _bounded(read: Callable[[int], bytes], limit: int, source: str) -> bytes:
    data = read(limit + 1)
    if len(data) > limit:
        raise ClientError(f"{source}: more than {limit} bytes, which no message can have")
    return data


def _located(read: Callable[[bytes], Any], data: bytes, source: str) -> Any:
    try:
        return read(data)
    except ClientError as error:
        raise ClientError(f"{source}: {error}") from None
