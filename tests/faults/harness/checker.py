"""The judge: pure functions from a history to what is wrong with it. Each can fail; unit tests see to that.

Every offset of a queue is one message and groups begin at 0, so a group that has got past an offset must have been
given every one below it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import NamedTuple, TypeVar, cast

from tests.faults.harness.history import (
    Acknowledged,
    Audited,
    Began,
    Consumed,
    Decided,
    Delivered,
    Ended,
    Event,
    Failed,
    Found,
    Position,
    Rested,
    Sent,
    Subscribed,
    ordered,
)

E = TypeVar("E", bound=Event)


class Violation(NamedTuple):
    """A broken promise: which, and what shows it."""

    rule: str
    text: str


class Place(NamedTuple):
    """Where a message lies."""

    topic: str
    broker: str
    queue: int
    offset: int


class Queue(NamedTuple):
    """What one group has of one queue."""

    group: str
    topic: str
    broker: str
    queue: int


class History:
    """Events by kind, in order of time, with what the rules look up most."""

    def __init__(self, events: Iterable[Event]) -> None:
        kinds: defaultdict[type[Event], list[Event]] = defaultdict(list)
        for event in ordered(events):
            kinds[type(event)].append(event)

        def of(kind: type[E]) -> list[E]:
            return cast("list[E]", kinds[kind])

        self.subscribed = of(Subscribed)
        self.acknowledged = of(Acknowledged)
        self.failed = of(Failed)
        self.rested = bool(of(Rested))
        self.delivered = of(Delivered)
        self.consumed = of(Consumed)
        self.positions = of(Position)
        self.found = of(Found)
        self.audits = of(Audited)
        self.began = of(Began)
        self.ended = {event.number: event for event in of(Ended)}
        self.sent = {event.id: event for event in of(Sent)}
        self.decided: dict[str, list[Decided]] = defaultdict(list)
        for decision in of(Decided):
            self.decided[decision.id].append(decision)
        self.first: dict[tuple[str, str], Delivered] = {}
        """The first delivery of a message to a group."""
        for event in self.delivered:
            self.first.setdefault((event.group, event.id), event)

    def commits(self, message: Sent) -> bool:
        """Whether consumers are meant to see it, once it is stored."""
        return not message.transactional or any(decision.commit for decision in self.decided.get(message.id, ()))

    def awaited(self) -> set[tuple[str, str]]:
        """Group and id of each delivery that is owed and has not been made."""
        groups: defaultdict[str, list[str]] = defaultdict(list)
        for each in self.subscribed:
            groups[each.topic].append(each.group)
        owed = {
            (group, receipt.id)
            for receipt in self.acknowledged
            if (message := self.sent.get(receipt.id)) is not None and self.commits(message)
            for group in groups[message.topic]
        }
        return owed - self.first.keys()


def lost(history: History) -> list[Violation]:
    """Every acknowledged message is delivered at least once to each group."""
    receipts = {receipt.id: receipt for receipt in history.acknowledged}
    return [
        Violation("lost", f"{name}, {receipts[name].status} at {receipts[name].broker}, never came to {group}")
        for group, name in sorted(history.awaited())
    ]


def invented(history: History) -> list[Violation]:
    """Nothing is delivered that was not sent, or not as it was sent."""
    found = []
    for event in history.delivered:
        message = history.sent.get(event.id)
        if message is None or message.t > event.t:
            found.append(Violation("invented", f"{event.id!r} came to {event.group}, but was never sent"))
        elif not event.sound:
            found.append(Violation("invented", f"{event.id} came to {event.group} damaged"))
        elif event.attempt == 0 and message.topic != event.topic:
            found.append(Violation("invented", f"{event.id} of {message.topic} came to {event.group} in {event.topic}"))
    return found


def misplaced(history: History) -> list[Violation]:
    """A place holds one message, for ever and at every node, and the one that it was given to."""
    owner: dict[Place, str] = {}
    found = []

    def claim(place: Place, name: str, by: str) -> None:
        if owner.setdefault(place, name) != name:
            found.append(Violation("misplaced", f"{place} is {owner[place]}, but {by} it is {name}"))

    for receipt in history.acknowledged:
        if receipt.placed and receipt.id in history.sent:
            topic = history.sent[receipt.id].topic
            claim(Place(topic, receipt.broker, receipt.queue, receipt.offset), receipt.id, "in a receipt")
    for event in history.delivered:
        if event.attempt == 0:
            claim(Place(event.topic, event.broker, event.queue, event.offset), event.id, f"for {event.group}")
    for each in history.found:
        claim(Place(each.topic, each.broker, each.queue, each.offset), each.id, f"at {each.node}")
    return found


def disordered(history: History) -> list[Violation]:
    """A stream lies in its queue in the order in which it was sent; ordered groups get each queue one by one."""
    return _streams_out_of_order(history) + _queues_out_of_order(history)


def _streams_out_of_order(history: History) -> list[Violation]:
    """What was acknowledged before another was sent lies before it."""
    streams: defaultdict[str, list[tuple[Sent, Acknowledged]]] = defaultdict(list)
    for receipt in history.acknowledged:
        message = history.sent.get(receipt.id)
        if message is not None and message.stream:
            streams[message.stream].append((message, receipt))
    found = []
    for stream, pairs in streams.items():
        for (_, before), (message, after) in pairwise(pairs):
            if before.t < message.t and before.offset >= after.offset:
                places = f"{before.id} at {before.offset}, {after.id} at {after.offset}"
                found.append(Violation("disordered", f"{stream}: {places}"))
    return found


def _queues_out_of_order(history: History) -> list[Violation]:
    """A message first comes to an ordered group when the one before it has been consumed."""
    groups = {each.group for each in history.subscribed if each.mode == "orderly"}
    steps: list[Delivered | Consumed] = [*history.delivered, *history.consumed]
    through: defaultdict[Queue, set[int]] = defaultdict(set)
    given: defaultdict[Queue, set[int]] = defaultdict(set)
    found = []
    for step in sorted((step for step in steps if step.group in groups), key=lambda step: step.t):
        queue = Queue(step.group, step.topic, step.broker, step.queue)
        if isinstance(step, Consumed):
            through[queue].add(step.offset)
        elif step.offset not in given[queue]:
            given[queue].add(step.offset)
            if step.offset and step.offset - 1 not in through[queue]:
                found.append(Violation("disordered", f"{queue}: {step.offset} came before the one before was consumed"))
    return found


def early(history: History) -> list[Violation]:
    """Nothing is delivered before it is due, by the clock of the broker that delivers it.

    A slave that acts for another broker may have handed it over: then what counts is how wrong that broker's clock was
    when it took the message, since that is when it worked out the time.
    """
    found = []
    taken: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for receipt in history.acknowledged:
        taken[receipt.id][receipt.broker] = receipt.t
    for event in history.delivered:
        message = history.sent.get(event.id)
        if message is None or not message.due:
            continue
        moments = taken[event.id] | {event.broker: event.t}
        ahead = message.due - event.t - sum(_jumps(history, broker, until) for broker, until in moments.items())
        if ahead > 0:
            found.append(Violation("early", f"{event.id} came to {event.group} {ahead / 1e9:.3f} s early"))
    return found


def _jumps(history: History, broker: str, until: int) -> int:
    """How much a broker's clock may have run ahead of the true one, at most."""
    return sum(abs(fault.step) for fault in history.began if fault.clock == broker and fault.t < until)


