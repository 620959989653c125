"""The log lines of all brokers of a fleet in one stream, each with the name of its broker.

Text gets the name in front; a JSON event gets it as `broker`, and what is no event, such as the last words of an
interpreter that fell, is made one.
"""

import json
from collections.abc import Callable
from typing import Final

LONGEST: Final = 64 * 1024


def named(name: str, line: str, *, as_json: bool) -> str:
    """One line of a broker, with its name."""
    if not as_json:
        return f"{name} | {line}"
    try:
        event = json.loads(line)
    except ValueError:
        event = None
    if not isinstance(event, dict):
        event = {"level": "error", "logger": "stderr", "message": line}
    return json.dumps({"broker": name} | event, ensure_ascii=False)


class Lines:
    """Cuts what a process writes into lines and gives each to `take`. A line without an end is cut, too."""

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take = take
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """The next bytes, however they were cut."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            self._take(line.decode(errors="replace").rstrip("\r"))
        if len(self._rest) > LONGEST:
            self.end()

    def end(self) -> None:
        """Nothing more comes, or not soon."""
        rest, self._rest = self._rest, b""
        if rest:
            self._take(rest.decode(errors="replace"))
