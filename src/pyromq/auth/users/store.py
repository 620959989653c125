"""`AccessStore`: users and rules of one server, in `users.json` with secrets sealed, and in memory.

Invariants: what is in memory was on disk first; and no older copy is kept, or a user who was deleted could be back.
Files are written whole and for their owner only. The command line may change them beside a running server: each change
is made under a lock on the file as it is then, and the server looks for changes from time to time. Blocks; requests
only read `access`, which is replaced in one step.
"""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec

from pyromq import disk, durable
from pyromq.auth.errors import AuthError
from pyromq.auth.requests.wire import StoredEntry, entry_from, stored_entry
from pyromq.auth.rules import Entry, PolicyType, Resource, Rules, parse_sources
from pyromq.auth.users.access import Access, User, UserStatus, UserType, check_secret, check_username
from pyromq.auth.users.seal import Seal, check_private
from pyromq.configfile import DamagedFileError, backup_of, read_whole
from pyromq.protocol.errors import BodyError

MAX_USERS = 10_000
MAX_FILE = 64 << 20
_WAYS_OUT = (
    "and an older copy could bring back users who were deleted: restore users.json from a backup you trust, "
    "or move everything named users.json away to begin without users"
)


class _StoredUser(msgspec.Struct, kw_only=True, rename="camel"):
    name: str
    secret: str
    type: UserType
    status: UserStatus
    sources: list[str] = []
    custom: list[StoredEntry] = []
    default: list[StoredEntry] = []


class _StoredAccess(msgspec.Struct):
    users: list[_StoredUser] = []


