"""What a broker says of itself once it has started: to people in lines, to programs as JSON. Nothing but what is so."""

import msgspec

from pyromq.broker.broker import Broker
from pyromq.broker.cluster.registration import Registration
from pyromq.broker.fleet.facts import Facts


def facts(broker: Broker, pid: int) -> Facts:
    """What is so now."""
    standing = broker.part(Registration).standing
    return Facts(
        broker.address,
        broker.listens_on,
        broker.http_address,
        broker.grpc_address,
        [server for server, trouble in standing.items() if trouble is None],
        {server: trouble for server, trouble in standing.items() if trouble is not None},
        pid,
    )


def plain(found: Facts) -> dict[str, object]:
    """For programs, as JSON has it."""
    made: dict[str, object] = msgspec.to_builtins(found)
    return made


def lines(name: str, found: Facts) -> list[str]:
    """For people."""
    told = "" if found.broker == found.listen else f"; clients are told {found.broker}"
    return [f"The broker {name} listens on {found.listen}{told}.", *_registration(found)]


def pages(address: str | None) -> list[str]:
    """Where metrics are, if anywhere."""
    return [] if address is None else [f"Metrics at http://{address}/metrics."]


def grpc(address: str | None) -> list[str]:
    """Where gRPC clients are served, if anywhere."""
    return [] if address is None else [f"gRPC clients connect to {address}."]


def unregistered(found: Facts) -> list[str]:
    """The name servers that do not know of it yet, and why."""
    return [
        f"Not registered yet with {server}, trying again: {trouble}" for server, trouble in found.unregistered.items()
    ]


def _registration(found: Facts) -> list[str]:
    """Which name servers know of it, and why others do not."""
    if not found.registered and not found.unregistered:
        return ["Not registered: no name server is set (--namesrv-addr), so clients must know its address."]
    said = [f"Registered with {', '.join(found.registered)}."] if found.registered else []
    return said + unregistered(found)
