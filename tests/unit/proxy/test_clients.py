"""Clients that come, stay, are asked, and leave: telemetry, heartbeats, termination, questions of brokers."""

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

import pytest

from pyromq.protocol.bodies.clients import ConsumeDirectlyResult, ConsumerRunningInfo, HeartbeatData
from pyromq.protocol.bodies.enums import ConsumeResult, ConsumeType
from pyromq.protocol.bodies.groups import SubscriptionGroupConfig
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.admin import ConsumeMessageDirectlyHeader, GetConsumerRunningInfoHeader
from pyromq.protocol.headers.callbacks import CheckTransactionStateHeader
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.properties import Property
from pyromq.protocol.records.record import encode_record
from pyromq.protocol.release import Language
from pyromq.proxy.caller import Caller
from pyromq.proxy.calls.sessions import ClientCalls
from pyromq.proxy.catalogue import Catalogue
from pyromq.proxy.clients.doorkeeper import Door
from pyromq.proxy.clients.nonces import Nonces
from pyromq.proxy.clients.questions import Questions
from pyromq.proxy.clients.roster import Roster
from pyromq.proxy.clients.sessions import Sessions
from pyromq.proxy.clients.telemetry import Telemetry
from pyromq.proxy.core import Core
from pyromq.proxy.grpc.method import Conversation, GrpcError, GrpcStatus, Talk, Unary
from pyromq.proxy.messages.transactionid import decode_transaction_id
from pyromq.proxy.renewal import Renewal
from pyromq.proxy.schema import messages
from pyromq.proxy.schema.enums import ClientType, Code
from pyromq.proxy.status import Refusal
from pyromq.remoting.connection import Connection
from tests.unit.proxy.fakes import PEER, FakeCall, FakeCluster, last
from tests.unit.proxy.test_profile import consumer, entry, producer

NOW = 1_700_000_000_000
CALLER = Caller("client-1", PEER)


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 10))


class Line:
    """As much of a connection to a broker as questions look at."""

    peer = PEER

    def __init__(self, context: str | None) -> None:
        self.context = context


def line(client_id: str | None = "client-1") -> Connection:
    return cast("Connection", Line(client_id))


class World:
    """All that serves clients, around brokers of paper."""

    def __init__(self, *, links: bool = True, most: int = 10, wait: float = 5.0, door: Door | None = None) -> None:
        self.now = 0.0
        self.cluster = FakeCluster(links=links)
        self.cluster.add_topic("t", ("a", 6, 4, 4))
        self.core = Core(self.cluster, door or Door(), lambda: NOW, lambda: self.now)
        self.sessions = Sessions(most, self.core.monotonic)
        nonces = Nonces(wait)
        self.questions = Questions(
            self.sessions, nonces, self.core.clock, lambda caller, _command: caller.user != "former"
        )
        self.roster = Roster(self.core, self.sessions)
        catalogue = Catalogue(self.cluster, self.core.monotonic)
        telemetry = Telemetry(self.core, catalogue, self.sessions, self.roster, nonces)
        self.calls = ClientCalls(self.core, self.sessions, self.roster, telemetry, Renewal(self.core))
        self.methods = self.calls.methods()

    def talk(self, call: FakeCall) -> Talk:
        method = self.methods["/apache.rocketmq.v2.MessagingService/Telemetry"]
        assert isinstance(method, Conversation)
        return method.begin(call)

    async def settled(self, settings: Any, call: FakeCall | None = None) -> FakeCall:
        call = call or FakeCall()
        talk = self.talk(call)
        talk.received(messages.TelemetryCommand(settings=settings).SerializeToString())
        await turns()
        self.last_talk = talk
        return call

    async def ask(self, name: str, request: Any, answer: Any) -> Any:
        method = self.methods[f"/apache.rocketmq.v2.MessagingService/{name}"]
        assert isinstance(method, Unary)
        outcome = method.serve(request.SerializeToString(), FakeCall())
        return answer.FromString(outcome if isinstance(outcome, bytes) else await outcome)

    async def heartbeat(self, group: str = "", kind: int = ClientType.PRODUCER) -> Any:
        request = messages.HeartbeatRequest(client_type=kind)
        if group:
            request.group.name = group
        return await self.ask("Heartbeat", request, messages.HeartbeatResponse)

    def heartbeats(self) -> list[HeartbeatData]:
        found = [command for _, _, command in self.cluster.asked if command.code == RequestCode.HEART_BEAT]
        return [HeartbeatData.decode(command.body) for command in found]


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_every_settings_command_is_answered() -> None:
    async def story() -> None:
        world = World()
        call = await world.settled(producer("t"))
        for _ in range(3):
            world.last_talk.received(messages.TelemetryCommand(settings=producer("t")).SerializeToString())
        await turns()
        assert len(call.sent) == 4
        answer = last(call, messages.TelemetryCommand)
        assert answer.status.code == Code.OK
        assert answer.settings.publishing.max_body_size > 0
        session = world.sessions.get("client-1")
        assert session is not None
        assert session.live is call

    run(story())


