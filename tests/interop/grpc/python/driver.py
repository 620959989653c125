"""Keeps clients of the official gRPC library for Python and does with them what `grpcdrivers` describes.

Usage: driver.py HOST:PORT tls|plain, with an interpreter of an environment of its own that has rocketmq-python-client.
"""

import base64
import importlib
import json
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

TIMEOUT = 10
"""Seconds for each call, on a machine that may be busy."""

if __name__ == "__main__":
    rocketmq: Any = importlib.import_module("rocketmq")
    definitions: Any = importlib.import_module("rocketmq.grpc_protocol")


class Driver:
    """All clients of one process, by the names that commands gave them."""

    def __init__(self, endpoint: str, *, tls: bool) -> None:
        self._endpoint = endpoint
        self._tls = tls
        self._clients: dict[str, Any] = {}
        self._received: dict[tuple[str, str], Any] = {}
        self._failed: Counter[str] = Counter()
        self._writing = threading.Lock()

    def run(self, command: dict[str, Any]) -> None:
        """Do one command and say how it went."""
        number, do = command.pop("id"), command.pop("do")
        try:
            self._say({"id": number, "ok": getattr(self, f"do_{do}")(**command) or {}})
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
            code = getattr(error, "code", None)
            known = {"code": code} if isinstance(code, int) else {}
            self._say({"id": number, "error": f"{type(error).__name__}: {error}", **known})

    def do_producer(self, client: str, topics: list[str], credentials: list[str] | None = None) -> None:
        checker = subclass(rocketmq.TransactionChecker, check=lambda message: self._check(client, message))
        producer = rocketmq.Producer(self._configuration(credentials), topics, checker, tls_enable=self._tls)
        self._start(client, producer)

    def do_send(self, client: str, message: dict[str, Any]) -> dict[str, object]:
        receipt = self._clients[client].send(to_send(message))
        return {"id": receipt.message_id, "recall": receipt.recall_handle}

    def do_transaction(self, client: str, message: dict[str, Any], outcome: str) -> dict[str, object]:
        producer = self._clients[client]
        transaction = producer.begin_transaction()
        receipt = producer.send(to_send(message), transaction)
        if outcome != "unknown":
            getattr(transaction, outcome)()
        return {"id": receipt.message_id}

    def do_recall(self, client: str, topic: str, handle: str) -> dict[str, object]:
        return {"id": self._clients[client].recall_message(topic, handle)}

    def do_push(
        self,
        client: str,
        group: str,
        topic: str,
        tag: str | None = None,
        sql: str | None = None,
        credentials: list[str] | None = None,
    ) -> None:
        listener = subclass(rocketmq.MessageListener, consume=lambda message: self._consume(client, message))
        wanted = {topic: expression(tag, sql)}
        configuration = self._configuration(credentials)
        self._start(client, rocketmq.PushConsumer(configuration, group, listener, wanted, tls_enable=self._tls))

    def do_simple(
        self,
        client: str,
        group: str,
        topic: str,
        wait: int,
        tag: str | None = None,
        sql: str | None = None,
        credentials: list[str] | None = None,
    ) -> None:
        wanted = {topic: expression(tag, sql)}
        consumer = rocketmq.SimpleConsumer(
            self._configuration(credentials), group, wanted, await_duration=wait, tls_enable=self._tls
        )
        self._start(client, consumer)

    def do_receive(self, client: str, max: int, invisible: int) -> dict[str, object]:  # noqa: A002 - the command's word
        messages = self._clients[client].receive(max, invisible)
        self._received.update({(client, message.message_id): message for message in messages})
        return {"messages": [as_received(message) for message in messages]}

    def do_ack(self, client: str, message: str) -> None:
        self._clients[client].ack(self._received[client, message])

    def do_hide(self, client: str, message: str, seconds: int) -> None:
        self._clients[client].change_invisible_duration(self._received[client, message], seconds)

    def do_close(self, client: str) -> None:
        self._clients.pop(client).shutdown()

    def _configuration(self, credentials: list[str] | None) -> Any:
        return rocketmq.ClientConfiguration(
            self._endpoint, rocketmq.Credentials(*(credentials or ())), request_timeout=TIMEOUT
        )

    def _start(self, name: str, client: Any) -> None:
        client.startup()
        self._clients[name] = client

    def _consume(self, client: str, message: Any) -> Any:
        self._say({"event": "message", "client": client, "message": as_received(message)})
        self._failed[message.message_id] += 1
        enough = self._failed[message.message_id] > int(message.properties.get("failures", "0"))
        return rocketmq.ConsumeResult.SUCCESS if enough else rocketmq.ConsumeResult.FAILURE

    def _check(self, client: str, message: Any) -> Any:
        self._say({"event": "check", "client": client, "message": as_received(message)})
        return getattr(rocketmq.TransactionResolution, "COMMIT" if committed(message) else "ROLLBACK")

    def _say(self, what: dict[str, object]) -> None:
        with self._writing:
            sys.stdout.write(json.dumps(what) + "\n")
            sys.stdout.flush()


def subclass(base: Any, **methods: Callable[[Any], Any]) -> Any:
    """An object of a class of the library's with these methods, which get no `self`."""
    return type(base.__name__, (base,), {name: staticmethod(each) for name, each in methods.items()})()


def committed(message: Any) -> bool:
    return bool(message.properties.get("outcome") == "commit")


def expression(tag: str | None, sql: str | None) -> Any:
    if sql is not None:
        return rocketmq.FilterExpression(sql, definitions.FilterType.SQL)
    return rocketmq.FilterExpression() if tag is None else rocketmq.FilterExpression(tag)


def to_send(said: dict[str, Any]) -> Any:
    message = rocketmq.Message()
    message.topic = said["topic"]
    message.body = base64.b64decode(said["body"])
    for key in said["keys"]:
        message.keys = key  # which adds it
    for name, value in said["properties"].items():
        message.add_property(name, value)
    if said.get("tag"):
        message.tag = said["tag"]
    if said.get("group"):
        message.message_group = said["group"]
    if said.get("deliverAt"):
        message.delivery_timestamp = -(-said["deliverAt"] // 1000)  # it knows whole seconds only
    return message


def as_received(message: Any) -> dict[str, object]:
    return {
        "topic": message.topic,
        "body": base64.b64encode(message.body).decode(),
        "tag": message.tag,
        "keys": sorted(message.keys),
        "properties": dict(message.properties),
        "group": message.message_group,
        "deliverAt": message.delivery_timestamp or None,
        "id": message.message_id,
        "attempt": message.delivery_attempt,
    }


def main() -> None:
    endpoint, security = sys.argv[1:]
    driver = Driver(endpoint, tls=security == "tls")
    with ThreadPoolExecutor(64) as pool:
        for line in sys.stdin:
            pool.submit(driver.run, json.loads(line))
        os._exit(0)  # with whatever threads the library still has


if __name__ == "__main__":
    main()
