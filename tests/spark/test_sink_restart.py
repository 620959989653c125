"""A broker that is started again within a batch: the sink waits for it at each step, and nothing is lost or twice."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyromq import Admin
from pyromq.spark.sink.topic import TopicSink
from tests.processes import Server, standalone
from tests.spark.test_topic_sink import QUERY, arrow, attempt_at, bodies, once

ROWS = [f"row {number}" for number in range(100)]


@contextmanager
def away(server: Server) -> Iterator[None]:
    """Killed, and on its way back while the block runs."""
    server.kill()
    returning = threading.Thread(target=server.start)
    returning.start()
    try:
        yield
    finally:
        returning.join()


@pytest.mark.parametrize("step", ["begin", "prepare", "write", "commit"])
def test_a_broker_that_restarts_does_not_end_the_query(tmp_path: Path, step: str) -> None:  # SP-11
    with standalone(tmp_path, keeps_ports=True) as server:
        namesrv = server["namesrv"]
        with Admin(namesrv=namesrv) as admin:
            admin.create_topic("rows", queues=2)
            admin.wait_for_topic("rows")
        sink = once(namesrv, "rows", sendRetries="100")

        def during(name: str, work: Callable[[], None]) -> None:
            if name != step:
                work()
                return
            with away(server):
                work()

        def begin() -> None:
            sink.run = sink.begin(QUERY)

        sent: list[bytes] = []

        def write() -> None:
            task = sink.open(attempt_at(0, 0), arrow([]).schema)
            task.write(arrow(ROWS))
            sent.append(task.close())

        during("begin", begin)
        during("prepare", lambda: sink.prepare(QUERY))
        during("write", write)
        during("commit", lambda: assert_all_counted(sink, sent))
        assert bodies(namesrv, "rows") == Counter(ROWS)


def assert_all_counted(sink: TopicSink, sent: list[bytes]) -> None:
    assert sink.commit(QUERY, 0, sent) == len(ROWS)
