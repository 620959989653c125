"""The JVM of a runner: in a session of its own, so that signals to the runner's process group do not reach it.

A terminal and many process managers signal the whole group; Spark would die in the middle of the batch that the runner
wants to finish. It ends with the runner all the same, however that ends: its standard input is a pipe from there.
What it writes to standard error, mostly the complaints of Python processes that are ended, is kept for the case that it
dies, and shown at once only with PYROMQ_DEBUG.
"""

import contextlib
import logging
import os
import re
import signal
import threading
import warnings
from collections import deque
from collections.abc import Mapping

from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]  # has no annotations
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.accumulators import AccumulatorTCPServer, AccumulatorUnixServer
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from pyromq.spark.errors import SparkError, wants_tracebacks

KEPT_LINES = 50
READ_SECONDS = 1.0
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j")
"""Of PySpark: what they log with stack traces is raised as well."""

_REASON = re.compile(r"java\.|Exception in thread|Invalid |Error: |OpenJDK .* (warning|error)|# ")
"""How the JVM, unlike the Python processes that die with it, begins to tell why it ends."""

_said: deque[str] = deque(maxlen=KEPT_LINES)


class JvmError(SparkError):
    """Spark's process cannot be started, or ended."""


def start_context(settings: Mapping[str, str]) -> None:
    """Make the process's Spark context, unless there is one. Raises JvmError."""
    if SparkContext._active_spark_context is not None:
        return
    conf = SparkConf().setAll(list(settings.items()))
    gateway = None
    if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        gateway = _launch(conf)
    handler = signal.getsignal(signal.SIGINT)
    try:
        SparkContext(conf=conf, gateway=gateway)
    finally:
        # A context takes Ctrl-C for itself and cancels all jobs; what it means is the caller's to say.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


def stop_session(session: SparkSession) -> None:
    """Stop it, whether its JVM lives or not."""
    with contextlib.suppress(Py4JError, ConnectionError), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # "may also be in a zombie state"
        session.stop()


def last_words() -> str:
    """Why the JVM ended, in parentheses, if it said so."""
    return next((f" ({line})" for line in _said if _REASON.match(line)), "")


def _launch(conf: SparkConf) -> JavaGateway:
    if wants_tracebacks():
        return launch_gateway(conf, {"start_new_session": True})  # type: ignore[no-untyped-call]
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_py4j)
    for server in (AccumulatorTCPServer, AccumulatorUnixServer):
        server.handle_error = _say_nothing  # type: ignore[method-assign, assignment]  # it prints stacks
    reading, writing = os.pipe()
    listening = threading.Thread(target=_listen, args=(reading,), daemon=True)
    listening.start()
    try:
        return launch_gateway(conf, {"start_new_session": True, "stderr": writing})  # type: ignore[no-untyped-call]
    except PySparkRuntimeError as error:
        os.close(writing)
        writing = -1
        listening.join(READ_SECONDS)
        raise JvmError(f"Spark did not start{last_words() or f': {error}'}") from None
    finally:
        if writing >= 0:
            os.close(writing)


def _listen(reading: int) -> None:
    with os.fdopen(reading, errors="replace") as lines:
        for line in lines:
            if line.strip():
                _said.append(line.strip())


def _is_not_py4j(record: logging.LogRecord) -> bool:
    """It logs a lost connection at the root, with its stack, besides raising it."""
    return "py4j" not in record.pathname


def _say_nothing(*_: object) -> None:
    """In place of a stack trace; the runner finds the JVM gone at the same time."""
