"""Replay what was stored in a stretch of time into a new table; the running pipeline is not touched.

On the command line: pyromq pipeline replay FILE --from 2026-01-01 --to 2026-01-02 --into lake/fixed

    python examples/spark/replay.py
"""

import json
import os
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from pyromq import Admin, Message, Producer
from pyromq.spark import Pipeline, replay

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


def produce(namesrv: str) -> None:
    with Admin(namesrv=namesrv) as admin:
        admin.create_topic("example-readings", queues=4)
        admin.wait_for_topic("example-readings")
    with Producer("example-meters", namesrv=namesrv) as producer:
        for number in range(20):
            producer.send(Message("example-readings", json.dumps({"meter": number, "watts": 1000 + number}).encode()))


def main(namesrv: str, folder: Path, spark: SparkSession | None = None) -> None:
    produce(namesrv)
    pipeline = (
        Pipeline("example-readings", checkpoint=str(folder / "state"))
        .source(nameServer=namesrv, topic="example-readings")
        .parse("meter bigint, watts bigint", on_error="drop")
        .sql("SELECT meter, watts / 1000 AS kilowatts FROM input")
        .to_parquet(str(folder / "readings"))
    )
    now = datetime.now(UTC)
    rows = replay(
        pipeline.definition(),
        start=(now - timedelta(days=1)).isoformat(),
        end=(now + timedelta(minutes=1)).isoformat(),
        into=str(folder / "since-yesterday"),
        spark=spark,
    )
    print(f"{sum(rows.values())} rows since yesterday")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(NAMESRV, Path(name))
