"""Archive a topic to Parquet as it is, and ask it questions in SQL.

Nothing stands between source and files here, so the tasks that read write the files, too: the fastest way.

    python examples/spark/archive.py
"""

import os
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from pyromq import Admin, Message, Producer
from pyromq.spark import Pipeline

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


def produce(namesrv: str) -> None:
    with Admin(namesrv=namesrv) as admin:
        admin.create_topic("example-events", queues=4)
        admin.wait_for_topic("example-events")
    with Producer("example-devices", namesrv=namesrv) as producer:
        for number in range(60):
            tags = ("boot", "alarm", "report")[number % 3]
            producer.send(Message("example-events", b"x" * (number + 1), tags=tags, keys=[f"device-{number % 7}"]))


def main(namesrv: str, folder: Path, spark: SparkSession | None = None) -> None:
    produce(namesrv)
    session = spark or SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    (
        Pipeline("example-archive", checkpoint=str(folder / "state"))
        .source(nameServer=namesrv, topic="example-events", columns="tags,keys,body,queueId,queueOffset,storeTimestamp")
        .to_parquet(str(folder / "archive"), partition_by=["tags"])
        .run(once=True, spark=session)
    )
    session.read.parquet(str(folder / "archive")).createOrReplaceTempView("archive")
    question = "SELECT tags, count(*) AS n, sum(length(body)) AS bytes FROM archive GROUP BY tags ORDER BY tags"
    for row in session.sql(question).collect():
        print(f"{row.tags}: {row.n} messages, {row.bytes} bytes")
    if spark is None:
        session.stop()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(NAMESRV, Path(name))
