"""`pyromq admin` against a running cluster, in the order in which an operator would use it."""

import json
import queue
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pyromq import ConsumeFromWhere, Message, MessageQueue, Producer, PushConsumer, ReceivedMessage
from pyromq.cli import app
from tests.integration.cli.cluster import BROKER, CLUSTER, Commands


@pytest.fixture(scope="module", autouse=True)
def orders(pyromq: Commands) -> None:
    """A topic with four messages, and a group."""
    pyromq.admin(f"updateTopic -c {CLUSTER} -t orders -r 2 -w 2")
    pyromq.admin(f"updateSubGroup -c {CLUSTER} -g billing -r 5")
    with Producer("shop", namesrv=pyromq.namesrv) as producer:
        for number in range(4):
            producer.send(
                Message("orders", b"order %d" % number, tags="paid" if number % 2 else "made", keys=[f"o-{number}"]),
                queue=MessageQueue("orders", BROKER, number % 2),
            )


def test_topics(pyromq: Commands, tmp_path: Path) -> None:
    created = pyromq.admin(f"updateTopic -b {pyromq.broker} -t other -r 1 -w 1 -a +message.type=FIFO")
    assert created == [
        {"brokerName": pyromq.broker, "topic": "other", "readQueues": 1, "writeQueues": 1, "perm": 6, "order": False}
    ]
    assert {"orders", "other"} <= set(pyromq.admin("topicList"))
    assert {"clusterName": CLUSTER, "topic": "orders", "consumerGroup": ""} in pyromq.admin("topicList -c")
    listed = tmp_path / "topics.json"
    listed.write_text('[{"topicName": "a", "perm": 6}, {"topicName": "b"}]')
    assert pyromq.admin(f"updateTopicList -c {CLUSTER} -f {listed}") == ["a", "b"]
    assert pyromq.admin("topicRoute -t orders")["brokerDatas"][0]["brokerName"] == BROKER
    assert pyromq.admin("topicRoute -t orders -l")["writeQueues"] == 2
    assert pyromq.admin("topicClusterList -t orders") == [CLUSTER]
    status = pyromq.admin("topicStatus -t orders")
    assert [row["maxOffset"] for row in status["rows"]] == [2, 2]
    assert status["messages"] == 4
    (changed,) = pyromq.admin(f"updateTopicPerm -c {CLUSTER} -t other -p 4")
    assert (changed["oldPerm"], changed["newPerm"]) == (6, 4)
    assert pyromq.admin("allocateMQ -t orders -i m1,m2") == [
        {"member": "m1", "brokerName": BROKER, "qid": 0},
        {"member": "m2", "brokerName": BROKER, "qid": 1},
    ]
    pyromq.admin(f"deleteTopic -c {CLUSTER} -t other")
    assert "other" not in pyromq.admin("topicList")


def test_order_configuration(pyromq: Commands) -> None:
    pyromq.admin(f"updateTopic -c {CLUSTER} -t sorted -r 2 -w 2 -o true")
    assert pyromq.admin("updateOrderConf -t sorted -m get")["orderConf"] == f"{BROKER}:2"
    pyromq.admin(f"updateOrderConf -t sorted -m put -v {BROKER}:1")
    assert pyromq.admin("updateOrderConf -t sorted -m get")["orderConf"] == f"{BROKER}:1"
    pyromq.admin("updateOrderConf -t sorted -m delete")
    assert "has no order configuration" in pyromq.refused("admin", "updateOrderConf", "-t", "sorted", "-m", "get")


