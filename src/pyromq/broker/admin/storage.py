"""The store as operators see it: how large, how far behind, how damaged; and the time that it is given to work."""

from collections.abc import Iterable

from pyromq.broker.core import Core
from pyromq.broker.part import Every, Figure, Part, gauge
from pyromq.store.space import used_ratio

TICK = 0.1
_LABELS = ("storage_type", "storage_medium")


class Storage(Part):
    """Looks after the store."""

    def __init__(self, core: Core) -> None:
        self._store = core.store
        self._clock = core.clock

    def every(self) -> Iterable[Every]:
        """Flush, clean, preallocate."""
        return [Every(TICK, self._store.tick)]

    def metrics(self) -> Iterable[Figure]:
        """Sizes and ages."""
        store = self._store
        yield gauge("pyromq_waiting_messages", "Messages that wait for the disk or a replica.", store.progress.waiting)
        damaged = "Places of the log that are damaged and skipped, as far as they are known."
        yield gauge("pyromq_store_damaged_records", damaged, len(store.damage))
        yield gauge("pyromq_store_damaged_bytes", "Bytes of these places.", store.damage.bytes)
        folders = (store.config.commit_log_dir, store.config.store_path_root_dir)
        used = max(map(used_ratio, folders))
        yield gauge("pyromq_disk_used_ratio", "Used share of the fuller disk, as df has it.", used)
        earliest, end = store.lookup.earliest_time(), store.max_physical_offset
        for name, doc, value in (
            ("size_bytes", "Bytes of the log.", end - store.min_physical_offset),
            ("flush_behind_bytes", "Bytes of the log not on disk yet.", end - store.progress.flushed),
            ("dispatch_behind_bytes", "Bytes not in queues yet.", store.progress.behind),
            (
                "message_reserve_time_milliseconds",
                "Age of the oldest message kept.",
                self._clock() - earliest if earliest > 0 else 0,
            ),
        ):
            yield Figure(f"rocketmq_storage_{name}", doc, [(("local", "disk"), value)], _LABELS)
