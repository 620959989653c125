"""Recovery of queues: the native core finds their end where Python finds it, whatever the bytes."""

from hypothesis import given
from hypothesis import strategies as st

from pyromq.protocol.records.queueentry import ENTRY
from pyromq.store.queue.consumequeue import sound_entries
from pyromq.store.queue.offsettime import FILLER_SIZE
from tests.unit.native.samples import INTS, LONGS
from tests.unit.native.twins import agree, needs_core

pytestmark = needs_core

GROWN = st.lists(st.integers(1, 1 << 20), max_size=40).map(lambda steps: [sum(steps[:n]) for n in range(len(steps))])
HOSTILE = st.lists(st.tuples(LONGS, INTS, LONGS), max_size=20)


@given(places=GROWN, fillers=st.sets(st.integers(0, 40)), rest=HOSTILE, last=LONGS)
def test_the_end_of_a_queue(places: list[int], fillers: set[int], rest: list[tuple[int, int, int]], last: int) -> None:
    entries = [(0, FILLER_SIZE, 0) if n in fillers else (place, 100, 7) for n, place in enumerate(places)]
    data = b"".join(ENTRY.pack(*entry) for entry in [*entries, *rest])
    agree(sound_entries, data, -1)
    agree(sound_entries, memoryview(data), last)
