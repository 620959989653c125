"""Counters per topic, group and queue, with the minute, hour and day figures that the admin tools ask for.

Counting is one dictionary look-up and two additions; figures are taken from samples that `sample` takes every ten
seconds. Nothing is persisted.
"""

from collections.abc import Callable, Iterator
from enum import StrEnum

from pyromq.protocol.bodies.stats import BrokerStatsData, BrokerStatsItem
from pyromq.store.log.put import PutResult

SAMPLE_INTERVAL_MS = 10_000
HOUR_SAMPLE_EVERY_MS = 600_000
DAY_SAMPLE_EVERY_MS = 3_600_000
UNUSED_AFTER_MS = 24 * 3_600_000
MAX_ITEMS = 250_000
OTHER = "(other)"
"""Stands for topics and groups that have no counter of their own; no topic can be called so."""


class Stat(StrEnum):
    """What is counted; the comment is the shape of the key."""

    TOPIC_PUT_NUMS = "TOPIC_PUT_NUMS"  # topic
    TOPIC_PUT_SIZE = "TOPIC_PUT_SIZE"  # topic
    GROUP_GET_NUMS = "GROUP_GET_NUMS"  # topic@group
    GROUP_GET_SIZE = "GROUP_GET_SIZE"  # topic@group
    GROUP_ACK_NUMS = "GROUP_ACK_NUMS"  # topic@group
    GROUP_CK_NUMS = "GROUP_CK_NUMS"  # topic@group
    SNDBCK_PUT_NUMS = "SNDBCK_PUT_NUMS"  # topic@group
    DLQ_PUT_NUMS = "DLQ_PUT_NUMS"  # topic@group
    GROUP_GET_LATENCY = "GROUP_GET_LATENCY"  # queue@topic@group
    GROUP_GET_FALL_SIZE = "GROUP_GET_FALL_SIZE"  # queue@topic@group
    GROUP_GET_FALL_TIME = "GROUP_GET_FALL_TIME"  # queue@topic@group
    BROKER_PUT_NUMS = "BROKER_PUT_NUMS"  # cluster
    BROKER_GET_NUMS = "BROKER_GET_NUMS"  # cluster

    __hash__ = str.__hash__  # names are values; Enum's own is a call into Python for every look-up


_OF_BROKER = (Stat.BROKER_PUT_NUMS, Stat.BROKER_GET_NUMS)


Sample = tuple[int, int, int]
"""Time, total, times."""


def _add(window: list[Sample], sample: Sample, most: int) -> None:
    if len(window) == most:
        del window[0]
    window.append(sample)


class _Item:
    """One running total with its samples, oldest first."""

    __slots__ = ("day", "hour", "minute", "times", "total", "used")

    def __init__(self, now: int) -> None:
        self.total = 0
        self.times = 0
        self.used = now
        # A window opens with the zero sample, so the first figures do not wait for the window to fill. Lists, since a
        # deque takes 700 bytes from the start, and a topic with one reading group has eight items.
        zero = (now, 0, 0)
        self.minute = [zero]
        self.hour = [zero]
        self.day = [zero]


