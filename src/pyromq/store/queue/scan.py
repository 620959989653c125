"""Which of a queue's entries a read is answered with, and their records in one piece: the inner loops of `read`.

Nothing here knows queues or files: entries and parts of the log come as bytes. The functions have native twins of the
same name and contract.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from struct import Struct
from typing import Final

from pyromq import native
from pyromq.disk import Bytes
from pyromq.protocol.headers.pullrun import Answered, PullRun, Voice
from pyromq.protocol.records.queueentry import ENTRY, ENTRY_SIZE
from pyromq.store.log.plainrecord import MIN_SIZE, are_plain, is_plain
from pyromq.store.queue.offsettime import FILLER_SIZE

FEW: Final = 64
_PLACE: Final = Struct(">qi8x")
_CODE: Final = Struct(">i")
_LOW_32: Final = 0xFFFFFFFF
_CACHED_FILTERS: Final = 1024

Limits = tuple[int, int]
"""Bytes and records."""
Extent = tuple[int, int, int, int]
"""Begin and end of the log, how many bytes before the end count as being in memory, the size of a file."""
Run = tuple[int, int]
"""Begin and end of records that follow each other in one file."""
Picked = tuple[int, bool, bool, int, int, int, int, list[Run], list[int]]
"""What a scan found:

- how many entries it looked at, which need not be looked at again;
- whether a limit was met: if not, entries that follow may be wanted, too;
- whether entries before the first that was picked point out of the log;
- how many records were picked, and how many bytes they have;
- the lowest place of one, and where the last one ends;
- their runs;
- which of the entries looked at they are, counted from 0; empty when they are all of them."""


class TagCodes:
    """Lets a queue entry pass if its tag code is one of these, of which only the low half counts: the upper one is the
    sign. `packed` has them in order, four bytes each."""

    __slots__ = ("_codes", "packed")

    def __init__(self, codes: Iterable[int]) -> None:
        self._codes = frozenset(codes)
        self.packed = b"".join(map(_CODE.pack, sorted(code for code in self._codes if -(1 << 31) <= code < 1 << 31)))

    def __call__(self, tags_code: int) -> bool:
        return _signed(tags_code) in self._codes


def _signed(tags_code: int) -> int:
    low = tags_code & _LOW_32
    return low - (1 << 32) if low >= 1 << 31 else low


@lru_cache(maxsize=_CACHED_FILTERS)
def _codes_in(packed: bytes) -> frozenset[int]:
    return frozenset(code for (code,) in _CODE.iter_unpack(packed))


@lru_cache(maxsize=FEW)
def _few(count: int) -> Struct:
    return Struct(">" + "qi8x" * count)


def places(entries: Bytes) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Physical offsets and sizes; with one call for as many as an interactive consumer gets at a time."""
    count = len(entries) // ENTRY_SIZE
    if count <= FEW:
        numbers = _few(count).unpack(entries)
        return numbers[::2], numbers[1::2]
    offsets, sizes = zip(*_PLACE.iter_unpack(entries), strict=True)
    return offsets, sizes


@native.twin
def scan_entries(
    entries: Bytes,
    index: int,
    available: int,
    max_count: int,
    near: Limits,
    far: Limits,
    log: Extent,
    codes: bytes | None,
    /,
) -> Picked:
    """Pick records by their queue entries, of which so many are `available` from an index on.

    At most `max_count`, within `near` as long as they are in memory and `far` where not, but one at least; with `codes`
    (see `TagCodes`) only those. What is no record, is not in the log or lies in two files is passed over.
    """
    chosen = entries[index * ENTRY_SIZE : (index + available) * ENTRY_SIZE]
    chosen = chosen[: len(chosen) - len(chosen) % ENTRY_SIZE]
    if codes is None and chosen and (found := _all(chosen, max_count, near, log)) is not None:
        return found
    begin, end, resident, file_size = log
    wanted = None if codes is None else _codes_in(codes)
    ended = removing = False
    examined = count = size = last = 0
    oldest = -1
    runs: list[Run] = []
    numbers: list[int] = []
    run_begin = run_end = -1
    for physical, record_size, code in ENTRY.iter_unpack(chosen):
        byte_limit, count_limit = far if end - physical > resident else near
        if count and (count >= max_count or count >= count_limit or size + record_size > byte_limit):
            ended = True
            break
        examined += 1
        if record_size == FILLER_SIZE or record_size <= 0 or (wanted is not None and _signed(code) not in wanted):
            continue
        stop = physical + record_size
        if physical < begin or stop > end:
            removing = removing or not count
            continue
        if physical // file_size != (stop - 1) // file_size:
            continue
        if physical != run_end or physical % file_size == 0:
            if count:
                runs.append((run_begin, run_end))
            run_begin = physical
        last = run_end = stop
        numbers.append(examined - 1)
        oldest = physical if oldest < 0 or physical < oldest else oldest
        count += 1
        size += record_size
    if count:
        runs.append((run_begin, run_end))
    if count == examined:
        numbers = []
    return examined, ended, removing, count, size, max(oldest, 0), last, runs, numbers


