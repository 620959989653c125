"""The progress of streams over topics, for programs that run queries of their own: Spark cannot show it, since Python
sources have no metrics in `lastProgress`."""

import json
import time
from collections.abc import Callable
from typing import NamedTuple

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from pyromq.spark.errors import LostRange
from pyromq.spark.streamprogress import stream_progress


class QueryProgress(NamedTuple):
    """A finished batch of a query, all of its topics together."""

    query: str
    """Its name, or its id when it has none."""
    batch: int
    messages: int
    messages_behind: int | None
    """In the topics beyond this batch, when it was planned; None when Spark did not ask, as for a repeated batch."""
    seconds_behind: float | None
    """Since the message that was read last was stored, where most time has passed; None when nobody can tell."""
    lost: int
    losses: list[LostRange]


class ProgressListener(StreamingQueryListener):
    """Hands the progress of every query over topics to a function, and keeps the last of each.

    >>> listener = ProgressListener(lambda progress: print(progress.messages_behind, progress.seconds_behind))
    >>> spark.streams.addListener(listener)
    """

    def __init__(
        self, on_progress: Callable[[QueryProgress], None] | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.last: dict[str, QueryProgress] = {}
        """By the name of the query, or its id when it has none."""
        self._on_progress = on_progress
        self._clock = clock

    def onQueryStarted(self, event: QueryStartedEvent) -> None: ...  # noqa: N802 - Spark's name

    def onQueryIdle(self, event: QueryIdleEvent) -> None: ...  # noqa: N802 - Spark's name

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None: ...  # noqa: N802 - Spark's name

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        made = self.read(event.progress.json)
        if made is not None:
            self.last[made.query] = made
            if self._on_progress is not None:
                self._on_progress(made)

    def read(self, text: str) -> QueryProgress | None:
        """From Spark's JSON of a batch; None without a source that is ours. Spark of Connect gives the same JSON."""
        event = json.loads(text)
        found = [made for source in event.get("sources") or [] if (made := stream_progress(source)) is not None]
        if not found:
            return None
        now = self._clock()
        lags = [made.lag for made in found]
        ages = [age for made in found if (age := made.seconds_behind(now)) is not None]
        known = len(ages) == len(found) or any(ages)
        return QueryProgress(
            query=event.get("name") or str(event.get("id", "")),
            batch=int(event.get("batchId", -1)),
            messages=sum(made.messages for made in found),
            messages_behind=None if None in lags else sum(lag or 0 for lag in lags),
            seconds_behind=max(ages) if known else None,
            lost=sum(made.lost for made in found),
            losses=[lost for made in found for lost in made.losses],
        )
