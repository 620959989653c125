"""What spark-submit runs on a cluster: topics as streams that end, into Parquet and into a topic; says what happened.

Its argument is JSON: `options` of the connection, `topic`, `folder`, and on request `copy`, a topic to write to exactly
once, and `pause`, the seconds that each row takes.
"""

import json
import pathlib
import sys
import time

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.streaming.readwriter import DataStreamWriter

given = json.loads(sys.argv[1])
folder, pause = given["folder"], given.get("pause", 0)
spark = SparkSession.builder.getOrCreate()


def slowly(body: bytes) -> bytes:
    pathlib.Path(folder, "begun").touch()
    time.sleep(pause)
    return bytes(body)


def stream() -> DataFrame:
    frame = (
        spark.readStream.format("rocketmq")
        .options(**given["options"], topic=given["topic"], startingOffsets="earliest", minPartitions="4")
        .load()
    )
    return frame.withColumn("body", F.udf(slowly, "binary")("body")) if pause else frame


def drain(writer: DataStreamWriter, name: str) -> None:
    """To the end of what is there."""
    while True:
        try:
            query = writer.option("checkpointLocation", f"{folder}/{name}").trigger(availableNow=True).start()
            query.awaitTermination()
            break
        except StreamingQueryException as error:
            # Spark gives its helper process ten seconds to start, which a busy machine may exceed.
            if "failed to connect back" not in str(error):
                raise


rows = stream().selectExpr("CAST(body AS STRING) AS text", "queueId")
drain(rows.writeStream.format("parquet").option("path", f"{folder}/rows"), "files")
if "copy" in given:
    copied = stream().select("body").writeStream.format("rocketmq").options(**given["options"], topic=given["copy"])
    drain(copied.option("delivery", "exactly-once"), "copies")
found = spark.read.parquet(f"{folder}/rows")
executors = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
print(json.dumps({"rows": found.count(), "distinct": found.distinct().count(), "executors": len(executors) - 1}))  # noqa: T201 - read by the test