def test_brokers_are_told_of_a_client_as_soon_as_its_settings_came() -> None:
    async def story() -> None:
        world = World()
        await world.settled(consumer(entry("t", "a"), kind=ClientType.SIMPLE_CONSUMER))
        beat = world.heartbeats()[0]
        (group,) = beat.consumer_data_set
        assert beat.client_id == "client-1"
        assert (group.group_name, group.consume_type) == ("g", ConsumeType.CONSUME_ACTIVELY)
        assert group.subscription_data_set[0].tags_set == ["a"]
        _, _, command = world.cluster.asked[0]
        assert command.language is Language.GO
        assert command.version == 441

    run(story())


def test_a_consumer_is_told_what_its_group_has() -> None:
    async def story() -> None:
        world = World()
        group = SubscriptionGroupConfig(group_name="g", consume_message_orderly=True)
        world.cluster.answers[RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG] = lambda request: request.reply(
            body=group.encode()
        )
        call = await world.settled(consumer(entry("t")))
        assert last(call, messages.TelemetryCommand).settings.subscription.fifo

    run(story())


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        (messages.Settings(client_type=1), "publishing"),
        (producer("b ad"), "ILLEGAL_TOPIC"),
        (consumer(group=""), "GROUP"),
    ],
)
def test_settings_that_cannot_be_end_the_stream(settings: Any, word: str) -> None:
    async def story() -> None:
        call = await World().settled(settings)
        assert call.ended is not None
        assert call.ended[0] is GrpcStatus.INVALID_ARGUMENT
        assert word in call.ended[1]

    run(story())


def test_who_may_not_come_in_hears_a_status_and_the_stream_ends_well() -> None:
    async def story() -> None:
        call = FakeCall({})
        World().talk(call).received(b"")
        assert call.ended == (GrpcStatus.OK, "")
        assert last(call, messages.TelemetryCommand).status.code == Code.CLIENT_ID_REQUIRED

    run(story())


def test_there_are_so_many_clients_and_no_more() -> None:
    async def story() -> None:
        world = World(most=1)
        await world.settled(producer("t"))
        call = await world.settled(producer("t"), FakeCall({"x-mq-client-id": "another"}))
        assert last(call, messages.TelemetryCommand).status.code == Code.TOO_MANY_REQUESTS
        assert call.ended == (GrpcStatus.OK, "")

    run(story())


def test_a_flood_of_settings_ends_its_stream() -> None:
    async def story() -> None:
        world = World()
        talk = world.talk(FakeCall())
        data = messages.TelemetryCommand(settings=producer("t")).SerializeToString()
        for _ in range(16):
            talk.received(data)
        with pytest.raises(GrpcError, match="16 settings"):
            talk.received(data)
        await turns(200)

    run(story())


def test_a_stream_that_ends_leaves_the_client_until_it_is_silent() -> None:
    async def story() -> None:
        world = World()
        call = await world.settled(producer("t"))
        world.last_talk.closed()
        session = world.sessions.get("client-1")
        assert session is not None
        assert session.live is None
        assert call.ended == (GrpcStatus.OK, "")
        world.now = 119
        assert world.calls.drop_silent() == 0
        world.now = 121
        assert world.calls.drop_silent() == 1
        assert world.cluster.left == ["client-1"]

    run(story())


def test_heartbeats_keep_a_client() -> None:
    async def story() -> None:
        world = World()
        await world.settled(producer("t"))
        world.now = 100
        assert (await world.heartbeat()).status.code == Code.OK
        world.now = 200
        assert world.calls.drop_silent() == 0
        assert [each.group_name for each in world.heartbeats()[-1].producer_data_set] == ["t"]

    run(story())


def test_a_client_whose_settings_are_not_known_is_told_of_without_subscriptions() -> None:
    async def story() -> None:
        world = World()
        assert (await world.heartbeat("g", ClientType.PUSH_CONSUMER)).status.code == Code.OK
        beat = world.heartbeats()[0]
        assert beat.without_sub
        assert beat.heartbeat_fingerprint
        assert beat.consumer_data_set[0].group_name == "g"
        assert (await world.heartbeat(kind=0)).status.code == Code.UNRECOGNIZED_CLIENT_TYPE

    run(story())


