"""Rules as the bodies of requests and answers have them."""

import json

from pyromq.auth.requests.wire import entries_of
from pyromq.auth.rules import Action, Decision, Entry, PolicyType, Resource, parse_sources
from pyromq.protocol.bodies.auth import AclEntry, AclInfo, AclPolicy


def test_a_rule_from_anywhere_names_no_addresses() -> None:
    """As Apache's broker has it: null, not an empty list."""
    entry = AclEntry(resource="Topic:orders", actions=["Pub"], decision="Allow")
    info = AclInfo(subject="User:u", policies=[AclPolicy(policy_type="Custom", entries=[entry])])
    assert json.loads(info.encode())["policies"][0]["entries"][0].get("sourceIps") is None
    rule = Entry(Resource.parse("Topic:orders"), Action.PUB, Decision.ALLOW, parse_sources(()))
    assert entries_of(AclInfo.decode(info.encode())) == [(PolicyType.CUSTOM, [rule])]
