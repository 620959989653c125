"""The face for threads: one loop, started and stopped on demand."""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import pytest

import pyromq
from pyromq.client.blocking import loop as background
from pyromq.client.errors import ClientError, ForkedError, ServiceStateError, TooManyRequestsError
from pyromq.client.producer.results import LocalTransactionState, SendResult, SendStatus
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.message import Message, MessageQueue
from pyromq.remoting.errors import ConnectionLost
from tests.unit.client.fakes import FakeCluster
from tests.unit.client.test_transaction import Listener

WAIT = 30.0


class Stage:
    """A cluster with a wall clock, for clients in other threads."""

    def __init__(self, **options: Any) -> None:
        self.cluster = FakeCluster("a")
        self.cluster.add_topic("T")
        self.options = {
            "namesrv": "ns1:9876",
            "transport": self.cluster.transport,
            "client_ip": "10.1.1.1",
            "heartbeat_on_connect": False,
            **options,
        }

    def producer(self, group: str = "PG", **options: Any) -> pyromq.Producer:
        return pyromq.Producer(group, **(self.options | options))


def loop_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "pyromq-loop"]


def test_import_starts_no_thread() -> None:
    assert loop_threads() == []
    assert set(pyromq.__all__) <= set(dir(pyromq))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(pyromq, "nothing")  # noqa: B009 - a name that mypy knows to be missing


def test_send_in_a_with_block() -> None:
    # P-01 for threads
    stage = Stage()
    with stage.producer() as producer:
        assert len(loop_threads()) == 1
        result = producer.send(Message("T", b"x"), timeout=WAIT)
        assert result.status is SendStatus.SEND_OK
        producer.send_oneway(Message("T", b"y"))
        assert producer.publish_queues("T")[0] == MessageQueue("T", "a", 0)
        assert "," in producer.send([Message("T", b"1"), Message("T", b"2")]).message_id
    assert loop_threads() == []
    assert stage.cluster.transport.closed
    with pytest.raises(ServiceStateError, match="SHUTDOWN_ALREADY"):
        producer.send(Message("T", b"x"))
    producer.close()


def test_two_clients_share_the_loop() -> None:
    first, second = Stage().producer("A"), Stage().producer("B")
    first.start()
    second.start()
    assert len(loop_threads()) == 1
    first.close()
    assert len(loop_threads()) == 1
    assert second.send(Message("T", b"x")).status is SendStatus.SEND_OK
    second.close()
    assert loop_threads() == []


def test_failed_start_stops_the_loop() -> None:
    producer = Stage().producer("DEFAULT_PRODUCER")
    with pytest.raises(ClientError, match="DEFAULT_PRODUCER"):
        producer.start()
    assert loop_threads() == []
    with pytest.raises(ServiceStateError, match="CREATE_JUST"):
        producer.send(Message("T", b"x"))


def test_starting_twice() -> None:
    with Stage().producer() as producer:
        with pytest.raises(ServiceStateError, match="RUNNING"):
            producer.start()
        assert producer.send(Message("T", b"x")).status is SendStatus.SEND_OK


def test_async_with_future_and_callback() -> None:
    # P-02, P-09
    with Stage().producer() as producer:
        outcome: Future[tuple[SendResult | None, Exception | None, str]] = Future()

        def callback(result: SendResult | None, error: Exception | None) -> None:
            outcome.set_result((result, error, threading.current_thread().name))

        future = producer.send_async(Message("T", b"x"), callback)
        assert future.result(WAIT).status is SendStatus.SEND_OK
        result, error, thread = outcome.result(WAIT)
        assert result is not None
        assert error is None
        assert thread.startswith("pyromq-callback")
        failing = producer.send_async(Message("T", b""))
        assert isinstance(failing.exception(WAIT), ClientError)


