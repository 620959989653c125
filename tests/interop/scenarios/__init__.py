"""The scenarios of the matrix for our own clients, by the names that all drivers use."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from tests.interop.scenarios import administration, consuming, delivery, operations, sending
from tests.interop.scenarios.stage import Stage, stage
from tests.interop.servers import Cluster

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

DISTURBING = ("restartNamesrv", "restartBroker", "killBroker")
"""They restart servers, which no other scenario should have to live with."""

AT_ONCE = 6


def play(cluster: Cluster, scenarios: Iterable[str]) -> dict[str, Exception | None]:
    """What each scenario raised, if anything; those that only wait most of the time run beside each other."""
    names = list(scenarios)
    calm = [name for name in names if name not in DISTURBING]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        faults = dict(zip(calm, pool.map(lambda name: _fault(cluster, name), calm), strict=True))
    return faults | {name: _fault(cluster, name) for name in names if name in DISTURBING}


def _fault(cluster: Cluster, name: str) -> Exception | None:
    try:
        with stage(cluster, name) as here:
            BY_NAME[name](here)
    except Exception as fault:  # noqa: BLE001 - whatever it is, it is the outcome
        return fault
    return None
