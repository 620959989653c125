"""What a broker says of itself once it has started: to people in lines, to programs as JSON. Nothing but what is so."""

from pyromq.broker.broker import Broker
from pyromq.broker.cluster.registration import Registration


def facts(broker: Broker) -> dict[str, object]:
    """For programs: `broker` is what clients are told, `listen` what is bound."""
    standing = broker.part(Registration).standing
    return {
        "broker": broker.address,
        "listen": broker.listens_on,
        "http": broker.http_address,
        "registered": [server for server, trouble in standing.items() if trouble is None],
        "unregistered": {server: trouble for server, trouble in standing.items() if trouble is not None},
    }


def lines(broker: Broker) -> list[str]:
    """For people."""
    told = "" if broker.address == broker.listens_on else f"; clients are told {broker.address}"
    said = [f"The broker {broker.config.broker_name} listens on {broker.listens_on}{told}."]
    said += registration(broker)
    if broker.http_address is not None:
        said.append(f"Metrics at http://{broker.http_address}/metrics.")
    return said


def registration(broker: Broker) -> list[str]:
    """Which name servers know of it, and why others do not."""
    standing = broker.part(Registration).standing
    if not standing:
        return ["Not registered: no name server is set (--namesrv-addr), so clients must know its address."]
    known = [server for server, trouble in standing.items() if trouble is None]
    said = [f"Registered with {', '.join(known)}."] if known else []
    return said + unregistered(broker)


def unregistered(broker: Broker) -> list[str]:
    """The name servers that do not know of it yet, and why."""
    return [
        f"Not registered yet with {server}, trying again: {trouble}"
        for server, trouble in broker.part(Registration).standing.items()
        if trouble is not None
    ]
