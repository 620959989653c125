"""Half messages of a slave that acts for its master: each moves to another master, which asks its producers.

They go in the order of the half queue, so that the stored offset of the queue tells which have gone: the master that
comes back begins behind them.
"""

import logging

from pyromq.broker.core import Core
from pyromq.broker.delay.detour import copy_of, read_record, real_place
from pyromq.broker.replication.succession.escape import Escape
from pyromq.broker.transaction.halfmessages import Half, HalfMessages
from pyromq.protocol.properties import decode_properties
from pyromq.store.log.put import PutMessage

log = logging.getLogger(__name__)

SLICE = 100


class HalfEscape:
    """Call `tick` several times a second."""

    def __init__(self, core: Core, halves: HalfMessages, escape: Escape) -> None:
        self._halves = halves
        self._store = core.store
        self._escape = escape
        self._clock = core.clock
        self._running = False

    def start(self) -> None:
        """Find out what is open, and begin to move it."""
        self._halves.load(acting=True)
        self._running = True

    def stop(self) -> None:
        """Leave the rest to the master."""
        self._running = False
        self._halves.load()

    def tick(self) -> None:
        """Move what has waited for its end long enough."""
        if not self._running:
            return
        for _ in range(SLICE):
            half = self._halves.oldest
            if half is None or half.due > self._clock():
                break
            message = self._message(half)
            if message is not None and not self._escape.put(message).stored:
                break
            self._halves.forget(half.origin)
        self._halves.move_cursors()

    def _message(self, half: Half) -> PutMessage | None:
        """The transactional message as its producer sent it; None when there is nothing left to send."""
        found = read_record(self._store, half.physical, None)
        properties = decode_properties(found[0].properties) if found is not None else {}
        place = real_place(properties)
        if found is None or place is None:
            log.warning("the half message at %d is not legible, its transaction is dropped", half.physical)
            return None
        summary, record = found
        return copy_of(summary, record, place, summary.properties, properties)
