"""The process that Spark runs tasks in, one after another."""

import gc
import os

_settled = [0]
"""The process that has been here; a fork is another one."""


def settle() -> None:
    """Keep what is loaded by now out of garbage collections, once in a worker that Spark uses again.

    Spark collects garbage after each task, before the worker takes the next one. Walking through all that is imported
    takes tens of milliseconds of a core each time, which is a good part of a small micro-batch, and finds nothing.
    """
    if "SPARK_REUSE_WORKER" in os.environ and _settled[0] != os.getpid():
        _settled[0] = os.getpid()
        gc.collect()  # what is garbage already would stay for good
        gc.freeze()
