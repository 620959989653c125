"""Ways around a permission: a message named by its place, properties of a message, topics of the broker itself."""

from pathlib import Path

from pyromq.auth.rules import Action
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.handles.ids import parse_offset_message_id
from pyromq.protocol.headers.consume import PullMessageHeader
from pyromq.protocol.headers.query import ViewMessageByIdHeader
from pyromq.protocol.headers.send import (
    ConsumerSendMsgBackHeader,
    EndTransactionHeader,
    SendMessageResponseHeader,
    SendMessageV2Header,
)
from pyromq.protocol.properties import encode_properties
from tests.integration.security.secured import BOB, ROOT, Signer, rule, run, secured, users

PUB, SUB, GET = Action.PUB, Action.SUB, Action.GET
DENIED = ResponseCode.NO_PERMISSION
MINE = [rule("Topic:mine", PUB | SUB | GET), rule("Group:mine", SUB | GET), rule("Topic:TBW102", PUB)]


async def send(signer: Signer, topic: str, **properties: str) -> Command:
    header = SendMessageV2Header(
        producer_group="p",
        topic=topic,
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=4 if "TRAN_MSG" in properties else 0,
        born_timestamp=1,
        flag=0,
        properties=encode_properties(properties).decode(),
    )
    return await signer.call(RequestCode.SEND_MESSAGE_V2, header, body=b"secret")


async def place(signer: Signer, topic: str, **properties: str) -> int:
    answer = await send(signer, topic, **properties)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return parse_offset_message_id(answer.header(SendMessageResponseHeader).msg_id)[1]


def test_a_message_named_by_its_place_belongs_to_its_topic(tmp_path: Path) -> None:
    users(tmp_path, bob=MINE)

    async def scenario() -> None:
        async with (
            secured(tmp_path) as (server, _),
            Signer(server.broker_address, ROOT) as root,
            Signer(server.broker_address, BOB) as bob,
        ):
            theirs, own = await place(root, "theirs"), await place(bob, "mine")
            half = await place(root, "theirs", TRAN_MSG="true", PGROUP="p")

            async def view(offset: str) -> int:
                return (await bob.call(RequestCode.VIEW_MESSAGE_BY_ID, ext={"offset": offset, "topic": "mine"})).code

            assert await view(str(own)) == ResponseCode.SUCCESS
            # However the number is written: the check and the handler read the same.
            for spelled in (f"{theirs}", f"+{theirs}", f"{theirs}.0", f"0{theirs}", f"{half}"):
                assert await view(spelled) != ResponseCode.SUCCESS, spelled
            header = ViewMessageByIdHeader(offset=theirs)
            assert (await bob.call(RequestCode.VIEW_MESSAGE_BY_ID, header)).code == DENIED

            async def send_back(offset: int, group: str) -> int:
                back = ConsumerSendMsgBackHeader(offset=offset, group=group, delay_level=1)
                return (await bob.call(RequestCode.CONSUMER_SEND_MSG_BACK, back)).code

            assert await send_back(own, "mine") == ResponseCode.SUCCESS
            assert await send_back(theirs, "mine") == DENIED, "a copy would have landed in a retry topic of one's own"
            assert await send_back(own, "theirs") == DENIED
            end = EndTransactionHeader(
                producer_group="p", tran_state_table_offset=0, commit_log_offset=half, commit_or_rollback=8, msg_id="x"
            )
            assert (await bob.call(RequestCode.END_TRANSACTION, end)).code == DENIED
            end.topic = "mine"
            assert (await bob.call(RequestCode.END_TRANSACTION, end)).code == DENIED

    run(scenario())


def test_topics_that_belong_to_others(tmp_path: Path) -> None:
    users(tmp_path, bob=[*MINE, rule("Topic:*", PUB | SUB | GET)])

    async def scenario() -> None:
        async with secured(tmp_path) as (server, _), Signer(server.broker_address, BOB) as bob:
            for topic in ("%RETRY%theirs", "%DLQ%theirs", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC",
                          "rmq_sys_wheel_timer", "rmq_sys_REVIVE_LOG_DefaultCluster"):  # fmt: skip
                header = PullMessageHeader(
                    consumer_group="mine",
                    topic=topic,
                    queue_id=0,
                    queue_offset=0,
                    max_msg_nums=1,
                    sys_flag=4,
                    commit_offset=0,
                    suspend_timeout_millis=0,
                    subscription="*",
                    sub_version=0,
                )
                assert (await bob.call(RequestCode.PULL_MESSAGE, header)).code == DENIED, topic
                assert (await send(bob, topic, REAL_TOPIC="theirs", REAL_QID="0")).code == DENIED, topic

    run(scenario())


def test_a_message_of_one_topic_cannot_recall_one_of_another(tmp_path: Path) -> None:
    users(tmp_path, bob=MINE)

    async def scenario() -> None:
        async with secured(tmp_path) as (server, _), Signer(server.broker_address, BOB) as bob:
            answer = await send(bob, "mine", TIMER_DELAY_SEC="60", TIMER_DEL_UNIQKEY="theirs+0A000001")
            assert answer.code == ResponseCode.MESSAGE_ILLEGAL
            answer = await send(bob, "mine", TIMER_DELAY_SEC="60", TIMER_DEL_UNIQKEY="mine+0A000001")
            assert answer.code == ResponseCode.SUCCESS, answer.remark

    run(scenario())
