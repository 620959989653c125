"""Addresses and quota of connections."""

import pytest

from pyromq.remoting.accept.quota import ConnectionQuota
from pyromq.remoting.address import Address, normal_host, peer_address
from pyromq.remoting.errors import AddressError
from pyromq.remoting.limits import Limits
from pyromq.remoting.stats import Stats


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9876", "127.0.0.1", 9876),
        (" broker-a:10911 ", "broker-a", 10911),
        ("[::1]:9876", "::1", 9876),
        ("2001:db8::7:9876", "2001:db8::7", 9876),
    ],
)
def test_parse(text: str, host: str, port: int) -> None:
    address = Address.parse(text)
    assert address == Address(host, port)
    assert Address.parse(str(address)) == address


@pytest.mark.parametrize("text", ["", ":", "host", "host:", ":9876", "host:-1", "host:65536", "host:\u0661", "host:1x"])
def test_parse_refuses(text: str) -> None:
    with pytest.raises(AddressError, match="expected host:port"):
        Address.parse(text)


def test_peers_have_one_name() -> None:
    assert normal_host("::ffff:10.1.2.3") == "10.1.2.3"
    assert normal_host("fe80::1%eth0") == "fe80::1"
    assert normal_host("not:an:address") == "not:an:address"
    assert peer_address(("::ffff:10.1.2.3", 7, 0, 0)) == Address("10.1.2.3", 7)
    assert peer_address(None) == peer_address("") == Address("unknown", 0)
    assert Address("10.1.2.3", 10911).fast == Address("10.1.2.3", 10909)


def test_admission_counts_in_all_and_by_host() -> None:
    stats = Stats()
    quota = ConnectionQuota(Limits(connections=3, connections_per_peer=2), stats)
    assert quota.enter("a")
    assert quota.enter("a")
    assert not quota.enter("a")
    assert quota.enter("a", shared=True)
    assert not quota.enter("b")
    assert (stats.connections_refused, stats.connections_refused_per_peer) == (1, 1)
    quota.leave("a")
    quota.leave("a")
    assert quota.enter("b")
    assert quota.enter("a")
