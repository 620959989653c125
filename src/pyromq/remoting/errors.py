"""What can go wrong between two processes. Each error names the peer; `retryable` says whether another try can help."""

from pyromq.errors import PyroMQError


class RemotingError(PyroMQError):
    """A request could not be carried out because of the transport, not because the peer refused it."""

    retryable = True


class ConnectError(RemotingError):
    """No connection to the address could be made: refused, unreachable, timed out or TLS failed."""


class SendError(RemotingError):
    """The request was not handed to the peer, so it was not carried out."""


class CallTimeout(RemotingError):  # noqa: N818 - the name says what happened
    """No answer came in time. The peer may or may not have carried out the request."""


class InFlightLimitReached(RemotingError):  # noqa: N818 - the name says what happened
    """A bound on requests in flight was reached; the request was not sent."""


class ConnectionLost(RemotingError):  # noqa: N818 - the name says what happened
    """The connection ended before the answer came. The peer may or may not have carried out the request."""


class AddressError(RemotingError):
    """A text that should be `host:port` is not."""

    retryable = False


class ProxyHeaderError(RemotingError):
    """A connection began with a PROXY header that is malformed or not allowed from that address."""

    retryable = False


class TlsError(RemotingError):
    """Certificates, keys or certificate authorities could not be loaded."""

    retryable = False