def test_groups(pyromq: Commands, tmp_path: Path) -> None:
    assert pyromq.admin("getConsumerConfig -g billing")[BROKER]["retryMaxTimes"] == 5
    pyromq.admin(f"updateSubGroup -b {pyromq.broker} -g billing -s false")
    config = pyromq.admin("getConsumerConfig -g billing")[BROKER]
    assert (config["consumeEnable"], config["retryMaxTimes"]) == (False, 5)  # what is not given stays
    pyromq.admin(f"updateSubGroup -c {CLUSTER} -g billing -s true")
    listed = tmp_path / "groups.json"
    listed.write_text('[{"groupName": "g1"}]')
    assert pyromq.admin(f"updateSubGroupList -c {CLUSTER} -f {listed}") == ["g1"]
    assert {"g1", "billing"} <= {row["group"] for row in pyromq.admin("listGroups")}
    assert pyromq.admin(f"setConsumeMode -c {CLUSTER} -t orders -g g1 -m POP -q 3")["mode"] == "POP"
    pyromq.admin(f"deleteSubGroup -c {CLUSTER} -g g1 -r true")
    assert "no broker has group g1" in pyromq.refused("admin", "getConsumerConfig", "-g", "g1")


def test_progress_and_offsets(pyromq: Commands) -> None:
    pyromq.admin(f"updateSubGroup -c {CLUSTER} -g audit")
    assert pyromq.admin("consumerProgress -g audit -t orders")["diffTotal"] is None  # unknown, not 0
    moved = pyromq.admin("resetOffsetByTime -g audit -t orders -s 0")
    assert [row["offset"] for row in moved] == [0, 0]
    progress = pyromq.admin("consumerProgress -g audit")
    assert progress["diffTotal"] == 4
    assert [row["diff"] for row in progress["rows"]] == [2, 2]
    assert {row["group"]: row["diffTotal"] for row in pyromq.admin("consumerProgress")}["audit"] == 4
    assert pyromq.admin(f"brokerConsumeStats -b {BROKER} -l 1")["diffTotal"] >= 4
    assert [row["group"] for row in pyromq.admin("startMonitoring --once")["rows"]].count("audit") == 1
    (one,) = pyromq.admin(f"resetOffsetByTime -g audit -t orders -s 0 -b {pyromq.broker} -q 1 -o 1")
    assert (one["qid"], one["offset"]) == (1, 1)
    pyromq.admin("cloneGroupOffset -s audit -d copy -t orders")
    assert pyromq.admin("consumerProgress -g copy -t orders")["diffTotal"] == 3
    assert [row["offset"] for row in pyromq.admin("skipAccumulatedMessage -g audit -t orders")] == [2, 2]
    assert pyromq.admin("consumerProgress -g audit -t orders")["diffTotal"] == 0
    traffic = {(row["topic"], row["consumerGroup"]): row for row in pyromq.admin("statsAll -t orders")}
    assert traffic["orders", "audit"]["accumulation"] == 0
    assert traffic["orders", "audit"]["inMsg24Hour"] == 4


def test_a_reset_says_what_it_did(pyromq: Commands) -> None:
    pyromq.admin(f"updateSubGroup -c {CLUSTER} -g moved")
    said = pyromq("admin", "resetOffsetByTime", "-g", "moved", "-t", "orders", "-s", "0")
    assert "group moved goes on in orders with the first message that is kept: 2 queues" in said
    moved = pyromq.admin("resetOffsetByTime -g moved -t orders -s -1")
    assert [(row["before"], row["offset"], row["moved"]) for row in moved] == [(0, 2, 2), (0, 2, 2)]
    said = pyromq("admin", "resetOffsetByTime", "-g", "moved", "-t", "orders", "-s", "-1")
    assert (
        "group moved goes on in orders at the end, with what arrives from now on: 2 queues, 0 messages skipped" in said
    )
    said = pyromq("admin", "resetOffsetByTime", "-g", "moved", "-t", "orders", "-s", "1700000000000")
    assert "with the first message stored at 2023-11-1" in said
    assert "4 messages to come again" in said
    refusal = pyromq.refused("admin", "resetOffsetByTime", "-g", "moved", "-t", "orders", "-s", "-2", code=2)
    assert "-1 is the end, 0 the beginning" in refusal