def test_callback_may_use_the_producer() -> None:
    # a callback is not on the loop, so it may block on it
    with Stage().producer() as producer:
        second: Future[SendResult] = Future()
        producer.send_async(
            Message("T", b"x"), lambda *_: second.set_result(producer.send(Message("T", b"y"), timeout=WAIT))
        )
        assert second.result(WAIT).status is SendStatus.SEND_OK


def test_blocking_call_on_the_loop_is_refused() -> None:
    with Stage().producer() as producer:
        answer: Future[BaseException | None] = Future()

        async def callback(*_: object) -> None:
            try:
                producer.send(Message("T", b"y"))
            except ClientError as error:
                answer.set_result(error)

        producer.send_async(Message("T", b"x"), callback)
        assert "would wait for itself" in str(answer.result(WAIT))


def test_bound_on_async_sends() -> None:
    stage = Stage(async_queue=1)
    with stage.producer() as producer:
        producer.send(Message("T", b"x"))
        release = threading.Event()
        broker = stage.cluster.brokers["a"]

        def slow(command: Command) -> Any:
            loop = asyncio.get_running_loop()

            async def answer() -> Command:
                await loop.run_in_executor(None, release.wait, WAIT)
                return broker.store(command)

            return answer()

        broker.script = [slow]
        first = producer.send_async(Message("T", b"x"), timeout=WAIT)
        with pytest.raises(TooManyRequestsError, match="1 asynchronous"):
            producer.send_async(Message("T", b"x"))
        release.set()
        assert first.result(WAIT).status is SendStatus.SEND_OK
        assert producer.send_async(Message("T", b"x")).result(WAIT).status is SendStatus.SEND_OK


def test_threads_that_race_do_not_pass_the_bound() -> None:
    bound, threads = 3, 8
    stage = Stage(async_queue=bound)
    broker = stage.cluster.brokers["a"]
    never: Future[Command] = Future()

    async def unanswered() -> Command:
        return await asyncio.wrap_future(never)

    with stage.producer() as producer, ThreadPoolExecutor(threads) as pool:
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            for _ in range(50):
                never = Future()
                broker.script = [lambda _: unanswered()] * bound
                together = threading.Barrier(threads)

                def attempt(together: threading.Barrier = together) -> Future[SendResult] | None:
                    together.wait(WAIT)
                    try:
                        return producer.send_async(Message("T", b"x"), timeout=WAIT)
                    except TooManyRequestsError:
                        return None

                tried = [pool.submit(attempt) for _ in range(threads)]
                begun = [each.result(WAIT) for each in tried]
                accepted = [outcome for outcome in begun if outcome is not None]
                never.set_exception(ConnectionLost("the broker went away"))
                assert len(accepted) == bound
                wait(accepted, WAIT)
        finally:
            sys.setswitchinterval(interval)


def test_backpressure_blocks_the_caller() -> None:
    stage = Stage(backpressure=True)
    with stage.producer() as producer:
        futures = [producer.send_async(Message("T", b"x")) for _ in range(20)]
        assert all(future.result(WAIT).status is SendStatus.SEND_OK for future in futures)
        producer.resize_backpressure(count=50)


def test_transaction_runs_in_the_calling_thread() -> None:
    # P-116 for threads
    stage = Stage()
    listener = Listener()
    with pyromq.TransactionProducer("PG", listener, **stage.options) as producer:
        result = producer.send_in_transaction(Message("T", b"x"), "arg")
        assert result.local_state is LocalTransactionState.COMMIT
        assert listener.threads == [threading.current_thread().name]
        listener.outcome = ValueError("boom")
        assert producer.send_in_transaction(Message("T", b"x")).local_state is LocalTransactionState.UNKNOWN
        stage.cluster.brokers["a"].script = [lambda command: stage.cluster.brokers["a"].store(command, 12)]
        assert producer.send_in_transaction(Message("T", b"x")).local_state is LocalTransactionState.ROLLBACK
    assert len(listener.executed) == 2
    sent = [command.remark for _, command in stage.cluster.transport.oneways]
    assert sent == [None, "ValueError: boom", None]


