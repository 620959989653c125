"""Users and access control lists. Lists of them are JSON arrays: `decode_as(list[UserInfo], body)`.

Values stay text here: the broker checks them and answers with what is wrong.
"""

from typing import Annotated

from msgspec import field

from pyromq.protocol import bounds
from pyromq.protocol.bodies.base import Body
from pyromq.protocol.bounds import declared


class UserInfo(Body):
    """Types are Super and Normal, states enable and disable."""

    password: str | None = None
    user_status: str | None = None
    user_type: str | None = None
    username: str | None = None

    def __repr__(self) -> str:
        return f"UserInfo(username={self.username!r}, user_type={self.user_type!r}, user_status={self.user_status!r})"


class AclEntry(Body):
    """Who comes from `source_ips`, or anybody, may, or may not, do `actions` on `resource` (`Topic:t*`)."""

    actions: Annotated[list[str], declared(bounds.RULES)] = field(default_factory=list)
    decision: str | None = None
    resource: str | None = None
    source_ips: Annotated[list[str], declared(bounds.RULES)] | None = None


class AclPolicy(Body):
    entries: Annotated[list[AclEntry], declared(bounds.RULES)] = field(default_factory=list)
    policy_type: str | None = None


class AclInfo(Body):
    """What a subject (`User:name`) may do."""

    policies: Annotated[list[AclPolicy], declared(bounds.RULES)] = field(default_factory=list)
    subject: str | None = None


class PlainAccount(Body):
    """An account of RocketMQ 4's access control. The secret is never filled in by a server."""

    access_key: str | None = None
    admin: bool = False
    default_group_perm: str | None = None
    default_topic_perm: str | None = None
    group_perms: list[str] = field(default_factory=list)
    secret_key: str | None = None
    topic_perms: list[str] = field(default_factory=list)
    white_remote_address: str | None = None

    def __repr__(self) -> str:
        return f"PlainAccount(access_key={self.access_key!r}, admin={self.admin!r})"


class PlainAccounts(Body):
    """Answer of GET_BROKER_CLUSTER_ACL_CONFIG."""

    global_white_addrs: list[str] = field(default_factory=list)
    plain_access_configs: list[PlainAccount] = field(default_factory=list)
