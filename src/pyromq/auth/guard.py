"""`Guard`: between the transport and the handlers, it finds out who asks and whether they may.

Every request is verified by its own signature, as the protocol has it. Invariant: no handler behind a guard runs for a
request that is not allowed.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from pyromq.auth.audit import AuditLog
from pyromq.auth.authority import Authority, Busy
from pyromq.auth.errors import Denied
from pyromq.auth.needs import Need
from pyromq.auth.permissions import PERMISSIONS, SUPER, Permission
from pyromq.auth.users.access import Access, User
from pyromq.errors import PyroMQError
from pyromq.protocol.codes import ResponseCode, request_name, response_name
from pyromq.protocol.command import Command
from pyromq.protocol.signature import ACCESS_KEY, verify
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Answer, Handler, Outcome
from pyromq.remoting.handler import Deferred, Grouped, ManyHandler


class Guard(Authority):
    """Checks requests of connections; made as any `Authority` is."""

    on_super: Callable[[Command, Connection], None] | None = None
    """Told about each request of a super user, before it is served."""

    def table(self, handlers: Mapping[int, Handler]) -> dict[int, Handler]:
        """The same table behind this guard."""
        return {code: self._guarded(code, handler) for code, handler in handlers.items()}

    def check(self, request: Command, connection: Connection) -> list[Need]:
        """Find out whether a request may be served; returns what it needed. Raises Denied and Busy."""
        try:
            return self._check(request, connection)
        except Denied:
            if not self._look_again():
                raise
        return self._check(request, connection)

    def _check(self, request: Command, connection: Connection) -> list[Need]:
        permission = PERMISSIONS.get(request.code, SUPER)
        access = self._current()
        user = self._authenticate(request, access, connection)
        if connection.is_stranger:
            connection.introduce()
        self.admit(user.name)
        if user.is_super:
            if self.on_super is not None:
                self.on_super(request, connection)
            return self._touched(request, permission) if permission.administrative else []
        return self._permit(user, request, permission, access, connection.peer.host)

    def _touched(self, request: Command, permission: Permission) -> list[Need]:
        """What an administrator's request is about, for the audit log; what cannot be read is the handler's to say."""
        try:
            return [need for needs in permission.needs for need in needs(request, self._scene)]
        except PyroMQError:
            return []

    def _authenticate(self, request: Command, access: Access, connection: Connection) -> User:
        """Who signed the request. Raises Denied and Busy."""
        ext, host = request.ext, connection.peer.host
        key = ext.get(ACCESS_KEY)
        user = self._known(access, key, host)
        if user is not None and verify(ext, request.body, request.version, user.secret):
            self.stats.verified += 1
            return user
        raise self._unknown(key, host, stranger=connection.is_stranger, known=user is not None)

    def _guarded(self, code: int, handler: Handler) -> Handler:
        if isinstance(handler, Grouped):
            # No runs: whether a request may be served is seen in its fields.
            one, many = self._guarded(code, handler.one), handler.many
            return Grouped(one, self._all_allowed(many) if many is not None else None)
        administrative = self._audit is not None and PERMISSIONS.get(code, SUPER).administrative

        def serve(request: Command, connection: Connection) -> Outcome:
            try:
                needed = self.check(request, connection)
            except Busy as busy:
                answer = request.reply(ResponseCode.SYSTEM_BUSY, remark=str(busy))
                if not busy.cut_off:
                    return answer
                connection.send(answer)
                connection.close("too many failed attempts")
                return None
            except Denied as denied:
                self.note_denial(_claimed(request), str(connection.peer), request_name(request.code), denied)
                return request.reply(ResponseCode.NO_PERMISSION, remark=denied.remark)
            if administrative:
                return self._audited(handler, request, connection, needed)
            return handler(request, connection)

        return serve

    def _all_allowed(self, many: ManyHandler) -> ManyHandler:
        """Several requests at once if all of them may be served; otherwise each is looked at on its own."""

        def serve(requests: Sequence[Command], connection: Connection) -> bytes | Deferred | None:
            try:
                for request in requests:
                    self._check(request, connection)
            except PyroMQError:
                return None
            return many(requests, connection)

        return serve

    def _audited(self, handler: Handler, request: Command, connection: Connection, needed: list[Need]) -> Outcome:
        note = partial(self._note, request, connection, needed)
        return audited(handler, request, connection, note)

    def _note(self, request: Command, connection: Connection, needed: list[Need], result: str) -> None:
        if self._audit is not None:
            self._audit.done(
                user=_claimed(request),
                peer=str(connection.peer),
                request=request_name(request.code),
                resources=[*(str(need) for need in needed), *_users(request)],
                result=result,
            )


def audited(handler: Handler, request: Command, connection: Connection, note: Callable[[str], None]) -> Outcome:
    """Serve a request and tell `note` how it ended."""
    try:
        answer = handler(request, connection)
    except Exception as error:
        note(type(error).__name__)
        raise
    if inspect.isawaitable(answer):
        return _when_answered(answer, note)
    note(_result(answer))
    return answer


async def _when_answered(answer: Awaitable[Answer], note: Callable[[str], None]) -> Answer:
    try:
        result = await answer
    except Exception as error:
        note(type(error).__name__)
        raise
    note(_result(result))
    return result


def _result(answer: object) -> str:
    return response_name(answer.code) if isinstance(answer, Command) else "ANSWERED"


def _users(request: Command) -> list[str]:
    """The user that a request about users names."""
    named = [request.ext.get(field, "") for field in ("username", "subject", "accessKey")]
    return [name if name.startswith("User:") else f"User:{name}" for name in named if name]


def _claimed(request: Command) -> str:
    return request.ext.get(ACCESS_KEY, "")


class AuditOnly:
    """For servers without authentication: administrative requests are noted, nobody is kept out."""

    def __init__(self, audit: AuditLog) -> None:
        self._audit = audit

    def table(self, handlers: Mapping[int, Handler]) -> dict[int, Handler]:
        """The same table, the administrative part of it audited."""
        return {
            code: self._noting(handler) if PERMISSIONS.get(code, SUPER).administrative else handler
            for code, handler in handlers.items()
        }

    def _noting(self, handler: Handler) -> Handler:
        def serve(request: Command, connection: Connection) -> Outcome:
            def note(result: str) -> None:
                self._audit.done(
                    user="", peer=str(connection.peer), request=request_name(request.code), resources=(), result=result
                )

            return audited(handler, request, connection, note)

        return serve
