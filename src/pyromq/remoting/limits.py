"""Every bound of the transport in one place. Each is a hard limit; `Stats` counts how often it was met."""

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one server or one client. Times in seconds, sizes in bytes."""

    max_frame: int = 16 * MIB
    """Longest frame, its length word included. A longer one closes the connection."""
    connections: int = 10_000
    """Connections in all. One more is closed as soon as it is accepted."""
    connections_per_peer: int = 2_000
    """Connections from one address. One more is closed as soon as it is accepted."""
    requests_per_connection: int = 10_000
    """Requests accepted but not answered on one connection. One more is answered SYSTEM_BUSY."""
    bytes_per_connection: int = 64 * MIB
    """Request bytes accepted but not answered on one connection. At the limit the peer is not read from."""
    bytes_total: int = 512 * MIB
    """Request bytes accepted but not answered on all connections. Above it requests are answered SYSTEM_BUSY."""
    partial_bytes_total: int = 512 * MIB
    """Bytes of frames that have begun but not ended, on all connections. The one that exceeds it is closed."""
    stranger_bytes_total: int = 32 * MIB
    """The same for connections that have not proved who they are, on servers that want to know."""
    stranger_timeout: float = 30.0
    """How long such a connection may stay without doing so."""
    connection_rate: float = 0.0
    """Connections that one address may open in a second, 0 for any number; more are closed as they are accepted."""
    request_rate: float = 0.0
    """Requests of one address in a second, 0 for any number. One more is answered SYSTEM_BUSY."""
    unsent_high: int = MIB
    """Bytes written but not taken by a peer at which a server stops reading from it."""
    unsent_max: int = 64 * MIB
    """Bytes written but not taken by a peer at which it is disconnected."""
    calls_per_connection: int = 1_024
    """Server-initiated requests waiting for the answer of one peer. One more raises InFlightLimitReached."""
    calls: int = 65_535
    """Requests of a client waiting for an answer; more wait for a permit until their own time-out."""
    oneways: int = 65_535
    """One-way requests of a client not yet handed to the system; more wait for a permit until their own time-out."""
    idle_timeout: float = 120.0
    """A connection that neither sent nor received for so long is closed."""
    frame_timeout: float = 300.0
    """A frame that has begun must end within this time."""
    handshake_timeout: float = 10.0
    """From the first byte of a PROXY header or TLS handshake to its end."""
    silence: float = 1.0
    """A client's call that timed out after at least this long, with nothing at all arriving, ends its connection."""
    connect_timeout: float = 3.0
    """Name resolution, TCP connect and TLS handshake of a client."""
    reconnect_backoff: float = 1.0
    """Longest pause before an address that just refused a connection is tried again."""
