"""`Admin` for threads. Each method is that of the asyncio one, with a wait around it: same arguments, same result."""

import functools
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from pyromq.client.admin.admin import TIMEOUT
from pyromq.client.admin.admin import Admin as AsyncAdmin
from pyromq.client.blocking import loop as background
from pyromq.client.config import ClientConfig
from pyromq.client.errors import ServiceStateError
from pyromq.client.state import ServiceState

P = ParamSpec("P")
R = TypeVar("R")


def _waiting(
    method: Callable[Concatenate[AsyncAdmin, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate["Admin", P], R]:
    """The method for threads."""

    @functools.wraps(method)
    def call(self: "Admin", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._running().call(lambda: method(self._admin, *args, **kwargs))

    return call


class Admin:
    """Administers a cluster: topics, groups, offsets, clients, messages, brokers, name servers.

        with Admin(namesrv="127.0.0.1:9876") as admin:
            admin.create_topic("orders", queues=16)
            print(admin.lag("billing").total)

    Options are the fields of `ClientConfig`, given by name or as `config`; `timeout` is that of one request. Threads
    may share it. See `pyromq.aio.Admin`.
    """

    def __init__(
        self,
        *,
        namesrv: str | None = None,
        timeout: float = TIMEOUT,
        config: ClientConfig | None = None,
        **options: Any,
    ) -> None:
        self._admin = AsyncAdmin(namesrv=namesrv, timeout=timeout, config=config, **options)
        self._loop: background.BackgroundLoop | None = None
        self._life = threading.Lock()

    @property
    def config(self) -> ClientConfig:
        return self._admin.config

    @property
    def state(self) -> ServiceState:
        return self._admin.state

    def start(self) -> None:
        """Join the client instance. Raises ServiceStateError unless it was just made, ClientError else."""
        with self._life:
            loop = self._loop or background.acquire()
            try:
                loop.call(self._admin.start)
            except BaseException:
                if self._loop is None:
                    background.release(loop)
                raise
            self._loop = loop

    def close(self) -> None:
        """Leave the client instance; does nothing when it is not running."""
        with self._life:
            loop, self._loop = self._loop, None
            if loop is None:
                return
            loop.check_process()
            try:
                loop.call(self._admin.close)
            finally:
                background.release(loop)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def name_servers(self) -> tuple[str, ...]:
        """Addresses of the name servers this client uses."""
        self._running()
        return self._admin.name_servers()

    def _running(self) -> background.BackgroundLoop:
        loop = self._loop
        if loop is None:
            raise ServiceStateError(f"admin client is {self.state}: start() it, or use it in a with block")
        loop.check_process()
        return loop

    # -- topics

    create_topic = _waiting(AsyncAdmin.create_topic)
    wait_for_topic = _waiting(AsyncAdmin.wait_for_topic)
    create_topics = _waiting(AsyncAdmin.create_topics)
    set_topic_permission = _waiting(AsyncAdmin.set_topic_permission)
    topic_config = _waiting(AsyncAdmin.topic_config)
    topic_configs = _waiting(AsyncAdmin.topic_configs)
    delete_topic = _waiting(AsyncAdmin.delete_topic)
    topic_stats = _waiting(AsyncAdmin.topic_stats)
    topic_route = _waiting(AsyncAdmin.topic_route)
    topics = _waiting(AsyncAdmin.topics)
    system_topics = _waiting(AsyncAdmin.system_topics)
    clusters_of_topic = _waiting(AsyncAdmin.clusters_of_topic)
    groups_of_topic = _waiting(AsyncAdmin.groups_of_topic)
    order_conf = _waiting(AsyncAdmin.order_conf)
    set_order_conf = _waiting(AsyncAdmin.set_order_conf)
    delete_order_conf = _waiting(AsyncAdmin.delete_order_conf)

    # -- groups

    create_group = _waiting(AsyncAdmin.create_group)
    create_groups = _waiting(AsyncAdmin.create_groups)
    group_config = _waiting(AsyncAdmin.group_config)
    group_configs = _waiting(AsyncAdmin.group_configs)
    groups = _waiting(AsyncAdmin.groups)
    delete_group = _waiting(AsyncAdmin.delete_group)
    group_may_read = _waiting(AsyncAdmin.group_may_read)
    let_group_read = _waiting(AsyncAdmin.let_group_read)
    set_request_mode = _waiting(AsyncAdmin.set_request_mode)
    topics_of_group = _waiting(AsyncAdmin.topics_of_group)
    subscription = _waiting(AsyncAdmin.subscription)

    # -- offsets

    consume_stats = _waiting(AsyncAdmin.consume_stats)
    lag = _waiting(AsyncAdmin.lag)
    broker_consume_stats = _waiting(AsyncAdmin.broker_consume_stats)
    consumer_offset = _waiting(AsyncAdmin.consumer_offset)
    update_offset = _waiting(AsyncAdmin.update_offset)
    reset_offsets = _waiting(AsyncAdmin.reset_offsets)
    reset_offset = _waiting(AsyncAdmin.reset_offset)
    skip_accumulated = _waiting(AsyncAdmin.skip_accumulated)
    clone_offsets = _waiting(AsyncAdmin.clone_offsets)
    consume_time_spans = _waiting(AsyncAdmin.consume_time_spans)
    correction_offsets = _waiting(AsyncAdmin.correction_offsets)

    # -- clients

    consumer_connections = _waiting(AsyncAdmin.consumer_connections)
    producer_connections = _waiting(AsyncAdmin.producer_connections)
    producers = _waiting(AsyncAdmin.producers)
    running_info = _waiting(AsyncAdmin.running_info)
    consumer_status = _waiting(AsyncAdmin.consumer_status)
    consume_directly = _waiting(AsyncAdmin.consume_directly)
    message_track = _waiting(AsyncAdmin.message_track)

    # -- messages

    queues = _waiting(AsyncAdmin.queues)
    search_offset = _waiting(AsyncAdmin.search_offset)
    max_offset = _waiting(AsyncAdmin.max_offset)
    min_offset = _waiting(AsyncAdmin.min_offset)
    earliest_store_time = _waiting(AsyncAdmin.earliest_store_time)
    view_message = _waiting(AsyncAdmin.view_message)
    query_message = _waiting(AsyncAdmin.query_message)
    messages_of_id = _waiting(AsyncAdmin.messages_of_id)
    message_at = _waiting(AsyncAdmin.message_at)
    messages = _waiting(AsyncAdmin.messages)
    queue_entries = _waiting(AsyncAdmin.queue_entries)
    resume_half_message = _waiting(AsyncAdmin.resume_half_message)

    # -- dead letters

    dead_letters = _waiting(AsyncAdmin.dead_letters)
    export_dead_letters = _waiting(AsyncAdmin.export_dead_letters)
    redrive = _waiting(AsyncAdmin.redrive)

    # -- traces

    message_trace = _waiting(AsyncAdmin.message_trace)

    # -- brokers

    cluster_info = _waiting(AsyncAdmin.cluster_info)
    broker_status = _waiting(AsyncAdmin.broker_status)
    broker_config = _waiting(AsyncAdmin.broker_config)
    update_broker_config = _waiting(AsyncAdmin.update_broker_config)
    broker_stats = _waiting(AsyncAdmin.broker_stats)
    clean_expired_queues = _waiting(AsyncAdmin.clean_expired_queues)
    delete_expired_logs = _waiting(AsyncAdmin.delete_expired_logs)
    clean_unused_topics = _waiting(AsyncAdmin.clean_unused_topics)
    ha_status = _waiting(AsyncAdmin.ha_status)
    broker_epochs = _waiting(AsyncAdmin.broker_epochs)
    reset_master_flush_offset = _waiting(AsyncAdmin.reset_master_flush_offset)
    cold_data_info = _waiting(AsyncAdmin.cold_data_info)
    set_cold_data_limits = _waiting(AsyncAdmin.set_cold_data_limits)
    remove_cold_data_limit = _waiting(AsyncAdmin.remove_cold_data_limit)
    set_read_ahead = _waiting(AsyncAdmin.set_read_ahead)

    # -- name servers

    name_server_config = _waiting(AsyncAdmin.name_server_config)
    update_name_server_config = _waiting(AsyncAdmin.update_name_server_config)
    put_kv = _waiting(AsyncAdmin.put_kv)
    get_kv = _waiting(AsyncAdmin.get_kv)
    delete_kv = _waiting(AsyncAdmin.delete_kv)
    list_kv = _waiting(AsyncAdmin.list_kv)
    wipe_write_permission = _waiting(AsyncAdmin.wipe_write_permission)
    add_write_permission = _waiting(AsyncAdmin.add_write_permission)

    # -- users and rules

    create_user = _waiting(AsyncAdmin.create_user)
    update_user = _waiting(AsyncAdmin.update_user)
    delete_user = _waiting(AsyncAdmin.delete_user)
    user = _waiting(AsyncAdmin.user)
    users = _waiting(AsyncAdmin.users)
    create_acl = _waiting(AsyncAdmin.create_acl)
    update_acl = _waiting(AsyncAdmin.update_acl)
    delete_acl = _waiting(AsyncAdmin.delete_acl)
    acl = _waiting(AsyncAdmin.acl)
    acls = _waiting(AsyncAdmin.acls)
