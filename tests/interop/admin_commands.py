"""The commands of mqadmin that are compared, and the workload that gives them something to show.

Each command is a list of arguments in which `{broker}`, `{id}`, … stand for what only the running cluster knows. They
run in this order against Apache's servers and ours, after the same workload, with the same consumers online.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from pyromq import Admin, ClientError, ConsumeFromWhere, Message, MessageQueue, Producer, PushConsumer
from tests.interop.mqadmin import MqAdmin
from tests.interop.scenarios.stage import Inbox, eventually
from tests.interop.servers import Cluster

TOPIC = "orders"
GROUP = "billing"
PRODUCER = "shop"
BROKER = "broker-a"
CLUSTER = "DefaultCluster"

PREPARATION = (
    f"updateTopic -c {CLUSTER} -t {TOPIC} -r 4 -w 4",
    f"updateTopic -c {CLUSTER} -t sorted -r 2 -w 2 -o true",
    f"updateSubGroup -c {CLUSTER} -g {GROUP} -r 5",
)

COMMANDS = (
    # topics
    "topicList", "topicList -c", f"topicRoute -t {TOPIC}", f"topicRoute -t {TOPIC} -l", f"topicStatus -t {TOPIC}",
    f"topicClusterList -t {TOPIC}", f"updateTopicPerm -c {CLUSTER} -t {TOPIC} -p 4",
    f"updateTopicPerm -b {{broker}} -t {TOPIC} -p 6", "updateOrderConf -t sorted -m get",
    f"updateOrderConf -t sorted -m put -v {BROKER}:1", "updateOrderConf -t sorted -m get",
    "updateOrderConf -t sorted -m delete", "updateTopic -b {broker} -t extra -r 1 -w 1 -a +message.type=FIFO",
    f"updateTopicList -c {CLUSTER} -f {{topics}}", f"allocateMQ -t {TOPIC} -i 10.0.0.1,10.0.0.2",
    # brokers
    "clusterList", "clusterList -m", "brokerStatus -b {broker}", "getBrokerConfig -b {broker}",
    "updateBrokerConfig -b {broker} -k traceOn -v false", "brokerConsumeStats -b {broker}",
    "haStatus -b {broker}", "getBrokerEpoch -b {broker}", "cleanExpiredCQ -b {broker}",
    "cleanUnusedTopic -b {broker}", "deleteExpiredCommitLog -b {broker}",
    "sendMsgStatus -b {name} -c 2",
    # groups and clients
    f"consumerProgress -g {GROUP}", f"consumerProgress -g {GROUP} -t {TOPIC} -s true", "consumerProgress",
    f"consumerConnection -g {GROUP}", f"producerConnection -g {PRODUCER} -t {TOPIC}", "producer -b {broker}",
    f"consumerStatus -g {GROUP}", f"consumerStatus -g {GROUP} -i {{client}}", f"getConsumerConfig -g {GROUP}",
    f"setConsumeMode -c {CLUSTER} -t {TOPIC} -g {GROUP} -m PULL -q 0",
    "updateSubGroup -b {broker} -g other -s true -m false -d false -q 2 -r 3",
    f"updateSubGroupList -c {CLUSTER} -f {{groups}}",
    # messages
    f"queryMsgById -i {{offsetId}} -t {TOPIC}", f"queryMsgByKey -t {TOPIC} -k order-1",
    f"queryMsgByUniqueKey -i {{id}} -t {TOPIC}", f"queryMsgByOffset -t {TOPIC} -b {BROKER} -i 1 -o 0",
    f"queryMsgTraceById -i {{id}} -t {TOPIC}", f"queryCq -t {TOPIC} -q 0 -i 0 -c 2 -b {{broker}}",
    f"queryCq -t {TOPIC} -q 0 -i 0 -c 2 -b {{broker}} -g {GROUP}",
    f"printMsg -t {TOPIC} -d true", f"printMsgByQueue -t {TOPIC} -a {BROKER} -i 1 -p true -d true",
    f"sendMessage -t extra -p hello -k k1 -c t1 -b {BROKER} -i 0", "consumeMessage -t extra -g reading -c 1",
    f"queryMsgById -i {{offsetId}} -t {TOPIC} -g {GROUP} -d {{client}}", "checkMsgSendRT -t extra -a 2 -s 16",
    "statsAll", f"statsAll -t {TOPIC}",
    # offsets
    f"resetOffsetByTime -g {GROUP} -t {TOPIC} -s 0", f"resetOffsetByTime -g {GROUP} -t {TOPIC} -s now",
    f"resetOffsetByTime -g nobody -t {TOPIC} -s 0 -f true",
    f"skipAccumulatedMessage -g {GROUP} -t {TOPIC}", f"cloneGroupOffset -s {GROUP} -d other -t {TOPIC} -o true",
    f"resetOffsetByTime -g {GROUP} -t {TOPIC} -s -1 -b {{broker}} -q 0 -o 1",
    # name servers
    "updateKvConfig -s interop -k a -v 1", "deleteKvConfig -s interop -k a", "getNamesrvConfig",
    "updateNamesrvConfig -k orderMessageEnable -v true", f"wipeWritePerm -b {BROKER}", f"topicRoute -t {TOPIC} -l",
    f"addWritePerm -b {BROKER}",
    # exports
    "exportMetadata -b {broker} -t -f {folder}", "exportMetadata -b {broker} -g -f {folder}",
    f"exportConfigs -c {CLUSTER} -f {{folder}}", f"exportMetrics -c {CLUSTER} -f {{folder}}",
    # what is not there
    "topicRoute -t nowhere", "topicStatus -t nowhere", "consumerProgress -g nobody -t nowhere",
    "consumerConnection -g nobody", f"queryMsgByKey -t {TOPIC} -k nothing", "getConsumerConfig -g nobody",
    f"queryMsgByOffset -t {TOPIC} -b {BROKER} -i 1 -o 999",
    # deletions
    "deleteTopic -t extra -c DefaultCluster", "deleteSubGroup -b {broker} -g other -r true",
    f"deleteSubGroup -c {CLUSTER} -g reading", "topicList",
)  # fmt: skip

LEFT_OUT = {
    "startMonitoring": "it never ends",
    "clusterRT": "it never ends",
    "addBroker": "there is no broker container",
    "removeBroker": "there is no broker container",
    "resetMasterFlushOffset": "it serves the controller mode of replication, which PyroMQ does not have",
    "getSyncStateSet": "there is no controller",
    "getControllerMetaData": "there is no controller",
    "getControllerConfig": "there is no controller",
    "updateControllerConfig": "there is no controller",
    "electMaster": "there is no controller",
    "cleanBrokerMetadata": "there is no controller",
    "updateStaticTopic": "there are no logical queues",
    "remappingStaticTopic": "there are no logical queues",
    "exportMetadataInRocksDB": "it reads local files of RocksDB, which PyroMQ does not use",
    "rocksDBConfigToJson": "it reads local files of RocksDB, which PyroMQ does not use",
    "checkRocksdbCqWriteProgress": "it reads local files of RocksDB, which PyroMQ does not use",
    "dumpCompactionLog": "it reads a local file of a compacted topic, which PyroMQ does not have",
    "getColdDataFlowCtrInfo": "there is no control of reads of cold data",
    "updateColdDataFlowCtrGroupConfig": "there is no control of reads of cold data",
    "removeColdDataFlowCtrGroupConfig": "there is no control of reads of cold data",
    "setCommitLogReadAheadMode": "there is no choice of the read-ahead mode",
}
"""Commands that do not apply, and why."""


@contextmanager
def workload(cluster: Cluster, run: MqAdmin, suffix: str) -> Iterator[dict[str, str]]:
    """Messages that were consumed, with the consumer still online; yields what the placeholders stand for.

    The suffix keeps the instances of clients of several clusters in one process apart.
    """
    for command in PREPARATION:
        run(*command.split())
    options: dict[str, Any] = {"namesrv": cluster.namesrv, "client_ip": "10.1.2.3"}
    inbox = Inbox()
    with ExitStack() as stack:
        admin = stack.enter_context(Admin(instance_name=f"admin{suffix}", **options))
        eventually("the queues", lambda: _has_queues(admin))
        first = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET
        consumer = PushConsumer(
            GROUP, consume_from=first, persist_offset_interval=0.2, instance_name=f"c{suffix}", **options
        )
        consumer.subscribe(TOPIC, "paid || shipped")
        consumer.listen(inbox.put)
        stack.enter_context(consumer)
        producer = stack.enter_context(Producer(PRODUCER, instance_name=f"p{suffix}", **options))
        results = [
            producer.send(
                Message(TOPIC, b"body %d" % number, tags="paid" if number % 2 else "made", keys=[f"order-{number}"]),
                queue=MessageQueue(TOPIC, BROKER, number % 4),
            )
            for number in range(12)
        ]
        inbox.wait(6)
        eventually("the offsets", lambda: _committed(admin) == [3, 3, 3, 3])
        eventually("the index", lambda: _is_indexed(admin))
        yield {
            "broker": cluster.broker.address,
            "name": BROKER,
            "id": results[1].message_id,
            "offsetId": results[1].offset_message_id,
            "client": f"10.1.2.3@c{suffix}",
        }


def _has_queues(admin: Admin) -> bool:
    try:
        return len(admin.queues(TOPIC)) == 4
    except ClientError:
        return False


def _is_indexed(admin: Admin) -> bool:
    """Apache's broker enters keys a moment after it has acknowledged a message."""
    try:
        return bool(admin.query_message(TOPIC, "order-11"))
    except ClientError:
        return False


def _committed(admin: Admin) -> list[int | None]:
    return [admin.consumer_offset(GROUP, MessageQueue(TOPIC, BROKER, queue_id)) for queue_id in range(4)]
