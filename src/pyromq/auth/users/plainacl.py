"""Apache's `plain_acl.yml` of RocketMQ 4, read as it is and turned into users and rules. Nothing is ever written to it.

An account's white list narrows here: the account may only come from there. Apache instead lets everybody in from those
addresses without a signature, which is a hole; the global white list, which means nothing else, is therefore ignored.
"""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from pyromq.auth.errors import AuthError
from pyromq.auth.rules import ALL, Action, Decision, Entry, Kind, Pattern, Resource, Rules, parse_sources
from pyromq.auth.users.access import Access, User, UserType, check_secret, check_username

log = logging.getLogger(__name__)

MAX_FILE = 4 << 20
MAX_FILES = 100
_ALLOWED = {"PUB": Action.PUB, "SUB": Action.SUB, "ANY": Action.PUB | Action.SUB}
_OTHERS = 0o077


class PlainAcl:
    """The accounts in one file, or in all `*.yml` of a folder; an absent one has none. Raises AuthError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: object = None
        self.access = Access()
        self.refresh()

    def refresh(self) -> bool:
        """Read again if something changed; whether it did. Raises AuthError, and keeps what it has."""
        files = self._files()
        seen = [(file, facts.st_mtime_ns, facts.st_size) for file, facts in ((file, file.stat()) for file in files)]
        if seen == self._seen:
            return False
        access = Access()
        for file in files:
            access = _read(file).over(access)
        self.access = access
        self._seen = seen
        return True

    def _files(self) -> list[Path]:
        if not self._path.is_dir():
            return [self._path] if self._path.exists() else []
        files = sorted([*self._path.glob("*.yml"), *self._path.glob("*.yaml")])
        if len(files) > MAX_FILES:
            raise AuthError(f"{self._path} holds {len(files)} files, more than {MAX_FILES}")
        return files


def _read(file: Path) -> Access:
    try:
        facts = file.stat()
        if facts.st_size > MAX_FILE:
            raise AuthError(f"{file} has more than {MAX_FILE} bytes")
        # The base loader makes texts of everything, so a secret of digits stays what was written.
        content = yaml.load(file.read_text("utf-8"), Loader=yaml.BaseLoader)  # noqa: S506 - it makes texts, no objects
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        # What the parser complains about may quote a secret: only where it is gets out.
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}" if mark is not None else ""
        raise AuthError(f"cannot read {file}{place}: {type(error).__name__}") from None
    if facts.st_mode & _OTHERS:
        log.warning("%s holds secrets, but others than its owner can read it: chmod 600 it", file)
    if not facts.st_size:
        raise AuthError(f"{file} is empty: restore it, or delete it if there are to be no accounts")
    try:
        return parse(content)
    except AuthError as error:
        raise AuthError(f"{file}: {error}") from None


def parse(content: object) -> Access:
    """Users and rules out of the parsed file. Raises AuthError."""
    if not content:
        return Access()
    if not isinstance(content, Mapping):
        raise AuthError("the file must begin with names such as accounts")
    if content.get("globalWhiteRemoteAddresses"):
        log.warning("globalWhiteRemoteAddresses is ignored: here no address replaces a signature")
    users: dict[str, User] = {}
    rules: dict[str, Rules] = {}
    for number, account in enumerate(_list(content, "accounts"), 1):
        if not isinstance(account, Mapping):
            raise AuthError(f"account {number} is no account")
        try:
            user = _user(account)
            rules[user.name] = _rules(account)
        except AuthError as error:
            raise AuthError(f"account {number}: {error}") from None
        users[user.name] = user
    return Access(users, rules)


def _user(account: Mapping[str, object]) -> User:
    name, secret = _text(account, "accessKey"), _text(account, "secretKey")
    check_username(name)
    check_secret(secret)
    kind = UserType.SUPER if _text(account, "admin").lower() == "true" else UserType.NORMAL
    white = _text(account, "whiteRemoteAddress")
    return User(name, secret, kind, sources=parse_sources(white.split(";") if ";" in white else [white]))


def _rules(account: Mapping[str, object]) -> Rules:
    custom = [
        *(_entry(Kind.TOPIC, text) for text in _list(account, "topicPerms")),
        *(_entry(Kind.GROUP, text) for text in _list(account, "groupPerms")),
    ]
    default = [
        Entry(Resource(kind), actions, Decision.ALLOW)
        for kind, field in ((Kind.TOPIC, "defaultTopicPerm"), (Kind.GROUP, "defaultGroupPerm"))
        if (actions := _actions(_text(account, field) or "DENY"))
    ]
    return Rules(tuple(custom), tuple(default))


def _entry(kind: Kind, text: object) -> Entry:
    name, equals, permission = str(text).partition("=")
    if not equals or not name.strip():
        raise AuthError(f"{str(text)[:100]!r} must read name=PUB|SUB or name=DENY")
    resource = Resource(kind, Pattern.LITERAL, name.strip())
    actions = _actions(permission)
    return Entry(resource, actions, Decision.ALLOW) if actions else Entry(resource, ALL, Decision.DENY)


def _actions(text: str) -> Action:
    """No action means DENY."""
    found = Action(0)
    for word in text.strip().upper().split("|"):
        if word.strip() == "DENY":
            return Action(0)
        if word.strip() not in _ALLOWED:
            raise AuthError(f"{text[:40]!r} is no permission; there are DENY, PUB, SUB and PUB|SUB")
        found |= _ALLOWED[word.strip()]
    return found


def _text(account: Mapping[str, object], field: str) -> str:
    value = account.get(field)
    if value is None or isinstance(value, str):
        return (value or "").strip()
    raise AuthError(f"{field} must be a text")


def _list(content: Mapping[str, object], field: str) -> Iterable[object]:
    value = content.get(field)
    if not value:
        return ()
    if not isinstance(value, list):
        raise AuthError(f"{field} must be a list")
    return value
