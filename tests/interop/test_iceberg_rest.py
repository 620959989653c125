"""The Iceberg sink against Apache Iceberg's own REST catalog: partitions, new columns, and attempts that race."""

import datetime as dt
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]  # has no annotations
import pytest

from pyromq.spark.errors import SinkError
from pyromq.spark.sink.table.iceberg.sink import IcebergSink
from tests.interop.artifacts import HERE, maven_jars
from tests.unit.spark.tablewriting import QUERY, batch_of, write, written

START_SECONDS = 60.0
COLUMNS = [("id", pa.int64()), ("shop", pa.string()), ("at", pa.timestamp("us", tz="UTC"))]
WHEN = dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("rest")
    jars = maven_jars("iceberg-rest", HERE / "iceberg", {})
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {
        "CATALOG_WAREHOUSE": f"file://{folder}",
        "CATALOG_URI": f"jdbc:sqlite:{folder}/catalog.db",
        "CATALOG_REST_PORT": str(port),
    }
    command = ["java", "-cp", f"{jars}/*", "org.apache.iceberg.rest.RESTCatalogServer"]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(
            command,
            env={**os.environ, **settings},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            _await(f"http://127.0.0.1:{port}/v1/config", server, folder / "log")
            yield {"name": "prod", "type": "rest", "uri": f"http://127.0.0.1:{port}"}
        finally:
            server.kill()
            server.wait()


def _await(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5):  # noqa: S310 - our own address
                return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.1)
    raise AssertionError(log.read_text()[-2000:])


def ids(sink: IcebergSink) -> list[int]:
    with sink.open_catalog("cannot be read") as catalog:
        return sorted(catalog.load_table(sink.table).scan().to_arrow().column("id").to_pylist())


def test_batches_land_once(catalog: dict[str, str]) -> None:
    sink = IcebergSink(
        name="lake", table="shop.orders", catalog=catalog, partition_by=["day(at)", "bucket(4, id)"], keep_snapshots=3
    )
    for batch in (0, 1, 1, 0, 2):
        write(sink, batch, batch_of(COLUMNS, (batch, "a", WHEN)))
    write(sink, 3, batch_of([*COLUMNS, ("note", pa.string())], (3, "b", WHEN, "x")))
    sink.prepare(QUERY)
    attempts = [written(sink, 4, batch_of(COLUMNS, (4, "a", WHEN))) for _ in range(4)]
    with ThreadPoolExecutor(max_workers=4) as threads:
        assert list(threads.map(lambda attempt: sink.commit(QUERY, 4, [attempt]), attempts)) == [1] * 4
    for batch in range(5, 9):
        write(sink, batch, batch_of(COLUMNS, (batch, "a", WHEN)))
    assert ids(sink) == list(range(9))
    with sink.open_catalog("cannot be read") as opened:
        table = opened.load_table(sink.table)
        assert [str(field.transform) for field in table.spec().fields] == ["day", "bucket[4]"]
        assert len(table.snapshots()) < 6


def test_a_catalog_that_is_away_is_one_sentence_and_worth_another_try() -> None:
    sink = IcebergSink(name="lake", table="shop.orders", catalog={"type": "rest", "uri": "http://127.0.0.1:1"})
    with pytest.raises(SinkError, match=r"127\.0\.0\.1") as caught:
        sink.prepare(QUERY)
    assert caught.value.retryable
    assert "\n" not in str(caught.value)
