"""From topic to topic: each payment gets the country of its user from a table, effectively once.

python examples/spark/enrich.py
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
COUNTRIES = {"ada": "UK", "bob": "US", "chen": "CN"}


def produce(namesrv: str) -> None:
    with Admin(namesrv=namesrv) as admin:
        admin.create_topic("example-payments", queues=4)
        admin.wait_for_topic("example-payments")
    with Producer("example-till", namesrv=namesrv) as producer:
        for number in range(30):
            user = [*COUNTRIES, "eve"][number % 4]
            producer.send(Message("example-payments", json.dumps({"id": number, "user": user}).encode()))


def with_country(payments: DataFrame) -> DataFrame:
    """A small table needs no join: Spark carries it along as a constant."""
    table = fn.create_map(*(fn.lit(word) for pair in COUNTRIES.items() for word in pair))
    return payments.withColumn("country", fn.coalesce(table[fn.col("user")], fn.lit("unknown")))


def main(namesrv: str, folder: Path, spark: SparkSession | None = None) -> None:
    produce(namesrv)
    totals = (
        Pipeline("example-enrich", checkpoint=str(folder / "state"))
        .source(nameServer=namesrv, topic="example-payments")
        .parse("id bigint, user string", on_error="fail")
        .apply(with_country)
        .to_topic("example-payments-by-country", tags="country", keys="id", name="enriched")
        .run(once=True, spark=spark)
    )
    print(f"{totals.messages} payments in, {totals.rows['enriched']} out")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(NAMESRV, Path(name))
