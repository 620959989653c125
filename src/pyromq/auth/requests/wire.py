"""Rules and users between their own types and the bodies of requests, which are text throughout."""

import msgspec

from pyromq.auth.errors import AuthError
from pyromq.auth.rules import (
    Entry,
    PolicyType,
    Resource,
    Rules,
    action_names,
    parse_actions,
    parse_choice,
    parse_decision,
    parse_policy_type,
    parse_sources,
)
from pyromq.auth.users.access import User, UserStatus, UserType
from pyromq.protocol.bodies.auth import AclEntry, AclInfo, AclPolicy, UserInfo

SUBJECT = "User:"


class StoredEntry(msgspec.Struct, kw_only=True):
    """A rule as it is kept in files."""

    resource: str
    actions: list[str]
    decision: str
    sources: list[str] = []


def stored_entry(entry: Entry) -> StoredEntry:
    return StoredEntry(
        resource=str(entry.resource),
        actions=action_names(entry.actions),
        decision=entry.decision,
        sources=[each.text for each in entry.sources],
    )


def entry_from(stored: StoredEntry) -> Entry:
    """Raises AuthError."""
    return Entry(
        Resource.parse(stored.resource),
        parse_actions(stored.actions),
        parse_decision(stored.decision),
        parse_sources(stored.sources),
    )


def user_info(user: User) -> UserInfo:
    """What requests are told about a user: never the secret."""
    return UserInfo(username=user.name, user_type=user.type, user_status=user.status)


def user_type(text: str | None) -> UserType | None:
    """None when nothing was said. Raises AuthError."""
    return parse_choice(UserType, text, "user type") if text else None


def user_status(text: str | None) -> UserStatus | None:
    """None when nothing was said. Raises AuthError."""
    return parse_choice(UserStatus, text, "user status") if text else None


def acl_info(name: str, rules: Rules) -> AclInfo:
    """The body of an answer."""
    policies = [
        AclPolicy(policy_type=policy, entries=list(map(_info, rules.of(policy))))
        for policy in PolicyType
        if rules.of(policy)
    ]
    return AclInfo(subject=SUBJECT + name, policies=policies)


def _info(entry: Entry) -> AclEntry:
    return AclEntry(
        resource=str(entry.resource),
        actions=action_names(entry.actions),
        decision=entry.decision,
        source_ips=[each.text for each in entry.sources] or None,
    )


def entries_of(info: AclInfo) -> list[tuple[PolicyType, list[Entry]]]:
    """The rules in the body of a request. Raises AuthError when there are none, or one makes no sense."""
    found = [(parse_policy_type(policy.policy_type), [*map(_entry, policy.entries)]) for policy in info.policies]
    if not any(entries for _, entries in found):
        raise AuthError("the request holds no rules")
    return found


def _entry(info: AclEntry) -> Entry:
    return Entry(
        Resource.parse(info.resource or ""),
        parse_actions(info.actions),
        parse_decision(info.decision),
        parse_sources(info.source_ips or ()),
    )


def subject_name(subject: str | None) -> str:
    """The user in `User:name`. Raises AuthError."""
    if not subject or not subject.lower().startswith(SUBJECT.lower()):
        raise AuthError("the subject must be User:name")
    return subject[len(SUBJECT) :]
