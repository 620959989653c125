"""Admin commands about users and what they may do."""

import secrets
import sys
from pathlib import Path
from typing import Annotated

import typer

from pyromq.cli.admin.command import Session, Subject
from pyromq.cli.options import ArgumentsError, Broker, Cluster, Where, one_of
from pyromq.cli.output import Lines, Output, Record, Rows
from pyromq.client.errors import BrokerError, ClientError
from pyromq.protocol.bodies.auth import AclEntry, AclInfo, AclPolicy, UserInfo
from pyromq.protocol.codes import ResponseCode

commands = Subject("Users and rules")

User = Annotated[str, typer.Option("--username", "-u", help="Name of the user, which is its access key.")]
Password = Annotated[
    str | None,
    typer.Option(
        "--password",
        "-p",
        envvar="PYROMQ_USER_PASSWORD",
        show_envvar=False,
        help="Secret key; others can see it in the list of processes, so better leave it out, or use --passwordFile or "
        "the variable PYROMQ_USER_PASSWORD.",
    ),
]
PasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--passwordFile", metavar="path", help="File whose first line is the secret key; - reads it from stdin."
    ),
]
Type = Annotated[str | None, typer.Option("--userType", "-t", help="Normal, or Super for one who may do everything.")]
Folder = Annotated[
    Path | None,
    typer.Option(
        "--folder",
        metavar="path",
        help="Write into this folder of users (authConfigPath) instead of asking a server: for the first user.",
    ),
]
Subject_ = Annotated[str, typer.Option("--subject", "-s", help="Whose rules: User:name.")]
Resources = Annotated[str, typer.Option("--resources", "-r", help="Topic:name, Group:prefix*, Cluster:*, … by commas.")]
Actions = Annotated[str, typer.Option("--actions", "-a", help="Pub, Sub, Create, Update, Delete, Get, List, All.")]
Decision = Annotated[str, typer.Option("--decision", "-d", help="Allow or Deny.")]
Sources = Annotated[str | None, typer.Option("--sourceIp", "-i", help="Addresses it is about, by commas; else all.")]


@commands.command("createUser", "-u root --folder data/auth")
def create_user(
    session: Session,
    user: User,
    password: Password = None,
    kind: Type = None,
    broker: Broker = None,
    cluster: Cluster = None,
    folder: Folder = None,
    password_file: PasswordFile = None,
) -> Output:
    """Add a user; without a password one is made up and shown, once.

    The first user of a folder is a super user unless said otherwise. A running server sees it at once.
    """
    password = _given(password, password_file)
    secret = password or secrets.token_urlsafe(24)
    if folder is not None:
        if broker is not None or cluster is not None:
            raise ArgumentsError("give a folder, or a broker (-b) or cluster (-c), not both")
        kind = _create_in(folder, user, secret, kind)
    else:
        kind = kind or "Normal"
        _create_at(session, user, secret, kind, one_of(broker, cluster))
    if password is not None:
        return Lines([f"user {user} created ({kind})"], {"accessKey": user, "userType": kind})
    return Record({"accessKey": user, "secretKey": secret, "userType": kind})


def _given(password: str | None, file: Path | None) -> str | None:
    """The password as it is given, by value or in a file."""
    if file is None:
        return password
    if password is not None:
        raise ArgumentsError("give the password or a file with it, not both")
    try:
        text = sys.stdin.readline() if str(file) == "-" else file.read_text("utf-8").partition("\n")[0]
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentsError(f"the password cannot be read from {file}: {error}") from error
    if not text.strip():
        raise ArgumentsError(f"there is no password in the first line of {file}")
    return text.strip()


def _create_at(session: Session, name: str, secret: str, kind: str, where: Where) -> None:
    try:
        # Servers take the same user twice, since those that share their users are asked one after the other.
        if all([session.admin.user(name, broker=broker) is not None for broker in _each(session, where)] or [False]):
            raise ClientError(f"the user {name} exists already; updateUser changes it")
        session.admin.create_user(name, secret, user_type=kind, **where)
    except BrokerError as error:
        if error.code != ResponseCode.NO_PERMISSION:
            raise
        raise ClientError(
            f"{error}; sign as a super user (ROCKETMQ_CLIENT_KEYFILE), who is made first with createUser --folder"
        ) from None


