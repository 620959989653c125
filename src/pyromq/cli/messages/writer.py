"""How `pyromq consume` writes messages: bodies, JSON, or a template; to a stream or to a file each."""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import msgspec

from pyromq.cli.messages.form import Format, MessageForm
from pyromq.cli.plaintext import printable
from pyromq.client.errors import ClientError
from pyromq.protocol.message import ReceivedMessage


class Writer:
    """Writes each message at once. `close` ends a JSON list; a stream that is not ours is left open.

    On a terminal, control characters in what others sent are shown as escapes, unless the format is raw.
    """

    def __init__(self, stream: BinaryIO, form: Format, template: str | None = None) -> None:
        self._stream = stream
        self._json = form is Format.JSON and template is None
        self._render = _template(template) if template is not None else _FORMS[form]
        self._harmless = stream.isatty() and (form is not Format.RAW or template is not None)
        self.written = 0

    def write(self, message: ReceivedMessage) -> None:
        if self._json:
            self._stream.write(b"[\n" if not self.written else b",\n")
        text = self._render(message)
        self._stream.write(_harmless(text) if self._harmless else text)
        self._stream.flush()
        self.written += 1

    def close(self) -> None:
        if self._json:
            self._stream.write(b"\n]\n" if self.written else b"[]\n")
        self._stream.flush()
        if self._stream is not sys.stdout.buffer:
            self._stream.close()


class FolderWriter:
    """A file for each message, named by its place: `broker-a-0-17` with the ending of the format."""

    def __init__(self, folder: Path, form: Format, template: str | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._ending = ".json" if form in (Format.JSON, Format.JSONL) and template is None else ""
        # Alone in its file, a message needs neither a line end nor a list around it.
        whole = Format.RAW if form is Format.LINES else form
        self._render = _template(template) if template is not None else _FORMS[whole]
        self.written = 0

    def write(self, message: ReceivedMessage) -> None:
        name = f"{message.broker_name}-{message.queue_id}-{message.queue_offset}{self._ending}"
        (self._folder / name.replace("/", "_")).write_bytes(self._render(message))
        self.written += 1

    def close(self) -> None:
        pass


def _harmless(text: bytes) -> bytes:
    return printable(text.decode("utf-8", "backslashreplace")).encode()


def _json(message: ReceivedMessage) -> bytes:
    return msgspec.json.encode(MessageForm.of(message))


Render = Callable[[ReceivedMessage], bytes]

_FORMS: dict[Format, Render] = {
    Format.LINES: lambda message: message.body + b"\n",
    Format.RAW: lambda message: message.body,
    Format.JSONL: lambda message: _json(message) + b"\n",
    Format.JSON: _json,
}
_FIELDS: dict[str, Render] = {
    "t": lambda message: message.topic.encode(),
    "b": lambda message: message.broker_name.encode(),
    "q": lambda message: b"%d" % message.queue_id,
    "o": lambda message: b"%d" % message.queue_offset,
    "k": lambda message: " ".join(message.keys).encode(),
    "g": lambda message: (message.tags or "").encode(),
    "i": lambda message: message.message_id.encode(),
    "T": lambda message: b"%d" % message.store_timestamp,
    "h": lambda message: msgspec.json.encode(MessageForm.of(message).properties),
    "s": lambda message: message.body,
    "S": lambda message: b"%d" % len(message.body),
}
FIELDS_HELP = (
    "%t topic, %b broker, %q queue, %o offset, %k keys, %g tag, %i id, %T store time, %h properties, %s body, %S size"
)
_TOKEN = re.compile(r"%(.?)|\\(.?)", re.DOTALL)
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}


def _template(text: str) -> Render:
    r"""A template such as `%t %o: %s\n`. Raises ClientError for an unknown field."""
    parts: list[bytes | Render] = []
    at = 0
    for token in _TOKEN.finditer(text):
        parts.append(text[at : token.start()].encode())
        parts.append(_part(token))
        at = token.end()
    parts.append(text[at:].encode())
    return lambda message: b"".join(part if isinstance(part, bytes) else part(message) for part in parts)


def _part(token: re.Match[str]) -> bytes | Render:
    field, escape = token.groups()
    if field == "%":
        return b"%"
    found = _FIELDS.get(field) if field is not None else _ESCAPES.get(escape)
    if found is None:
        raise ClientError(f"the template has no field {token.group()!r}; there are {FIELDS_HELP}")
    return found
