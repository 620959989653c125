"""The scenarios of the matrix for our own clients, by the names that all drivers use."""

from collections.abc import Callable

from tests.interop.scenarios import administration, consuming, delivery, operations, sending
from tests.interop.scenarios.stage import Stage

BY_NAME: dict[str, Callable[[Stage], None]] = {
    "sync": sending.sync,
    "async": sending.asynchronous,
    "oneway": sending.oneway,
    "batch": sending.batch,
    "selector": sending.selector,
    "queue": sending.queue,
    "compression": sending.compression,
    "properties": sending.properties,
    "large": sending.large,
    "namespace": sending.namespace,
    "tags": consuming.tags,
    "sql92": consuming.sql92,
    "concurrent": consuming.concurrent,
    "orderly": consuming.orderly,
    "broadcast": consuming.broadcast,
    "litePull": consuming.lite_pull,
    "litePullAssign": consuming.lite_pull_assign,
    "sharing": consuming.sharing,
    "pop": consuming.pop,
    "delayLevel": delivery.delay_level,
    "timed": delivery.timed,
    "transaction": delivery.transaction,
    "retry": delivery.retry,
    "deadLetter": delivery.dead_letter,
    "requestReply": delivery.request_reply,
    "query": administration.query,
    "offsets": administration.offsets,
    "offsetReset": administration.offset_reset,
    "trace": administration.trace,
    "aclOff": operations.acl_off,
    "restartNamesrv": operations.restart_name_server,
    "restartBroker": operations.restart_broker,
    "killBroker": operations.kill_broker,
}