def test_what_a_broker_refuses_is_the_answer() -> None:
    async def story() -> None:
        world = World()
        world.cluster.answers[RequestCode.HEART_BEAT] = lambda request: request.reply(
            ResponseCode.SYSTEM_BUSY, remark="too many groups"
        )
        answer = await world.heartbeat("g", ClientType.PUSH_CONSUMER)
        assert (answer.status.code, answer.status.message) == (Code.TOO_MANY_REQUESTS, "too many groups")

    run(story())


def test_a_client_that_ends_is_gone_at_once() -> None:
    async def story() -> None:
        world = World()
        await world.settled(producer("t"))
        # One client names a group without a name when it is a producer.
        request = messages.NotifyClientTerminationRequest(group=messages.Resource())
        answer = await world.ask("NotifyClientTermination", request, messages.NotifyClientTerminationResponse)
        assert answer.status.code == Code.OK
        assert world.cluster.left == ["client-1"]
        assert len(world.sessions) == 0

    run(story())


def test_the_proxy_tells_brokers_of_all_its_clients_at_once() -> None:
    async def story() -> None:
        world = World(links=False)
        await world.settled(producer("t", "u"))
        await world.settled(consumer(entry("t")), FakeCall({"x-mq-client-id": "another"}))
        assert world.heartbeats() == []
        await world.roster.beat()
        assert [(caller, broker) for caller, broker, command in world.cluster.asked if command.code == 34] == [
            (None, "a"),
            (None, "b"),
        ]
        beat = world.heartbeats()[0]
        assert [each.group_name for each in beat.producer_data_set] == ["t", "u"]
        assert [each.group_name for each in beat.consumer_data_set] == ["g"]
        world.sessions.drop("another")
        await world.roster.beat()
        gone = [command for _, _, command in world.cluster.asked if command.code == RequestCode.UNREGISTER_CLIENT]
        assert [command.ext["consumerGroup"] for command in gone] == ["g", "g"]

    run(story())


def record(topic: str = "t") -> bytes:
    message = ReceivedMessage(
        topic,
        b"half",
        properties={Property.UNIQ_KEY: "id-1", Property.TRANSACTION_PREPARED: "true"},
        queue_offset=7,
        physical_offset=99,
    )
    return encode_record(message)


def check(topic: str = "t") -> Command:
    header = CheckTransactionStateHeader(tran_state_table_offset=7, commit_log_offset=99, bname="a")
    return Command.request(RequestCode.CHECK_TRANSACTION_STATE, header, body=record(topic), oneway=True)


def test_a_check_reaches_a_producer_of_the_topic() -> None:
    async def story() -> None:
        world = World()
        call = await world.settled(producer("t"))
        handler = world.questions.handlers()[RequestCode.CHECK_TRANSACTION_STATE]
        handler(check("other"), line())
        assert len(call.sent) == 1
        handler(check(), line(None))
        command = last(call, messages.TelemetryCommand).recover_orphaned_transaction_command
        place = decode_transaction_id(command.transaction_id)
        assert (place.broker_name, place.queue_offset, place.commit_log_offset, place.checked) == ("a", 7, 99, True)
        assert command.message.body == b"half"
        assert command.message.system_properties.message_id == "id-1"
        assert not command.message.system_properties.HasField("receipt_handle")

    run(story())


def test_who_lost_the_right_to_a_topic_is_not_asked_any_more() -> None:
    async def story() -> None:
        world = World()
        call = await world.settled(producer("t"))
        session = world.sessions.get("client-1")
        assert session is not None
        session.caller = Caller("client-1", PEER, "former")
        world.questions.handlers()[RequestCode.CHECK_TRANSACTION_STATE](check(), line())
        assert len(call.sent) == 1

    run(story())


def test_who_sends_a_half_message_can_be_asked_about_it() -> None:
    async def story() -> None:
        world = World()
        await world.settled(producer("u"))
        await world.roster.produces(CALLER, "t")
        assert [each.group_name for each in world.heartbeats()[-1].producer_data_set] == ["t", "u"]
        found = world.sessions.producer("t")
        assert found is not None
        asked = len(world.cluster.asked)
        await world.roster.produces(CALLER, "t")
        assert len(world.cluster.asked) == asked
        # It is remembered although the next settings do not name it.
        world.last_talk.received(messages.TelemetryCommand(settings=producer("u")).SerializeToString())
        await turns()
        assert world.sessions.producer("t") is not None

    run(story())


