"""Who calls: client ids, signatures of every client's spelling, and what is remembered of both."""

from collections.abc import Callable
from typing import Any

import pytest

from pyromq.auth.authority import Authority
from pyromq.auth.needs import Scene
from pyromq.auth.rules import Action, Decision, Entry, Resource, Rules
from pyromq.auth.users.access import Access, User
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.proxy.clients.doorkeeper import Door
from pyromq.proxy.clients.signature import read_authorization, signature_of
from pyromq.proxy.schema.enums import Code
from pyromq.proxy.status import Refusal
from pyromq.remoting.accept.rates import TokenBuckets
from tests.unit.proxy.fakes import FakeCall

MOMENT = "20261115T182345Z"
VECTOR = "420B15D97DB727C5844D27C45B6B37A3168DA57B"
SEND = Command.request(RequestCode.SEND_MESSAGE_V2, ext={"b": "orders"})


def users(secret: str = "sk", topic: str = "orders") -> Access:  # noqa: S107 - of the known vector
    entry = Entry(Resource.parse(f"Topic:{topic}"), Action.PUB, Decision.ALLOW)
    return Access({"ak": User("ak", secret)}, {"ak": Rules((entry,))})


def signed(credential: str = "ak", signature: str = VECTOR, moment: str = MOMENT) -> FakeCall:
    authorization = f"MQv2-HMAC-SHA1 Credential={credential}, SignedHeaders=x-mq-date-time, Signature={signature}"
    return FakeCall({"x-mq-client-id": "c", "x-mq-date-time": moment, "authorization": authorization})


def door(access: Callable[[], Access] = users, **options: Any) -> Door:
    known = access()
    return Door(Authority(lambda: known, Scene("c"), **options))


def test_the_signature_is_that_of_the_official_clients() -> None:
    assert signature_of(MOMENT, "sk").hex().upper() == VECTOR


@pytest.mark.parametrize("credential", ["ak", "ak//Rocketmq", "ak/region/Rocketmq"])
@pytest.mark.parametrize("signature", [VECTOR, VECTOR.lower()])
def test_every_spelling_of_a_good_signature_is_taken(credential: str, signature: str) -> None:
    assert door().caller(signed(credential, signature)).user == "ak"


@pytest.mark.parametrize(
    "call",
    [
        FakeCall({"x-mq-client-id": "c"}),
        FakeCall({"x-mq-client-id": "c", "authorization": "Basic YTpi"}),
        FakeCall({"x-mq-client-id": "c", "authorization": "MQv2-HMAC-SHA1"}),
        signed("bob"),
        signed(signature="00"),
        signed(signature="xyz"),
        signed(signature=""),
        signed(moment="20261115T182346Z"),
        signed(""),
    ],
)
def test_any_other_is_unauthorized(call: FakeCall) -> None:
    with pytest.raises(Refusal) as refused:
        door().caller(call)
    assert refused.value.code is Code.UNAUTHORIZED


def test_an_address_that_fails_too_often_hears_no_reasons_but_who_signs_well_gets_in() -> None:
    keeper = door(failures=TokenBuckets(1, 2, clock=lambda: 0.0))
    for _ in range(4):
        with pytest.raises(Refusal) as refused:
            keeper.caller(signed("bob"))
        assert refused.value.code is Code.UNAUTHORIZED
    assert "too many failed attempts" in str(refused.value)
    assert keeper.caller(signed()).user == "ak"


def test_the_rate_of_a_user_is_bounded_although_callers_are_remembered() -> None:
    keeper = door(rates=TokenBuckets(1, 3, clock=lambda: 0.0))
    for _ in range(3):
        keeper.caller(signed())
    with pytest.raises(Refusal) as refused:
        keeper.caller(signed())
    assert refused.value.code is Code.TOO_MANY_REQUESTS


def test_what_is_remembered_ends_with_the_users_it_was_decided_by() -> None:
    current = [users()]
    keeper = Door(Authority(lambda: current[0], Scene("c")))
    first = keeper.caller(signed())
    assert keeper.caller(signed()) is first
    current[0] = users("another secret")
    with pytest.raises(Refusal):
        keeper.caller(signed())


def test_rules_are_those_of_remoting() -> None:
    keeper = door()
    caller = keeper.caller(signed())
    keeper.permit(caller, SEND)
    assert keeper.may(caller, SEND)
    assert not keeper.may(caller, Command.request(RequestCode.SEND_MESSAGE_V2, ext={"b": "other"}))
    with pytest.raises(Refusal, match="no permission") as refused:
        keeper.permit(caller, Command.request(RequestCode.SEND_MESSAGE_V2, ext={"b": "other"}))
    assert refused.value.code is Code.UNAUTHORIZED


def test_without_users_a_client_id_is_all_that_is_asked_for() -> None:
    keeper = Door()
    caller = keeper.caller(FakeCall({"x-mq-client-id": " c ", "x-mq-namespace": " ", "x-mq-language": "HTTP"}))
    assert (caller.client_id, caller.user, caller.namespace, caller.language) == ("c", "", "", "HTTP")
    keeper.permit(caller, SEND)
    for metadata in ({}, {"x-mq-client-id": "  "}):
        with pytest.raises(Refusal) as refused:
            keeper.caller(FakeCall(metadata))
        assert refused.value.code is Code.CLIENT_ID_REQUIRED
    with pytest.raises(Refusal):
        keeper.caller(FakeCall({"x-mq-client-id": "c" * 2000}))


def test_namespaces_of_one_client_are_told_apart() -> None:
    keeper = Door()
    one = keeper.caller(FakeCall({"x-mq-client-id": "c", "x-mq-namespace": "one"}))
    two = keeper.caller(FakeCall({"x-mq-client-id": "c", "x-mq-namespace": "two"}))
    assert (one.namespace, two.namespace) == ("one", "two")


def test_an_authorization_is_read_tolerantly() -> None:
    read = read_authorization("MQv2-HMAC-SHA1  Signature=0a0B ,Credential=a=b,x")
    assert (read.key, read.signature) == ("a=b", b"\x0a\x0b")
