"""Programs that keep clients of an official gRPC library and do with them what they are told.

A driver is started as `driver HOST:PORT tls|plain`. It reads commands from its standard input and writes answers and
events to its standard output, each as one line of JSON; lines that do not begin with `{` are ignored, so that a chatty
library does no harm. Commands run beside each other, in a thread or task each, and answers come in any order. The end
of the input ends the process at once.

    command  {"id": 7, "do": "send", …arguments…}
    answer   {"id": 7, "ok": {…}}    or    {"id": 7, "error": "words", "code": 40402}
    event    {"event": "message" or "check", "client": "C_1", "message": {…}}

`code` is that of the protocol's status, where the library tells it. `client` is a name that the command which starts a
client gives it. What commands take (`?` may be absent or null) and what they answer:

    producer     client, topics: [name], credentials?: [access key, secret key]           {}
    send         client, message                                                          {"id", "recall"?: handle}
    transaction  client, message, outcome: "commit" or "rollback" or "unknown"            {"id"}
    recall       client, topic, handle                                                    {"id"}
    push         client, group, topic, tag? or sql?: expression, credentials?             {}
    simple       client, group, topic, tag? or sql?, credentials?, wait: seconds          {}
    receive      client, max: count, invisible: seconds                                   {"messages": [message]}
    ack          client, message: id of one that this client received                     {}
    hide         client, message: id, seconds: until it is visible again                  {}
    close        client                                                                   {}

A message is `{"topic", "body": base64, "tag"?, "keys": [text], "properties": {name: text}, "group"?: message group,
"deliverAt"?: ms}`; one that was received also has `"id"` and `"attempt"`. `receive` answers an empty list when nothing
came. `transaction` sends and then ends the transaction, or leaves it open when the outcome is unknown.

A listener tells each message as an event. It fails a message as often as the property `failures` says (counted by
message id, 0 without it) and succeeds after that. A producer's checker tells the message of an open transaction as an
event and resolves it as the property `outcome` says, `commit` or `rollback`; every producer has one.
"""

import base64
import itertools
import json
import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

BOUND = 60.0
"""Ends a wait that hangs; nothing is expected to take so long."""


class RefusedError(Exception):
    """The library raised; `code` is the status code of the server, where the library tells it."""

    def __init__(self, text: str, code: int | None) -> None:
        super().__init__(text if code is None else f"{text} ({code})")
        self.code = code


@dataclass(frozen=True)
class GrpcMessage:
    """A message as drivers read and write it."""

    topic: str
    body: bytes
    tag: str | None = None
    keys: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    group: str | None = None
    deliver_at: int | None = None
    id: str = ""
    attempt: int = 0

    def to_json(self) -> dict[str, Any]:
        """What a driver is given to send."""
        return {
            "topic": self.topic,
            "body": base64.b64encode(self.body).decode(),
            "tag": self.tag,
            "keys": list(self.keys),
            "properties": dict(self.properties),
            "group": self.group,
            "deliverAt": self.deliver_at,
        }

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Self:
        """What a driver received."""
        return cls(
            topic=said["topic"],
            body=base64.b64decode(said["body"]),
            tag=said.get("tag") or None,
            keys=tuple(said.get("keys") or ()),
            properties=dict(said.get("properties") or {}),
            group=said.get("group") or None,
            deliver_at=said.get("deliverAt"),
            id=said["id"],
            attempt=said.get("attempt") or 0,
        )


class Told:
    """What the listener or the checker of one client told, in order."""

    def __init__(self) -> None:
        self._messages: list[GrpcMessage] = []
        self._changed = threading.Condition()

    def put(self, message: GrpcMessage) -> None:
        with self._changed:
            self._messages.append(message)
            self._changed.notify_all()

    @property
    def messages(self) -> list[GrpcMessage]:
        """What is there now."""
        with self._changed:
            return list(self._messages)

    def wait(self, count: int) -> list[GrpcMessage]:
        """Wait until there are so many."""
        with self._changed:
            arrived = self._changed.wait_for(lambda: len(self._messages) >= count, BOUND)
            bodies = [message.body[:40] for message in self._messages]
            assert arrived, f"{len(bodies)} of {count} messages arrived: {bodies}"
            return list(self._messages)


class GrpcDriver:
    """A running driver."""

    def __init__(self, command: Sequence[str], home: Path, **environ: str) -> None:
        self._errors = (home / "driver.log").open("ab")
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            encoding="utf-8",
            cwd=home,
            env={**os.environ, **environ},
        )
        self._numbers = itertools.count(1)
        self._asked: dict[int, Future[dict[str, Any]]] = {}
        self._told: dict[tuple[str, str], Told] = {}
        self._lock = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """Have a command done. Raises RefusedError when the library did."""
        future: Future[dict[str, Any]] = Future()
        with self._lock:
            number = next(self._numbers)
            self._asked[number] = future
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps({"id": number, "do": do, **arguments}) + "\n")
            self._process.stdin.flush()
        return future.result(BOUND)

    def told(self, client: str, event: str = "message") -> Told:
        """What a client tells of a kind, also before it is started."""
        with self._lock:
            return self._told.setdefault((client, event), Told())

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self._hear(json.loads(line))
        for future in self._asked.values():
            future.set_exception(RuntimeError("the driver ended; driver.log says more"))

    def _hear(self, said: dict[str, Any]) -> None:
        if "event" in said:
            self.told(said["client"], said["event"]).put(GrpcMessage.from_json(said["message"]))
            return
        future = self._asked.pop(said["id"])
        if "error" in said:
            future.set_exception(RefusedError(said["error"], said.get("code")))
        else:
            future.set_result(said["ok"])
