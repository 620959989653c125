"""Runs scenarios of the C++ client, through the package that wraps it, and prints one line of JSON for each.

Usage: driver.py NAMESRV SCENARIO…, with an interpreter of an environment of its own that has the package `rocketmq`.
"""

import base64
import contextlib
import importlib
import json
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

BOUND = 180.0
LATER = 1
"""The consume status that asks for another delivery; the wrapper's own way to it, raising, ends in success."""

client: Any = importlib.import_module("rocketmq.client") if __name__ == "__main__" else None


class Stage:
    """What a scenario needs: names of its own, clients that are closed with it, and bounded waiting."""

    def __init__(self, namesrv: str, scenario: str) -> None:
        self.namesrv = namesrv
        self.name = f"{scenario}_cpp_{time.time_ns():x}"
        self.topic = f"T_{self.name}"
        self.group = f"G_{self.name}"
        self._open: list[Any] = []
        self._numbers = 0

    def unique(self, prefix: str) -> str:
        self._numbers += 1
        return f"{prefix}_{self.name}_{self._numbers}"

    def close(self) -> None:
        for each in reversed(self._open):
            each.shutdown()

    def producer(self, **options: Any) -> Any:
        producer = client.Producer(self.unique("P"), **({"timeout": 10_000} | options))
        producer.set_namesrv_addr(self.namesrv)
        return self.connected(self.start(producer))

    def connected(self, producer: Any) -> Any:
        """The producer, with its connection to the broker made.

        Its heartbeat thread connects as soon as there is a route, and a send that meets a connection in the making
        gives up at once, three times within a millisecond, and says that there is no route.
        """
        message = client.Message(f"{self.topic}_first")
        message.set_body("first")

        def sent() -> bool:
            try:
                producer.send_sync(message)
            except Exception as error:
                if "No route info" not in str(error):
                    raise
                return False
            return True

        wait("a connection", sent)
        return producer

    def start(self, one: Any) -> Any:
        one.start()
        self._open.append(one)
        return one

    def message(self, body: bytes | str, tags: str = "") -> Any:
        message = client.Message(self.topic)
        message.set_body(body)
        if tags:
            message.set_tags(tags)
        return message

    def consumer(self, group: str | None = None, **options: Any) -> Any:
        consumer = client.PushConsumer(group or self.group, **options)
        consumer.set_namesrv_addr(self.namesrv)
        consumer.set_instance_name(self.unique("I"))
        return consumer

    def collect(self, tags: str = "*", group: str | None = None, **options: Any) -> list[Any]:
        got: list[Any] = []
        consumer = self.consumer(group, **options)
        consumer.subscribe(self.topic, lambda message: got.append(Seen(message)), expression=tags)
        self.start(consumer)
        return got


class Seen:
    """What is kept of a message after its callback, when the client has freed it."""

    def __init__(self, message: Any) -> None:
        self.body: bytes = message.body
        self.id: str = message.id
        self.queue_id: int = message.queue_id
        self.queue_offset: int = message.queue_offset
        self.store_timestamp: int = message.store_timestamp
        self.store_size: int = message.store_size
        self.keys: bytes | None = message.keys
        self.colour: bytes | None = message.get_property("colour")


def names(prefix: str, count: int) -> list[bytes]:
    return [f"{prefix}{number:03}".encode() for number in range(count)]


def bodies(got: list[Any]) -> list[bytes]:
    return sorted(message.body for message in got)


def wait(what: str, condition: Callable[[], bool]) -> None:
    end = time.monotonic() + BOUND
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(0.02)