def half_seen(history: History) -> list[Violation]:
    """A transactional message is delivered only if it is committed, and after that was decided."""
    found = []
    for event in history.delivered:
        message = history.sent.get(event.id)
        if message is None or not message.transactional:
            continue
        decisions = [decision for decision in history.decided.get(event.id, ()) if decision.t <= event.t]
        if not any(decision.commit for decision in decisions):
            state = "rolled back" if decisions else "still open"
            found.append(Violation("half seen", f"{event.id} came to {event.group}, but was {state}"))
    return found


def skipped(history: History) -> list[Violation]:
    """A group's offset is never beyond a message that it has not been given. Pops are the broker's to count."""
    groups = {each.group for each in history.subscribed if each.mode != "pop"}
    given: defaultdict[Queue, set[int]] = defaultdict(set)
    checked: defaultdict[Queue, int] = defaultdict(int)
    found = []
    steps: list[Delivered | Position] = [event for event in history.delivered if event.attempt == 0]
    steps += history.positions
    for step in sorted(steps, key=lambda step: step.t):
        queue = Queue(step.group, step.topic, step.broker, step.queue)
        if isinstance(step, Delivered):
            given[queue].add(step.offset)
        elif step.group in groups and step.offset > checked[queue]:
            gap = [offset for offset in range(checked[queue], step.offset) if offset not in given[queue]]
            checked[queue] = step.offset
            if gap:
                text = f"{queue}: {step.node} has {step.offset}, but {gap[:5]} had not been delivered"
                found.append(Violation("skipped", text))
    return found


def missing(history: History) -> list[Violation]:
    """A node that must have what was acknowledged has it."""
    held: defaultdict[str, set[Place]] = defaultdict(set)
    for each in history.found:
        held[each.node].add(Place(each.topic, each.broker, each.queue, each.offset))
    found = []
    for audit in history.audits:
        for receipt in history.acknowledged:
            if receipt.broker != audit.broker or not receipt.placed or receipt.status not in audit.statuses:
                continue
            message = history.sent.get(receipt.id)
            if message is None or receipt.t > audit.since:
                continue
            if Place(message.topic, receipt.broker, receipt.queue, receipt.offset) not in held[audit.node]:
                text = f"{receipt.id}, {receipt.status} at {receipt.broker}, is not at {audit.node}"
                found.append(Violation("missing", text))
    return found


RULES: tuple[Callable[[History], list[Violation]], ...] = (
    lost,
    invented,
    misplaced,
    disordered,
    early,
    half_seen,
    skipped,
    missing,
)


def check(history: History) -> list[Violation]:
    """All that is wrong, rule by rule."""
    return [violation for rule in RULES for violation in rule(history)]
