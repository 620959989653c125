"""`Guard`: between the transport and the handlers, it finds out who asks and whether they may.

Every request is verified by its own signature, as the protocol has it; what a user may do with a resource is decided
once and remembered until users or rules change. Invariant: no handler behind a guard runs for a request that is not
allowed, and a code that has no row in the permission table is for super users only.
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from pyromq.auth.addresses import is_from
from pyromq.auth.audit import AuditLog
from pyromq.auth.errors import Denied
from pyromq.auth.needs import Need, Scene
from pyromq.auth.permissions import PERMISSIONS, SUPER, Permission
from pyromq.auth.rules import Action, Decision, Kind, Rules, judge
from pyromq.auth.users.access import Access, User
from pyromq.errors import PyroMQError
from pyromq.protocol.codes import ResponseCode, request_name, response_name
from pyromq.protocol.command import Command
from pyromq.protocol.signature import ACCESS_KEY, verify
from pyromq.remoting.accept.rates import TokenBuckets
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Answer, Handler, Outcome
from pyromq.remoting.handler import Deferred, Grouped, ManyHandler

REMEMBERED: Final = 65_536
NOT_KNOWN: Final = "authentication failed: unknown access key, disabled user or wrong signature"
NO_KEY: Final = "authentication is needed: the request has no AccessKey (set access and secret key in the client)"
NO_RULES: Final = Rules()


@dataclass(slots=True)
class GuardStats:
    """Counters, written on the event loop."""

    verified: int = 0
    unauthenticated: int = 0
    unauthorized: int = 0
    limited: int = 0


class Guard:
    """Checks requests against the users and rules that `access()` returns.

    Without `authorization` every known user may do everything but change users. `rates` bounds the requests of a user,
    `failures` the attempts of an address that failed. `look_again` is asked for news before somebody is turned away.
    """

    def __init__(
        self,
        access: Callable[[], Access],
        scene: Scene,
        *,
        authorization: bool = True,
        audit: AuditLog | None = None,
        rates: TokenBuckets | None = None,
        failures: TokenBuckets | None = None,
        look_again: Callable[[], bool] = lambda: False,
    ) -> None:
        self._access = access
        self._scene = scene
        self._authorization = authorization
        self._audit = audit
        self._rates = rates
        self.failures = failures
        self._look_again = look_again
        self._decided_for: Access | None = None
        self._allowed: set[tuple[str, str, Need]] = set()
        self.stats = GuardStats()
        self.on_super: Callable[[Command, Connection], None] | None = None
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
        host = connection.peer.host
        access = self._access()
        if access is not self._decided_for:
            self._allowed.clear()
            self._decided_for = access
        user = self._authenticate(request, access, connection)
        if connection.is_stranger:
            connection.introduce()
        if self._rates is not None and not self._rates.take(user.name):
            self.stats.limited += 1
            raise Busy(f"user {user.name} sends more requests than userRequestRate allows: try again later")
        if user.is_super:
            if self.on_super is not None:
                self.on_super(request, connection)
            return self._touched(request, permission) if permission.administrative else []
        if permission.super_only:
            self.stats.unauthorized += 1
            raise Denied(f"{request_name(request.code)} is for super users only", "not a super user")
        if not self._authorization:
            return []
        needed = [need for needs in permission.needs for need in needs(request, self._scene)]
        for need in needed:
            self._authorize(user, need, access, host)
        return needed

    def _touched(self, request: Command, permission: Permission) -> list[Need]:
        """What an administrator's request is about, for the audit log; what cannot be read is the handler's to say."""
        try:
            return [need for needs in permission.needs for need in needs(request, self._scene)]
        except PyroMQError:
            return []

    def _authenticate(self, request: Command, access: Access, connection: Connection) -> User:
        """Who signed the request. Failures are counted after the look at the signature: an address that fails too often
        hears no reasons any more and is cut off, but who signs well there is let in."""
        ext, host = request.ext, connection.peer.host
        key = ext.get(ACCESS_KEY)
        user = access.users.get(key) if key else None
        if user is not None and user.is_enabled and is_from(host, user.sources):
            if verify(ext, request.body, request.version, user.secret):
                self.stats.verified += 1
                return user
            reason = "wrong signature"
        elif not key:
            reason = "no access key"
        else:
            reason = "unknown user" if user is None else "user disabled, or not from this address"
        self.stats.unauthenticated += 1
        if self.failures is not None and not self.failures.take(host) and connection.is_stranger:
            self.stats.limited += 1
            raise Busy("too many failed attempts from this address: try again later", cut_off=True)
        raise Denied(NOT_KNOWN if key else NO_KEY, reason)

    def may(self, name: str, need: Need, host: str) -> bool:
        """Whether a user, who proved at some time who they are, is allowed something now."""
        return self._is_free(name) or self._judged(name, need, self._access(), host) is Decision.ALLOW

    def may_some(self, name: str, kind: str, actions: int, host: str) -> bool:
        """Whether a user is allowed this on any resource of a kind."""
        if self._is_free(name):
            return True
        rules, wanted = self._access().rules.get(name, NO_RULES), Action(actions)
        return any(
            entry.decision is Decision.ALLOW
            and entry.resource.kind in (Kind.ANY, kind)
            and bool(entry.actions & wanted)
            and is_from(host, entry.sources)
            for entry in (*rules.custom, *rules.default)
        )

    def _is_free(self, name: str) -> bool:
        """Whether no rule binds a user; one who is not known any more is bound by all."""
        user = self._access().users.get(name)
        return user is not None and user.is_enabled and (user.is_super or not self._authorization)

    def _judged(self, name: str, need: Need, access: Access, host: str) -> Decision | None:
        entry = judge(access.rules.get(name, NO_RULES), Kind(need.kind), need.name, Action(need.actions), host)
        return None if entry is None else entry.decision

    def _authorize(self, user: User, need: Need, access: Access, host: str) -> None:
        decision = (user.name, host, need)
        if decision in self._allowed:
            return
        judged = self._judged(user.name, need, access, host)
        if judged is not Decision.ALLOW:
            self.stats.unauthorized += 1
            why = "no matched policies" if judged is None else "the decision is deny"
            raise Denied(f"User:{user.name} has no permission to access {need} from {host}, {why}.")
        if len(self._allowed) >= REMEMBERED:
            self._allowed.clear()
        self._allowed.add(decision)

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
                self._note_denial(request, connection, denied)
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

    def _note_denial(self, request: Command, connection: Connection, denied: Denied) -> None:
        if self._audit is not None:
            self._audit.denied(
                user=_claimed(request),
                peer=str(connection.peer),
                request=request_name(request.code),
                reason=str(denied),
            )

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


class Busy(PyroMQError):  # noqa: N818 - the name says what happened
    """A user or an address asks too often. With `cut_off`, so badly that its connection is to end."""

    def __init__(self, message: str, *, cut_off: bool = False) -> None:
        super().__init__(message)
        self.cut_off = cut_off


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
