"""kill -9 of a process that writes under load with synchronous flush: nothing acknowledged is lost or there twice."""

import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from pyromq.store.messagestore import MessageStore
from tests.faults.storewriter import QUEUES, TOPICS, config

ROOT = Path(__file__).parents[2]


def live_and_die(home: Path, seed: int, lines: int, runner: Sequence[str] = (sys.executable,)) -> list[str]:
    """Let a process write until it has said so many lines, kill it, and return all whole lines it said."""
    command = [*runner, "-m", "tests.faults.storewriter", str(home), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if len(said) > lines:
                break
        process.kill()
        said += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL, "the writer ended by itself"
    return [line for line in said if line.endswith("\n") and line != "open\n"]


def check(home: Path, acknowledged: dict[tuple[str, int], int]) -> None:
    """Each queue has its messages in order, each once, and all that were acknowledged."""
    with MessageStore(config(home), disk_usage=lambda _: 0.1) as store:
        for topic in TOPICS:
            for queue_id in range(QUEUES):
                expected = 0
                while (result := store.get(topic, queue_id, expected, 32)).count:
                    for message in result.messages():
                        assert message.queue_offset == expected
                        assert message.body.startswith(f"{topic} {queue_id} {expected} ".encode())
                        expected += 1
                assert expected >= acknowledged.get((topic, queue_id), 0), f"{topic} {queue_id} lost messages"
                assert expected == store.max_offset(topic, queue_id)
                if expected:
                    assert store.lookup.offset_by_time(topic, queue_id, 0) == 0


def test_nothing_acknowledged_is_lost(tmp_path: Path, long_run: bool) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    rng = random.Random(seed)
    home = tmp_path / "store"
    acknowledged: dict[tuple[str, int], int] = {}
    for life in range(200 if long_run else 22):
        # 0 lines: killed as soon as the store is open, that is just after recovery
        lines = rng.choice((0, rng.randint(1, 50), rng.randint(50, 3_000)))
        for line in live_and_die(home, seed + life, lines):
            topic, queue_id, offset, count = line.split()
            key = topic, int(queue_id)
            assert acknowledged.get(key, 0) <= int(offset), "an offset was given to two messages"
            acknowledged[key] = int(offset) + int(count)
        if rng.random() < 0.5:  # otherwise the next process has to recover by itself
            check(home, acknowledged)
    check(home, acknowledged)
    assert sum(acknowledged.values()) > 1_000
