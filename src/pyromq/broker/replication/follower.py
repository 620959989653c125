"""One slave as its master sees it: where it is, what it gets next, whether it keeps up. No I/O; times are passed in."""

import logging
from typing import Protocol

from pyromq.protocol.bodies.replication import HAConnectionInfo
from pyromq.protocol.errors import FrameError

log = logging.getLogger(__name__)


MAX_OFFSET = 1 << 50
"""Beyond the end of any log; what probes of the port write looks like offsets, but like such ones."""


class Log(Protocol):
    """What replication needs of a store."""

    @property
    def min_physical_offset(self) -> int: ...
    @property
    def max_physical_offset(self) -> int: ...
    def read_raw(self, offset: int, max_bytes: int) -> memoryview | None: ...


class Follower:
    """Follows `source`. Until its first report it is nobody: a probe of the port looks just like it."""

    def __init__(self, peer: str, source: Log, now: int) -> None:
        self.peer = peer
        self._source = source
        self.position = -1
        """Where the next block begins; -1 before the first report."""
        self.ack = -1
        """The end of its log as last reported, as far as that is our log."""
        self.proved = False
        """Whether all it claims to have is known to be this log: compared, sent from here, or nothing at all."""
        self.astray = False
        """It asked for what this log does not have, and gets nothing but signs of life that tell it so."""
        self.heard = self.sent = now
        self.transferred = 0
        self.rate = 0
        """Bytes sent in the last full second."""
        self._second = now
        self._counted = 0

    @property
    def started(self) -> bool:
        """Whether it is a slave and not just a connection."""
        return self.position >= 0

    def reported(self, offset: int, now: int, *, fresh_start: int, compared: int | None = None) -> None:
        """Take a report. An empty slave begins at `fresh_start`. Raises FrameError for one that no slave sends.

        `compared` is up to where its log was found to be this one, None for a slave that cannot have it compared.
        """
        self.heard = now
        if offset < 0:
            raise FrameError(f"a slave reported the offset {offset}")
        if not self.started:
            if compared is not None and offset != compared:
                raise FrameError(f"a slave proved what it has up to {compared}, but begins at {offset}")
            self.proved = compared is not None or offset in (0, self._source.min_physical_offset)
            self._start(offset, fresh_start)
        elif not self.astray:
            if offset > self.position:
                raise FrameError(f"a slave reported {offset}, but was sent no more than {self.position}")
            self.ack = offset

    def _start(self, offset: int, fresh_start: int) -> None:
        low, high = self._source.min_physical_offset, self._source.max_physical_offset
        if offset > MAX_OFFSET:
            raise FrameError(f"{offset} is the end of no log: this is not a slave")
        if offset == 0:
            self.position, self.ack = fresh_start, 0
        elif low <= offset <= high:
            self.position = self.ack = offset
        else:
            self.astray = True
            self.position = low if offset < low else high
            log.warning(
                "slave %s asks for %d, but the log reaches from %d to %d: it has to start over",
                self.peer, offset, low, high,
            )  # fmt: skip

    def next_block(self, size: int, now: int) -> tuple[int, memoryview] | None:
        """What to send now, at most `size` bytes, never across a file; None when there is nothing."""
        if not self.started or self.astray:
            return None
        data = self._source.read_raw(self.position, size)
        if data is None:
            return None
        offset = self.position
        self.position += len(data)
        self.sent = now
        self.transferred += len(data)
        return offset, data

    def lost_its_place(self) -> bool:
        """Whether it was so slow that what comes next is gone."""
        return self.started and not self.astray and self.position < self._source.min_physical_offset

    def needs_sign_of_life(self, now: int, interval: int) -> bool:
        """Whether nothing was sent for too long; if so, the time starts over."""
        if not self.started or now - self.sent < interval:
            return False
        self.sent = now
        return True

    def is_silent(self, now: int, limit: int) -> bool:
        return now - self.heard > limit

    def in_sync(self, gap: int) -> bool:
        """Whether what it lacks is little enough to wait for."""
        return self.ack >= 0 and self._source.max_physical_offset - self.ack <= gap

    def sample(self, now: int) -> None:
        """Once in a while: how fast it goes."""
        if now - self._second >= 1_000:
            self.rate = (self.transferred - self._counted) * 1_000 // (now - self._second)
            self._second, self._counted = now, self.transferred

    def info(self, gap: int) -> HAConnectionInfo:
        """For GET_BROKER_HA_STATUS."""
        return HAConnectionInfo(
            addr=f"/{self.peer}",
            diff=self._source.max_physical_offset - max(self.ack, 0),
            in_sync=self.in_sync(gap),
            slave_ack_offset=self.ack,
            transfer_from_where=self.position,
            transferred_byte_in_second=self.rate,
        )
