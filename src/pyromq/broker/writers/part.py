"""Writers as a part of the broker."""

from collections.abc import Iterable, Mapping

from pyromq.broker.core import Core
from pyromq.broker.part import Every, Figure, Part, counter, gauge, limit
from pyromq.broker.send.sender import Sender
from pyromq.broker.writers.writers import Writers
from pyromq.remoting.endpoint import Handler

TICK = 1.0
EXPIRY = 60.0


class WriterPart(Part):
    """Stands before the sender for batches."""

    def __init__(self, core: Core, sender: Sender) -> None:
        self.writers = Writers(core.config, core.topics, core.store, sender, core.durability, core.clock)

    def handlers(self) -> Mapping[int, Handler]:
        """The request codes served here."""
        return self.writers.handlers()

    def every(self) -> Iterable[Every]:
        """Save what is known, and forget who is gone."""
        return [Every(TICK, self.writers.tick), Every(EXPIRY, self.writers.expire)]

    async def start(self) -> None:
        """Read in the log which writers there are, before anything new is stored."""
        self.writers.load()

    async def stop(self) -> None:
        """Before the store is closed."""
        self.writers.save()

    def forget_topic(self, topic: str) -> None:
        """Its writers are gone."""
        self.writers.forget_topic(topic)

    def metrics(self) -> Iterable[Figure]:
        """How many there are, and what they did twice."""
        writers = self.writers
        yield gauge("pyromq_writers", "Writers whose messages are stored once.", len(writers.table))
        yield gauge("pyromq_writer_lanes", "Tasks that they work with.", writers.table.lanes)
        yield gauge("pyromq_writer_queues", "Queues that each task writes to.", writers.table.tails)
        yield counter(
            "pyromq_writer_repeated_messages", "Messages of writers that were stored already.", writers.repeated
        )
        yield counter(
            "pyromq_writer_fenced_requests", "Requests of runs or attempts that were given up.", writers.fenced
        )
        yield limit("writers", writers.table.evicted)
