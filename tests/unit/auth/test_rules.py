"""How rules are judged: precedence, prefixes, sources; and the texts they are read from."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.auth.addresses import AddressRange, is_from
from pyromq.auth.errors import AuthError
from pyromq.auth.rules import (
    ALL,
    Action,
    Decision,
    Entry,
    Kind,
    PolicyType,
    Resource,
    Rules,
    action_names,
    judge,
    parse_actions,
    parse_decision,
    parse_policy_type,
    parse_sources,
)

HOST = "10.1.2.3"
ALLOW, DENY = Decision.ALLOW, Decision.DENY


def entry(resource: str, decision: Decision = ALLOW, actions: Action = ALL, *sources: str) -> Entry:
    return Entry(Resource.parse(resource), actions, decision, parse_sources(sources))


def decided(rules: Rules, topic: str = "orders", actions: Action = Action.PUB, host: str = HOST) -> Decision | None:
    found = judge(rules, Kind.TOPIC, topic, actions, host)
    return found.decision if found else None


def test_what_no_rule_allows_is_denied() -> None:
    assert decided(Rules()) is None
    assert decided(Rules((entry("Group:orders"), entry("Topic:other")))) is None


@pytest.mark.parametrize(
    ("specific", "vague"),
    [
        ("Topic:orders", "Topic:orders*"),
        ("Topic:orders", "Topic:*"),
        ("Topic:orders", "*"),
        ("Topic:ord*", "Topic:o*"),
        ("Topic:o*", "Topic:*"),
        ("Topic:*", "*"),
    ],
)
@pytest.mark.parametrize("decision", list(Decision))
def test_the_most_specific_resource_decides(specific: str, vague: str, decision: Decision) -> None:
    other = DENY if decision is ALLOW else ALLOW
    entries = (entry(vague, other), entry(specific, decision))
    assert decided(Rules(entries)) is decision
    assert decided(Rules(entries[::-1])) is decision


def test_custom_rules_come_before_default_ones_however_vague() -> None:
    rules = Rules((entry("*", DENY),), (entry("Topic:orders", ALLOW),))
    assert decided(rules) is DENY
    assert decided(Rules((entry("Topic:other", DENY),), (entry("Topic:orders", ALLOW),))) is ALLOW


def test_deny_wins_at_a_tie() -> None:
    assert decided(Rules((entry("Topic:orders", ALLOW), entry("Topic:orders", DENY)))) is DENY
    assert decided(Rules((entry("Topic:orders", DENY), entry("Topic:orders", ALLOW)))) is DENY


def test_a_rule_speaks_only_of_its_actions() -> None:
    rules = Rules((entry("Topic:orders", ALLOW, Action.PUB), entry("Topic:*", ALLOW, Action.GET)))
    assert decided(rules, actions=Action.PUB) is ALLOW
    assert decided(rules, actions=Action.SUB) is None
    assert decided(rules, actions=Action.SUB | Action.GET) is ALLOW


def test_sources_only_narrow() -> None:
    rules = Rules((entry("Topic:orders", ALLOW, ALL, "192.168.0.0/16", "10.1.2.4"),))
    assert decided(rules, host="192.168.7.7") is ALLOW
    assert decided(rules, host="10.1.2.4") is ALLOW
    assert decided(rules) is None
    assert decided(rules, host="not an address") is None


resources = st.sampled_from(["*", "Topic:*", "Topic:o*", "Topic:ord*", "Topic:orders", "Topic:other", "Group:orders"])
entries = st.builds(
    entry,
    resources,
    st.sampled_from(list(Decision)),
    st.sampled_from([Action.PUB, Action.SUB, Action.PUB | Action.SUB, ALL]),
    st.sampled_from(["0.0.0.0/0", "10.0.0.0/8", "192.168.0.0/16"]),
)


@given(custom=st.lists(entries, max_size=6), default=st.lists(entries, max_size=6))
def test_judgement_does_not_depend_on_order_and_never_invents_permission(
    custom: list[Entry], default: list[Entry]
) -> None:
    found = judge(Rules(tuple(custom), tuple(default)), Kind.TOPIC, "orders", Action.PUB, HOST)
    turned = judge(Rules(tuple(custom[::-1]), tuple(default[::-1])), Kind.TOPIC, "orders", Action.PUB, HOST)
    assert (found and found.decision) == (turned and turned.decision)
    if found is not None:
        assert found in custom or found in default
        assert found.matches(Kind.TOPIC, "orders", Action.PUB, HOST)
        asked = custom if found in custom else default
        matching = [each for each in asked if each.matches(Kind.TOPIC, "orders", Action.PUB, HOST)]
        assert found.resource.vagueness == min(each.resource.vagueness for each in matching)


@given(custom=st.lists(entries, max_size=6))
def test_taking_allowing_rules_away_never_allows_more(custom: list[Entry]) -> None:
    before = decided(Rules(tuple(custom)))
    for index, each in enumerate(custom):
        if each.decision is ALLOW and before is not ALLOW:
            assert decided(Rules(tuple(custom[:index] + custom[index + 1 :]))) is not ALLOW


def test_resources_as_text() -> None:
    for text in ("*", "Topic:*", "Topic:a*", "Topic:a", "Group:g", "Cluster:DefaultCluster", "Namespace:n", "Filter:t"):
        assert str(Resource.parse(text)) == text
    assert str(Resource.parse("topic:a")) == "Topic:a"


@pytest.mark.parametrize("text", ["", "Topic", "Topic:", "Topic:a*b", "Queue:a", "Any:*", "Topic:" + "a" * 600])
def test_bad_resources_are_refused(text: str) -> None:
    with pytest.raises(AuthError):
        Resource.parse(text)


def test_actions_as_text() -> None:
    assert parse_actions(["Pub", "sub"]) == Action.PUB | Action.SUB
    assert parse_actions(["All"]) == ALL
    assert action_names(ALL) == ["All"]
    assert action_names(Action.PUB | Action.DELETE) == ["Pub", "Delete"]
    for bad in ([], ["Fly"]):
        with pytest.raises(AuthError):
            parse_actions(bad)


def test_other_texts() -> None:
    assert parse_decision("allow") is ALLOW
    assert parse_policy_type(None) is PolicyType.CUSTOM
    assert parse_policy_type("DEFAULT") is PolicyType.DEFAULT
    for bad in (None, "", "maybe"):
        with pytest.raises(AuthError):
            parse_decision(bad)


def test_one_rule_for_each_resource() -> None:
    rules = Rules().with_entries(PolicyType.CUSTOM, [entry("Topic:a"), entry("Topic:b")])
    changed = rules.with_entries(PolicyType.CUSTOM, [entry("Topic:a", DENY)])
    assert [(str(each.resource), each.decision) for each in changed.custom] == [("Topic:a", DENY), ("Topic:b", ALLOW)]
    assert changed.without(PolicyType.CUSTOM, Resource.parse("Topic:a")).custom == (entry("Topic:b"),)
    assert changed.without(PolicyType.CUSTOM, None) == Rules()


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("10.0.0.7", "10.0.0.7", "10.0.0.8"),
        ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
        ("10.0.*.*", "10.0.9.9", "10.1.0.0"),
        ("10.0.1-9.*", "10.0.5.1", "10.0.10.1"),
        ("10.0.0.{1,5}", "10.0.0.5", "10.0.0.2"),
        ("*", "8.8.8.8", "2001:db8::1"),
        ("2001:db8::/32", "2001:db8::7", "2001:db9::7"),
        ("10.0.0.0/8", "::ffff:10.0.0.1", "::ffff:11.0.0.1"),
    ],
)
def test_address_ranges(text: str, inside: str, outside: str) -> None:
    assert inside in AddressRange(text)
    assert outside not in AddressRange(text)


@pytest.mark.parametrize(
    "text", ["", "10.0.0", "10.0.0.0.0", "10.0.0.x", "a.b.c.d", "10.0.{1,}.1", "1" * 300, "1..0.1"]
)
def test_bad_addresses_never_mean_anywhere(text: str) -> None:
    with pytest.raises(AuthError):
        AddressRange(text)


@given(st.text(max_size=40))
def test_any_text_is_a_range_or_refused(text: str) -> None:
    try:
        known = AddressRange(text)
    except AuthError:
        return
    assert isinstance(HOST in known, bool)


def test_no_range_means_anywhere() -> None:
    assert is_from(HOST, ())
    assert not is_from(HOST, (AddressRange("10.9.9.9"),))