def _create_in(folder: Path, name: str, secret: str, kind: str | None) -> str:
    from pyromq.auth.requests.wire import user_type  # noqa: PLC0415
    from pyromq.auth.users.access import User, UserType  # noqa: PLC0415 - --help needs none of it
    from pyromq.auth.users.store import AccessStore  # noqa: PLC0415

    store = AccessStore(folder)
    chosen = user_type(kind) or (UserType.NORMAL if store.access.users else UserType.SUPER)
    store.create_user(User(name, secret, chosen))
    return chosen


@commands.command("updateUser", "-u alice -s disable -c DefaultCluster")
def update_user(
    session: Session,
    user: User,
    password: Password = None,
    kind: Type = None,
    status: Annotated[str | None, typer.Option("--userStatus", "-s", help="enable or disable.")] = None,
    broker: Broker = None,
    cluster: Cluster = None,
    password_file: PasswordFile = None,
) -> Output:
    """Change a user's password, type or status."""
    password = _given(password, password_file)
    if password is None and kind is None and status is None:
        raise ArgumentsError("say what to change: -p, -t or -s")
    changed = UserInfo(username=user, password=password, user_type=kind, user_status=status)
    session.admin.update_user(changed, **one_of(broker, cluster))
    return Lines([f"user {user} changed"], {"accessKey": user})


@commands.command("deleteUser", "-u alice -c DefaultCluster")
def delete_user(session: Session, user: User, broker: Broker = None, cluster: Cluster = None) -> Output:
    """Remove a user and its rules."""
    session.admin.delete_user(user, **one_of(broker, cluster))
    return Lines([f"user {user} deleted"], {"accessKey": user})


@commands.command("getUser", "-u alice -b 127.0.0.1:10911")
def get_user(session: Session, user: User, broker: Broker = None, cluster: Cluster = None) -> Output:
    """Show a user, on one broker or on each master of a cluster; never its password."""
    found = [(name, session.admin.user(user, broker=name)) for name in _each(session, one_of(broker, cluster))]
    return _users([(name, info) for name, info in found if info is not None])


@commands.command("listUser", "-b 127.0.0.1:10911")
def list_users(
    session: Session,
    part: Annotated[str | None, typer.Option("--filter", "-f", help="Only names that contain this.")] = None,
    broker: Broker = None,
    cluster: Cluster = None,
) -> Output:
    """List users, on one broker or on each master of a cluster."""
    where = _each(session, one_of(broker, cluster))
    return _users([(name, info) for name in where for info in session.admin.users(broker=name, name_contains=part)])


@commands.command("createAcl", "-s User:alice -r Topic:orders -a Pub -d Allow -c DefaultCluster")
def create_acl(
    session: Session,
    subject: Subject_,
    resources: Resources,
    actions: Actions,
    decision: Decision,
    sources: Sources = None,
    broker: Broker = None,
    cluster: Cluster = None,
) -> Output:
    """Add rules of a user; one about the same resource is replaced."""
    acl = _acl(subject, resources, actions, decision, sources)
    session.admin.create_acl(acl, **one_of(broker, cluster))
    return Lines([f"rules of {subject} added"], {"subject": subject})


@commands.command("updateAcl", "-s User:alice -r Topic:orders -a Pub,Sub -d Allow -c DefaultCluster")
def update_acl(
    session: Session,
    subject: Subject_,
    resources: Resources,
    actions: Actions,
    decision: Decision,
    sources: Sources = None,
    broker: Broker = None,
    cluster: Cluster = None,
) -> Output:
    """Change rules of a user."""
    acl = _acl(subject, resources, actions, decision, sources)
    session.admin.update_acl(acl, **one_of(broker, cluster))
    return Lines([f"rules of {subject} changed"], {"subject": subject})


