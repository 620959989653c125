"""`pyromq demo`: the main job end to end on an embedded cluster, with checks and a report at the end.

A stream of orders, some repeated, some late, some broken; a Spark pipeline that parses them, removes repetitions, adds
up revenue by shop and window and sets the broken ones aside, exactly once; a consumer of the results. Without Spark or
Java a consumer group does the pipeline's work.
"""

from pyromq.cli.demo.command import app

__all__ = ["app"]
