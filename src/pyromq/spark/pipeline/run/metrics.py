"""Progress as Prometheus metrics, on an HTTP port of the runner."""

import time
from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from pyromq.spark.pipeline.run.progress import Progress

_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


class Metrics:
    """The metrics of one run; `observe` is a progress listener."""

    def __init__(self, pipeline: str) -> None:
        self.registry = CollectorRegistry()
        self._pipeline = pipeline
        self._shown: dict[Gauge, set[str]] = {}

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"pyromq_pipeline_{name}", text, ["pipeline", *labels], registry=self.registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"pyromq_pipeline_{name}", text, ["pipeline", *labels], registry=self.registry)

        self._messages = counter("messages", "Messages read.")
        self._bytes = counter("read_bytes", "Bytes of the messages read.")
        self._rows = counter("rows", "Rows that sinks committed.", "sink")
        self._bad = counter("bad", "Bodies that could not be parsed.")
        self._duplicates = counter("duplicates", "Rows dropped as repetitions.")
        self._lost = counter("lost_messages", "Messages that were gone before they were read.")
        self._restarts = counter("restarts", "Starts of the query after a failure.")
        self._duration = Histogram(
            "pyromq_pipeline_batch_seconds",
            "Duration of batches.",
            ["pipeline"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._lag = gauge("lag_messages", "Messages behind the end of a queue.", "queue")
        self._lag_seconds = gauge("lag_seconds", "Seconds since the next message to read was stored.", "queue")
        self._files = gauge("table_files", "Files of a table.", "sink")
        self._file_bytes = gauge("table_file_bytes", "Mean size of a table's files.", "sink")
        self._state_rows = gauge("state_rows", "Rows kept as state.")
        self._state_bytes = gauge("state_bytes", "Memory of the state.")
        self._last = gauge("last_commit_timestamp_seconds", "When the last batch was committed.")

    def serve(self, port: int) -> int:
        """Serve them on a port of this machine, 0 for a free one; returns it. Raises OSError."""
        server, _ = start_http_server(port, addr="127.0.0.1", registry=self.registry)
        return int(server.server_address[1])

    def observe(self, progress: Progress) -> None:
        """Count a batch."""
        name = self._pipeline
        self._messages.labels(name).inc(progress.messages)
        self._bytes.labels(name).inc(progress.bytes)
        self._bad.labels(name).inc(progress.bad)
        self._duplicates.labels(name).inc(progress.duplicates)
        self._lost.labels(name).inc(progress.lost)
        for sink, rows in progress.rows.items():
            self._rows.labels(name, sink).inc(rows)
        self._duration.labels(name).observe(progress.duration_ms / 1000)
        self._replace(self._lag, progress.lag_by_queue)
        self._replace(self._lag_seconds, progress.lag_seconds_by_queue)
        self._replace(self._files, {sink: table.files for sink, table in progress.tables.items()})
        self._replace(self._file_bytes, {sink: table.mean_bytes for sink, table in progress.tables.items()})
        self._state_rows.labels(name).set(progress.state_rows)
        self._state_bytes.labels(name).set(progress.state_bytes)
        self._last.labels(name).set(time.time())

    def _replace(self, gauge: Gauge, values: Mapping[str, float]) -> None:
        """Set what is known now. A queue that is gone, or an age nobody can tell, must not stand there for ever."""
        for label in self._shown.get(gauge, set()) - values.keys():
            gauge.remove(self._pipeline, label)
        for label, value in values.items():
            gauge.labels(self._pipeline, label).set(value)
        self._shown[gauge] = set(values)

    def restarted(self) -> None:
        """Count a restart."""
        self._restarts.labels(self._pipeline).inc()