def test_coroutine_listener_runs_on_the_loop() -> None:
    class Async:
        async def execute(self, message: Message, arg: object) -> LocalTransactionState:
            assert (message.topic, arg) == ("T", None)
            return LocalTransactionState.COMMIT

        async def check(self, message: Message) -> LocalTransactionState:
            assert message.topic == "T"
            return LocalTransactionState.COMMIT

    with pyromq.TransactionProducer("PG", Async(), **Stage().options) as producer:
        assert producer.send_in_transaction(Message("T", b"x")).local_state is LocalTransactionState.COMMIT


def test_plain_producer_has_no_transactions() -> None:
    # P-11
    with Stage().producer() as producer, pytest.raises(ClientError, match="TransactionProducer"):
        producer.send_in_transaction(Message("T", b"x"))


def test_queries() -> None:
    # P-10
    stage = Stage()
    stage.cluster.brokers["a"].answers[RequestCode.GET_MAX_OFFSET] = lambda command: command.reply(ext={"offset": "9"})
    with stage.producer() as producer:
        assert producer.max_offset(MessageQueue("T", "a", 0)) == 9


def test_after_a_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    with Stage().producer() as producer:
        with monkeypatch.context() as patched:
            patched.setattr(os, "getpid", lambda: 4711)
            with pytest.raises(ForkedError, match="make a new client"):
                producer.send(Message("T", b"x"))
            with pytest.raises(ForkedError):
                producer.send_async(Message("T", b"x"))
        assert producer.send(Message("T", b"x")).status is SendStatus.SEND_OK


def test_child_gets_a_loop_of_its_own() -> None:
    loop = background.acquire()
    shared = background._shared
    try:
        background._forget()
        fresh = background.acquire()
        assert fresh is not loop
        background.release(loop)  # belongs to nobody here
        background.release(fresh)
    finally:
        background._shared = shared
        background.release(loop)
    assert loop_threads() == []


@pytest.mark.parametrize("interrupts_the_wait", [True, False])
def test_interrupted_wait_cancels_the_call(interrupts_the_wait: bool) -> None:
    """Also when the signal itself ends no wait: it came a moment too early, or another thread was given it."""
    loop = background.acquire()
    caller = threading.get_ident()
    cancelled = threading.Event()

    async def long() -> None:
        if interrupts_the_wait:
            signal.pthread_kill(caller, signal.SIGINT)
        else:
            signal.raise_signal(signal.SIGINT)
        try:
            await asyncio.sleep(WAIT)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    try:
        with pytest.raises(KeyboardInterrupt):
            loop.call(long)
        assert cancelled.wait(WAIT)
    finally:
        background.release(loop)


def test_an_interrupt_while_work_is_handed_over_cancels_it(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = background.acquire()
    begun, cancelled = threading.Event(), threading.Event()
    submit = loop.submit

    async def long() -> None:
        begun.set()
        try:
            await asyncio.sleep(WAIT)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    def interrupted(work: Callable[[], object]) -> None:
        submit(work)
        assert begun.wait(WAIT)
        monkeypatch.undo()
        raise KeyboardInterrupt

    try:
        monkeypatch.setattr(loop, "submit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            loop.call(long)
        assert cancelled.wait(WAIT)
    finally:
        background.release(loop)


def test_an_interrupt_before_the_loop_is_woken_does_not_stop_it(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = background.acquire()

    class Interrupted:
        def call_soon_threadsafe(self, _: Callable[[], object]) -> None:
            raise KeyboardInterrupt

    async def answer() -> int:
        return 42

    try:
        with monkeypatch.context() as patched:
            patched.setattr(loop, "_loop", Interrupted())
            with pytest.raises(KeyboardInterrupt):
                loop.submit(lambda: None)
        assert loop.begin(answer).result(WAIT) == 42
    finally:
        background.release(loop)
