"""Clickstream sessions: clicks of a user that follow each other within ten minutes are one session (stateful).

python examples/spark/sessions.py
"""

import json
import os
import tempfile
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from pyromq import Admin, Message, Producer
from pyromq.spark import Pipeline

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
CLICKS = [("ada", 0), ("ada", 4), ("bob", 5), ("ada", 11), ("ada", 40), ("bob", 52), ("ada", 44)]


def produce(namesrv: str) -> None:
    with Admin(namesrv=namesrv) as admin:
        admin.create_topic("example-clicks", queues=4)
        admin.wait_for_topic("example-clicks")
    with Producer("example-web", namesrv=namesrv) as producer:
        for user, minute in CLICKS:
            body = json.dumps({"user": user, "at": f"2026-01-01T12:{minute:02}:00Z"})
            producer.send(Message("example-clicks", body.encode()))


def sessions(clicks: DataFrame) -> DataFrame:
    found = clicks.groupBy(fn.session_window("at", "10 minutes"), "user").agg(fn.count("*").alias("clicks"))
    return found.select(
        "user", fn.col("session_window.start").alias("began"), fn.col("session_window.end").alias("over"), "clicks"
    )


def main(namesrv: str, folder: Path, spark: SparkSession | None = None) -> None:
    produce(namesrv)
    pipeline = (
        Pipeline("example-sessions", checkpoint=str(folder / "state"))
        .source(nameServer=namesrv, topic="example-clicks")
        .parse("user string, at timestamp", on_error="drop")
        .watermark("at", "5 minutes")
        .apply(sessions)
        .to_parquet(str(folder / "sessions"))
    )
    totals = pipeline.run(once=True, spark=spark)
    # A session is over when later clicks prove it: the ones that may still go on stay in the state.
    print(f"{totals.messages} clicks, {totals.rows['parquet-0']} sessions are over")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(NAMESRV, Path(name))
