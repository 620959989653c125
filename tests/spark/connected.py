"""What a Spark Connect client does in its own process: the formats are found on the server, by name alone."""

import json
import sys

from pyspark.sql import SparkSession

namesrv, topic = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").getOrCreate()
frame = spark.read.format("rocketmq").options(nameServer=namesrv, topic=topic, columns="queueId,queueOffset").load()
spark.sql(f"CREATE TEMPORARY VIEW shared USING rocketmq OPTIONS (nameServer '{namesrv}', topic '{topic}')")
counted = spark.sql("SELECT count(DISTINCT msgId) AS n FROM shared").collect()[0].n
print(json.dumps({"client": type(spark).__module__, "rows": frame.count(), "distinct": counted}))  # noqa: T201 - read by the test
spark.stop()
