"""Look into message traces and consumer lag with Spark: what sending cost, and who is behind.

python examples/spark/traces.py
"""

import os
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as fn

from pyromq import Admin, Message, Producer

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")
COST = 10
"""Place of the cost in a record of a sent message; its fields are separated by U+0001, records by U+0002."""


def produce(namesrv: str) -> None:
    """Messages whose sending is traced."""
    with Admin(namesrv=namesrv) as admin:
        for topic in ("example-traced", "example-traces"):
            admin.create_topic(topic, queues=2)
            admin.wait_for_topic(topic)
    with Producer("example-traced", namesrv=namesrv, enable_trace=True, trace_topic="example-traces") as producer:
        for number in range(25):
            producer.send(Message("example-traced", f"message {number}".encode()))
        # A group that has read the first five messages of each queue.
        with Admin(namesrv=namesrv) as admin:
            for queue in producer.publish_queues("example-traced"):
                admin.update_offset("example-audit", queue, 5)


def main(namesrv: str, folder: Path | None = None, spark: SparkSession | None = None) -> None:
    del folder
    produce(namesrv)
    session = spark or SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    options = {"nameServer": namesrv, "topic": "example-traces", "bodyFormat": "string", "columns": "body"}
    records = (
        session.read.format("rocketmq")
        .options(**options)
        .load()
        .select(fn.explode(fn.split("body", "\x02")).alias("record"))
        .select(fn.split("record", "\x01").alias("fields"))
        .filter(fn.col("fields")[0] == "Pub")
    )
    costs = records.groupBy(fn.col("fields")[4].alias("topic")).agg(
        fn.count("*").alias("sent"), fn.max(fn.col("fields")[COST].cast("long")).alias("slowest")
    )
    for row in costs.collect():
        print(f"{row.topic}: {row.sent} sends traced, the slowest took {row.slowest} ms")
    with Admin(namesrv=namesrv) as admin:
        queues = [(row.queue.queue_id, row.lag) for row in admin.lag("example-audit", "example-traced").queues]
    lag = session.createDataFrame(queues, "queue int, behind long")
    print(f"group example-audit is {lag.agg(fn.sum('behind')).first()[0]} messages behind in {lag.count()} queues")
    if spark is None:
        session.stop()


if __name__ == "__main__":
    main(NAMESRV)
