"""A store with transactions on it, a clock turned by hand, and producers that only take notes."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self, cast

from pyromq.broker.cluster.clients import Client, Producers
from pyromq.broker.cluster.heartbeats import Heartbeats
from pyromq.broker.config import BrokerConfig
from pyromq.broker.transaction.halfmessages import DISCARDED, HALF, OP
from pyromq.broker.transaction.transactions import Transactions
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.callbacks import CheckTransactionStateHeader
from pyromq.protocol.headers.send import EndTransactionHeader, SendMessageHeader
from pyromq.protocol.message import ReceivedMessage
from pyromq.protocol.properties import encode_properties
from pyromq.protocol.records import sysflag
from pyromq.protocol.records.host import Host, pack_host
from pyromq.protocol.records.record import decode_record
from pyromq.remoting.connection import Connection
from pyromq.store.config import FlushDiskType
from pyromq.store.log.put import PutMessage, PutResult
from pyromq.store.messagestore import MessageStore
from tests.unit.broker.clock import FakeClock
from tests.unit.broker.cores import make_core

GROUP = "orders-service"


class NotedProducers(Producers):
    """One live producer for any of `groups`; `checks` is what it was asked."""

    def __init__(self, clock: FakeClock, groups: set[str]) -> None:
        super().__init__(clock)
        self.groups = groups
        self.checks: list[tuple[CheckTransactionStateHeader, ReceivedMessage]] = []

    def pick(self, group: str, _may: Callable[[Client], bool] = lambda _client: True) -> Connection | None:
        return cast("Connection", self) if group in self.groups else None

    def send(self, command: Command) -> bool:
        assert command.code == RequestCode.CHECK_TRANSACTION_STATE
        assert command.is_oneway
        self.checks.append((command.header(CheckTransactionStateHeader), decode_record(command.body)))
        return True


class Bench:
    """Everything that transactions need, without a network. `restart` forgets what is in memory only."""

    def __init__(self, path: Path, **settings: int | bool) -> None:
        self.clock = FakeClock()
        self.config = BrokerConfig(
            store_path_root_dir=path,
            flush_disk_type=FlushDiskType.ASYNC_FLUSH,
            mapped_file_size_commit_log=1 << 20,
            max_hash_slot_num=100,
            max_index_num=1000,
            **settings,  # type: ignore[arg-type]  # options of these types
        )
        self._stack = ExitStack()
        self.store = self._stack.enter_context(MessageStore(self.config.store_config(), clock=self.clock))
        self.producers = NotedProducers(self.clock, {GROUP})
        self.core = replace(make_core(self.config, self.clock, self.store), producers=self.producers)
        self.offsets, self.topics = self.core.offsets, self.core.topics
        self.topics.load()
        self.store.add_listener(lambda record: self.halves.arrived(record) if record.topic == HALF else None)
        self.restart()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def restart(self) -> None:
        """Begin anew with what log and offsets say."""
        self.transactions = Transactions(self.core, Heartbeats(self.core))
        self.halves, self.check_back = self.transactions.halves, self.transactions.check_back
        self.halves.load()

    def prepare(
        self, unique: str = "u0", topic: str = "orders", queue: int = 1, host: str = "10.0.0.1", **properties: str
    ) -> PutResult:
        """Store a half message that came from an address."""
        everything = {"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": unique} | properties
        message = PutMessage(
            topic, queue, unique.encode(), encode_properties(everything), everything, sys_flag=sysflag.PREPARED, flag=7
        )
        message.born_host = pack_host(Host(host, 1))
        header = SendMessageHeader(
            producer_group=GROUP,
            topic=topic,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=queue,
            sys_flag=sysflag.PREPARED,
            born_timestamp=self.clock.now,
            flag=7,
        )
        self.transactions.prepare(header, message, Command.request(RequestCode.SEND_MESSAGE))
        return self.store.put(message)

    def end(self, half: PutResult, outcome: int, *, group: str = GROUP, from_check: bool = False) -> Command | None:
        """Tell how a transaction ended; raises Refused."""
        header = EndTransactionHeader(
            producer_group=group,
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=half.physical_offset,
            commit_or_rollback=outcome,
            from_transaction_check=from_check,
            msg_id="",
        )
        handler = self.transactions.handlers()[RequestCode.END_TRANSACTION]
        answer = handler(Command.request(RequestCode.END_TRANSACTION, header), cast("Connection", None))
        assert answer is None or isinstance(answer, Command)
        assert answer is None or answer.code == ResponseCode.SUCCESS
        return answer

    def visible(self, topic: str = "orders", queue: int = 1) -> list[ReceivedMessage]:
        """What consumers see."""
        return self.store.get(topic, queue, 0, 32).messages()

    def ops(self) -> list[bytes]:
        """The bodies in the op queue."""
        return [message.body for message in self.store.get(OP, 0, 0, 32).messages()]

    def given_up(self) -> list[ReceivedMessage]:
        """What was given up."""
        return self.store.get(DISCARDED, 0, 0, 32).messages()

    def cursors(self) -> tuple[int | None, int | None]:
        """The stored offsets of half and op queue, after they had the chance to move."""
        for _ in range(3):
            self.store.flush()
            self.halves.tick(10)
        return self.offsets.get("CID_RMQ_SYS_TRANS", HALF, 0), self.offsets.get("CID_RMQ_SYS_TRANS", OP, 0)
