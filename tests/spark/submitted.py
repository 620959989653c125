"""What spark-submit runs on a cluster: read a topic as a stream that ends, write Parquet, say what happened."""

import json
import sys

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

namesrv, topic, folder = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
frame = (
    spark.readStream.format("rocketmq")
    .options(nameServer=namesrv, topic=topic, startingOffsets="earliest", minPartitions="4")
    .load()
)
writer = (
    frame.selectExpr("CAST(body AS STRING) AS text", "queueId")
    .writeStream.format("parquet")
    .option("path", f"{folder}/rows")
    .option("checkpointLocation", f"{folder}/checkpoint")
    .trigger(availableNow=True)
)
while True:
    try:
        writer.start().awaitTermination()
        break
    except StreamingQueryException as error:
        # Spark gives its helper process ten seconds to start, which a busy machine may exceed.
        if "failed to connect back" not in str(error):
            raise
rows = spark.read.parquet(f"{folder}/rows")
executors = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
print(json.dumps({"rows": rows.count(), "distinct": rows.distinct().count(), "executors": len(executors) - 1}))  # noqa: T201 - read by the test
