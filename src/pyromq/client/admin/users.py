"""Users and access rules of brokers that check them (RocketMQ 5)."""

from pyromq.client.admin.reach import Server, Subject, as_client_errors
from pyromq.client.errors import BrokerError
from pyromq.protocol.bodies.auth import AclInfo, UserInfo
from pyromq.protocol.bodies.base import decode_as
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
    AuthUpdateAclHeader,
    AuthUpdateUserHeader,
)
from pyromq.protocol.headers.base import Header
from pyromq.protocol.routes import MASTER_ID


class UserMethods(Subject):
    """What `Admin` does with users and rules. Questions go to one server (a broker, or any address).

    Changes go to one server too, or to all brokers of a cluster and to the name servers: each keeps its own users.
    """

    async def create_user(
        self,
        username: str,
        password: str,
        *,
        user_type: str = "Normal",
        broker: str | None = None,
        cluster: str | None = None,
    ) -> None:
        """Add a user; types are Normal and Super."""
        user = UserInfo(username=username, password=password, user_type=user_type)
        header = AuthCreateUserHeader(username=username)
        await self._tell(RequestCode.AUTH_CREATE_USER, header, user.encode(), broker, cluster)

    async def update_user(self, user: UserInfo, *, broker: str | None = None, cluster: str | None = None) -> None:
        """Change what is given of a user: password, type, status (`enable` or `disable`)."""
        header = AuthUpdateUserHeader(username=user.username)
        await self._tell(RequestCode.AUTH_UPDATE_USER, header, user.encode(), broker, cluster)

    async def delete_user(self, username: str, *, broker: str | None = None, cluster: str | None = None) -> None:
        """Remove a user."""
        await self._tell(RequestCode.AUTH_DELETE_USER, AuthDeleteUserHeader(username=username), b"", broker, cluster)

    async def user(self, username: str, *, broker: str) -> UserInfo | None:
        """A user as one broker knows it, or None."""
        reach = self._reach()
        header = AuthGetUserHeader(username=username)
        response = await reach.ask(await reach.master(broker), RequestCode.AUTH_GET_USER, header)
        with as_client_errors(broker):
            return UserInfo.decode(response.body) if response.body else None

    async def users(self, *, broker: str, name_contains: str | None = None) -> list[UserInfo]:
        """The users of one broker."""
        reach = self._reach()
        header = AuthListUserHeader(filter=name_contains)
        response = await reach.ask(await reach.master(broker), RequestCode.AUTH_LIST_USER, header)
        with as_client_errors(broker):
            return decode_as(list[UserInfo], response.body) if response.body else []

    async def create_acl(self, acl: AclInfo, *, broker: str | None = None, cluster: str | None = None) -> None:
        """Add rules of a subject (`User:name`)."""
        header = AuthCreateAclHeader(subject=acl.subject)
        await self._tell(RequestCode.AUTH_CREATE_ACL, header, acl.encode(), broker, cluster)

    async def update_acl(self, acl: AclInfo, *, broker: str | None = None, cluster: str | None = None) -> None:
        """Change rules of a subject."""
        header = AuthUpdateAclHeader(subject=acl.subject)
        await self._tell(RequestCode.AUTH_UPDATE_ACL, header, acl.encode(), broker, cluster)

    async def delete_acl(
        self,
        subject: str,
        *,
        resource: str | None = None,
        policy_type: str | None = None,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> None:
        """Remove the rules of a subject, all or those about one resource."""
        header = AuthDeleteAclHeader(subject=subject, resource=resource, policy_type=policy_type)
        await self._tell(RequestCode.AUTH_DELETE_ACL, header, b"", broker, cluster)

    async def acl(self, subject: str, *, broker: str) -> AclInfo | None:
        """The rules of a subject as one broker knows them, or None."""
        reach = self._reach()
        response = await reach.ask(
            await reach.master(broker), RequestCode.AUTH_GET_ACL, AuthGetAclHeader(subject=subject)
        )
        with as_client_errors(broker):
            return AclInfo.decode(response.body) if response.body else None

    async def acls(
        self, *, broker: str, subject_contains: str | None = None, resource_contains: str | None = None
    ) -> list[AclInfo]:
        """The rules of one broker."""
        reach = self._reach()
        header = AuthListAclHeader(subject_filter=subject_contains, resource_filter=resource_contains)
        response = await reach.ask(await reach.master(broker), RequestCode.AUTH_LIST_ACL, header)
        with as_client_errors(broker):
            return decode_as(list[AclInfo], response.body) if response.body else []

    async def _tell(
        self, code: RequestCode, header: Header, body: bytes, broker: str | None, cluster: str | None
    ) -> None:
        reach = self._reach()
        servers = await reach.masters(broker=broker, cluster=cluster)
        name_servers: list[Server] = []
        if broker is None:
            names = {server.name for server in servers}
            slaves = [
                Server(f"{data.broker_name} {number}", address)
                for data in (await reach.cluster()).broker_addr_table.values()
                for number, address in data.broker_addrs.items()
                if data.broker_name in names and number != MASTER_ID
            ]
            name_servers = [Server(address, address) for address in reach.instance.name_servers.addresses]
            servers = [*servers, *slaves, *name_servers]

        async def one(server: Server) -> None:
            if server not in name_servers:
                await reach.ask(server, code, header, body=body)
                return
            try:
                with as_client_errors(server.name):
                    await reach.instance.invoke(
                        server.address, Command.request(code, header, body=body), reach.timeout, broker=server.name
                    )
            except BrokerError as error:
                # Apache's name servers know no users, and ours none unless they are told to.
                if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    raise

        await reach.each("changing users or rules", servers, one)
