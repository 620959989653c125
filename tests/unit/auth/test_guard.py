"""The guard on its own: who is let through, what is remembered, how many may try."""

from typing import Any, cast

import pytest

from pyromq.auth.addresses import AddressRange
from pyromq.auth.authority import Busy
from pyromq.auth.errors import Denied
from pyromq.auth.guard import Guard
from pyromq.auth.needs import Scene
from pyromq.auth.rules import Action, Decision, Entry, Resource, Rules
from pyromq.auth.users.access import Access, User, UserStatus, UserType
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.signature import SIGNATURE, signed
from pyromq.remoting.accept.rates import TokenBuckets
from pyromq.remoting.address import Address
from pyromq.remoting.connection import Connection
from pyromq.remoting.handler import Grouped

SECRET = "alice-secret-1"  # noqa: S105 - of a test


class Peer:
    """As much of a connection as the guard looks at."""

    def __init__(self, host: str = "10.0.0.1") -> None:
        self.peer = Address(host, 5)
        self.is_stranger = True
        self.sent: list[Command] = []
        self.closed = False

    def introduce(self) -> None:
        self.is_stranger = False

    def send(self, command: Command) -> None:
        self.sent.append(command)

    def close(self, _reason: str) -> None:
        self.closed = True


def connection(host: str = "10.0.0.1") -> Connection:
    return cast("Connection", Peer(host))


def access(*resources: str, user: User | None = None) -> Access:
    alice = user or User("alice", SECRET)
    entries = tuple(Entry(Resource.parse(each), Action.PUB | Action.SUB, Decision.ALLOW) for each in resources)
    return Access({"alice": alice}, {"alice": Rules(entries)})


def send(topic: str = "orders", *, secret: str = SECRET, body: bytes = b"x") -> Command:
    request = Command.request(RequestCode.SEND_MESSAGE_V2, ext={"a": "p", "b": topic}, body=body)
    signed(request, "alice", secret)
    return request


def guard(known: Access, **options: Any) -> Guard:
    return Guard(lambda: known, Scene("DefaultCluster"), **options)


def test_a_signed_request_with_permission_passes_and_its_peer_is_known() -> None:
    peer = connection()
    assert [str(need) for need in guard(access("Topic:orders")).check(send(), peer)] == ["Topic:orders"]
    assert not peer.is_stranger


@pytest.mark.parametrize(
    "spoil",
    [
        lambda request: request.ext.update(b="other"),
        lambda request: request.ext.update(extra="1"),
        lambda request: request.ext.pop("a"),
        lambda request: request.ext.pop(SIGNATURE),
        lambda request: request.ext.update({SIGNATURE: "\ud800"}),
        lambda request: request.ext.update(AccessKey="bob"),
        lambda request: request.ext.update(AccessKey=""),
        lambda request: setattr(request, "body", b"y"),
    ],
)
def test_whatever_is_changed_after_signing_shows(spoil: object) -> None:
    request, peer = send(), connection()
    assert callable(spoil)
    spoil(request)
    with pytest.raises(Denied):
        guard(access("*")).check(request, peer)
    assert peer.is_stranger


def test_who_is_unknown_and_who_signs_wrongly_hear_the_same() -> None:
    remarks = set()
    for known, request in (
        (Access(), send()),
        (access("*"), send(secret="wrong-secret")),  # noqa: S106 - of a test
        (access("*", user=User("alice", SECRET, sources=(AddressRange("10.9.9.9"),))), send()),
    ):
        with pytest.raises(Denied) as caught:
            guard(known).check(request, connection())
        remarks.add(caught.value.remark)
    assert len(remarks) == 1


def test_decisions_are_remembered_until_rules_change() -> None:
    known = [access("Topic:orders")]
    checking = Guard(lambda: known[0], Scene("c"))
    checking.check(send(), connection())
    checking.check(send(), connection())
    known[0] = access("Topic:other")
    with pytest.raises(Denied):
        checking.check(send(), connection())


