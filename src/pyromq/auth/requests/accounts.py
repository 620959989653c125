"""Requests about the accounts of RocketMQ 4, on the users and rules of RocketMQ 5. No answer holds a secret."""

from pyromq.auth.errors import AuthError
from pyromq.auth.needs import Scene
from pyromq.auth.requests.users import Changing, answering
from pyromq.auth.rules import Action, Decision, Entry, Kind, Pattern, PolicyType, Rules
from pyromq.auth.users import plainacl
from pyromq.auth.users.access import User
from pyromq.auth.users.directory import Directory
from pyromq.auth.users.store import AccessStore
from pyromq.protocol.bodies.auth import PlainAccount, PlainAccounts
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import Command
from pyromq.protocol.headers.auth import (
    DeleteAclConfigHeader,
    GetBrokerClusterAclInfoResponseHeader,
    UpdateAndCreateAclConfigHeader,
)
from pyromq.remoting.endpoint import Handler


class AccountRequests:
    """Handlers of one server."""

    def __init__(self, directory: Directory, store: AccessStore, scene: Scene) -> None:
        self._directory = directory
        self._store = store
        self._scene = scene

    def handlers(self) -> dict[int, Handler]:
        """The request codes served here."""
        changing = Changing(self._directory)
        return {
            RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: changing(self._put),
            RequestCode.DELETE_ACL_CONFIG: changing(self._delete),
            RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: answering(self._white_list),
            RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG: answering(self._all),
            RequestCode.GET_BROKER_CLUSTER_ACL_INFO: answering(self._version),
        }

    def _put(self, request: Command) -> Command:
        header = request.header(UpdateAndCreateAclConfigHeader)
        known = self._directory.access.users.get(header.access_key)
        account: dict[str, object] = {
            "accessKey": header.access_key,
            "secretKey": header.secret_key or (known.secret if known is not None else ""),
            "whiteRemoteAddress": header.white_remote_address or "",
            "admin": "true" if header.admin else "false",
            "defaultTopicPerm": header.default_topic_perm or "",
            "defaultGroupPerm": header.default_group_perm or "",
            "topicPerms": [each for each in (header.topic_perms or "").split(",") if each],
            "groupPerms": [each for each in (header.group_perms or "").split(",") if each],
        }
        access = plainacl.parse({"accounts": [account]})
        self._store.put_user(access.users[header.access_key], access.rules[header.access_key])
        return request.reply()

    def _delete(self, request: Command) -> Command:
        self._store.delete_user(request.header(DeleteAclConfigHeader).access_key)
        return request.reply()

    @staticmethod
    def _white_list(_request: Command) -> Command:
        raise AuthError("there is no global white list here: no address replaces a signature")

    def _all(self, request: Command) -> Command:
        access = self._directory.access
        accounts = [_account(user, access.rules.get(name, Rules())) for name, user in sorted(access.users.items())]
        return request.reply(body=PlainAccounts(plain_access_configs=accounts).encode())

    def _version(self, request: Command) -> Command:
        version = self._directory.version.encode().decode()
        header = GetBrokerClusterAclInfoResponseHeader(
            version=version,
            all_acl_file_version=f'{{"users.json":{version}}}',
            broker_name=self._scene.name,
            broker_addr=self._scene.address(),
            cluster_name=self._scene.cluster,
        )
        return request.reply(header=header)


def _account(user: User, rules: Rules) -> PlainAccount:
    return PlainAccount(
        access_key=user.name,
        admin=user.is_super,
        white_remote_address=";".join(each.text for each in user.sources),
        default_topic_perm=_default(rules, Kind.TOPIC),
        default_group_perm=_default(rules, Kind.GROUP),
        topic_perms=_permissions(rules, Kind.TOPIC),
        group_perms=_permissions(rules, Kind.GROUP),
    )


def _default(rules: Rules, kind: Kind) -> str:
    found = [entry for entry in rules.of(PolicyType.DEFAULT) if entry.resource.kind is kind]
    return _permission(found[0]) if found else "DENY"


def _permissions(rules: Rules, kind: Kind) -> list[str]:
    return [
        f"{entry.resource.name}={_permission(entry)}"
        for entry in rules.of(PolicyType.CUSTOM)
        if entry.resource.kind is kind and entry.resource.pattern is Pattern.LITERAL
    ]


def _permission(entry: Entry) -> str:
    names = [name for name, action in (("PUB", Action.PUB), ("SUB", Action.SUB)) if entry.actions & action]
    return "|".join(names) if names and entry.decision is Decision.ALLOW else "DENY"
