"""`Admin`: the operations behind mqadmin, for asyncio. Only its life is here; what it does is in the subjects."""

from typing import Unpack

from pyromq.client.admin.brokers import BrokerMethods
from pyromq.client.admin.clients import ClientMethods
from pyromq.client.admin.deadletters import DeadLetterMethods
from pyromq.client.admin.groups import GroupMethods
from pyromq.client.admin.messages import MessageMethods
from pyromq.client.admin.nameservers import NameServerMethods
from pyromq.client.admin.offsets import OffsetMethods
from pyromq.client.admin.reach import Reach
from pyromq.client.admin.topics import TopicMethods
from pyromq.client.admin.traces import TraceMethods
from pyromq.client.admin.users import UserMethods
from pyromq.client.clock import Clock
from pyromq.client.config import ClientConfig
from pyromq.client.errors import ClientError
from pyromq.client.instance import registry
from pyromq.client.instance.instance import ClientInstance
from pyromq.client.instance.transport import Transport
from pyromq.client.options import ClientOptions
from pyromq.client.state import Client, ServiceState, require

ADMIN_GROUP = "admin_ext_group"
TIMEOUT = 5.0


class Admin(
    TopicMethods,
    GroupMethods,
    OffsetMethods,
    ClientMethods,
    MessageMethods,
    DeadLetterMethods,
    TraceMethods,
    BrokerMethods,
    NameServerMethods,
    UserMethods,
    Client,
):
    """Administers a cluster: topics, groups, offsets, clients, messages, brokers, name servers.

        async with Admin(namesrv="127.0.0.1:9876") as admin:
            await admin.create_topic("orders", queues=16)
            print((await admin.lag("billing")).total)

    Options are the fields of `ClientConfig`, given by name or as `config`; `timeout` is that of one request. Names are
    those on the wire: topics and groups of a namespace are `namespace%name` here. Every call raises `ClientError` or
    one of its children, `PartialFailureError` when some of several brokers failed.
    """

    def __init__(
        self,
        *,
        namesrv: str | None = None,
        timeout: float = TIMEOUT,
        config: ClientConfig | None = None,
        clock: Clock | None = None,
        transport: Transport | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        if options.get("namespace"):
            raise ClientError("an admin client takes no namespace; give names as namespace%name")
        self.config = ClientConfig.told(config, namesrv, options).with_options(namespace=None)
        self.timeout = timeout
        self._clock = clock
        self._transport = transport

    async def start(self) -> None:
        """Join the client instance. Raises ServiceStateError unless it was just made, ClientError else."""
        require(self.state, ServiceState.CREATE_JUST, "admin client")
        self.state = ServiceState.START_FAILED
        running = registry.obtain(self.config, ADMIN_GROUP, clock=self._clock, transport=self._transport)
        try:
            running.register_admin(ADMIN_GROUP, self)
        except ClientError:
            self.state = ServiceState.CREATE_JUST
            raise
        try:
            await running.start()
        except BaseException:
            await self._leave(running)
            raise
        self._servers = Reach(running, self.timeout)
        self.state = ServiceState.RUNNING

    async def close(self) -> None:
        """Leave the client instance; does nothing when it is not running."""
        if self.state is not ServiceState.RUNNING:
            return
        self.state = ServiceState.SHUTDOWN_ALREADY
        await self._leave(self._servers.instance)

    @staticmethod
    async def _leave(instance: ClientInstance) -> None:
        instance.unregister_admin(ADMIN_GROUP)
        await instance.release()

    def _reach(self) -> Reach:
        require(self.state, ServiceState.RUNNING, "admin client")
        self._servers.instance.check_process()
        return self._servers