def test_messages(pyromq: Commands) -> None:
    (found,) = pyromq.admin("queryMsgByKey -t orders -k o-1")
    identity = found["messageId"]
    shown = pyromq.admin(f"queryMsgById -t orders -i {identity}")[identity]["message"]
    assert (shown["body"], shown["tags"], shown["queueId"]) == ("order 1", "paid", 1)
    assert pyromq.admin(f"queryMsgByUniqueKey -t orders -i {identity}")["message"]["body"] == "order 1"
    assert len(pyromq.admin(f"queryMsgByUniqueKey -t orders -i {identity} -a")) == 1
    assert pyromq.admin(f"queryMsgByOffset -t orders -b {BROKER} -i 1 -o 1")["message"]["body"] == "order 3"
    assert [row["body"] for row in pyromq.admin("printMsg -t orders -s paid")] == ["order 1", "order 3"]
    counted = pyromq.admin(f"printMsgByQueue -t orders -a {BROKER} -i 0 -f true")
    assert counted == {"tags": [{"tag": "made", "count": 2}]}
    read = pyromq.admin(f"consumeMessage -t orders -b {BROKER} -i 0 -o 1 -c 5")
    assert [row["body"] for row in read] == ["order 2"]
    assert len(pyromq.admin("consumeMessage -t orders -c 3")) == 3
    assert [row["physicSize"] > 0 for row in pyromq.admin("queryCq -t orders -q 1 -i 0")["rows"]] == [True, True]
    resent = pyromq.admin(f"queryMsgById -t orders -i {identity} -s true")
    assert resent[0]["sendResult"] == "SEND_OK"


def test_sending(pyromq: Commands) -> None:
    pyromq.admin(f"updateTopic -c {CLUSTER} -t probes -r 2 -w 2")
    (sent,) = json.loads(pyromq("admin", "sendMessage", "-t", "probes", "-p", "a b", "-b", BROKER, "-i", "1", "--json"))
    assert (sent["qid"], sent["sendResult"]) == (1, "SEND_OK")
    assert [row["sendResult"] for row in pyromq.admin(f"sendMsgStatus -b {BROKER} -c 2 -s 13")] == ["SEND_OK"] * 2
    checked = pyromq.admin("checkMsgSendRT -t probes -a 3 -s 5")
    assert [row["qid"] for row in checked["rows"]] == [0, 1, 0]
    assert checked["averageRt"] > 0
    assert pyromq.admin("clusterRT -a 2 --once")[0]["successCount"] == 2
    assert f"|here|{CLUSTER}|{BROKER}|" in pyromq("admin", "clusterRT", "-a", "1", "-p", "true", "-m", "here", "--once")
    problem = pyromq.refused("admin", "sendMessage", "-t", "probes", "-p", "x", "-b", BROKER, "-i", "9")
    assert problem == f"topic 'probes' has no queue 9 on broker '{BROKER}'"


def test_clients(pyromq: Commands) -> None:
    pyromq.admin(f"updateTopic -c {CLUSTER} -t live -r 1 -w 1")
    inbox: queue.Queue[ReceivedMessage] = queue.Queue()
    consumer = PushConsumer(
        "watchers", namesrv=pyromq.namesrv, consume_from=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, instance_name="c"
    )
    consumer.subscribe("live", tags="x || y")
    consumer.listen(inbox.put)
    with consumer, Producer("makers", namesrv=pyromq.namesrv, instance_name="p", enable_trace=True) as producer:
        sent = producer.send(Message("live", b"seen", tags="x"))
        inbox.get(timeout=60)
        online = pyromq.admin("consumerConnection -g watchers")
        client = online["connections"][0]["clientId"]
        subscribed = {row["topic"]: row["subExpression"] for row in online["subscriptions"]}
        assert (subscribed["live"], online["group"]["messageModel"]) == ("x || y", "CLUSTERING")
        assert pyromq.admin("producerConnection -g makers -t live")[0]["language"] == "PYTHON"
        assert "makers" in {row["group"] for row in pyromq.admin(f"producer -b {pyromq.broker}")}
        members = pyromq.admin("consumerStatus -g watchers")
        assert members["rows"][0]["answer"] == "ok"
        assert members["sameSubscription"] is True
        dump = pyromq.admin(f"consumerStatus -g watchers -i {client} -s")
        assert {row["topic"] for row in dump["queues"]} >= {"live"}
        assert "jstack" in dump
        held = pyromq.admin("consumerProgress -g watchers -t live -s true")
        assert held["rows"][0]["client"] == client
        again = pyromq.admin(f"queryMsgById -t live -i {sent.message_id} -g watchers -d {client}")
        assert again[sent.message_id]["consumeResult"] == "CR_SUCCESS"
    pyromq.refused("admin", "consumerConnection", "-g", "nobody")
    traced = pyromq.admin(f"queryMsgTraceById -i {sent.message_id}")
    assert traced["sent"][0]["producerGroup"] == "makers"