def test_news_are_looked_for_before_somebody_is_turned_away() -> None:
    known = [Access()]

    def look_again() -> bool:
        known[0] = access("Topic:orders")
        return True

    Guard(lambda: known[0], Scene("c"), look_again=look_again).check(send(), connection())


def test_retry_topics_belong_to_their_group_and_waiting_topics_to_the_cluster() -> None:
    checking = guard(access("Topic:*", "Group:mine"))
    checking.check(send("%RETRY%mine"), connection())
    for topic in (
        "%RETRY%others",
        "%DLQ%others",
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "rmq_sys_wheel_timer",
    ):
        with pytest.raises(Denied):
            checking.check(send(topic), connection())


@pytest.mark.parametrize(("jstack", "allowed"), [("false", True), (None, True), ("true", False), ("TRUE", False)])
def test_members_may_see_what_others_of_their_group_have_but_not_their_threads(
    jstack: str | None, allowed: bool
) -> None:
    ext = {"consumerGroup": "g", "clientId": "other"} | ({} if jstack is None else {"jstackEnable": jstack})
    for group, may in (("Group:g", allowed), ("Group:other", False)):
        request = Command.request(RequestCode.GET_CONSUMER_RUNNING_INFO, ext=ext)
        signed(request, "alice", SECRET)
        if may:
            guard(access(group)).check(request, connection())
        else:
            with pytest.raises(Denied):
                guard(access(group)).check(request, connection())


def test_codes_without_a_row_are_for_super_users() -> None:
    request = Command.request(9999)
    signed(request, "alice", SECRET)
    with pytest.raises(Denied, match="not a super user"):
        guard(access("*")).check(request, connection())
    guard(access(user=User("alice", SECRET, UserType.SUPER))).check(request, connection())


def test_without_authorisation_every_user_may_do_everything_but_change_users() -> None:
    checking = Guard(access, Scene("c"), authorization=False)
    checking.check(send(), connection())
    request = Command.request(RequestCode.AUTH_CREATE_USER, ext={"username": "evil"})
    signed(request, "alice", SECRET)
    with pytest.raises(Denied):
        checking.check(request, connection())


def test_users_have_a_rate() -> None:
    checking = guard(access("*"), rates=TokenBuckets(1, 2, clock=lambda: 0.0))
    checking.check(send(), connection())
    checking.check(send(), connection())
    with pytest.raises(Busy):
        checking.check(send(), connection())


def test_an_address_that_keeps_failing_is_put_off_but_not_who_signs_well_there() -> None:
    checking = guard(access("*"), failures=TokenBuckets(1, 3, clock=lambda: 0.0))
    for _ in range(3):
        with pytest.raises(Denied):
            checking.check(send(secret="wrong-secret"), connection())  # noqa: S106 - of a test
    with pytest.raises(Busy):
        checking.check(send(secret="wrong-secret"), connection())  # noqa: S106 - of a test
    newcomer = connection()
    checking.check(send(), newcomer)
    assert not newcomer.is_stranger
    checking.check(send(), connection("10.0.0.2"))
    assert checking.stats.limited == 1


def test_who_fails_too_often_is_answered_and_cut_off() -> None:
    def serve(request: Command, _connection: Connection) -> Command:
        return request.reply()

    checking = guard(access("*"), failures=TokenBuckets(1, 1, clock=lambda: 0.0))
    handler = checking.table({RequestCode.SEND_MESSAGE_V2: serve})[RequestCode.SEND_MESSAGE_V2]
    wrong, peer = send(secret="wrong-secret"), Peer()  # noqa: S106 - of a test
    answer = handler(wrong, cast("Connection", peer))
    assert isinstance(answer, Command)
    assert (answer.code, peer.closed) == (ResponseCode.NO_PERMISSION, False)
    assert handler(wrong, cast("Connection", peer)) is None
    assert ([each.code for each in peer.sent], peer.closed) == ([ResponseCode.SYSTEM_BUSY], True)


