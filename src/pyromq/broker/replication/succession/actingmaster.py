"""A slave that acts for its master: serves its consumers, and does what only a master does, through another master.

It acts while it has the smallest id of those alive under its name. It works (delivers delayed messages and the like)
only while it does not hear its master, and not while a master that comes back has asked it to stand back; so what is
due is not delivered by both. Nor does it while it never knew how far its master was: it would deliver all there ever
was. It never appends to its log.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

from pyromq.broker.cluster.members import Members
from pyromq.broker.config import BrokerConfig

log = logging.getLogger(__name__)

PATIENCE_MS = 30_000
"""How long it stands back for a master that announced itself and does not show up."""


class Work(NamedTuple):
    """Something that only a master does, or who acts for it."""

    start: Callable[[], None]
    stop: Callable[[], None]


class ActingMaster:
    """`hears_master` tells whether the log is being followed, `knows_its_place` whether how far it was is known.

    `changed` is called when consumers are served from now on, or are not any more.
    """

    def __init__(
        self,
        config: BrokerConfig,
        members: Members,
        clock: Callable[[], int],
        hears_master: Callable[[], bool],
        knows_its_place: Callable[[], bool],
        changed: Callable[[], None],
    ) -> None:
        self._config = config
        self._members = members
        self._clock = clock
        self._hears_master = hears_master
        self._knows_its_place = knows_its_place
        self._changed = changed
        self._stands_back_until = 0
        self.work: list[Work] = []
        self.active = False
        """Whether this slave serves consumers as their master."""
        self.working = False
        """Whether it delivers what is due."""

    def decide(self) -> None:
        """See what is to be done now; several times a second, and whenever something changed."""
        active = self._members.smallest == self._config.broker_id
        if active != self.active:
            self.active = active
            log.warning("this slave %s", "acts for its master from now on" if active else "leaves all to its master")
            self._changed()
        working = (
            active
            and self._config.enable_remote_escape
            and not self._hears_master()
            and self._knows_its_place()
            and self._clock() >= self._stands_back_until
        )
        if working and not self.working:
            self.working = True
            for work in self.work:
                work.start()
        elif self.working and not working:
            self._stop_work()

    def stand_back(self) -> None:
        """A master comes back and is about to take over: do nothing any more that it would do again."""
        self._stands_back_until = self._clock() + PATIENCE_MS
        self.decide()

    def stop(self) -> None:
        """For the end of the broker."""
        if self.working:
            self._stop_work()

    def _stop_work(self) -> None:
        self.working = False
        for work in self.work:
            try:
                work.stop()
            except OSError:
                log.exception("%s did not stop cleanly", work)

    def runtime(self) -> dict[str, object]:
        """For the runtime information."""
        return {"actingMaster": self.active, "actingMasterWorks": self.working}
