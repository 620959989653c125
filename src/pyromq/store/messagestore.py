"""The message store: one object that opens a directory, takes messages, gives them back and looks after itself.

One thread owns a store, and all methods belong to it. `put` only appends; whether a message is on disk is a second,
separate question (`when_durable`, `wait_durable`), so that one fsync can serve everybody who waits. Work that blocks
(fsync, allocating, deleting) runs in two threads of the store. `tick` must be called a few times a second.

    with MessageStore(StoreConfig(store_path_root_dir=path)) as store:
        result = store.put_durably(PutMessage("orders", 0, b"..."))
        messages = store.get("orders", 0, result.queue_offset, 32).messages()
"""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from pyromq import disk, durable
from pyromq.clock import wall_clock
from pyromq.protocol.headers.pullrun import Answered, PullRun, Voice
from pyromq.protocol.headers.sendrun import SendRun
from pyromq.protocol.names import is_system_topic
from pyromq.protocol.records.host import Host, pack_host, unpack_host
from pyromq.store.arrival import Arrived, Listener, Sends, Watcher
from pyromq.store.config import CHANGEABLE, BrokerRole, StoreConfig
from pyromq.store.dispatcher import Dispatcher
from pyromq.store.errors import StoreClosedError, StoreError, StoreFormatError
from pyromq.store.flags import Flag, RunningFlags
from pyromq.store.index.index import Index
from pyromq.store.index.lookup import Lookup
from pyromq.store.lock import StoreLock, mark_running
from pyromq.store.log.appender import Appender
from pyromq.store.log.commitlog import CommitLog
from pyromq.store.log.damage import Damage
from pyromq.store.log.flush import Flusher, Post
from pyromq.store.log.put import PutMessage, PutResult, PutStatus
from pyromq.store.log.rules import Hook
from pyromq.store.log.tail import Tails
from pyromq.store.progress import Progress
from pyromq.store.queue.consumequeue import ConsumeQueue
from pyromq.store.queue.read import GetResult, GetStatus, Reader, RecordFilter, TagFilter
from pyromq.store.queue.table import ConsumeQueues
from pyromq.store.recovery import Recovery
from pyromq.store.replica import Replica
from pyromq.store.retention import Retention
from pyromq.store.save.saver import Saver
from pyromq.store.space import used_ratio
from pyromq.store.stats import StoreStats
from pyromq.store.upkeep import Upkeep

log = logging.getLogger(__name__)

DEFAULT_HOST = Host("127.0.0.1", 10911)