def test_several_requests_at_once_are_served_only_if_each_may_be() -> None:
    served: list[int] = []

    def one(request: Command, _connection: Connection) -> Command:
        served.append(1)
        return request.reply()

    def many(requests: object, _connection: Connection) -> bytes:
        assert isinstance(requests, list)
        served.append(len(requests))
        return b"answers"

    table = guard(access("Topic:orders")).table({RequestCode.SEND_MESSAGE_V2: Grouped(one, many)})
    handler = table[RequestCode.SEND_MESSAGE_V2]
    assert isinstance(handler, Grouped)
    assert handler.many is not None
    assert handler.many([send(), send()], connection()) == b"answers"
    assert handler.many([send(), send("other")], connection()) is None
    answer = handler(send("other"), connection())
    assert isinstance(answer, Command)
    assert answer.code == ResponseCode.NO_PERMISSION
    assert served == [2]


def test_runs_are_taken_apart_since_each_request_is_looked_at() -> None:
    def one(request: Command, _: object) -> Command:
        return request.reply()

    def run(*_: object) -> bytes:
        raise AssertionError

    handler = guard(access()).table({RequestCode.PULL_MESSAGE: Grouped(one, None, run)})[RequestCode.PULL_MESSAGE]
    assert isinstance(handler, Grouped)
    assert handler.many is None
    assert handler.run is None


def by_secret(expected: str = SECRET) -> Any:
    """A signature of another kind: whoever has the secret made it."""
    return lambda secret: secret == expected


def test_who_signs_in_another_way_is_known_by_the_same_users() -> None:
    authority = guard(access("Topic:orders"))
    assert authority.authenticate("alice", "10.0.0.1", by_secret(), stranger=True) == "alice"
    for key, secret in (("alice", "wrong"), ("bob", SECRET), ("", SECRET)):
        with pytest.raises(Denied):
            authority.authenticate(key, "10.0.0.1", by_secret(secret), stranger=True)
    assert (authority.stats.verified, authority.stats.unauthenticated) == (1, 3)


def test_a_disabled_user_and_one_from_elsewhere_are_not_known_by_another_signature() -> None:
    disabled = guard(access(user=User("alice", SECRET, status=UserStatus.DISABLE)))
    elsewhere = guard(access(user=User("alice", SECRET, sources=(AddressRange("192.168.0.0/16"),))))
    for authority in (disabled, elsewhere):
        with pytest.raises(Denied):
            authority.authenticate("alice", "10.0.0.1", by_secret(), stranger=True)


def test_failures_and_rates_are_bounded_for_other_signatures_too() -> None:
    authority = guard(
        access(), failures=TokenBuckets(1, 2, clock=lambda: 0.0), rates=TokenBuckets(1, 1, clock=lambda: 0.0)
    )
    for _ in range(2):
        with pytest.raises(Denied):
            authority.authenticate("bob", "10.0.0.1", by_secret(), stranger=True)
    with pytest.raises(Busy) as cut:
        authority.authenticate("bob", "10.0.0.1", by_secret(), stranger=True)
    assert cut.value.cut_off
    assert authority.authenticate("alice", "10.0.0.1", by_secret(), stranger=True) == "alice"
    with pytest.raises(Busy, match="userRequestRate"):
        authority.authenticate("alice", "10.0.0.1", by_secret(), stranger=False)


def test_what_a_known_user_may_is_decided_by_the_same_rules() -> None:
    authority = guard(access("Topic:orders"))
    authority.permit("alice", send(), "10.0.0.1")
    with pytest.raises(Denied):
        authority.permit("alice", send("other"), "10.0.0.1")
    with pytest.raises(Denied):
        authority.permit("alice", Command.request(RequestCode.AUTH_CREATE_USER), "10.0.0.1")
    with pytest.raises(Denied):
        authority.permit("bob", send(), "10.0.0.1")
    root = guard(access(user=User("alice", SECRET, UserType.SUPER)))
    root.permit("alice", send("other"), "10.0.0.1")


def test_news_are_looked_for_before_a_user_is_turned_away() -> None:
    known = [access()]

    def look_again() -> bool:
        known[0] = access("Topic:orders")
        return True

    authority = Guard(lambda: known[0], Scene("DefaultCluster"), look_again=look_again)
    authority.permit("alice", send(), "10.0.0.1")
