"""Twins under the fuzzer: the tests that compare them, given bytes by the fuzzer in place of hypothesis.

Every test with `@given` in `tests/unit/native/test_*_twins.py` is one, so that a new seam is fuzzed once it is tested.
"""

import importlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from pyromq import native
from pyromq.arrow.policy import BadRecords
from pyromq.arrow.recordlayout import plain_starts
from pyromq.errors import PyroMQError
from pyromq.protocol.command import Command
from pyromq.protocol.frame import FrameReader, commands_of
from pyromq.protocol.headers.run import Run
from pyromq.store.log.encoder import place_batch
from tests.unit.native.test_batch_twins import hashed
from tests.unit.native.test_bodies_twins import same_columns
from tests.unit.native.test_hpack_twins import compared as same_fields
from tests.unit.native.test_messages_twins import taken
from tests.unit.native.test_receipts_twins import compared
from tests.unit.native.twins import agree, as_values

FOLDER = Path(__file__).parents[1] / "unit" / "native"
SEEDS = 8
"""For each test; what they hold decides no more than where the fuzzer begins."""
LENGTH = 1024
"""Enough for the arguments of every test: it gives up on less."""

Feed = Callable[[bytes], object]


def comparisons() -> dict[str, Feed]:
    """By name, what makes arguments of bytes and compares twins. Tests that need fixtures are left out."""
    found: dict[str, Feed] = {}
    for path in sorted(FOLDER.glob("test_*_twins.py")):
        module = importlib.import_module(f"tests.unit.native.{path.stem}")
        for name, test in inspect.getmembers(module, inspect.isfunction):
            driven = getattr(test, "hypothesis", None)
            if driven is not None and not inspect.signature(test).parameters:
                found[f"{path.stem}.{name}"] = driven.fuzz_one_input
    return found


def decoders(data: bytes) -> None:
    """The bytes themselves, to the twins that read what comes from strangers; much quicker than the tests."""
    half = len(data) // 2
    taken(data)
    agree(plain_starts, data, 0)
    same_columns([data], BadRecords.KEEP)
    compared(data)
    same_fields([data[:half], data[half:], data])
    room = bytearray(4 * len(data) + 4096)
    agree(place_batch, room, 0, len(room), data, b"t", 0, 0, 0, bytes(44), 0, plain=hashed)
    seen = []
    for on in (True, False):
        native.core.on = on
        try:
            seen.append(_commands(data))
        finally:
            native.core.on = True
    assert seen[0] == seen[1]


def _commands(data: bytes) -> object:
    try:
        items = FrameReader(runs=True).receive(data)
        return as_values([each for item in items for each in _requests(item)])
    except PyroMQError as error:
        return str(error), as_values(getattr(error, "commands", None))


def _requests(item: Command | Run) -> list[Command]:
    return [item] if isinstance(item, Command) else commands_of(item)


@contextmanager
def opened() -> Iterator[Callable[[bytes], None]]:
    """The first byte chooses the test."""
    if not native.core.on:
        raise RuntimeError(f"there are no twins to compare: {native.core}")
    feeds = list(comparisons().values())

    def feed(data: bytes) -> None:
        feeds[data[0] % len(feeds) if data else 0](data[1:])

    yield feed


def seeds() -> list[bytes]:
    chance = Random(1)
    return [bytes([number]) + chance.randbytes(LENGTH) for number in range(len(comparisons())) for _ in range(SEEDS)]