@commands.command("deleteAcl", "-s User:alice -r Topic:orders -c DefaultCluster")
def delete_acl(
    session: Session,
    subject: Subject_,
    resource: Annotated[str | None, typer.Option("--resources", "-r", help="Only the rule about this.")] = None,
    broker: Broker = None,
    cluster: Cluster = None,
) -> Output:
    """Remove rules of a user."""
    session.admin.delete_acl(subject, resource=resource, **one_of(broker, cluster))
    return Lines([f"rules of {subject} deleted"], {"subject": subject})


@commands.command("getAcl", "-s User:alice -b 127.0.0.1:10911")
def get_acl(session: Session, subject: Subject_, broker: Broker = None, cluster: Cluster = None) -> Output:
    """Show the rules of a user."""
    found = [session.admin.acl(subject, broker=name) for name in _each(session, one_of(broker, cluster))]
    return _rules([acl for acl in found if acl is not None])


@commands.command("listAcl", "-b 127.0.0.1:10911")
def list_acls(
    session: Session,
    subject: Annotated[str | None, typer.Option("--subject", "-s", help="Only subjects that contain this.")] = None,
    resource: Annotated[str | None, typer.Option("--resource", "-r", help="Only resources that contain this.")] = None,
    broker: Broker = None,
    cluster: Cluster = None,
) -> Output:
    """List rules."""
    found = []
    for name in _each(session, one_of(broker, cluster)):
        found += session.admin.acls(broker=name, subject_contains=subject, resource_contains=resource)
    return _rules(found)


@commands.command("copyAcl", "-f 127.0.0.1:10911 -t 127.0.0.2:10911")
def copy_acl(
    session: Session,
    source: Annotated[str, typer.Option("--fromBroker", "-f", help="Broker that has the rules.")],
    target: Annotated[str, typer.Option("--toBroker", "-t", help="Broker that is to have them.")],
    subjects: Annotated[str | None, typer.Option("--subjects", "-s", help="Whose, by commas; else all.")] = None,
) -> Output:
    """Copy rules from one broker to another, where the users exist already."""
    wanted = subjects.split(",") if subjects else None
    copied = []
    for acl in session.admin.acls(broker=source):
        if wanted is None or acl.subject in wanted:
            session.admin.create_acl(acl, broker=target)
            copied.append(acl.subject or "")
    return Lines([f"rules of {subject} copied" for subject in copied], copied)


def _each(session: Session, where: Where) -> list[str]:
    """The brokers to ask."""
    if where["broker"] is not None:
        return [where["broker"]]
    info = session.admin.cluster_info()
    return sorted(info.cluster_addr_table.get(where["cluster"] or "", []))


def _users(found: list[tuple[str, UserInfo]]) -> Rows:
    rows = [(broker, info.username, info.user_type, info.user_status) for broker, info in found]
    return Rows(("Broker", "User", "Type", "Status"), rows)


def _rules(acls: list[AclInfo]) -> Rows:
    rows = [
        (
            acl.subject,
            policy.policy_type,
            entry.resource,
            ",".join(entry.actions),
            ",".join(entry.source_ips or []),
            entry.decision,
        )
        for acl in acls
        for policy in acl.policies
        for entry in policy.entries
    ]
    return Rows(("Subject", "Policy", "Resource", "Actions", "Sources", "Decision"), rows)


def _acl(subject: str, resources: str, actions: str, decision: str, sources: str | None) -> AclInfo:
    entries = [
        AclEntry(
            resource=resource.strip(),
            actions=[action.strip() for action in actions.split(",")],
            source_ips=[source.strip() for source in (sources or "").split(",") if source.strip()],
            decision=decision,
        )
        for resource in resources.split(",")
    ]
    return AclInfo(subject=subject, policies=[AclPolicy(policy_type="Custom", entries=entries)])
