"""What schedules came to: numbers for each and for all of them, as a table or as JSON. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import median

import msgspec

from tests.faults.harness.checker import History, Violation
from tests.faults.harness.conduct import Outcome
from tests.faults.harness.history import Began, Consumed, Delivered

SECOND = 1e9
SHOWN = 8


class Recovery(msgspec.Struct, frozen=True):
    """Seconds from the end of a fault until each broker that suffered acknowledged, and delivered, again.

    None when the schedule was over before.
    """

    fault: str
    send: float | None
    deliver: float | None


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One schedule in numbers; an asterisk behind the role says that slaves act for their masters."""

    seed: int
    role: str
    faults: list[str]
    sent: int
    acknowledged: int
    statuses: dict[str, int]
    failed: int
    deliveries: int
    duplicates: int
    lost: int
    violations: list[str]
    settled_in: float
    recoveries: list[Recovery]


def duplicates(history: History) -> int:
    """Deliveries of what the group had been given before, other than at its own wish.

    What an ordered listener refuses comes again at its wish: there, only what it was through with counts.
    """
    orderly = {each.group for each in history.subscribed if each.mode == "orderly"}
    fresh = [event for event in history.delivered if event.attempt == 0 and event.group not in orderly]
    steps: list[Delivered | Consumed] = [event for event in history.delivered if event.group in orderly]
    through, again = set[tuple[object, ...]](), 0
    for step in sorted([*steps, *history.consumed], key=lambda step: step.t):
        place = step.group, step.topic, step.broker, step.queue, step.offset
        if isinstance(step, Consumed):
            through.add(place)
        else:
            again += place in through
    return again + len(fresh) - len({(event.group, event.id) for event in fresh})


def recoveries(history: History, every: Sequence[str]) -> list[Recovery]:
    """For each fault that ended."""
    found = []
    for fault in history.began:
        ended = history.ended.get(fault.number)
        if ended is not None:
            names = fault.brokers or every
            sends = [
                _after(ended.t, name, ((event.t, event.broker) for event in history.acknowledged)) for name in names
            ]
            given = [_after(ended.t, name, ((event.t, event.broker) for event in history.delivered)) for name in names]
            found.append(Recovery(fault.kind, _slowest(sends), _slowest(given)))
    return found


def _after(since: int, broker: str, events: Iterable[tuple[int, str]]) -> float | None:
    return next(((t - since) / SECOND for t, name in events if name == broker and t >= since), None)


def _slowest(times: Sequence[float | None]) -> float | None:
    known = [time for time in times if time is not None]
    return round(max(known), 3) if known and len(known) == len(times) else None


def line(outcome: Outcome, every: Sequence[str]) -> Line:
    history = outcome.history
    return Line(
        seed=outcome.schedule.seed,
        role=outcome.schedule.role + ("*" if outcome.schedule.acting else ""),
        faults=[fault.text for fault in history.began],
        sent=len(history.sent),
        acknowledged=len(history.acknowledged),
        statuses=dict(Counter(receipt.status for receipt in history.acknowledged)),
        failed=len(history.failed),
        deliveries=len(history.delivered),
        duplicates=duplicates(history),
        lost=sum(violation.rule == "lost" for violation in outcome.violations),
        violations=[f"{violation.rule}: {violation.text}" for violation in outcome.violations],
        settled_in=round(outcome.settled_in, 1),
        recoveries=recoveries(history, every),
    )


COLUMNS = ("seed", "role", "faults", "sent", "acked", "failed", "delivered", "twice", "lost", "wrong", "settled")
WIDTHS = (7, 14, 7, 7, 7, 7, 10, 6, 5, 6, 8)


def row(each: Line) -> str:
    """One schedule as a line of the table."""
    return _row(
        each.seed,
        each.role,
        len(each.faults),
        each.sent,
        each.acknowledged,
        each.failed,
        each.deliveries,
        each.duplicates,
        each.lost,
        len(each.violations),
        f"{each.settled_in:.1f} s",
    )


def _row(*cells: object) -> str:
    return "".join(f"{cell!s:>{width}}" for cell, width in zip(cells, WIDTHS, strict=True))


def head() -> str:
    return _row(*COLUMNS)


def totals(lines: Sequence[Line]) -> str:
    """All schedules in a few lines, and how long it took to come back from each kind of fault."""
    statuses: Counter[str] = Counter()
    times: defaultdict[str, list[Recovery]] = defaultdict(list)
    for each in lines:
        statuses.update(each.statuses)
        for recovery in each.recoveries:
            times[recovery.fault].append(recovery)
    faults = sum(len(each.faults) for each in lines)
    wrong = sum(bool(each.violations) for each in lines)
    by_status = ", ".join(f"{count} {status}" for status, count in statuses.most_common())
    sent, acknowledged = sum(each.sent for each in lines), sum(each.acknowledged for each in lines)
    deliveries, twice = sum(each.deliveries for each in lines), sum(each.duplicates for each in lines)
    text = [
        f"{len(lines)} schedules, {faults} faults, {wrong} schedules with something wrong",
        f"{sent} messages sent, {acknowledged} acknowledged ({by_status})",
        f"{deliveries} deliveries, {twice} duplicates, {sum(each.lost for each in lines)} lost",
        "",
        f"{'back after':>12}{'times':>7}{'send: median':>14}{'max':>8}{'deliver: median':>17}{'max':>8}",
    ]
    for kind, found in sorted(times.items()):
        sends = [each.send for each in found if each.send is not None]
        given = [each.deliver for each in found if each.deliver is not None]
        text.append(f"{kind:>12}{len(found):>7}{_seconds(sends, 14)}{_seconds(given, 17)}")
    return "\n".join(text)


def _seconds(times: Sequence[float], width: int) -> str:
    if not times:
        return f"{'-':>{width}}{'-':>8}"
    return f"{f'{median(times):.2f} s':>{width}}{f'{max(times):.2f} s':>8}"


def excerpt(history: History, violations: Sequence[Violation]) -> str:
    """A failing history in short: the faults in their order, and the first few things that are wrong."""
    begin = min((fault.t for fault in history.began), default=0)
    text = [_fault(history, fault, begin) for fault in history.began]
    text += [f"  {violation.rule}: {violation.text}" for violation in violations[:SHOWN]]
    if len(violations) > SHOWN:
        text.append(f"  … and {len(violations) - SHOWN} more")
    return "\n".join(text)


def _fault(history: History, fault: Began, begin: int) -> str:
    ended = history.ended.get(fault.number)
    until = f"{(ended.t - begin) / SECOND:.2f}" if ended is not None else "the end"
    return f"  {(fault.t - begin) / SECOND:.2f} s to {until}: {fault.text}"
