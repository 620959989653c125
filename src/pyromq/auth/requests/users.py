"""Requests about users and rules, those of RocketMQ 5.

Invariant: no answer ever holds a secret, not even for super users. The files are written in a thread, so that nobody
waits for a disk but who asked.
"""

import asyncio
from collections.abc import Callable

from pyromq.auth.errors import AuthError
from pyromq.auth.requests.wire import acl_info, entries_of, subject_name, user_info, user_status, user_type
from pyromq.auth.rules import Resource, parse_policy_type
from pyromq.auth.users.access import User, UserStatus, UserType
from pyromq.auth.users.directory import Directory
from pyromq.auth.users.store import AccessStore
from pyromq.protocol.bodies.auth import AclInfo, UserInfo
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.auth import (
    AuthCreateAclHeader,
    AuthCreateUserHeader,
    AuthDeleteAclHeader,
    AuthDeleteUserHeader,
    AuthGetAclHeader,
    AuthGetUserHeader,
    AuthListAclHeader,
    AuthListUserHeader,
    AuthUpdateUserHeader,
)
from pyromq.protocol.lenient import dumps
from pyromq.remoting.connection import Connection
from pyromq.remoting.endpoint import Handler

Work = Callable[[Command], Command]


class UserRequests:
    """Handlers of one server. Changes go to its store; what comes from `plain_acl.yml` is shown but not changed."""

    def __init__(self, directory: Directory, store: AccessStore) -> None:
        self._directory = directory
        self._store = store

    def handlers(self) -> dict[int, Handler]:
        """The request codes served here."""
        changing = Changing(self._directory)
        return {
            RequestCode.AUTH_CREATE_USER: changing(self._create_user),
            RequestCode.AUTH_UPDATE_USER: changing(self._update_user),
            RequestCode.AUTH_DELETE_USER: changing(self._delete_user),
            RequestCode.AUTH_GET_USER: answering(self._get_user),
            RequestCode.AUTH_LIST_USER: answering(self._list_users),
            RequestCode.AUTH_CREATE_ACL: changing(self._put_acl),
            RequestCode.AUTH_UPDATE_ACL: changing(self._put_acl),
            RequestCode.AUTH_DELETE_ACL: changing(self._delete_acl),
            RequestCode.AUTH_GET_ACL: answering(self._get_acl),
            RequestCode.AUTH_LIST_ACL: answering(self._list_acls),
        }

    def _create_user(self, request: Command) -> Command:
        name = _named(request.header(AuthCreateUserHeader).username)
        info = UserInfo.of_request(request.body)
        user = User(
            name,
            info.password or "",
            user_type(info.user_type) or UserType.NORMAL,
            user_status(info.user_status) or UserStatus.ENABLE,
        )
        known = self._directory.access.users.get(name)
        if known == user:
            return request.reply()  # asked twice, as by an administrator of two servers that share a folder
        if known is not None:
            raise AuthError(f"the user {name} exists already")
        self._store.create_user(user)
        return request.reply()

    def _update_user(self, request: Command) -> Command:
        name = _named(request.header(AuthUpdateUserHeader).username)
        info = UserInfo.of_request(request.body)
        self._store.update_user(
            name,
            secret=info.password or None,
            kind=user_type(info.user_type),
            status=user_status(info.user_status),
        )
        return request.reply()

    def _delete_user(self, request: Command) -> Command:
        self._store.delete_user(_named(request.header(AuthDeleteUserHeader).username))
        return request.reply()

    def _get_user(self, request: Command) -> Command:
        user = self._directory.access.users.get(_named(request.header(AuthGetUserHeader).username))
        return request.reply(body=user_info(user).encode() if user is not None else b"")

    def _list_users(self, request: Command) -> Command:
        part = request.header(AuthListUserHeader).filter or ""
        found = [user_info(user) for name, user in sorted(self._directory.access.users.items()) if part in name]
        return request.reply(body=dumps(found) if found else b"")

    def _put_acl(self, request: Command) -> Command:
        info = AclInfo.of_request(request.body)
        name = subject_name(request.header(AuthCreateAclHeader).subject or info.subject)
        for policy, entries in entries_of(info):
            self._store.add_rules(name, policy, entries)
        return request.reply()

    def _delete_acl(self, request: Command) -> Command:
        header = request.header(AuthDeleteAclHeader)
        resource = Resource.parse(header.resource) if header.resource else None
        self._store.delete_rules(subject_name(header.subject), parse_policy_type(header.policy_type), resource)
        return request.reply()

    def _get_acl(self, request: Command) -> Command:
        name = subject_name(request.header(AuthGetAclHeader).subject)
        rules = self._directory.access.rules.get(name)
        return request.reply(body=acl_info(name, rules).encode() if rules is not None else b"")

    def _list_acls(self, request: Command) -> Command:
        header = request.header(AuthListAclHeader)
        found = []
        for name, rules in sorted(self._directory.access.rules.items()):
            info = acl_info(name, rules)
            if header.resource_filter:
                for policy in info.policies:
                    policy.entries = [
                        each for each in policy.entries if header.resource_filter in (each.resource or "")
                    ]
                info.policies = [policy for policy in info.policies if policy.entries]
            if info.policies and (header.subject_filter or "") in (info.subject or ""):
                found.append(info)
        return request.reply(body=dumps(found) if found else b"")


class Changing:
    """Makes handlers of functions that change the store: one at a time, in a thread, then everybody sees it."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._one = asyncio.Lock()

    def __call__(self, work: Work) -> Handler:
        async def serve(request: Command, _connection: Connection) -> Command:
            async with self._one:
                answer = await asyncio.to_thread(_refusing, work, request)
                self._directory.merge()
            return answer

        return serve


def answering(work: Work) -> Handler:
    """A handler of a function that only reads."""

    def serve(request: Command, _connection: Connection) -> Command:
        return _refusing(work, request)

    return serve


def _refusing(work: Work, request: Command) -> Command:
    try:
        return work(request)
    except AuthError as error:
        return request.reply(ResponseCode.INVALID_PARAMETER, remark=str(error))


def _named(name: str | None) -> str:
    if not name:
        raise AuthError("The username is blank")
    return name