@pytest.mark.parametrize("links", [True, False])
def test_who_may_not_send_to_a_topic_is_not_asked_about_its_messages(links: bool) -> None:
    class Strict(Door):
        def permit(self, caller: Caller, command: Command) -> None:  # noqa: ARG002 - as the door has it
            if command.code == RequestCode.SEND_MESSAGE_V2 and command.ext["b"] == "t":
                raise Refusal(Code.UNAUTHORIZED)

    async def story() -> None:
        world = World(links=links, door=Strict())
        await world.settled(producer("u"))
        with pytest.raises(Refusal):
            await world.roster.produces(CALLER, "t")
        assert world.sessions.producer("t") is None

    run(story())


async def question(world: World, request: Command, client_id: str | None = "client-1") -> Command:
    answer = await cast("Any", world.questions.handlers()[request.code](request, line(client_id)))
    assert isinstance(answer, Command)
    return answer


def test_a_broker_gets_the_threads_of_a_client() -> None:
    async def story() -> None:
        world = World()
        call = await world.settled(consumer(entry("t")))
        header = GetConsumerRunningInfoHeader(consumer_group="g", client_id="client-1", jstack_enable=True)
        asking = asyncio.ensure_future(
            question(world, Command.request(RequestCode.GET_CONSUMER_RUNNING_INFO, header), None)
        )
        await turns()
        nonce = last(call, messages.TelemetryCommand).print_thread_stack_trace_command.nonce
        trace = messages.ThreadStackTrace(nonce=nonce, thread_stack_trace="main: waits")
        world.last_talk.received(messages.TelemetryCommand(thread_stack_trace=trace).SerializeToString())
        info = ConsumerRunningInfo.decode((await asking).body)
        assert info.jstack == "main: waits"
        assert info.properties["PROP_CLIENT_LANGUAGE"] == "GO"
        assert [each.topic for each in info.subscription_set] == ["t"]

    run(story())


def direct() -> Command:
    header = ConsumeMessageDirectlyHeader(consumer_group="g", client_id="client-1", msg_id="x")
    return Command.request(RequestCode.CONSUME_MESSAGE_DIRECTLY, header, body=record())


@pytest.mark.parametrize(
    ("code", "field", "result"),
    [
        (Code.OK, "verify_message_result", ConsumeResult.CR_SUCCESS),
        (Code.FAILED_TO_CONSUME_MESSAGE, "verify_message_result", ConsumeResult.CR_LATER),
        (Code.OK, "verify_message_command", ConsumeResult.CR_SUCCESS),
        (Code.NOT_IMPLEMENTED, "verify_message_result", None),
    ],
)
def test_a_broker_has_a_message_consumed_directly(code: Code, field: str, result: ConsumeResult | None) -> None:
    async def story() -> None:
        world = World()
        call = await world.settled(consumer(entry("t")))
        asking = asyncio.ensure_future(question(world, direct()))
        await turns()
        sent = last(call, messages.TelemetryCommand).verify_message_command
        assert sent.message.body == b"half"
        answer = messages.TelemetryCommand(status=messages.Status(code=int(code), message="said"))
        getattr(answer, field).nonce = sent.nonce
        world.last_talk.received(answer.SerializeToString())
        response = await asking
        if result is None:
            assert "NOT_IMPLEMENTED" in (response.remark or "")
        else:
            assert ConsumeDirectlyResult.decode(response.body).consume_result is result

    run(story())


def test_a_client_that_does_not_answer_is_not_waited_for_long() -> None:
    async def story() -> None:
        world = World(wait=0.01)
        await world.settled(consumer(entry("t")))
        response = await question(world, direct())
        assert response.code == ResponseCode.CONSUME_MSG_TIMEOUT
        world.last_talk.closed()
        response = await question(world, direct())
        assert "no telemetry" in (response.remark or "")
        world.sessions.drop("client-1")
        response = await question(world, direct())
        assert "no client of group g" in (response.remark or "")

    run(story())


def test_an_answer_counts_only_from_who_was_asked() -> None:
    async def story() -> None:
        nonces = Nonces(0.01)
        nonce = nonces.open("one")
        nonces.answered("another", nonce, "forged")
        with pytest.raises(Refusal):
            await nonces.answer("one", nonce)
        assert len(nonces) == 0

    run(story())
