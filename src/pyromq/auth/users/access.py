"""Users, and the picture of all of them that requests are checked against. Pictures are replaced, never changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pyromq.auth.addresses import AddressRange
from pyromq.auth.errors import AuthError
from pyromq.auth.rules import Rules

MAX_USERNAME = 64
MIN_SECRET = 6
MAX_SECRET = 256


class UserType(StrEnum):
    """Super users may do everything; the others what rules allow."""

    SUPER = "Super"
    NORMAL = "Normal"


class UserStatus(StrEnum):
    """A disabled user is refused like an unknown one."""

    ENABLE = "enable"
    DISABLE = "disable"


@dataclass(frozen=True, slots=True)
class Credentials:
    """An access key and its secret, as clients use them."""

    access_key: str
    secret_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class User:
    """The access key is the user's name. `sources` only narrows where the user may come from."""

    name: str
    secret: str = field(repr=False)
    type: UserType = UserType.NORMAL
    status: UserStatus = UserStatus.ENABLE
    sources: tuple[AddressRange, ...] = ()

    @property
    def is_super(self) -> bool:
        return self.type is UserType.SUPER

    @property
    def is_enabled(self) -> bool:
        return self.status is UserStatus.ENABLE


@dataclass(frozen=True, slots=True)
class Access:
    """Users by name, and their rules."""

    users: Mapping[str, User] = field(default_factory=dict)
    rules: Mapping[str, Rules] = field(default_factory=dict)

    def over(self, other: "Access") -> "Access":
        """Both together; a user of this one hides one of the same name in the other, rules included."""
        hidden = {name: rules for name, rules in other.rules.items() if name not in self.users}
        return Access({**other.users, **self.users}, {**hidden, **self.rules})


def check_username(name: str) -> None:
    """Raises AuthError: letters, digits and `_.-@` only, so that no name can forge a log line or a path."""
    if not 0 < len(name) <= MAX_USERNAME or not all(
        each.isascii() and (each.isalnum() or each in "_.-@") for each in name
    ):
        raise AuthError(f"a user name has 1 to {MAX_USERNAME} letters, digits or any of _.-@")


def check_secret(secret: str) -> None:
    """Raises AuthError, which does not show the secret."""
    if not MIN_SECRET <= len(secret) <= MAX_SECRET or not secret.isprintable() or secret != secret.strip():
        raise AuthError(f"a password has {MIN_SECRET} to {MAX_SECRET} printable characters, no blank at either end")