class MessageStore:
    """A store directory, usable between `open` and `close`.

    `clock` gives Unix milliseconds. `post` runs a function in the owner's thread, soon; an asyncio program passes
    `loop.call_soon_threadsafe`, without it completions run during `wait_durable`, `flush` and `tick`. `store_host` is
    the broker's address, which is part of message ids.
    """

    def __init__(
        self,
        config: StoreConfig,
        *,
        clock: Callable[[], int] = wall_clock,
        post: Post | None = None,
        store_host: Host = DEFAULT_HOST,
        disk_usage: Callable[[Path], float] = used_ratio,
    ) -> None:
        self.config = config
        self.clock = clock
        self.flags = RunningFlags()
        self.stats = StoreStats(clock())
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="pyromq-store-worker")
        self.commit_log = CommitLog(config, self._worker)
        self.queues = ConsumeQueues(config.consume_queue_dir, config)
        self.index = Index(config.index_dir, config, clock) if config.message_index_enable else None
        self.damage = Damage(config.commit_log_dir)
        """What is known to be broken in the log."""
        self._dispatcher = Dispatcher(self.commit_log, self.queues, self.index, self.flags, self.damage, config.delays)
        self._flusher = Flusher(self.commit_log, config, clock, post, self._dispatcher.advance, self._on_flush_failure)
        tails = Tails(self.queues, self._dispatcher.waiting)
        self._appender = Appender(
            config, clock, self.commit_log, tails, self._dispatcher, self._flusher, self.flags, self.stats
        )
        self._reader = Reader(config, self.commit_log, self.queues, self.damage)
        self.lookup = Lookup(self.commit_log, self.queues, self.index)
        self.retention = Retention(
            config,
            self.commit_log.files,
            self.queues,
            self.index,
            self.flags,
            clock=clock,
            dispatched=lambda: self._dispatcher.position,
            disk_usage=disk_usage,
        )
        self._saver = Saver(
            config, self._worker, self.commit_log, self.queues, self.index, self._dispatcher, self._flusher, self.damage
        )
        dispatcher, flusher = self._dispatcher, self._flusher
        self._upkeep = Upkeep(
            config, self._saver, self.commit_log, dispatcher, flusher, self.flags, self.stats, self.retention
        )
        self.replica = Replica(
            self.commit_log, self.queues, self.index, dispatcher, flusher, self._appender, self._upkeep
        )
        self._lock = StoreLock(config.lock_path)
        self.progress = Progress(self.commit_log, self._flusher, self._dispatcher, sync_flush=config.sync_flush)
        self.put = self._appender.put
        self.put_batch = self._appender.put_batch
        self.put_many = self._appender.put_many
        self.put_run = self._appender.put_run
        self.role = config.broker_role
        self.store_host = store_host
        self.was_in_order = True
        """Whether the last stop, here or at Apache's, was one in order: all that was to be saved was."""

    def change(self, **settings: object) -> None:
        """Other values for some settings in `CHANGEABLE`, at work from now on. Raises StoreError, and changes none."""
        if fixed := settings.keys() - CHANGEABLE:
            raise StoreError(f"{', '.join(sorted(fixed))} cannot be changed while the store is open")
        self.config = replace(self.config, **settings)  # type: ignore[arg-type]  # names of fields, checked by the caller
        self.retention.use(self.config)
        self._appender.rules.use(self.config)

    def open(self) -> None:
        """Lock, load, recover, accept messages.

        Raises StoreLockedError when another process has the store, StoreFormatError when the directory is not one that
        can be opened safely (nothing is changed then), StoreError when it cannot be written.
        """
        config = self.config
        try:
            durable.make_folder(config.store_path_root_dir)
        except OSError as error:
            raise StoreError(f"{config.store_path_root_dir} cannot be created: {error.strerror}") from error
        self._lock.acquire()
        try:
            self._load()
        except OSError as error:
            self._abandon()
            raise StoreError(f"the store in {config.store_path_root_dir} cannot be opened: {error}") from error
        except BaseException:
            self._abandon()
            raise

    def _load(self) -> None:
        checkpoint = self._saver.checkpoint
        recovery = Recovery(
            self.config, self.commit_log, self.queues, self.index, checkpoint, self._dispatcher, self.damage
        )
        self.was_in_order = recovery.load()
        mark_running(self.config.abort_path)
        try:
            recovery.run(clean=self.was_in_order)
        except StoreFormatError:
            if self.was_in_order:
                disk.delete(self.config.abort_path)
            raise
        self._reader.written_before = self.commit_log.max_offset
        self._flusher.start(self.commit_log.max_offset)
        self._upkeep.start(self.clock())
        self._upkeep.save_soon()  # so that the next recovery knows what was whole now
        self._appender.start()

    def close(self) -> None:
        """Flush everything and let go. Closing twice is harmless; slices handed out stay readable."""
        if not self._appender.rules.accepting:
            return
        self._appender.stop()
        self._flusher.stop()
        durable = self._flusher.flush()
        self._worker.shutdown(wait=True)
        in_order = durable and not self._dispatcher.waiting and not self.flags.has(Flag.NOT_WRITEABLE)
        try:
            if in_order:
                self._upkeep.save()
        except (OSError, StoreError) as error:
            in_order = False
            log.warning("the store could not be saved completely and will be recovered at the next start: %s", error)
        finally:
            self._abandon(in_order=in_order)

    def _abandon(self, *, in_order: bool = False) -> None:
        self._worker.shutdown(wait=True)
        try:
            if self.index is not None:
                self.index.close(flush=False)
            self.queues.close(flush=False)
            self.commit_log.close()
            if in_order:
                disk.delete(self.config.abort_path)
        finally:
            self._lock.release()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def tick(self) -> None:
        """Do what is due: completions, expired waits, queue flush, checkpoint, retention. A few times a second."""
        self._check_open()
        self._upkeep.tick(self.clock())

    @property
    def store_host(self) -> Host:
        """The broker's address, which is part of message ids. Set it before the first put."""
        return unpack_host(self._appender.store_host)

    @store_host.setter
    def store_host(self, host: Host) -> None:
        self._appender.store_host = pack_host(host)

    put: Callable[[PutMessage], PutResult]
    """Append one message and return at once; refusals are a status. See `when_durable` for waiting."""

    put_many: Callable[[Sequence[PutMessage]], list[PutResult]]
    """`put` for each of several messages, in order, and quicker than that."""

    put_run: Callable[[SendRun, bytes, bytes], Sends | None]
    """The same for a run of plain sends, with their born host and what is to be added to their properties; None, and
    nothing has changed, when they must be put one by one."""

    put_batch: Callable[[PutMessage], PutResult]
    """Append all messages of a batch body with consecutive offsets, as one unit."""

    def when_durable(self, result: PutResult, done: Callable[[PutStatus], None]) -> bool:
        """Call `done` in the owner's thread when a message is on disk (PUT_OK) or was not in time (FLUSH_DISK_TIMEOUT).

        Returns False, without calling, when there is nothing to wait for: the message was refused, or the flush type is
        ASYNC_FLUSH. `result.status` is the answer then.
        """
        if not self.config.sync_flush or not result.stored:
            return False
        self._flusher.when_flushed(
            result.end, lambda durable: done(PutStatus.PUT_OK if durable else PutStatus.FLUSH_DISK_TIMEOUT)
        )
        return True

    def when_flushed(self, offset: int, done: Callable[[bool], None]) -> None:
        """Call `done` in the owner's thread, with whether everything below an offset of the log is on disk."""
        self._flusher.when_flushed(offset, done)

    def wait_durable(self, result: PutResult, timeout: float | None = None) -> PutResult:
        """Block until the message is on disk, whatever the flush type; sets the status if it takes too long."""
        if result.stored and not self._flusher.wait(result.end, timeout or self.config.sync_flush_timeout / 1000):
            result.status = PutStatus.FLUSH_DISK_TIMEOUT
        return result

    def put_durably(self, message: PutMessage) -> PutResult:
        """`put` and `wait_durable`, for programs without an event loop."""
        return self.wait_durable(self.put(message))

    def flush(self) -> None:
        """Block until everything appended so far is on disk."""
        self._check_open()
        if not self._flusher.flush():
            raise StoreError(f"the commit log cannot be flushed: {self._flusher.failure}")

    def add_hook(self, hook: Hook, marks: Iterable[str] = ()) -> None:
        """Have `hook` see, rewrite or refuse messages before they are stored: those with a property out of `marks`.

        Without marks it sees every message, which slows down all of them.
        """
        self._appender.rules.add_hook(hook, marks)

    def add_listener(self, listener: Listener, topics: Collection[str] | None = None) -> None:
        """Have `listener` told about each message that becomes visible to readers.

        With `topics`, only about those of a topic that is in it at that moment, which spares all the others the call.
        """

        def tell_each(arrived: Arrived) -> None:
            for arrival in arrived.arrivals():
                if topics is None or arrival.topic in topics:  # hearing of one may change who wants the next
                    listener(arrival)

        self.add_watcher(tell_each, topics)

    def add_watcher(self, watcher: Watcher, topics: Collection[str] | None = None) -> None:
        """The same for one that is told once about all messages that become visible together, of other topics too."""
        self._dispatcher.watchers.append((watcher, topics))

    def get(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        *,
        max_bytes: int | None = None,
        tag_filter: TagFilter | None = None,
        record_filter: RecordFilter | None = None,
        sliced: bool = True,
    ) -> GetResult:
        """Messages of a queue from `offset` on, within the limits of the configuration or of `max_bytes` instead.

        Unless it is `sliced`, the result may be good for nothing but `framed`, at once.
        """
        self._check_open()
        if not self.flags.readable:
            return GetResult(GetStatus.NO_MATCHED_LOGIC_QUEUE, offset)
        result = self._reader.get(
            topic,
            queue_id,
            offset,
            max_count,
            max_bytes=max_bytes,
            tag_filter=tag_filter,
            record_filter=record_filter,
            sliced=sliced,
        )
        if result.count:
            self.stats.get_found += 1
            self.stats.get_transferred += result.count
        else:
            self.stats.get_missed += 1
        return result

    def answer(
        self, run: PullRun, queue: ConsumeQueue, codes: bytes | None, room: int, voice: Voice, max_bytes: int | None
    ) -> Answered | None:
        """The answers to the first pulls of a run, as far as they find messages; see `Reader.answer`."""
        self._check_open()
        found = self._reader.answer(run, queue, codes, room, voice, max_bytes) if self.flags.readable else None
        if found is not None:
            self.stats.get_found += found[0]
            self.stats.get_transferred += found[2]
        return found

    def framed(self, head: bytes, result: GetResult) -> bytes | list[bytes | memoryview]:
        """A head and behind it the records of a result that was found just now; see `Reader.framed`."""
        return self._reader.framed(head, result)

    def in_memory(self, topic: str, queue_id: int, queue_offset: int) -> bool:
        """Whether a message is there and near enough to the end of the log to be in the page cache."""
        return self._reader.in_memory(topic, queue_id, queue_offset)

    def min_offset(self, topic: str, queue_id: int) -> int:
        """Offset of the oldest message kept in a queue; 0 for a queue that does not exist."""
        queue = self.queues.get(topic, queue_id)
        return queue.min_offset if queue is not None else 0

    def max_offset(self, topic: str, queue_id: int, *, committed: bool = True) -> int:
        """Offset that the next message of a queue will have; `committed`: of those that readers can see."""
        if not committed:
            return self._appender.tails.next_offset(topic, queue_id)
        queue = self.queues.get(topic, queue_id)
        return queue.max_offset if queue is not None else 0

    def delete_topic(self, topic: str) -> int:
        """Delete the queues of a topic; its numbering begins at 0 again. Returns how many queues there were."""
        self._check_open()
        if self._dispatcher.waiting:
            self._flusher.flush()  # what waits for the disk is dispatched and then goes with the rest
        self._appender.tails.forget(topic)
        deleted = self.queues.delete(topic)
        if deleted:
            self._upkeep.save_soon()  # recovery must not begin before the deletion and bring the queues back
        return deleted

    def delete_unused_topics(self, keep: Iterable[str]) -> list[str]:
        """Delete the queues of all topics that are neither in `keep` nor the system's own; returns their names."""
        kept = set(keep)
        unused = [topic for topic in self.queues.topics() if topic not in kept and not is_system_topic(topic)]
        for topic in unused:
            self.delete_topic(topic)
        return unused

    @property
    def min_physical_offset(self) -> int:
        return self.commit_log.min_offset

    @property
    def max_physical_offset(self) -> int:
        return self.commit_log.max_offset

    @property
    def role(self) -> BrokerRole:
        """May be changed while the store is open; a slave takes raw bytes only."""
        return self._appender.rules.role

    @role.setter
    def role(self, role: BrokerRole) -> None:
        self._appender.rules.role = role
        self._dispatcher.growing = role is BrokerRole.SLAVE
        self._appender.tails.forget()

    def read_raw(self, offset: int, max_bytes: int) -> memoryview | None:
        """Bytes of the log for a slave, within one file, of what readers may see; None if there are none."""
        left = self.progress.confirmed - offset
        return self.commit_log.read_raw(offset, min(max_bytes, left)) if left > 0 else None

    def _on_flush_failure(self) -> None:
        self.flags.set(Flag.NOT_WRITEABLE)

    def _check_open(self) -> None:
        if not self._appender.rules.accepting:
            raise StoreClosedError("the store is not open")
