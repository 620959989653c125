"""A slave that acts for its master: serves its consumers, and does what only a master does, through another master.

It acts while it has the smallest id of those alive under its name. It works (delivers delayed messages and the like)
only while it does not hear its master, and not while a master that comes back has asked it to stand back; so what is
due is not delivered by both. Nor does it while it never knew how far its master was: it would deliver all there ever
was. It never appends to its log.
"""

import logging
from collections.abc import Iterable, Mapping

from pyromq.broker.cluster.members import Members
from pyromq.broker.core import Core
from pyromq.broker.delay.timer import TimerDelivery
from pyromq.broker.part import Every, Part
from pyromq.broker.replication.link import MasterLink
from pyromq.broker.replication.succession.escape import Escape

log = logging.getLogger(__name__)

TICK = 0.1
PATIENCE_MS = 30_000
"""How long it stands back for a master that announced itself and does not show up."""


class ActingMaster(Part):
    """Whether this slave acts, which the core's role says. `parts` are told."""

    def __init__(
        self,
        core: Core,
        members: Members,
        link: MasterLink,
        timer: TimerDelivery,
        escape: Escape,
        parts: Iterable[Part],
    ) -> None:
        self._core = core
        self._role = core.role
        self._members = members
        self._link = link
        self._timer = timer
        self.escape = escape
        self._parts = parts
        self._stands_back_until = 0
        members.listeners.append(self.decide)

    def every(self) -> Iterable[Every]:
        """See what is to be done."""
        return [Every(TICK, self.decide)]

    def runtime(self) -> Mapping[str, object]:
        """For the runtime information."""
        return {"actingMaster": self._role.acting, "actingMasterWorks": self._role.working}

    async def stop(self) -> None:
        """Leave the work to others, and send nothing more to them."""
        self._work(wanted=False)
        await self.escape.stop()

    def decide(self) -> None:
        """See what is to be done now; several times a second, and whenever something changed."""
        config, role = self._core.config, self._role
        acts = self._members.smallest == config.broker_id
        if acts != role.acting:
            role.acting = acts
            log.warning("this slave %s", "acts for its master from now on" if acts else "leaves all to its master")
            if acts:
                self._core.positions.hold()  # from now on nobody has what is beyond this log
            for part in self._parts:
                part.role_changed()
        self._work(
            wanted=acts
            and config.enable_remote_escape
            and not self._link.connected
            and self._timer.knows_its_place
            and self._core.clock() >= self._stands_back_until
        )

    def make_way(self) -> None:
        """A master comes back and is about to take over: do nothing any more that it would do again."""
        self._stands_back_until = self._core.clock() + PATIENCE_MS
        self.decide()

    def _work(self, *, wanted: bool) -> None:
        """Deliver what is due from now on, or do not."""
        if wanted and not self._role.working:
            self._role.working = True
            self.escape.begin()
            for part in self._parts:
                part.lead()
        elif self._role.working and not wanted:
            self._role.working = False
            for part in self._parts:
                try:
                    part.stand_back()
                except OSError:
                    log.exception("%s did not stop cleanly", part)
