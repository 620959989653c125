"""SP-05: a pipeline killed with -9 at each named instant; its output equals its input, in every sink."""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pyarrow.parquet as pq  # type: ignore[import-untyped]  # has no annotations
import pytest
from deltalake import DeltaTable

from pyromq import Admin, Message, Producer
from pyromq.spark.net.wire import Wire
from pyromq.spark.options import ConnectionOptions, read_options
from pyromq.spark.sink.sink import Attempt
from pyromq.spark.sink.table.iceberg.sink import IcebergSink
from pyromq.spark.sink.table.manifest import Manifests
from pyromq.spark.sink.table.parquet import ParquetSink
from pyromq.spark.sink.writabletopic import find_topic, max_offsets, messages_between
from tests.integration.client.clusters import standalone_process
from tests.spark.crashing import COUNTER, INSTANT, INSTANTS

ROOT = Path(__file__).resolve().parents[2]
MESSAGES = 150
BOUND = 900.0
SHORT = 3
"""Kills of the short version."""

PIPELINE = """
name: killed
source: {{nameServer: "{namesrv}", topic: in, maxRows: 60}}
parse: {{schema: "id bigint, shop string"}}
{dedup}
transform:
  - sql: SELECT *, id % 3 AS third FROM input
sinks:
  - parquet: {{path: lake, partition_by: [third]}}
  - delta: {{path: delta}}
  - iceberg: {{table: shop.killed, warehouse: ice, partition_by: ["bucket(3, id)"]}}
  - topic: {{topic: out}}
dlq: {{topic: dead}}
checkpoint: state
spark: {{spark.driver.memory: 768m, spark.master: "local[2]"}}
"""


@pytest.fixture
def namesrv(tmp_path: Path) -> Iterator[str]:
    with standalone_process(tmp_path / "server") as address:
        yield address


def produce(namesrv: str, numbers: range) -> None:
    """Good messages with these ids, and some bad ones among them."""
    with Producer("shop", namesrv=namesrv) as producer:
        for start in numbers[::30]:
            producer.send([Message("in", body(number)) for number in numbers if start <= number < start + 30])


def is_bad(number: int) -> bool:
    return number % 50 == 7


def body(number: int) -> bytes:
    return b"broken %d" % number if is_bad(number) else json.dumps({"id": number, "shop": "Berlin"}).encode()


def run(folder: Path, instant: str | None) -> tuple[int, str]:
    """One run of the pipeline, to its end or until it is killed; its exit code and what it said."""
    hooks = folder / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "sitecustomize.py").write_text("from tests.spark.crashing import install\n\ninstall()\n")
    counter = folder / "counter"
    counter.unlink(missing_ok=True)
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(hooks), str(ROOT)]), COUNTER: str(counter)}
    environ.pop(INSTANT, None)
    if instant is not None:
        environ[INSTANT] = instant
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.pipelineprocess", str(folder / "pipeline.yaml")],
        env=environ,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BOUND,
        check=False,
        start_new_session=True,
    )
    return done.returncode, done.stdout


def in_topic(namesrv: str, topic: str) -> Counter[bytes]:
    with Wire(read_options(ConnectionOptions, {"nameServer": namesrv})) as wire:
        target = find_topic(wire, topic)
        return Counter(
            bytes(message.body)
            for queue, end in max_offsets(wire, target).items()
            for message in messages_between(wire, target, queue, 0, end, "readers")
        )


def in_files(paths: Sequence[Path | str]) -> Counter[int]:
    return Counter(number for path in paths for number in pq.ParquetFile(path).read().column("id").to_pylist())


def check(namesrv: str, folder: Path, count: int) -> None:
    good = Counter(number for number in range(count) if not is_bad(number))
    assert in_files(Manifests(folder / "lake").paths()) == good
    listed = [path for path in (folder / "lake").rglob("*.parquet") if "_staging" not in path.parts]
    assert in_files(listed) == good
    assert Counter(DeltaTable(str(folder / "delta")).to_pyarrow_table().column("id").to_pylist()) == good
    ice = IcebergSink(name="ice", table="shop.killed", warehouse=str(folder / "ice"))
    with ice.open_catalog("cannot be read") as catalog:
        assert Counter(catalog.load_table(ice.table).scan().to_arrow().column("id").to_pylist()) == good
    assert Counter(json.loads(body)["id"] for body in in_topic(namesrv, "out").elements()) == good
    assert in_topic(namesrv, "dead") == Counter(body(number) for number in range(count) if is_bad(number))


@pytest.mark.parametrize("seed", range(20))
def test_killed_at_every_instant(namesrv: str, tmp_path: Path, seed: int, long_run: bool) -> None:
    if seed > 0 and not long_run:
        pytest.skip("only with --long")
    chance = random.Random(seed)
    dedup = "dedup: {keys: [id], within: 1 hour}" if seed % 2 else ""
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.format(namesrv=namesrv, dedup=dedup))
    with Admin(namesrv=namesrv) as admin:
        admin.create_topic("in", queues=4)
        admin.wait_for_topic("in")
    instants = list(INSTANTS)
    chance.shuffle(instants)
    sent = 0
    for instant in instants if long_run else instants[:SHORT]:
        # Two batches and a bit, so that every instant comes, in the first batch or in the second.
        produce(namesrv, range(sent, sent + MESSAGES))
        sent += MESSAGES
        code, said = run(tmp_path, f"{instant}:{chance.randint(1, 2)}")
        assert code == -signal.SIGKILL, said
    code, said = run(tmp_path, None)
    assert code == 0, said
    check(namesrv, tmp_path, sent)


COMPACTION = """
import os, signal, sys
from pathlib import Path
from pyromq.spark.sink.table import compaction
from pyromq.spark.storage.folder import FolderStore

left = int(sys.argv[2])

def counted(name):
    original = getattr(FolderStore, name)

    def step(*args):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return original(*args)

    setattr(FolderStore, name, step)

for name in ("create", "delete", "_move"):
    counted(name)
compaction.compact(Path(sys.argv[1]), target=1 << 20, older_than=0, grace=3600, clock=lambda: 4e9)
"""


def test_compaction_killed_at_any_step(tmp_path: Path, long_run: bool) -> None:
    sink = ParquetSink(name="lake", path=str(tmp_path))
    for batch in range(6):
        rows = pa.RecordBatch.from_pydict({"id": list(range(batch * 10, batch * 10 + 10))})
        task = sink.open(Attempt("q", batch, 0), rows.schema)
        task.write(rows)
        sink.commit("q", batch, [task.close()])
    for step in range(0, 20, 1 if long_run else 6):
        command = [sys.executable, "-c", COMPACTION, str(tmp_path), str(step)]
        assert subprocess.run(command, check=False, timeout=BOUND).returncode in (-signal.SIGKILL, 0)
        assert in_files(Manifests(tmp_path).paths()) == Counter(range(60))
        assert max(in_files(list(tmp_path.glob("*.parquet"))).values(), default=1) == 1
    subprocess.run([sys.executable, "-c", COMPACTION, str(tmp_path), "-1"], check=True, timeout=BOUND)
    assert in_files(list(tmp_path.glob("*.parquet"))) == Counter(range(60))
