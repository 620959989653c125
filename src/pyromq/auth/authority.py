"""`Authority`: who a caller is by a signature, and what a user may do by the rules. It knows no transport.

What a user may do with a resource is decided once and remembered until users or rules change. Invariant: a code that
has no row in the permission table is for super users only.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyromq.auth.addresses import is_from
from pyromq.auth.audit import AuditLog
from pyromq.auth.errors import Denied
from pyromq.auth.needs import Need, Scene
from pyromq.auth.permissions import PERMISSIONS, SUPER, Permission
from pyromq.auth.rules import Action, Decision, Kind, Rules, judge
from pyromq.auth.users.access import Access, User
from pyromq.errors import PyroMQError
from pyromq.protocol.codes import request_name
from pyromq.protocol.command import Command
from pyromq.remoting.accept.rates import TokenBuckets

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


class Busy(PyroMQError):  # noqa: N818 - the name says what happened
    """A user or an address asks too often. With `cut_off`, so badly that its connection is to end."""

    def __init__(self, message: str, *, cut_off: bool = False) -> None:
        super().__init__(message)
        self.cut_off = cut_off


class Authority:
    """Goes by the users and rules that `access()` returns.

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

    @property
    def access(self) -> Access:
        """The users and rules that hold now; another object as soon as one of them has changed."""
        return self._access()

    def authenticate(self, key: str, host: str, proves: Callable[[str], bool], *, stranger: bool) -> str:
        """The user with this access key, if `proves` says that their secret made the signature. Raises Denied and Busy.

        A `stranger` has not proved on this connection who they are.
        """
        try:
            return self._authenticated(key, host, proves, stranger=stranger)
        except Denied:
            if not self._look_again():
                raise
        return self._authenticated(key, host, proves, stranger=stranger)

    def admit(self, name: str) -> None:
        """Count a request of a user who is known. Raises Busy when there are more of them than may be."""
        if self._rates is not None and not self._rates.take(name):
            self.stats.limited += 1
            raise Busy(f"user {name} sends more requests than userRequestRate allows: try again later")

    def permit(self, name: str, request: Command, host: str) -> None:
        """Raise Denied unless a user, who proved who they are, may ask for this."""
        try:
            self._permit_by_name(name, request, host)
        except Denied:
            if not self._look_again():
                raise
            self._permit_by_name(name, request, host)

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

    def note_denial(self, user: str, peer: str, request: str, denied: Denied) -> None:
        """Put a refusal into the audit log, if there is one."""
        if self._audit is not None:
            self._audit.denied(user=user, peer=peer, request=request, reason=str(denied))

    def _current(self) -> Access:
        """Users and rules as they are now; what was decided by others is forgotten."""
        access = self._access()
        if access is not self._decided_for:
            self._allowed.clear()
            self._decided_for = access
        return access

    def _authenticated(self, key: str, host: str, proves: Callable[[str], bool], *, stranger: bool) -> str:
        user = self._known(self._current(), key, host)
        if user is None or not proves(user.secret):
            raise self._unknown(key, host, stranger=stranger, known=user is not None)
        self.stats.verified += 1
        self.admit(user.name)
        return user.name

    def _permit_by_name(self, name: str, request: Command, host: str) -> None:
        access = self._current()
        user = access.users.get(name)
        if user is None or not user.is_enabled:
            self.stats.unauthorized += 1
            raise Denied(NOT_KNOWN, "the user is gone or disabled")
        if not user.is_super:
            self._permit(user, request, PERMISSIONS.get(request.code, SUPER), access, host)

    @staticmethod
    def _known(access: Access, key: str | None, host: str) -> User | None:
        """The user who may come with this key from there."""
        user = access.users.get(key) if key else None
        return user if user is not None and user.is_enabled and is_from(host, user.sources) else None

    def _unknown(self, key: str | None, host: str, *, stranger: bool, known: bool) -> Denied | Busy:
        """The failure of who did not prove who they are. Counted after the look at the signature: an address that fails
        too often hears no reasons any more and is cut off, but who signs well there is let in."""
        if known:
            reason = "wrong signature"
        elif not key:
            reason = "no access key"
        else:
            reason = "user disabled, or not from this address" if key in self._access().users else "unknown user"
        self.stats.unauthenticated += 1
        if self.failures is not None and not self.failures.take(host) and stranger:
            self.stats.limited += 1
            return Busy("too many failed attempts from this address: try again later", cut_off=True)
        return Denied(NOT_KNOWN if key else NO_KEY, reason)

    def _permit(self, user: User, request: Command, permission: Permission, access: Access, host: str) -> list[Need]:
        """What a request of a user who is not super needs, if all of it is allowed. Raises Denied."""
        if permission.super_only:
            self.stats.unauthorized += 1
            raise Denied(f"{request_name(request.code)} is for super users only", "not a super user")
        if not self._authorization:
            return []
        needed = [need for needs in permission.needs for need in needs(request, self._scene)]
        for need in needed:
            self._authorize(user, need, access, host)
        return needed

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
