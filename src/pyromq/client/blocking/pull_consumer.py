"""The pull consumer for threads. Every method is that of the asyncio one, with a wait around it."""

import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Unpack

from pyromq.client.blocking.client import BlockingPart, on_loop, waiting
from pyromq.client.blocking.consumer import BlockingConsumer
from pyromq.client.consumer.config import PullConfig
from pyromq.client.consumer.options import PullOptions
from pyromq.client.consumer.pull.consumer import PullConsumer as AsyncPullConsumer
from pyromq.client.consumer.pull.manual import ManualPulls
from pyromq.client.errors import ServiceStateError
from pyromq.client.state import ServiceState
from pyromq.protocol.message import ReceivedMessage

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations

    from pyromq.arrow.pulled import Pulled
    from pyromq.client.consumer.scan.scan import Scan, ScanOptions


class BlockingManualPulls(BlockingPart[ManualPulls]):
    """`consumer.manual` for threads: single pulls, and offsets kept by hand."""

    pull = waiting(ManualPulls.pull)
    pull_block = waiting(ManualPulls.pull_block)
    update_offset = on_loop(ManualPulls.update_offset)
    fetch_offset = waiting(ManualPulls.fetch_offset)
    persist_offset = waiting(ManualPulls.persist_offset)


class PullConsumer(BlockingConsumer[AsyncPullConsumer]):
    """Gives messages to whoever asks.

        with PullConsumer("audit", namesrv="127.0.0.1:9876") as consumer:
            consumer.subscribe("orders")
            for message in consumer:
                ...

    With `auto_commit` a message counts as done when the next one, or the next `poll`, is asked for. Options are the
    fields of `PullConfig`, given by name or as `config`. Meant for one thread at a time; any thread may close it.
    """

    def __init__(
        self,
        group: str,
        *,
        namesrv: str | None = None,
        config: PullConfig | None = None,
        **options: Unpack[PullOptions],
    ) -> None:
        super().__init__(AsyncPullConsumer(group, namesrv=namesrv, config=config, **options))

    @property
    def config(self) -> PullConfig:
        return self._client.config

    @property
    def manual(self) -> BlockingManualPulls:
        """Single pulls, and offsets kept by hand, for tools."""
        return BlockingManualPulls(self, lambda: self._client.manual)

    subscribe = on_loop(AsyncPullConsumer.subscribe)
    unsubscribe = on_loop(AsyncPullConsumer.unsubscribe)
    assign = waiting(AsyncPullConsumer.assign)
    assignment = on_loop(AsyncPullConsumer.assignment)
    on_queues_changed = on_loop(AsyncPullConsumer.on_queues_changed)
    poll = waiting(AsyncPullConsumer.poll)
    seek = waiting(AsyncPullConsumer.seek)
    seek_to_begin = waiting(AsyncPullConsumer.seek_to_begin)
    seek_to_end = waiting(AsyncPullConsumer.seek_to_end)
    seek_to_time = waiting(AsyncPullConsumer.seek_to_time)
    position = on_loop(AsyncPullConsumer.position)
    pause = on_loop(AsyncPullConsumer.pause)
    resume = on_loop(AsyncPullConsumer.resume)
    commit = waiting(AsyncPullConsumer.commit)
    committed = waiting(AsyncPullConsumer.committed)

    def arrow(self, topic: str, **options: Unpack["ScanOptions"]) -> "pa.RecordBatchReader":
        """What a topic holds now as a `pyarrow.RecordBatchReader`, which Polars, DuckDB and pandas take as it is.

            table = consumer.arrow("orders", columns=["keys", "body"]).read_all()

        Options and errors are those of `pyromq.aio.PullConsumer.arrow`.
        """
        scan = self._on_loop(lambda: self._client.arrow(topic, **options))
        import pyarrow as pa  # noqa: PLC0415 - few have it; without it the line above has failed

        return pa.RecordBatchReader.from_batches(scan.schema, self._batches(scan))

    def _batches(self, scan: "Scan") -> "Iterator[pa.RecordBatch]":
        """Pulls go on while this thread decodes and its user works."""
        pulled = scan.pulled()

        async def following() -> "Pulled | None":
            return await anext(pulled, None)

        async def end() -> None:
            await pulled.aclose()

        try:
            while (found := self._run(following)) is not None:
                yield from scan.decoded(found)
        finally:
            if not sys.is_finalizing():  # then the loop's thread stands still, and takes its pulls with it
                with suppress(ServiceStateError):
                    self._run(end)

    def __iter__(self) -> Iterator[ReceivedMessage]:
        return self

    def __next__(self) -> ReceivedMessage:
        """The next message, whenever it comes; ends when the consumer is closed."""
        consumer = self._client
        while consumer.state is ServiceState.RUNNING:
            # Handing out what was fetched already needs no trip to the loop.
            if (message := consumer.next_buffered()) is not None:
                return message
            try:
                self._run(consumer.refill)
            except ServiceStateError:
                break
        if consumer.state is ServiceState.CREATE_JUST:
            self._running()
        raise StopIteration
