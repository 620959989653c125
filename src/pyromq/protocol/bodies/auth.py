"""Users and access control lists. Lists of them are JSON arrays: `decode_as(list[UserInfo], body)`.

Values stay text here: the broker checks them and answers with what is wrong.
"""

from msgspec import field

from pyromq.protocol.bodies.base import Body


class UserInfo(Body):
    """Types are Super and Normal, states enable and disable."""

    password: str | None = None
    user_status: str | None = None
    user_type: str | None = None
    username: str | None = None

    def __repr__(self) -> str:
        return f"UserInfo(username={self.username!r}, user_type={self.user_type!r}, user_status={self.user_status!r})"


class AclEntry(Body):
    """Who comes from `source_ips` may, or may not, do `actions` on `resource` (`Topic:t*`)."""

    actions: list[str] = field(default_factory=list)
    decision: str | None = None
    resource: str | None = None
    source_ips: list[str] = field(default_factory=list)


class AclPolicy(Body):
    entries: list[AclEntry] = field(default_factory=list)
    policy_type: str | None = None


class AclInfo(Body):
    """What a subject (`User:name`) may do."""

    policies: list[AclPolicy] = field(default_factory=list)
    subject: str | None = None
