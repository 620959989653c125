"""Runs of plain pulls: checked once, read and answered as one as far as they find messages.

Invariant: a run comes to what its requests come to one by one, and of those that are not served nothing has changed.
"""

from pyromq.broker.consume.pullrights import PullRights
from pyromq.broker.core import Core
from pyromq.broker.errors import Refused
from pyromq.broker.tables.positions import within
from pyromq.protocol.headers.consume import COMMIT_OFFSET
from pyromq.protocol.headers.pullrun import Ask, PullRun
from pyromq.protocol.release import CURRENT
from pyromq.remoting.connection import Connection
from pyromq.remoting.handler import Begun
from pyromq.store.queue.scan import TagCodes

MAX_STREAM_BYTES = 4 * 1024 * 1024


class PullRuns:
    """Serves consumers of a broker that is no slave."""

    def __init__(self, core: Core, rights: PullRights) -> None:
        self._config = core.config
        self._offsets = core.offsets
        self._store = core.store
        self._stats = core.stats
        self._rights = rights

    def serve(self, run: PullRun, connection: Connection) -> Begun | None:
        """Answer the first pulls of a run; None if the first one needs a way of its own."""
        said = run.ask
        name, queue_id = said[1], said[2]
        queue = self._store.queues.get(name, queue_id)
        if queue is None or run.offset >= queue.max_offset:
            return None  # it will wait, as most that arrive alone do
        ask = Ask(*said)
        try:
            topic, group, wanted = self._rights.check(run.code, connection, ask)
        except Refused:
            return None
        tags, offsets, codes = wanted.entry, self._offsets, None
        if isinstance(tags, TagCodes):
            codes = tags.packed
        elif tags is not None:
            return None
        if wanted.record is not None or topic.topic_sys_flag or group.group_sys_flag or offsets.resets:
            return None
        key = f"{name}@{ask.consumer_group}"
        commits = ask.sys_flag & COMMIT_OFFSET
        if commits and not offsets.has(key):
            return None  # there may be no room for one more
        slow, quick = 0, 0
        if self._config.slave_read_enable:
            slow, quick = group.which_broker_when_consume_slowly, group.broker_id
        most = ask.stream_bytes
        if most is not None:
            most = min(most, MAX_STREAM_BYTES)
        answered = self._store.answer(run, queue, codes, connection.room, (CURRENT, quick, slow), most)
        if answered is None:
            return None
        taken, frames, count, size, following = answered
        if commits:
            for offset in run.commits(taken):
                if offset >= 0:
                    within_queue = within(self._store, name, queue_id, offset)
                    offsets.commit(ask.consumer_group, name, queue_id, within_queue)
        offsets.pulled_at(key, queue_id, following)
        self._stats.add_get(key, count, size, taken)
        return Begun(taken, frames)
