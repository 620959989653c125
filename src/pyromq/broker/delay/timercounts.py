"""How many timed messages wait, by topic: `config/timermetrics` in memory. Figures only; nothing depends on them."""

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from pyromq.configfile import DamagedFileError, read_config, write_config
from pyromq.protocol import names
from pyromq.protocol.bodies.stats import MessageCount, TimerMetrics
from pyromq.protocol.bodies.tables import DataVersion

log = logging.getLogger(__name__)


class Rate:
    """A total, and how fast it grew between the last two samples."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._since = clock()
        self._before = 0
        self.total = 0
        self.per_second = 0.0

    def sample(self) -> None:
        now = self._clock()
        self.per_second = (self.total - self._before) * 1000 / max(1, now - self._since)
        self._since, self._before = now, self.total


class TimerCounts:
    """Real topic → count and time of its last change. `persist` may run in another thread."""

    def __init__(self, path: Path, clock: Callable[[], int]) -> None:
        self._path = path
        self._clock = clock
        self._counts: dict[str, MessageCount] = {}
        self._changes = 0
        self._saved = 0
        self._writing = threading.Lock()
        self._version = DataVersion(timestamp=clock())

    def load(self) -> None:
        """Read the file. One that is damaged counts as none: figures must not keep a broker from starting."""
        try:
            stored = read_config(self._path, TimerMetrics.decode)
        except DamagedFileError as error:
            log.warning("figures of timed messages begin anew: %s", error)
            return
        if stored is not None:
            self._counts = dict(stored.timing_count)
            self._version = stored.data_version

    @property
    def total(self) -> int:
        """Messages that wait."""
        return sum(count.count for count in self._counts.values())

    def add(self, topic: str, change: int) -> None:
        """One message more or less."""
        count = self._counts.get(topic)
        if count is None:
            count = self._counts[topic] = MessageCount()
        count.count += change
        count.time_stamp = self._clock()
        self._changes += 1

    def forget_unknown(self, known: Callable[[str], bool]) -> None:
        """Drop the counts of topics that are not there any more."""
        for topic in [topic for topic in self._counts if not known(topic) and not names.is_system_topic(topic)]:
            del self._counts[topic]
            self._changes += 1

    def table(self) -> TimerMetrics:
        """The figures as they are sent to slaves and persisted."""
        version = DataVersion(
            timestamp=self._version.timestamp,
            counter=self._version.counter + self._changes,
            state_version=self._version.state_version,
        )
        counts = {
            topic: MessageCount(count=each.count, time_stamp=each.time_stamp) for topic, each in self._counts.items()
        }
        return TimerMetrics(data_version=version, timing_count=counts)

    def replace_all(self, table: TimerMetrics) -> None:
        """Take over a master's figures."""
        self._counts = dict(table.timing_count)
        self._changes += 1

    @property
    def changed(self) -> bool:
        return self._changes != self._saved

    def persist(self, table: TimerMetrics) -> None:
        """Write the file. Raises OSError."""
        with self._writing:
            write_config(self._path, table.encode())
            self._saved = table.data_version.counter - self._version.counter