class AccessStore:
    """Users and rules in a folder. Reads them when made. Raises AuthError."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "users.json"
        self._lock_path = folder / "users.lock"
        self._seal = Seal(folder / "users.key")
        self._sealed: dict[str, tuple[str, str]] = {}
        self._seen: tuple[int, ...] = ()
        self.access = Access()
        self.refresh()

    def refresh(self) -> bool:
        """Read the file if it is another than before; whether it was. Raises AuthError, and keeps what it has."""
        seen = _identity(self._path)
        if seen == self._seen:
            return False
        self.access = self._read()
        self._seen = seen
        return True

    def create_user(self, user: User) -> None:
        """Raises AuthError when there is another of that name: servers that share a folder may all be asked."""
        check_username(user.name)
        check_secret(user.secret)

        def change(access: Access) -> Access:
            if access.users.get(user.name, user) != user:
                raise AuthError(f"the user {user.name} exists already")
            if len(access.users) >= MAX_USERS:
                raise AuthError(f"there are {MAX_USERS} users, the limit")
            return Access({**access.users, user.name: user}, access.rules)

        self._change(change)

    def update_user(
        self, name: str, *, secret: str | None = None, kind: UserType | None = None, status: UserStatus | None = None
    ) -> None:
        """Change what is given. Raises AuthError when there is no such user."""
        if secret is not None:
            check_secret(secret)

        def change(access: Access) -> Access:
            known = _existing(access, name)
            changed = replace(
                known, secret=secret or known.secret, type=kind or known.type, status=status or known.status
            )
            return Access({**access.users, name: changed}, access.rules)

        self._change(change)

    def put_user(self, user: User, rules: Rules) -> None:
        """Create a user with its rules, or replace both."""
        check_username(user.name)
        check_secret(user.secret)

        def change(access: Access) -> Access:
            if user.name not in access.users and len(access.users) >= MAX_USERS:
                raise AuthError(f"there are {MAX_USERS} users, the limit")
            return Access({**access.users, user.name: user}, {**access.rules, user.name: rules})

        self._change(change)

    def delete_user(self, name: str) -> None:
        """Remove a user and its rules; nothing happens when there is none."""

        def change(access: Access) -> Access:
            return Access(
                {key: user for key, user in access.users.items() if key != name},
                {key: rules for key, rules in access.rules.items() if key != name},
            )

        self._change(change)

    def add_rules(self, name: str, policy: PolicyType, entries: list[Entry]) -> None:
        """Add rules or replace those about the same resource. Raises AuthError when there is no such user."""

        def change(access: Access) -> Access:
            _existing(access, name)
            rules = access.rules.get(name, Rules()).with_entries(policy, entries)
            return Access(access.users, {**access.rules, name: rules})

        self._change(change)

    def delete_rules(self, name: str, policy: PolicyType, resource: Resource | None) -> None:
        """Remove the rule about a resource, or all of that type. Raises AuthError when there is no such user."""

        def change(access: Access) -> Access:
            _existing(access, name)
            rules = access.rules.get(name, Rules()).without(policy, resource)
            others = {key: known for key, known in access.rules.items() if key != name}
            return Access(access.users, {**others, name: rules} if rules != Rules() else others)

        self._change(change)

    def _change(self, change: Callable[[Access], Access]) -> None:
        with self._exclusively():
            self.refresh()
            changed = change(self.access)
            try:
                durable.write_file(self._path, self._encode(changed))
                backup_of(self._path).unlink(missing_ok=True)
            except OSError as error:
                raise AuthError(f"the users could not be written: {error.strerror}") from error
            self._seen = _identity(self._path)
            self.access = changed

    @contextlib.contextmanager
    def _exclusively(self) -> Iterator[None]:
        descriptor = os.open(self._lock_path, os.O_RDWR | os.O_CREAT, disk.FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _encode(self, access: Access) -> bytes:
        users = []
        for user in access.users.values():
            rules = access.rules.get(user.name, Rules())
            stored = _StoredUser(
                name=user.name,
                secret=self._close(user.name, user.secret),
                type=user.type,
                status=user.status,
                sources=[each.text for each in user.sources],
                custom=list(map(stored_entry, rules.custom)),
                default=list(map(stored_entry, rules.default)),
            )
            users.append(stored)
        return msgspec.json.format(msgspec.json.encode(_StoredAccess(users)), indent=2)

    def _close(self, name: str, secret: str) -> str:
        """The sealed form of a user's secret; the one it has as long as that does not change."""
        known, sealed = self._sealed.get(name, ("", ""))
        if known != secret:
            sealed = self._seal.close(secret)
            self._sealed[name] = (secret, sealed)
        return sealed

    def _open(self, name: str, sealed: str) -> str:
        secret, known = self._sealed.get(name, ("", ""))
        if known != sealed:
            secret = self._seal.open(sealed)
            self._sealed[name] = (secret, sealed)
        return secret

    def _read(self) -> Access:
        try:
            if self._path.exists():
                check_private(self._path)
                if self._path.stat().st_size > MAX_FILE:
                    raise AuthError(f"{self._path} has more than {MAX_FILE} bytes")
            stored = read_whole(self._path, _decode)
        except (OSError, DamagedFileError) as error:
            raise AuthError(f"cannot read the users, {_WAYS_OUT}: {error}") from error
        if stored is None:
            old = backup_of(self._path)
            if old.exists():
                raise AuthError(f"{self._path} is missing though {old.name} is there, {_WAYS_OUT}")
            stored = _StoredAccess()
        users = {
            each.name: User(
                each.name, self._open(each.name, each.secret), each.type, each.status, parse_sources(each.sources)
            )
            for each in stored.users
        }
        rules = {
            each.name: Rules(tuple(map(entry_from, each.custom)), tuple(map(entry_from, each.default)))
            for each in stored.users
        }
        return Access(users, {name: each for name, each in rules.items() if each != Rules()})


def _decode(data: bytes) -> _StoredAccess:
    try:
        return msgspec.json.decode(data, type=_StoredAccess)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise BodyError(f"not a list of users: {error}") from None


def _existing(access: Access, name: str) -> User:
    user = access.users.get(name)
    if user is None:
        raise AuthError(f"there is no user {name}")
    return user


def _identity(path: Path) -> tuple[int, ...]:
    """What tells one version of a file from the next."""
    try:
        facts = path.stat()
    except FileNotFoundError:
        return (0,)
    return facts.st_ino, facts.st_mtime_ns, facts.st_size
