"""Orders: parse, drop repetitions, set broken ones aside, add up the revenue of each shop by the minute.

    pyromq standalone &
    pip install 'pyromq[spark]'
    python examples/spark/orders.py

One pass: the sums go, as they change, to a topic and to Parquet files; what cannot be parsed goes to another topic.
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


def produce(namesrv: str) -> None:
    """Orders of two shops; some come twice, some are broken."""
    with Admin(namesrv=namesrv) as admin:
        admin.create_topic("example-orders", queues=4)
        admin.wait_for_topic("example-orders")
    with Producer("example-shop", namesrv=namesrv) as producer:
        for number in range(100):
            shop = ("Berlin", "Lisbon")[number % 2]
            body = json.dumps({"id": number, "shop": shop, "cents": 100, "at": f"2026-01-01T12:0{number % 5}:00Z"})
            producer.send(Message("example-orders", body.encode()))
            if number % 10 == 0:
                producer.send(Message("example-orders", body.encode()))
        producer.send(Message("example-orders", b'{"id": "not a number"}'))


def revenue(orders: DataFrame) -> DataFrame:
    """The sums by shop and minute."""
    sums = orders.groupBy(fn.window("at", "1 minute"), "shop").agg(fn.sum("cents").alias("cents"))
    return sums.select("shop", fn.col("window.start").alias("minute"), "cents")


def main(namesrv: str, folder: Path, spark: SparkSession | None = None) -> None:
    produce(namesrv)
    totals = (
        Pipeline("example-orders", checkpoint=str(folder / "state"))
        .source(nameServer=namesrv, topic="example-orders")
        .parse("id bigint, shop string, cents bigint, at timestamp")
        .watermark("at", "1 hour")
        .dedup("id", time="at")
        .apply(revenue)
        .to_parquet(str(folder / "revenue"))
        .to_topic("example-revenue", keys="shop", id=["shop", "minute"])
        .dlq("example-orders-dlq")
        .trigger("available-now", mode="update")
        .run(spark=spark, on_progress=lambda progress: print(f"batch {progress.batch}: {progress.messages} messages"))
    )
    print(f"{totals.messages} messages, {totals.duplicates} repeated, {totals.bad} broken")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(NAMESRV, Path(name))
