"""`Gate`: the directory, the guard, the audit log and the requests about users of one server, put together."""

from collections.abc import Callable, Mapping
from pathlib import Path

from pyromq.auth.audit import AuditLog
from pyromq.auth.guard import AuditOnly, Guard
from pyromq.auth.needs import Scene
from pyromq.auth.requests.accounts import AccountRequests
from pyromq.auth.requests.users import UserRequests
from pyromq.auth.settings import AuthSettings
from pyromq.auth.users.access import Access, User, UserType
from pyromq.auth.users.directory import Directory
from pyromq.auth.users.plainacl import PlainAcl
from pyromq.auth.users.store import AccessStore
from pyromq.remoting.accept.rates import TokenBuckets
from pyromq.remoting.endpoint import Handler

FAILURES_PER_SECOND = 5.0
FAILURES_AT_ONCE = 50.0


class Gate:
    """Made by `AuthSettings.gate`. Wrap every handler with `table`, call `tick` every couple of seconds."""

    def __init__(self, config: AuthSettings, folder: Path, scene: Scene, clock: Callable[[], int]) -> None:
        self._scene = scene
        path = config.audit_log_path or folder / "audit.log"
        self.audit = AuditLog(path, max_size=config.audit_log_size, keep=config.audit_log_files, clock=clock)
        self.directory: Directory | None = None
        self.guard: Guard | None = None
        if config.is_authenticated:
            self.directory = _directory(config, folder)
            self.guard = self._guard(config, self.directory)

    def table(self, handlers: Mapping[int, Handler]) -> dict[int, Handler]:
        """The same handlers, behind the checks."""
        return self.guard.table(handlers) if self.guard is not None else AuditOnly(self.audit).table(handlers)

    def handlers(self) -> dict[int, Handler]:
        """Requests about users and rules; they go through `table` like all others."""
        directory = self.directory
        if directory is None:
            return {}
        store = directory.store
        accounts = AccountRequests(directory, store, self._scene)
        return UserRequests(directory, store).handlers() | accounts.handlers()

    def tick(self) -> None:
        """Take in users and rules that changed on disk."""
        if self.directory is not None:
            self.directory.refresh()

    def close(self) -> None:
        """Nothing more is noted."""
        self.audit.close()

    def _guard(self, config: AuthSettings, directory: Directory) -> Guard:
        def access() -> Access:
            return directory.access

        rate = config.user_request_rate
        return Guard(
            access,
            self._scene,
            authorization=config.authorization_enabled or config.acl_enable,
            audit=self.audit,
            rates=TokenBuckets(rate, 2 * rate) if rate else None,
            failures=TokenBuckets(FAILURES_PER_SECOND, FAILURES_AT_ONCE),
            look_again=directory.look_again,
        )


def _directory(config: AuthSettings, folder: Path) -> Directory:
    store = AccessStore(folder)
    first = config.first_user()
    if first is not None and not store.access.users:
        store.create_user(User(first.access_key, first.secret_key, UserType.SUPER))
    plain = PlainAcl(config.plain_acl_path or folder / "plain_acl.yml") if config.acl_enable else None
    return Directory(store, plain, config.inner_credentials())
