"""All consume queues of a store: finding, creating, flushing and recovering them, with few open files."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

from pyromq import disk
from pyromq.store.config import StoreConfig
from pyromq.store.errors import StoreFormatError
from pyromq.store.queue.consumequeue import ConsumeQueue
from pyromq.store.queue.files import Descriptors, sync_files

log = logging.getLogger(__name__)

_PAGE = 4096
_MAX_NAME = 255


class ConsumeQueues:
    """The queues below `root`, by topic and queue id. Belongs to the owner's thread."""

    def __init__(self, root: Path, config: StoreConfig) -> None:
        self._root = root
        self._file_size = config.mapped_file_size_consume_queue
        self._least = config.flush_consume_queue_least_pages * _PAGE
        self._descriptors = Descriptors(config.max_open_queue_files)
        self._queues: dict[tuple[str, int], ConsumeQueue] = {}
        self._in_turn: Iterator[ConsumeQueue] = iter(())
        self.whole = True
        """Whether all files were there; if not, the whole log has to be entered again."""

    def __iter__(self) -> Iterator[ConsumeQueue]:
        return iter(list(self._queues.values()))

    def __len__(self) -> int:
        return len(self._queues)

    @property
    def open_files(self) -> int:
        return len(self._descriptors)

    @property
    def max_physical_offset(self) -> int:
        """The end of the last record that any queue knows; -1 without one."""
        return max((queue.max_physical_offset for queue in self._queues.values()), default=-1)

    def get(self, topic: str, queue_id: int) -> ConsumeQueue | None:
        return self._queues.get((topic, queue_id))

    def get_or_create(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, made on first use; its files come with its first entries.

        Raises StoreFormatError for a topic that cannot be the name of a directory.
        """
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            if not _is_directory_name(topic) or queue_id < 0:
                raise StoreFormatError(f"there can be no queue {queue_id} of a topic named {topic!r}")
            queue = self._queues[topic, queue_id] = self._make(topic, queue_id)
        return queue

    def queue_ids(self, topic: str) -> list[int]:
        return sorted(queue_id for name, queue_id in self._queues if name == topic)

    def topics(self) -> list[str]:
        """Topics that have a queue, in order."""
        return sorted({topic for topic, _ in self._queues})

    def load(self) -> None:
        """Find the queues on disk and the end of each. Sets `whole` to False when files were missing or cut.

        Raises StoreFormatError when they were written with another file size.
        """
        if not self._root.is_dir():
            return
        for topic in _folders(self._root):
            for name in _folders(self._root / topic):
                if not (name.isascii() and name.isdigit() and str(int(name)) == name):
                    continue
                queue = self._queues[topic, int(name)] = self._make(topic, int(name))
                self.whole &= queue.load()
                queue.recover()

    def truncate_to(self, physical_end: int) -> int:
        """Drop entries of records that do not lie below a place in the log; returns in how many queues."""
        reaching = [queue for queue in self._queues.values() if queue.max_physical_offset > physical_end]
        for queue in reaching:
            queue.truncate_to(physical_end)
        return len(reaching)

    def correct_min(self, commit_log_min: int) -> None:
        for queue in self._queues.values():
            queue.correct_min(commit_log_min)

    def delete_before(self, commit_log_min: int) -> int:
        """After the log lost its beginning: delete files that speak of nothing else. Returns how many."""
        return sum(queue.delete_before(commit_log_min) for queue in self._queues.values())

    def delete(self, topic: str, queue_id: int | None = None) -> int:
        """Delete a queue, or all queues of a topic, with their files; returns how many."""
        keys = [key for key in self._queues if key[0] == topic and queue_id in (None, key[1])]
        for key in keys:
            self._queues.pop(key).destroy()
        directory = self._root / topic
        if _is_directory_name(topic):
            disk.remove_folder(directory)
        return len(keys)

    def prepare_flush(self, thorough: bool) -> Callable[[], None]:
        """Hand entries to the files, and return the work that puts them on disk, which may run in another thread.

        Thorough means all queues, otherwise those with enough to write. Finish one work before preparing the next.
        Raises DiskFullError, the work OSError; prepare again later then.
        """
        taken: list[tuple[ConsumeQueue, set[str]]] = []
        try:
            for queue in self._queues.values():
                if thorough or queue.unwritten + queue.unsynced >= self._least:
                    queue.write_out()
                    taken.append((queue, queue.take_touched()))
        except BaseException:
            _give_back(taken)
            raise

        def sync() -> None:
            try:
                sync_files(path for _, paths in taken for path in paths)
            except BaseException:
                _give_back(taken)
                raise

        return sync

    def write_some(self, count: int) -> None:
        """Hand the entries of a few queues to the files, of others each time. Raises DiskFullError.

        So a thorough flush, which keeps everybody waiting, finds most files made and little to write.
        """
        for _ in range(count):
            queue = next(self._in_turn, None)
            if queue is None:
                self._in_turn = iter(self)
                return
            queue.write_out()

    def flush(self, thorough: bool = True) -> None:
        """Write and sync now."""
        self.prepare_flush(thorough)()

    def close(self, *, flush: bool = True) -> None:
        """Put everything on disk, unless told not to, and let go of the files, also if that fails."""
        try:
            if flush:
                self.flush()
        finally:
            self._descriptors.close()
            self._queues.clear()

    def _make(self, topic: str, queue_id: int) -> ConsumeQueue:
        directory = f"{self._root}/{topic}/{queue_id}"
        return ConsumeQueue(topic, queue_id, directory, self._file_size, self._descriptors)


def _give_back(taken: list[tuple[ConsumeQueue, set[str]]]) -> None:
    for queue, paths in taken:
        queue.give_back(paths)


def _folders(parent: Path) -> list[str]:
    """Names of the folders in a folder, in order."""
    return [item.name for item in disk.entries(parent) if item.is_dir()]


def _is_directory_name(topic: str) -> bool:
    try:
        length = len(topic.encode())
    except UnicodeEncodeError:
        return False
    return 0 < length <= _MAX_NAME and topic not in {".", ".."} and "/" not in topic and "\0" not in topic
