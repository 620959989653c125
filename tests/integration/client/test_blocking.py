"""Blocking producers against a real broker, processes that fork, and what is left behind."""

import gc
import os
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from pyromq import Message, Producer, SendResult, SendStatus
from tests.integration.client.clusters import LIMIT, standalone_beside, standalone_process


def test_threads_share_a_producer(tmp_path: Path) -> None:
    with (
        standalone_beside(tmp_path) as server,
        Producer("PG", namesrv=server.namesrv_address) as producer,
        ThreadPoolExecutor(8) as threads,
    ):
        results = list(threads.map(lambda n: producer.send(Message("orders", b"%d" % n), timeout=LIMIT), range(100)))
        assert len({result.offset_message_id for result in results}) == 100
        outcomes: Future[SendResult | None] = Future()
        futures = [producer.send_async(Message("orders", b"x"), timeout=LIMIT) for _ in range(200)]
        producer.send_async(Message("orders", b"x"), lambda result, _: outcomes.set_result(result), timeout=LIMIT)
        assert all(future.result(LIMIT).status is SendStatus.SEND_OK for future in futures)
        found = outcomes.result(LIMIT)
        assert found is not None


FORKING = textwrap.dedent(
    """
    import os, sys
    from pyromq import ClientError, Message, Producer

    producer = Producer("PG", namesrv=sys.argv[1])
    producer.start()
    producer.send(Message("orders", b"parent"), timeout=60)
    child = os.fork()
    if child == 0:
        try:
            producer.send(Message("orders", b"child"))
        except ClientError as error:
            assert "make a new client after the fork" in str(error), error
        else:
            os._exit(3)
        with Producer("PG", namesrv=sys.argv[1]) as fresh:
            fresh.send(Message("orders", b"child"), timeout=60)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    producer.send(Message("orders", b"parent"), timeout=60)
    producer.close()
    sys.exit(os.waitstatus_to_exitcode(status))
    """
)


def test_fork(tmp_path: Path) -> None:
    with standalone_beside(tmp_path) as server:
        command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKING, server.namesrv_address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        assert done.returncode == 0, done.stderr


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - a count, no paths


def test_starts_and_stops_leave_nothing(tmp_path: Path, long_run: bool) -> None:
    """No growth in threads, file descriptors or memory; the servers run all the time, in another process."""
    with standalone_process(tmp_path) as namesrv:

        def once() -> None:
            with Producer("PG", namesrv=namesrv, enable_trace=True) as producer:
                producer.send(Message("orders", b"x"), timeout=LIMIT)
                producer.send_async(Message("orders", b"x"), lambda *_: None, timeout=LIMIT).result(LIMIT)

        for _ in range(3):
            once()
        gc.collect()
        threads, files, objects = threading.active_count(), descriptors(), len(gc.get_objects())
        rounds = 200 if long_run else 20
        for _ in range(rounds):
            once()
        gc.collect()
        assert threading.active_count() == threads
        assert descriptors() <= files
        assert len(gc.get_objects()) - objects < 10 * rounds


def test_unclosed_producer_does_not_hold_the_process(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import sys
        from pyromq import Message, Producer

        producer = Producer("PG", namesrv=sys.argv[1])
        producer.start()
        producer.send(Message("orders", b"x"), timeout=60)
        """
    )
    with standalone_beside(tmp_path) as server:
        command = [sys.executable, "-c", script, server.namesrv_address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
        assert done.returncode == 0, done.stderr