def _all(entries: Bytes, max_count: int, near: Limits, log: Extent) -> Picked | None:
    """What a scan finds when every entry is wanted, in memory and in the log, as most are; else None."""
    begin, end, resident, file_size = log
    offsets, sizes = places(entries)
    there = len(sizes)
    count = max(1, min(there, max_count, near[1]))
    if count < there:
        offsets, sizes = offsets[:count], sizes[:count]
    size = sum(sizes)
    if size > near[0]:
        if min(sizes) <= 0:
            return None
        size = 0
        for kept, each in enumerate(sizes):
            if kept and size + each > near[0]:
                offsets, sizes, count = offsets[:kept], sizes[:kept], kept
                break
            size += each
    oldest, last = min(offsets), offsets[-1] + sizes[-1]
    largest = max(sizes)
    if min(sizes) <= 0 or largest == FILLER_SIZE or oldest < begin or max(offsets) + largest > end:
        return None
    following = _PLACE.unpack_from(entries, count * ENTRY_SIZE)[0] if count < there else oldest
    if end - min(oldest, following) > resident:
        return None
    if last - oldest == size and oldest // file_size == (last - 1) // file_size:
        *starts, _ = accumulate(sizes, initial=oldest)
        if tuple(starts) == offsets:
            return count, count < there, False, count, size, oldest, last, [(oldest, last)], []
    runs: list[Run] = []
    run_begin = run_end = -1
    for physical, record_size in zip(offsets, sizes, strict=True):
        stop = physical + record_size
        if physical // file_size != (stop - 1) // file_size:
            return None
        if physical != run_end or physical % file_size == 0:
            if run_begin >= 0:
                runs.append((run_begin, run_end))
            run_begin = physical
        run_end = stop
    runs.append((run_begin, run_end))
    return count, count < there, False, count, size, oldest, last, runs, []


@native.twin
def are_sound(
    log: memoryview, start: int, entries: Bytes, index: int, first: int, numbers: Sequence[int], verify_crc: bool, /
) -> bool:
    """Whether the records of entries are sound plain ones, in a part of the log that begins at `start`.

    `first` is the queue offset of the entry at the index. False means that a closer look is needed.
    """
    if type(numbers) is range:
        offsets, sizes = places(entries[(index + numbers[0]) * ENTRY_SIZE : (index + numbers[-1] + 1) * ENTRY_SIZE])
        begin, size = offsets[0] - start, sum(sizes)
        if offsets[-1] + sizes[-1] - offsets[0] == size and begin >= 0 and min(sizes) >= MIN_SIZE:
            # Most lie behind each other. If they only seem to, one is not where it says.
            view = log[begin : begin + size]
            return len(view) == size and are_plain(view, offsets, sizes, first + numbers[0], verify_crc)
    for number in numbers:
        physical, size, _ = ENTRY.unpack_from(entries, (index + number) * ENTRY_SIZE)
        at = physical - start
        if at < 0 or size < MIN_SIZE or at + size > len(log):
            return False
        if not is_plain(log, at, size, physical, first + number, verify_crc):
            return False
    return True


@native.twin
def gather(head: bytes, log: memoryview, start: int, runs: Sequence[Run], /) -> bytes | None:
    """The head and, behind it, runs of records out of a part of the log that begins at `start`; None if one lies
    elsewhere."""
    if any(begin < start or end - start > len(log) for begin, end in runs):
        return None
    return b"".join([head, *(log[begin - start : end - start] for begin, end in runs)])


@native.twin
def answer_pulls(
    run: PullRun,  # noqa: ARG001 - as all here: what the core needs
    room: int,  # noqa: ARG001
    entries: Bytes,  # noqa: ARG001
    window: tuple[int, int, int, int, int, int],  # noqa: ARG001
    near: Limits,  # noqa: ARG001
    far: Limits,  # noqa: ARG001
    log: memoryview,  # noqa: ARG001
    extent: tuple[int, int, int, int, int],  # noqa: ARG001
    codes: bytes | None,  # noqa: ARG001
    checks: tuple[int, int, int, bool],  # noqa: ARG001
    voice: Voice,  # noqa: ARG001
    /,
) -> Answered | None:
    """Answer the first pulls of a run, with SUCCESS and FOUND, until one finds nothing, must be looked at more closely
    or there is no more room; None if that is the first one. There is room for one at least.

    `window` is where in the entries that of the first pull is and how many there are from there on; the begin and the
    end of the queue; and how many entries are examined for one answer at least and at most. `near`, `far` and `codes`
    are those of `scan_entries`. `log` is a file of it, whose records are the only ones that are sent; `extent` says
    where the file begins, and then what `scan_entries` wants. `checks` says whose records are looked at: those of every
    n-th pull from one on, those before a place of the log; and whether their bodies are.
    """
    return None