def test_brokers(pyromq: Commands) -> None:
    (row,) = pyromq.admin("clusterList")
    assert (row["brokerName"], row["addr"], row["activated"]) == (BROKER, pyromq.broker, "true")
    assert pyromq.admin(f"clusterList -m -c {CLUSTER}")[0]["inTotalToday"] >= 4
    assert "no cluster 'x'" in pyromq.refused("admin", "clusterList", "-c", "x")
    assert "putTps" in pyromq.admin(f"brokerStatus -b {pyromq.broker}")[pyromq.broker]
    assert pyromq.admin(f"getBrokerConfig -c {CLUSTER}")[BROKER]["brokerName"] == BROKER
    changed = pyromq.admin(f"updateBrokerConfig -c {CLUSTER} -a true -k traceOn -v false")
    assert changed["on"] == [pyromq.broker]
    assert pyromq.admin(f"getBrokerConfig -b {BROKER}")[BROKER]["traceOn"] == "false"
    pyromq.admin(f"updateBrokerConfig -b {BROKER} -k traceOn -v true")
    for command in ("cleanExpiredCQ", "deleteExpiredCommitLog", "cleanUnusedTopic"):
        assert pyromq.admin(f"{command} -c {CLUSTER}") == [BROKER]
    assert pyromq.admin(f"haStatus -b {BROKER}")[BROKER]["inSyncSlaves"] == 0
    # Of what PyroMQ's broker does not have, it says so itself.
    for line in ("getColdDataFlowCtrInfo -b broker-a", "setCommitLogReadAheadMode -b broker-a -m 1"):
        assert "not supported" in pyromq.refused("admin", *line.split())


def test_name_servers(pyromq: Commands) -> None:
    pyromq.admin("updateKvConfig -s space -k a -v 1")
    assert pyromq.admin("listKvConfig -s space") == {"a": "1"}
    pyromq.admin("deleteKvConfig -s space -k a")
    assert pyromq.admin("listKvConfig -s space") == {}
    pyromq.admin("updateNamesrvConfig -k orderMessageEnable -v true")
    assert pyromq.admin("getNamesrvConfig")[pyromq.namesrv]["orderMessageEnable"] == "true"
    (wiped,) = pyromq.admin(f"wipeWritePerm -b {BROKER}")
    (added,) = pyromq.admin(f"addWritePerm -b {BROKER}")
    assert wiped == added
    assert wiped["topicsChanged"] > 0


def test_exports(pyromq: Commands, tmp_path: Path) -> None:
    pyromq.admin(f"exportMetadata -c {CLUSTER} -f {tmp_path}")
    metadata = json.loads((tmp_path / "metadata.json").read_text())
    assert metadata["topicConfigTable"]["orders"]["writeQueueNums"] == 2
    assert metadata["subscriptionGroupTable"]["billing"]["retryMaxTimes"] == 5
    pyromq.admin(f"exportMetadata -b {BROKER} -f {tmp_path} -t")
    assert json.loads((tmp_path / "topic.json").read_text()).keys() == {"topicConfigTable"}
    pyromq.admin(f"exportConfigs -c {CLUSTER} -f {tmp_path}")
    assert json.loads((tmp_path / "configs.json").read_text())["clusterScale"]["masterBrokerSize"] == 1
    pyromq.admin(f"exportMetrics -c {CLUSTER} -f {tmp_path}")
    metrics = json.loads((tmp_path / "metrics.json").read_text())
    assert metrics["evaluateReport"][BROKER]["topicSize"] > 1
    (tmp_path / "file").write_text("")
    assert "cannot be written" in pyromq.refused(
        "admin", "exportConfigs", "-c", CLUSTER, "-f", str(tmp_path / "file" / "x")
    )


