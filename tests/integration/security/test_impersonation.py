"""Users who pass for others: their groups, their client ids, their transactions and the replies they wait for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pyromq.auth.rules import Action, Entry
from pyromq.auth.users.access import Credentials
from pyromq.broker.broker import Broker
from pyromq.broker.cluster.heartbeats import Heartbeats
from pyromq.broker.transaction.transactions import Transactions
from pyromq.protocol.bodies.clients import ConsumerData, HeartbeatData, ProducerData, SubscriptionData
from pyromq.protocol.bodies.queues import LockBatchRequest, LockBatchResponse
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.handles.ids import parse_offset_message_id
from pyromq.protocol.headers.consume import UnregisterClientHeader
from pyromq.protocol.headers.send import EndTransactionHeader, SendMessageResponseHeader, SendMessageV2Header
from pyromq.protocol.message import MessageQueue
from pyromq.protocol.properties import encode_properties
from pyromq.protocol.records import sysflag
from pyromq.remoting.client import Client
from pyromq.remoting.connection import Connection
from pyromq.remoting.hooks import Signing
from tests.integration.broker.servers import until
from tests.integration.security.secured import ALICE, BOB, ROOT, Signer, rule, secured, users

REPLIES = "DefaultCluster_REPLY_TOPIC"
QUICK = {"transaction_time_out": "1", "transaction_check_interval": "100", "broker_name": "broker-a"}
OK, NO = ResponseCode.SUCCESS, ResponseCode.NO_PERMISSION


class Listener(Signer):
    """A client that notes which checks and replies come to it."""

    def __init__(self, address: str, credentials: Credentials | None) -> None:
        super().__init__(address, credentials)
        hooks = (Signing(credentials.access_key, credentials.secret_key),) if credentials is not None else ()
        self.checks: list[Command] = []
        self.replies: list[bytes] = []
        self.client = Client(
            {
                RequestCode.CHECK_TRANSACTION_STATE: self._check,
                RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: self._reply,
            },
            hooks=hooks,
        )

    def _check(self, request: Command, _connection: Connection) -> None:
        self.checks.append(request)

    def _reply(self, request: Command, _connection: Connection) -> Command:
        self.replies.append(bytes(request.body))
        return request.reply()

    async def beat(self, client_id: str, *producers: str, consumer: ConsumerData | None = None) -> int:
        data = HeartbeatData(
            client_id=client_id,
            producer_data_set=[ProducerData(group_name=each) for each in producers],
            consumer_data_set=[consumer] if consumer is not None else [],
        )
        return (await self.call(RequestCode.HEART_BEAT, body=data.encode())).code

    async def send(self, topic: str, code: int = RequestCode.SEND_MESSAGE_V2, **properties: str) -> Command:
        header = SendMessageV2Header(
            producer_group=properties.get("PGROUP", "p"),
            topic=topic,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=0,
            sys_flag=sysflag.PREPARED if "TRAN_MSG" in properties else 0,
            born_timestamp=1,
            flag=0,
            properties=encode_properties(properties).decode(),
        )
        return await self.call(code, header, body=b"secret")

    async def half(self, topic: str, group: str) -> SendMessageResponseHeader:
        answer = await self.send(topic, TRAN_MSG="true", PGROUP=group, UNIQ_KEY="0A0000010000")
        assert answer.code == OK, answer.remark
        return answer.header(SendMessageResponseHeader)

    async def end(self, half: SendMessageResponseHeader, topic: str, group: str) -> Command:
        header = EndTransactionHeader(
            topic=topic,
            producer_group=group,
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=parse_offset_message_id(half.msg_id).physical_offset,
            commit_or_rollback=sysflag.COMMIT,
            msg_id=half.msg_id,
        )
        return await self.call(RequestCode.END_TRANSACTION, header)

    async def reply(self, topic: str, client_id: str) -> Command:
        properties = {"REPLY_TO_CLIENT": client_id, "CORRELATION_ID": "7", "MSG_TYPE": "reply", "TTL": "3000"}
        return await self.send(topic, RequestCode.SEND_REPLY_MESSAGE_V2, **properties)


@asynccontextmanager
async def cast(path: Path, **rules: list[Entry]) -> AsyncIterator[tuple[Broker, Listener, Listener]]:
    """A broker, alice and bob; the topics of both exist."""
    users(path, **rules)
    async with (
        secured(path, **QUICK) as (server, broker),
        Listener(server.broker_address, ROOT) as root,
        Listener(server.broker_address, ALICE) as alice,
        Listener(server.broker_address, BOB) as bob,
    ):
        for topic in ("orders", "own"):
            assert (await root.send(topic)).code == OK
        yield broker, alice, bob


ON_ORDERS = [rule("Topic:orders", Action.PUB | Action.SUB)]
ON_OWN = [rule("Topic:own", Action.PUB)]


async def test_a_user_without_rules_enters_no_producer_group(tmp_path: Path) -> None:
    async with cast(tmp_path, alice=ON_ORDERS) as (broker, alice, bob):
        assert await alice.beat("a", "tx") == OK
        assert await bob.beat("b", "tx", "new") == NO
        assert (len(broker.core.producers.get("tx") or ()), broker.core.producers.get("new")) == (1, None)
        assert broker.core.producers.connection_of("b") is None
        assert await bob.beat("b", "CLIENT_INNER_PRODUCER") == OK, "the group that every Java client is in"


async def test_a_heartbeat_that_may_not_produce_still_consumes(tmp_path: Path) -> None:
    reading = [rule("Topic:orders", Action.SUB), rule("Group:readers", Action.SUB)]
    async with cast(tmp_path, bob=reading) as (broker, _, bob):
        consumer = ConsumerData(group_name="readers", subscription_data_set=[SubscriptionData(topic="orders")])
        assert await bob.beat("b", "tx", consumer=consumer) == NO
        assert broker.core.consumers.get("readers") is not None
        assert broker.core.producers.get("tx") is None


async def test_a_group_belongs_to_the_user_whose_client_is_in_it(tmp_path: Path) -> None:
    async with cast(tmp_path, alice=ON_ORDERS, bob=ON_OWN) as (broker, alice, bob):
        assert await alice.beat("a", "tx") == OK
        assert await bob.beat("b", "tx") == NO
        assert len(broker.core.producers.get("tx") or ()) == 1
        left = UnregisterClientHeader(client_id="a", producer_group="tx")
        assert (await bob.call(RequestCode.UNREGISTER_CLIENT, left)).code == OK, (
            "his own membership, of which there is none"
        )
        assert len(broker.core.producers.get("tx") or ()) == 1
        await alice.client.close()
        await until(lambda: broker.core.producers.get("tx") is None)
        assert await bob.beat("b", "tx") == OK


async def test_a_rule_about_the_group_lets_users_share_it(tmp_path: Path) -> None:
    sharing = [*ON_OWN, rule("Group:tx", Action.PUB)]
    async with cast(tmp_path, alice=ON_ORDERS, bob=sharing) as (broker, alice, bob):
        assert await alice.beat("a", "tx") == OK
        assert await bob.beat("b", "tx") == OK
        assert len(broker.core.producers.get("tx") or ()) == 2


async def test_a_check_goes_only_to_clients_that_may_send_to_the_topic(tmp_path: Path) -> None:
    sharing = [*ON_OWN, rule("Group:tx", Action.PUB)]
    async with cast(tmp_path, alice=ON_ORDERS, bob=sharing) as (broker, alice, bob):
        assert await bob.beat("b", "tx") == OK
        await alice.half("orders", "tx")
        (half,) = broker.part(Transactions).halves._open.values()
        await until(lambda: half.checks >= 3)
        assert (broker.part(Transactions).check_back.sent, bob.checks) == (0, [])


async def test_a_check_reaches_the_group_that_sent_the_half_message(tmp_path: Path) -> None:
    async with cast(tmp_path, alice=ON_ORDERS, bob=ON_OWN) as (_, alice, bob):
        assert await alice.beat("a", "tx") == OK
        await bob.beat("b", "tx")
        await alice.half("orders", "tx")
        await until(lambda: len(alice.checks) >= 2)
        assert bob.checks == []


async def test_nobody_ends_the_transaction_of_a_group_that_belongs_to_another(tmp_path: Path) -> None:
    async with cast(tmp_path, alice=ON_ORDERS, bob=ON_ORDERS) as (broker, alice, bob):
        assert await alice.beat("a", "tx") == OK
        half = await alice.half("orders", "tx")
        for group in ("tx", "other"):
            assert (await bob.end(half, "orders", group)).code != OK
        assert len(broker.part(Transactions).halves) == 1
        assert (await alice.end(half, "orders", "tx")).code == OK
        assert len(broker.part(Transactions).halves) == 0


async def test_a_client_id_belongs_to_the_user_who_has_it(tmp_path: Path) -> None:
    replying = [*ON_OWN, rule(f"Topic:{REPLIES}", Action.PUB)]
    async with cast(tmp_path, alice=ON_ORDERS, bob=replying) as (broker, alice, bob):
        assert await alice.beat("a", "asking") == OK
        assert await bob.beat("a", "thief") == NO
        assert broker.core.producers.get("thief") is None
        assert (await bob.reply(REPLIES, "a")).code == OK
        assert (alice.replies, bob.replies) == ([b"secret"], [])
        async with Listener(alice.address, ALICE) as again:
            assert await again.beat("a", "asking") == OK, "a second connection of the same user"
        await alice.client.close()
        await until(lambda: broker.core.producers.connection_of("a") is None)
        assert await bob.beat("a", "thief") == OK


async def test_a_reply_needs_the_right_to_reply(tmp_path: Path) -> None:
    async with cast(tmp_path, alice=ON_ORDERS, bob=ON_OWN) as (_, alice, bob):
        assert await alice.beat("a", "asking") == OK
        for topic in ("own", REPLIES):
            for code in (RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2):
                properties = {"REPLY_TO_CLIENT": "a", "CORRELATION_ID": "7"}
                answer = await bob.send(topic, code, **properties)
                assert answer.code != OK
        assert (await bob.reply("own", "a")).code == NO
        assert alice.replies == []


async def test_queues_are_locked_and_unlocked_in_ones_own_name(tmp_path: Path) -> None:
    reading = [rule("Topic:orders", Action.SUB), rule("Group:readers", Action.SUB)]
    async with cast(tmp_path, alice=reading, bob=reading) as (_, alice, bob):
        consumer = ConsumerData(group_name="readers", subscription_data_set=[SubscriptionData(topic="orders")])
        assert await alice.beat("a", consumer=consumer) == OK
        queue = MessageQueue("orders", "broker-a", 0)

        async def ask(who: Listener, code: int, client_id: str) -> Command:
            body = LockBatchRequest(client_id=client_id, consumer_group="readers", mq_set=[queue])
            return await who.call(code, body=body.encode())

        assert LockBatchResponse.decode((await ask(alice, RequestCode.LOCK_BATCH_MQ, "a")).body).lock_ok_mq_set == [
            queue
        ]
        for code in (RequestCode.UNLOCK_BATCH_MQ, RequestCode.LOCK_BATCH_MQ):
            assert (await ask(bob, code, "a")).code == NO
        await bob.beat("b", consumer=consumer)
        assert LockBatchResponse.decode((await ask(bob, RequestCode.LOCK_BATCH_MQ, "b")).body).lock_ok_mq_set == []


async def test_a_connection_that_changes_its_id_gives_the_old_one_back(tmp_path: Path) -> None:
    async with cast(tmp_path, alice=ON_ORDERS, bob=ON_OWN) as (broker, alice, bob):
        for number in range(5):
            assert await alice.beat(f"a{number}", "tx") == OK
        assert len(broker.part(Heartbeats).client_ids) == 1
        assert await bob.beat("a0", "mine") == OK
        assert await bob.beat("a4", "mine") == NO
        await asyncio.gather(alice.client.close(), bob.client.close())
        await until(lambda: len(broker.part(Heartbeats).client_ids) == 0)
