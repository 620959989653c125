"""Flow control: when a consumer holds so much that it must not pull more. Pure decisions."""

from dataclasses import dataclass, replace

from pyromq.client.consumer.push.process_queue import ProcessQueue

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Bounds of one queue. Passing them counts, reaching them does not; a batch on its way may overshoot."""

    count: int = 1000
    size: int = 100 * MIB
    span: int = 2000

    def exceeded(self, held: ProcessQueue, *, ordered: bool = False) -> str | None:
        """What is over its bound, or None. Ordered consumption has no bound on the span: it has no gaps."""
        if len(held) > self.count:
            return f"{len(held)} messages held, more than {self.count}"
        if held.size // MIB > self.size // MIB:
            return f"{held.size // MIB} MiB held, more than {self.size // MIB}"
        if not ordered and held.span > self.span:
            return f"offsets held span {held.span}, more than {self.span}"
        return None


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """Bounds of a whole topic, shared out over the queues of it that a member owns; -1 means none."""

    count: int = -1
    size: int = -1

    def per_queue(self, base: QueueLimits, owned: int) -> QueueLimits:
        """The bounds of each of `owned` queues."""
        if owned == 0:
            return base
        if self.count != -1:
            base = replace(base, count=max(1, self.count // owned))
        if self.size != -1:
            base = replace(base, size=max(MIB, self.size // owned))
        return base