def test_dead_letters(pyromq: Commands, tmp_path: Path) -> None:
    assert pyromq.admin("listDeadLetters -g billing") == []
    pyromq.admin(f"updateTopic -c {CLUSTER} -t %DLQ%billing -r 1 -w 1")
    with Producer("shop", namesrv=pyromq.namesrv) as producer:
        letter = Message("%DLQ%billing", b"dead", keys=["d-1"])
        letter.properties["RETRY_TOPIC"] = "orders"
        producer.send(letter)
    (listed,) = pyromq.admin("listDeadLetters -g billing")
    assert (listed["originTopic"], listed["keys"]) == ("orders", "d-1")
    out = tmp_path / "letters.jsonl"
    assert pyromq.admin(f"exportDeadLetters -g billing -f {out}")["count"] == 1
    assert json.loads(out.read_text())["originTopic"] == "orders"
    assert pyromq.admin("redriveDeadLetters -g billing --to topic") == {"sent": 1, "left": 0}
    assert pyromq.admin("redriveDeadLetters -g billing --to topic") == {"sent": 0, "left": 0}


def test_shells_complete_topics_and_groups(pyromq: Commands) -> None:
    def completed(words: str) -> list[str]:
        environment = {
            "_PYROMQ_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
            "NAMESRV_ADDR": pyromq.namesrv,
        }
        return CliRunner().invoke(app, [], prog_name="pyromq", env=environment).stdout.split()

    assert completed("pyromq consume order") == ["orders"]
    assert completed("pyromq admin topicStatus -t order") == ["orders"]
    assert completed("pyromq admin resetOffsetByTime -g bill") == ["billing"]
    assert completed("pyromq consume orders -g bill") == ["billing"]
    assert completed("pyromq admin topicStatus -n 127.0.0.1:1 -t order") == []  # nobody there: nothing to offer


def test_tables_for_people(pyromq: Commands) -> None:
    lines = pyromq("admin", "topicRoute", "-t", "orders", "-l").splitlines()
    assert lines[0].split("  ")[0] == "Cluster Name"
    assert lines[1].split()[:2] == [CLUSTER, BROKER]
    assert lines[-1] == "writeQueues : 2"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("topicStatus -t nowhere", "no route for topic 'nowhere'"),
        ("updateTopic -c nowhere -t x", "no master of cluster 'nowhere'"),
        ("updateTopic -c DefaultCluster -t bad/name", "topic cannot be created"),
        ("brokerStatus -b 127.0.0.1:1", "127.0.0.1:1"),
        ("updateTopicList -c DefaultCluster -f no-such-file", "no-such-file"),
        ("queryMsgByKey -t orders -k nothing", "no message of topic 'orders' has the key 'nothing'"),
    ],
)
def test_failures_are_one_line(pyromq: Commands, line: str, reason: str) -> None:
    assert reason in pyromq.refused("admin", *line.split())


def test_files_and_texts_that_cannot_be_read(pyromq: Commands, tmp_path: Path) -> None:
    def refused(line: str) -> str:
        return pyromq.refused("admin", *line.split(), code=2)

    assert refused("updateSubGroup -c DefaultCluster -g g -p {").startswith("-p cannot be read: expected a key")
    file = tmp_path / "list.json"
    for text, reason in (("[", "cannot be read"), ("[]", "lists nothing"), ('[{"perm": "x"}]', "perm")):
        file.write_text(text)
        assert reason in refused(f"updateTopicList -c DefaultCluster -f {file}")


def test_no_cluster_at_all() -> None:
    def refused(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["admin", *arguments])
        assert done.exit_code == 1
        (text,) = done.stderr.splitlines()
        return text

    assert "127.0.0.1:1" in refused("topicList", "-n", "127.0.0.1:1", "--timeout", "1")
    assert refused("topicList", "-n", "not an address")