def say(what: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def ask(what: str, **details: str) -> None:
    """Have the program that started this one do something to the servers."""
    say({"ask": what, **details})
    if sys.stdin.readline() != "done\n":
        raise AssertionError(f"{what} was not done")


def expect(actual: object, expected: object) -> None:
    if actual != expected:
        raise AssertionError(f"expected {expected!r} but got {actual!r}")


def sync(stage: Stage) -> None:
    producer = stage.producer()
    ids = {producer.send_sync(stage.message(body)).msg_id for body in names("m", 50)}
    expect(len(ids), 50)
    got = stage.collect()
    wait("50 messages", lambda: len(got) >= 50)
    expect(bodies(got), names("m", 50))


def asynchronous(stage: Stage) -> None:
    producer = stage.producer()
    producer.send_sync(stage.message("m000"))
    done: list[Any] = []
    for body in names("m", 100)[1:]:
        producer.send_async(stage.message(body), done.append, None)
    wait("callbacks", lambda: len(done) == 99)
    got = stage.collect()
    wait("100 messages", lambda: len(got) >= 100)
    expect(bodies(got), names("m", 100))


def oneway(stage: Stage) -> None:
    producer = stage.producer()
    producer.send_sync(stage.message("m000"))
    for body in names("m", 20)[1:]:
        producer.send_oneway(stage.message(body))
    got = stage.collect()
    wait("20 messages", lambda: len(got) >= 20)
    expect(bodies(got), names("m", 20))


def selector(stage: Stage) -> None:
    producer = stage.producer()
    producer.send_sync(stage.message("m"))
    for number in range(39):
        producer.send_orderly(stage.message(f"{number % 3}"), number % 3)
    got = stage.collect()
    wait("40 messages", lambda: len(got) >= 40)
    expect(
        {(message.body, message.queue_id) for message in got if message.body != b"m"}, {(b"0", 0), (b"1", 1), (b"2", 2)}
    )


def compression(stage: Stage) -> None:
    body = b"compress me " * 1000
    stage.producer().send_sync(stage.message(body))
    got = stage.collect()
    wait("the message", lambda: len(got) >= 1)
    expect(got[0].body, body)
    expect(got[0].store_size < len(body), True)


def properties(stage: Stage) -> None:
    message = stage.message("m")
    message.set_keys("k1 k2")
    message.set_property("colour", "äöü中文😀")
    stage.producer().send_sync(message)
    got = stage.collect()
    wait("the message", lambda: len(got) >= 1)
    expect((got[0].keys, got[0].colour), (b"k1 k2", "äöü中文😀".encode()))


def large(stage: Stage) -> None:
    # Text: the wrapper ends bodies at their first zero.
    body = base64.b64encode(random.Random(7).randbytes(2 << 20))
    producer = stage.producer(timeout=30_000, max_message_size=4 << 20)
    producer.send_sync(stage.message(body))
    got = stage.collect()
    wait("the message", lambda: len(got) >= 1)
    expect(got[0].body == body, True)


def tags(stage: Stage) -> None:
    producer = stage.producer()
    for tag in ("a", "b", "c", "a", "b"):
        producer.send_sync(stage.message(tag, tag))
    some, every = stage.collect("a || b", stage.unique("G")), stage.collect("*", stage.unique("G"))
    wait("tagged messages", lambda: len(some) >= 4 and len(every) >= 5)
    expect(bodies(some), [b"a", b"a", b"b", b"b"])
    expect(bodies(every), [b"a", b"a", b"b", b"b", b"c"])


def concurrent(stage: Stage) -> None:
    producer = stage.producer()
    for body in names("m", 200):
        producer.send_sync(stage.message(body))
    got = stage.collect()
    wait("200 messages", lambda: len(got) >= 200)
    expect(bodies(got), names("m", 200))


def orderly(stage: Stage) -> None:
    producer = stage.producer()
    producer.send_sync(stage.message("first"))
    for number, body in enumerate(names("m", 60)):
        producer.send_orderly(stage.message(body), number % 3)
    got = stage.collect(orderly=True)
    wait("61 messages", lambda: len(got) >= 61)
    for queue_id in range(3):
        offsets = [message.queue_offset for message in got if message.queue_id == queue_id]
        expect(offsets, list(range(len(offsets))))


def broadcast(stage: Stage) -> None:
    """Each member gets everything that comes after it has begun; this client begins at the end."""
    producer = stage.producer()
    producer.send_sync(stage.message("probe"))
    model = importlib.import_module("rocketmq.ffi").MessageModel.BROADCASTING
    inboxes = [stage.collect(message_model=model) for _ in range(2)]

    def all_queues_begun() -> bool:
        for queue in range(4):
            producer.send_orderly(stage.message("probe"), queue)
        return all({seen.queue_id for seen in got} == {0, 1, 2, 3} for got in inboxes)

    wait("both members to begin", all_queues_begun)
    for body in names("m", 20):
        producer.send_sync(stage.message(body))

    def complete() -> bool:
        return all({*names("m", 20)} <= {*bodies(got)} for got in inboxes)

    wait("20 messages each", complete)


def lite_pull(stage: Stage) -> None:
    producer = stage.producer()
    for body in names("m", 50):
        producer.send_sync(stage.message(body))
    consumer = client.PullConsumer(stage.group)
    consumer.set_namesrv_addr(stage.namesrv)
    stage.start(consumer)
    expect(sorted(message.body for message in consumer.pull(stage.topic)), names("m", 50))


def lite_pull_assign(stage: Stage) -> None:
    producer = stage.producer()
    for body in names("m", 20):
        producer.send_orderly(stage.message(body), 2)
    consumer = client.PullConsumer(stage.group)
    consumer.set_namesrv_addr(stage.namesrv)
    consumer.get_message_queue_offset = lambda queue: 15 if queue.queueId == 2 else 0
    stage.start(consumer)
    expect([message.body for message in consumer.pull(stage.topic)], names("m", 20)[15:])


def offset_reset(stage: Stage) -> None:
    """This client has no way to ask for it, but obeys."""
    producer = stage.producer()
    for body in names("m", 20):
        producer.send_sync(stage.message(body))
    got = stage.collect()
    wait("20 messages", lambda: len(got) >= 20)
    ask("resetOffsets", topic=stage.topic, group=stage.group)
    wait("everything again", lambda: len(got) >= 40)


def sharing(stage: Stage) -> None:
    """Both members of a group get messages, and all messages arrive."""
    producer = stage.producer()
    producer.send_sync(stage.message("m"))
    one, two = stage.collect(), stage.collect()
    sent = [b"m"]

    def both() -> bool:
        for _ in range(4):
            body = f"n{len(sent)}".encode()
            producer.send_sync(stage.message(body))
            sent.append(body)
        return len(one) > 3 and len(two) > 3

    wait("both members to get messages", both)
    wait("all messages", lambda: {*bodies(one), *bodies(two)} == set(sent))


def delay_level(stage: Stage) -> None:
    producer = stage.producer()
    producer.send_sync(stage.message("warm"))
    got = stage.collect()
    wait("the first message", lambda: len(got) == 1)
    sent = time.time_ns() // 1_000_000
    message = stage.message("level2")
    message.set_delay_time_level(2)
    producer.send_sync(message)
    wait("the delayed message", lambda: len(got) >= 2)
    expect(got[1].store_timestamp - sent >= 5000, True)


def timed(stage: Stage) -> None:
    producer = stage.producer()
    producer.send_sync(stage.message("warm"))
    got = stage.collect()
    wait("the first message", lambda: len(got) == 1)
    due = time.time_ns() // 1_000_000 + 4000
    message = stage.message("timed")
    message.set_property("TIMER_DELIVER_MS", str(due))
    producer.send_sync(message)
    wait("the timed message", lambda: len(got) >= 2)
    expect(got[1].store_timestamp >= due - 1000, True)


def retry(stage: Stage) -> None:
    stage.producer().send_sync(stage.message("fails once"))
    attempts: list[int] = []

    def consume(_consumer: Any, handle: Any) -> int:
        attempts.append(client.RecvMessage(handle).reconsume_times)
        return LATER if len(attempts) == 1 else 0

    consumer = stage.consumer()
    consumer.subscribe(stage.topic, lambda _message: None)
    consumer._register_callback(consume)
    stage.start(consumer)
    wait("two attempts", lambda: len(attempts) >= 2)
    expect(attempts, [0, 1])


def dead_letter(stage: Stage) -> None:
    ask("createGroup", group=stage.group)
    stage.producer().send_sync(stage.message("poison"))
    attempts: list[int] = []

    def consume(_consumer: Any, handle: Any) -> int:
        attempts.append(client.RecvMessage(handle).reconsume_times)
        return LATER

    consumer = stage.consumer()
    consumer.subscribe(stage.topic, lambda _message: None)
    consumer._register_callback(consume)
    stage.start(consumer)
    reader = client.PullConsumer(stage.unique("G"))
    reader.set_namesrv_addr(stage.namesrv)
    stage.start(reader)
    letters: list[bytes] = []

    def arrived() -> bool:
        with contextlib.suppress(Exception):  # no route yet
            letters.extend(message.body for message in reader.pull(f"%DLQ%{stage.group}"))
        return bool(letters)

    wait("the dead letter", arrived)
    expect((letters, attempts), ([b"poison"], [0, 1]))


def acl_off(stage: Stage) -> None:
    """A client that signs its requests is as welcome as any where nobody checks signatures."""
    producer = stage.connected(signing_producer(stage, "someAccessKey", "someSecretKey"))
    for body in names("m", 10):
        producer.send_sync(stage.message(body))
    got = stage.collect()
    wait("10 messages", lambda: len(got) >= 10)
    expect(bodies(got), names("m", 10))


def right_credentials(stage: Stage) -> None:
    """Messages get in and out; the users are those of the program that starts this one."""
    producer = stage.connected(signing_producer(stage, "alice", "alice-secret-1"))
    for body in names("m", 10):
        producer.send_sync(stage.message(body))
    got: list[Any] = []
    consumer = stage.consumer()
    consumer.set_session_credentials("alice", "alice-secret-1", "channel")
    consumer.subscribe(stage.topic, lambda message: got.append(Seen(message)))
    stage.start(consumer)
    wait("10 messages", lambda: len(got) >= 10)
    expect(bodies(got), names("m", 10))


def refused(access_key: str = "", secret_key: str = "") -> Callable[[Stage], None]:
    """Nothing gets in."""

    def run(stage: Stage) -> None:
        producer = signing_producer(stage, access_key, secret_key)
        try:
            producer.send_sync(stage.message("forged"))
        except Exception:  # noqa: BLE001 - whatever the wrapper makes of it
            return
        raise AssertionError("the message was accepted")

    return run


def signing_producer(stage: Stage, access_key: str, secret_key: str) -> Any:
    producer = client.Producer(stage.unique("P"))
    producer.set_namesrv_addr(stage.namesrv)
    if access_key:
        producer.set_session_credentials(access_key, secret_key, "channel")
    return stage.start(producer)


def restart(what: str) -> Callable[[Stage], None]:
    """Messages flow before, during and after; what was acknowledged arrives."""

    def run(stage: Stage) -> None:
        ask("settle")
        producer = stage.producer()
        acknowledged = set()
        for body in names("before", 20):
            producer.send_sync(stage.message(body))
            acknowledged.add(body)
        got = stage.collect()
        wait("the messages of before", lambda: len(got) >= 20)
        enough = threading.Event()

        def send_on() -> None:
            number = 0
            while not enough.wait(0.02):
                body = f"during{number}".encode()
                number += 1
                try:
                    producer.send_sync(stage.message(body))
                except Exception:  # noqa: BLE001, S112 - an application tries again; only what was acknowledged counts
                    continue
                acknowledged.add(body)

        sender = threading.Thread(target=send_on)
        sender.start()
        ask(what)
        count = len(acknowledged)
        wait("sends to succeed again", lambda: len(acknowledged) >= count + 20)
        enough.set()
        sender.join()
        wait("everything that was acknowledged", lambda: acknowledged <= set(bodies(got)))

    return run


SCENARIOS: dict[str, Callable[[Stage], None]] = {
    "sync": sync,
    "async": asynchronous,
    "oneway": oneway,
    "selector": selector,
    "compression": compression,
    "properties": properties,
    "large": large,
    "tags": tags,
    "concurrent": concurrent,
    "orderly": orderly,
    "broadcast": broadcast,
    "litePull": lite_pull,
    "litePullAssign": lite_pull_assign,
    "sharing": sharing,
    "delayLevel": delay_level,
    "timed": timed,
    "retry": retry,
    "deadLetter": dead_letter,
    "offsetReset": offset_reset,
    "aclOff": acl_off,
    "restartNamesrv": restart("restartNamesrv"),
    "restartBroker": restart("restartBroker"),
    "killBroker": restart("killBroker"),
}


SECURITY: dict[str, Callable[[Stage], None]] = {
    "rightCredentials": right_credentials,
    "wrongCredentials": refused("alice", "wrong-secret-1"),
    "unknownUser": refused("mallory", "alice-secret-1"),
    "disabledUser": refused("carol", "carol-secret-1"),
    "missingCredentials": refused(),
}


def main() -> None:
    namesrv, *wanted = sys.argv[1:]
    for name in wanted:
        begin = time.monotonic()
        stage = Stage(namesrv, name)
        fault = ""
        try:
            (SCENARIOS | SECURITY)[name](stage)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the outcome
            fault = f"{type(error).__name__}: {error}"
        took = int((time.monotonic() - begin) * 1000)
        say({"scenario": name, "ok": not fault, "ms": took, "fault": fault})
        stage.close()  # which now and then ends this process: the client interrupts threads that do not expect it


if __name__ == "__main__":
    main()
