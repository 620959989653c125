"""A request for messages, or whether there are any: what may forbid it, and how long it may be held."""

from collections.abc import Callable
from dataclasses import dataclass

from pyromq.broker.core import Core
from pyromq.broker.errors import Refused, topic_not_exist
from pyromq.broker.filter.filters import wanted_arrivals
from pyromq.broker.pop.longpoll import HeldPop, WaitKey
from pyromq.broker.pop.queues import Wish
from pyromq.broker.tables.newnames import party_of
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.routes import is_readable
from pyromq.remoting.connection import Connection

EARLIER_MS = 50
"""A held request is answered this long before its time is over, so that the answer is in time."""
MAX_HOLD_MS = 120_000


@dataclass(frozen=True, slots=True)
class PopRequest:
    """One that passed the checks. `queue_id` is the queue asked for, -1 for all of them."""

    request: Command
    connection: Connection
    wish: Wish
    queue_id: int
    born: int
    poll_time: int
    most: int = 0
    """How many messages it may have."""

    @property
    def key(self) -> WaitKey:
        """What it waits for."""
        return self.wish.topic, self.wish.group, self.queue_id

    @property
    def party(self) -> str:
        """Whose share it counts in."""
        return self.connection.peer.host

    def deadline(self, now: int) -> int | None:
        """How long it may be held; None when it must be answered at once."""
        if self.poll_time <= 0:
            return None
        deadline = min(self.born + self.poll_time - EARLIER_MS, now + MAX_HOLD_MS)
        return deadline if deadline > now else None

    def held(self, due: int, resume: Callable[[], None]) -> HeldPop:
        """It, waiting."""
        return HeldPop(self.key, due, wanted_arrivals(self.wish.filter), resume, self.party)


def check_role(core: Core) -> None:
    """What rules out popping altogether. Raises Refused."""
    if core.is_slave:
        raise Refused(
            ResponseCode.SYSTEM_BUSY,
            "[REJECTREQUEST]system busy, start flow control for a while: this is a slave, pop from its master",
        )
    if not is_readable(core.config.broker_permission):
        raise Refused(ResponseCode.NO_PERMISSION, f"the broker[{core.config.broker_name}] popping message is forbidden")


def check_names(core: Core, request: Command, connection: Connection, topic: str, group: str, queue_id: int) -> None:
    """What a topic or a group forbids. Raises Refused, and Unsaved for a group that is created for who asks."""
    known = core.topics.get(topic)
    if known is None:
        raise topic_not_exist(topic)
    if not is_readable(known.perm):
        raise Refused(ResponseCode.NO_PERMISSION, f"the topic[{topic}] popping message is forbidden")
    if queue_id >= known.read_queue_nums:
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"queueId[{queue_id}] is illegal, topic:[{topic}] has {known.read_queue_nums} read queues",
        )
    if not core.groups.require(group, party_of(core.config, request, connection)).consume_enable:
        raise Refused(ResponseCode.NO_PERMISSION, f"subscription group no permission, {group}: consumeEnable is false")
