"""The pipeline of the demo: revenue by shop and window, exactly once, to Parquet and to a topic."""

from pathlib import Path

from pyromq.cli.demo.orders import BROKEN, ORDERS, REVENUE
from pyromq.spark.pipeline.builder import Pipeline

QUERY = """
SELECT date_format(window.start, 'yyyy-MM-dd HH:mm:ss') AS hour, shop, sum(cents) AS cents, count(*) AS orders
FROM input GROUP BY window(ts, '1 hour'), shop
"""


def pipeline(namesrv: str, folder: Path) -> Pipeline:
    """The same can be written in YAML; `pyromq pipeline init` makes such a file."""
    return (
        Pipeline("demo", checkpoint=str(folder / "state"))
        .source(nameServer=namesrv, topic=ORDERS, start="earliest", maxRows=20_000)
        .parse("id string, shop string, cents bigint, ts timestamp")
        .watermark("ts", "10 minutes")
        .dedup("id", within="10 minutes", time="ts")
        .sql(QUERY)
        .to_parquet(str(folder / "lake" / REVENUE))
        .to_topic(REVENUE, keys=["hour", "shop"], id=["hour", "shop"], queues=4)
        .dlq(BROKEN)
        .trigger("available-now")
    )
