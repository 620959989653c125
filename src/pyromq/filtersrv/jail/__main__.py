"""The jail's program: lock up, say so, then answer questions from standard input on standard output until it ends.

Everything it will ever import is imported before it locks up: afterwards nothing can be opened.
"""

import codecs
import os
import sys
from typing import Final

from pyromq.filtersrv import frames
from pyromq.filtersrv.frames import Answer
from pyromq.filtersrv.jail.confine import confine

_CODECS: Final = ("ascii", "latin_1", "utf_8", "utf_16", "utf_16_le", "utf_16_be", "utf_32", "unicode_escape")
_PIECE: Final = 64 * 1024
INSTALL: Final = "filter classes need RestrictedPython where the broker runs: pip install 'pyromq[filters]'"


def main() -> None:
    """Arguments: bytes of memory, milliseconds of processor time for each question."""
    memory, cpu_ms = map(int, sys.argv[1:])
    try:
        from pyromq.filtersrv.jail.jail import Jail  # noqa: PLC0415 - what it needs may not be installed

        for codec in _CODECS:
            codecs.lookup(codec)
        confine(memory)
    except ImportError as error:
        missing = (error.name or "").startswith("RestrictedPython")
        _write(Answer(error=INSTALL if missing else f"the jail cannot be built: {error}"))
        return
    except Exception as error:  # noqa: BLE001 - whatever it is, the keeper must know
        _write(Answer(error=f"the jail cannot be closed: {type(error).__name__}: {error}"))
        return
    jail = Jail(cpu_ms / 1000)
    _write(Answer())
    while (data := _read_frame()) is not None:
        _write(jail.answer(data))


def _read_frame() -> bytes | None:
    """The next question, None when there are no more."""
    head = _read(frames.LENGTH_SIZE)
    size = int.from_bytes(head)
    if len(head) < frames.LENGTH_SIZE or size > frames.MAX_QUESTION:
        return None
    data = _read(size)
    return data if len(data) == size else None


def _read(size: int) -> bytes:
    pieces = []
    while size and (piece := os.read(0, min(size, _PIECE))):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _write(answer: Answer) -> None:
    data = memoryview(frames.pack(answer))
    while data:
        data = data[os.write(1, data) :]


if __name__ == "__main__":
    main()