class BrokerStats:
    """All counters of a broker. Bounded: keys that nobody touched for a day are dropped.

    `known` tells whether a topic, and a group unless that is empty, exists. Keys also come from properties of messages:
    what does not exist, and what is beyond `capacity`, is counted in one key, so that no message chooses a new one.
    """

    def __init__(
        self,
        clock: Callable[[], int],
        known: Callable[[str, str], bool] = lambda _topic, _group: True,
        *,
        cluster: str = "",
        capacity: int = MAX_ITEMS,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._known = known
        self._capacity = capacity
        self._items: dict[tuple[str, str], _Item] = {}
        # Those that count with every send and pull, found with one look.
        self._puts: dict[str, tuple[_Item, _Item, _Item]] = {}
        self._gets: dict[str, tuple[_Item, _Item, _Item]] = {}

    def add(self, stat: Stat, key: str, amount: int = 1, times: int = 1) -> None:
        """Count `amount` for the key."""
        item = self._items.get((stat, key)) or self._item(stat, key)
        item.total += amount
        item.times += times

    def stored(self, topic: str, result: PutResult) -> None:
        """Count a message or batch that was stored."""
        self.add_put(topic, result.count, result.size)

    def add_put(self, topic: str, count: int, size: int, times: int = 1) -> None:
        """Count messages that were stored by so many sends, for their topic and for all of them."""
        items = self._puts.get(topic)
        if items is None:
            kinds = (Stat.TOPIC_PUT_NUMS, topic), (Stat.TOPIC_PUT_SIZE, topic), (Stat.BROKER_PUT_NUMS, self._cluster)
            first, second, third = kinds
            items = self._item(*first), self._item(*second), self._item(*third)
            if first in self._items:
                self._puts[topic] = items
        number, volume, everything = items
        number.total += count
        number.times += count
        volume.total += size
        volume.times += times
        everything.total += count
        everything.times += count

    def add_get(self, key: str, count: int, size: int, times: int = 1) -> None:
        """Count messages that so many pulls found, for `topic@group` and for all of them."""
        items = self._gets.get(key)
        if items is None:
            kinds = (Stat.GROUP_GET_NUMS, key), (Stat.GROUP_GET_SIZE, key), (Stat.BROKER_GET_NUMS, self._cluster)
            first, second, third = kinds
            items = self._item(*first), self._item(*second), self._item(*third)
            if first in self._items:
                self._gets[key] = items
        number, volume, everything = items
        number.total += count
        number.times += times
        volume.total += size
        volume.times += times
        everything.total += count
        everything.times += times

    def _item(self, stat: Stat, key: str) -> _Item:
        item = self._items.get((stat, key))
        if item is None:
            key = self._key(stat, key)
            item = self._items.get((stat, key))
        if item is None:
            item = self._items[stat, key] = _Item(self._clock())
        return item

    def _key(self, stat: str, key: str) -> str:
        """The key to count a new one under."""
        parts = key.split("@")
        if stat in _OF_BROKER:
            return key
        topic, group = (parts[0], "") if len(parts) == 1 else (parts[-2], parts[-1])
        if len(self._items) < self._capacity and self._known(topic, group):
            return key
        return "@".join([OTHER] * len(parts))

    def total(self, stat: Stat, key: str) -> int:
        """Everything counted for the key since the broker started."""
        item = self._items.get((stat, key))
        return item.total if item else 0

    def totals(self, stat: Stat) -> Iterator[tuple[str, int]]:
        """Every key that ever counted for this, with its total."""
        for (name, key), item in self._items.items():
            if name == stat:
                yield key, item.total

    def per_second(self, stat: Stat, key: str) -> float:
        """The rate over the last minute."""
        item = self._items.get((stat, key))
        return self._figures(item, item.minute).tps if item else 0.0

    def data(self, name: str, key: str) -> BrokerStatsData | None:
        """Minute, hour and day figures, or None for a key that never counted."""
        item = self._items.get((name, key))
        if item is None:
            return None
        return BrokerStatsData(
            stats_minute=self._figures(item, item.minute),
            stats_hour=self._figures(item, item.hour),
            stats_day=self._figures(item, item.day),
        )

    def sample(self) -> None:
        """Take the ten-second sample of every counter, and the longer ones that are due."""
        now = self._clock()
        for key, item in list(self._items.items()):
            if item.total != item.minute[-1][1]:
                item.used = now
            elif now - item.used > UNUSED_AFTER_MS:
                del self._items[key]
                self._forget_shortcuts()
                continue
            point = (now, item.total, item.times)
            _add(item.minute, point, 7)
            if now - item.hour[-1][0] >= HOUR_SAMPLE_EVERY_MS:
                _add(item.hour, point, 7)
            if now - item.day[-1][0] >= DAY_SAMPLE_EVERY_MS:
                _add(item.day, point, 25)

    def forget(self, matches: Callable[[str], bool]) -> None:
        """Drop the counters whose key matches, for a topic or group that was deleted."""
        for stat, key in [item for item in self._items if matches(item[1])]:
            del self._items[stat, key]
        self._forget_shortcuts()

    def _forget_shortcuts(self) -> None:
        self._puts.clear()
        self._gets.clear()

    def _figures(self, item: _Item, samples: list[Sample]) -> BrokerStatsItem:
        since, total, times = samples[0]
        elapsed = max(1, self._clock() - since)
        amount = item.total - total
        count = item.times - times
        return BrokerStatsItem(sum=amount, tps=amount * 1000 / elapsed, avgpt=amount / count if count else 0.0)
