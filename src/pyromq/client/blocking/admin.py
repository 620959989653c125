"""`Admin` for threads. Each method is that of the asyncio one, with a wait around it: same arguments, same result."""

from typing import Unpack

from pyromq.client.admin.admin import TIMEOUT
from pyromq.client.admin.admin import Admin as AsyncAdmin
from pyromq.client.blocking.client import BlockingClient, waiting
from pyromq.client.config import ClientConfig
from pyromq.client.options import ClientOptions


class Admin(BlockingClient[AsyncAdmin]):
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
        **options: Unpack[ClientOptions],
    ) -> None:
        admin = AsyncAdmin(namesrv=namesrv, timeout=timeout, config=config, **options)
        super().__init__(admin, "admin client")

    @property
    def config(self) -> ClientConfig:
        return self._client.config

    def name_servers(self) -> tuple[str, ...]:
        """Addresses of the name servers this client uses."""
        self._running()
        return self._client.name_servers()

    create_topic = waiting(AsyncAdmin.create_topic)
    wait_for_topic = waiting(AsyncAdmin.wait_for_topic)
    create_topics = waiting(AsyncAdmin.create_topics)
    set_topic_permission = waiting(AsyncAdmin.set_topic_permission)
    topic_config = waiting(AsyncAdmin.topic_config)
    topic_configs = waiting(AsyncAdmin.topic_configs)
    delete_topic = waiting(AsyncAdmin.delete_topic)
    topic_stats = waiting(AsyncAdmin.topic_stats)
    topic_route = waiting(AsyncAdmin.topic_route)
    topics = waiting(AsyncAdmin.topics)
    system_topics = waiting(AsyncAdmin.system_topics)
    clusters_of_topic = waiting(AsyncAdmin.clusters_of_topic)
    groups_of_topic = waiting(AsyncAdmin.groups_of_topic)
    order_conf = waiting(AsyncAdmin.order_conf)
    set_order_conf = waiting(AsyncAdmin.set_order_conf)
    delete_order_conf = waiting(AsyncAdmin.delete_order_conf)

    create_group = waiting(AsyncAdmin.create_group)
    create_groups = waiting(AsyncAdmin.create_groups)
    group_config = waiting(AsyncAdmin.group_config)
    group_configs = waiting(AsyncAdmin.group_configs)
    groups = waiting(AsyncAdmin.groups)
    delete_group = waiting(AsyncAdmin.delete_group)
    group_may_read = waiting(AsyncAdmin.group_may_read)
    let_group_read = waiting(AsyncAdmin.let_group_read)
    set_request_mode = waiting(AsyncAdmin.set_request_mode)
    topics_of_group = waiting(AsyncAdmin.topics_of_group)
    subscription = waiting(AsyncAdmin.subscription)

    consume_stats = waiting(AsyncAdmin.consume_stats)
    lag = waiting(AsyncAdmin.lag)
    broker_consume_stats = waiting(AsyncAdmin.broker_consume_stats)
    consumer_offset = waiting(AsyncAdmin.consumer_offset)
    update_offset = waiting(AsyncAdmin.update_offset)
    reset_offsets = waiting(AsyncAdmin.reset_offsets)
    reset_offset = waiting(AsyncAdmin.reset_offset)
    skip_accumulated = waiting(AsyncAdmin.skip_accumulated)
    clone_offsets = waiting(AsyncAdmin.clone_offsets)
    consume_time_spans = waiting(AsyncAdmin.consume_time_spans)
    correction_offsets = waiting(AsyncAdmin.correction_offsets)

    consumer_connections = waiting(AsyncAdmin.consumer_connections)
    producer_connections = waiting(AsyncAdmin.producer_connections)
    producers = waiting(AsyncAdmin.producers)
    running_info = waiting(AsyncAdmin.running_info)
    consumer_status = waiting(AsyncAdmin.consumer_status)
    consume_directly = waiting(AsyncAdmin.consume_directly)
    message_track = waiting(AsyncAdmin.message_track)

    queues = waiting(AsyncAdmin.queues)
    search_offset = waiting(AsyncAdmin.search_offset)
    max_offset = waiting(AsyncAdmin.max_offset)
    min_offset = waiting(AsyncAdmin.min_offset)
    earliest_store_time = waiting(AsyncAdmin.earliest_store_time)
    view_message = waiting(AsyncAdmin.view_message)
    query_message = waiting(AsyncAdmin.query_message)
    messages_of_id = waiting(AsyncAdmin.messages_of_id)
    message_at = waiting(AsyncAdmin.message_at)
    messages = waiting(AsyncAdmin.messages)
    queue_entries = waiting(AsyncAdmin.queue_entries)
    resume_half_message = waiting(AsyncAdmin.resume_half_message)

    dead_letters = waiting(AsyncAdmin.dead_letters)
    export_dead_letters = waiting(AsyncAdmin.export_dead_letters)
    redrive = waiting(AsyncAdmin.redrive)

    message_trace = waiting(AsyncAdmin.message_trace)

    cluster_info = waiting(AsyncAdmin.cluster_info)
    broker_status = waiting(AsyncAdmin.broker_status)
    broker_config = waiting(AsyncAdmin.broker_config)
    update_broker_config = waiting(AsyncAdmin.update_broker_config)
    broker_stats = waiting(AsyncAdmin.broker_stats)
    clean_expired_queues = waiting(AsyncAdmin.clean_expired_queues)
    delete_expired_logs = waiting(AsyncAdmin.delete_expired_logs)
    clean_unused_topics = waiting(AsyncAdmin.clean_unused_topics)
    ha_status = waiting(AsyncAdmin.ha_status)
    broker_epochs = waiting(AsyncAdmin.broker_epochs)
    reset_master_flush_offset = waiting(AsyncAdmin.reset_master_flush_offset)
    cold_data_info = waiting(AsyncAdmin.cold_data_info)
    set_cold_data_limits = waiting(AsyncAdmin.set_cold_data_limits)
    remove_cold_data_limit = waiting(AsyncAdmin.remove_cold_data_limit)
    set_read_ahead = waiting(AsyncAdmin.set_read_ahead)

    name_server_config = waiting(AsyncAdmin.name_server_config)
    update_name_server_config = waiting(AsyncAdmin.update_name_server_config)
    put_kv = waiting(AsyncAdmin.put_kv)
    get_kv = waiting(AsyncAdmin.get_kv)
    delete_kv = waiting(AsyncAdmin.delete_kv)
    list_kv = waiting(AsyncAdmin.list_kv)
    wipe_write_permission = waiting(AsyncAdmin.wipe_write_permission)
    add_write_permission = waiting(AsyncAdmin.add_write_permission)

    create_user = waiting(AsyncAdmin.create_user)
    update_user = waiting(AsyncAdmin.update_user)
    delete_user = waiting(AsyncAdmin.delete_user)
    user = waiting(AsyncAdmin.user)
    users = waiting(AsyncAdmin.users)
    create_acl = waiting(AsyncAdmin.create_acl)
    update_acl = waiting(AsyncAdmin.update_acl)
    delete_acl = waiting(AsyncAdmin.delete_acl)
    acl = waiting(AsyncAdmin.acl)
    acls = waiting(AsyncAdmin.acls)
