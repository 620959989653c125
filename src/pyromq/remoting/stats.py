"""Counters of one server or client. Plain integers, written on the event loop, read by whoever exports metrics."""

from dataclasses import dataclass


@dataclass(slots=True)
class Stats:
    """Gauges first (what is), then counters (what was)."""

    connections: int = 0
    requests_in_flight: int = 0
    bytes_in_flight: int = 0
    partial_bytes: int = 0
    stranger_bytes: int = 0
    calls_in_flight: int = 0
    reads_paused: int = 0

    connections_opened: int = 0
    connections_refused: int = 0
    connections_refused_per_peer: int = 0
    connections_refused_rate: int = 0
    handshakes_failed: int = 0
    closed_idle: int = 0
    closed_malformed: int = 0
    closed_slow: int = 0
    closed_strangers: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    requests: int = 0
    oneways: int = 0
    responses: int = 0
    unsupported: int = 0
    faults: int = 0
    busy: int = 0
    requests_refused_rate: int = 0
    calls: int = 0
    calls_timed_out: int = 0
    replies_unmatched: int = 0
