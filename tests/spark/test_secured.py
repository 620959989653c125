"""Spark under users, rules and TLS: what docs/spark.md lets a user do is enough."""

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from pyromq import Admin, ClientTls, Message, Producer
from pyromq.auth.certificates import make
from pyromq.cli import app
from pyromq.spark.pipeline.builder import Pipeline
from pyromq.spark.pipeline.state.letters import Letters
from pyromq.spark.pipeline.state.position import lag
from pyromq.spark.source.formats import RocketMQSource
from tests.integration.client.clusters import standalone_beside
from tests.integration.security.secured import AUTH, ROOT, users
from tests.integration.security.test_tls import server_settings
from tests.spark.test_pipeline import ids, order

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark.md"
SECRET = "lake-secret-1"  # noqa: S105 - of a user who lives for one test


class Secured:
    """A server that enforces TLS and rules; `options` are those of the user `lake`."""

    def __init__(self, namesrv: str, authority: Path, folder: Path) -> None:
        self.namesrv = namesrv
        self.root: dict[str, Any] = {
            "namesrv": namesrv,
            "access_key": ROOT.access_key,
            "secret_key": ROOT.secret_key,
            "tls": ClientTls(ca=authority),
        }
        (folder / "keys").write_text(f"AccessKey={ROOT.access_key}\nSecretKey={ROOT.secret_key}\n")
        (folder / "secret").write_text(SECRET)
        self._environ = {
            "NAMESRV_ADDR": namesrv,
            "ROCKETMQ_CLIENT_KEYFILE": str(folder / "keys"),
            "TLS_ENABLE": "true",
            "TLS_CLIENT_TRUSTCERTPATH": str(authority),
            "PYROMQ_USER_PASSWORD": SECRET,
        }
        self.options = {
            "nameServer": namesrv,
            "tls": "true",
            "tlsCa": str(authority),
            "accessKey": "lake",
            "secretKeyFile": str(folder / "secret"),
        }

    def admin(self, command: str) -> None:
        done = CliRunner().invoke(app, ["admin", *shlex.split(command)], env=self._environ)
        assert done.exit_code == 0, done.output


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    users(folder / "data")
    certificates = make(folder / "tls", ["127.0.0.1"], days=1, now=datetime.now(UTC))
    with standalone_beside(folder / "data", **AUTH, **server_settings(certificates)) as running:
        made = Secured(running.namesrv_address, certificates.authority, folder)
        made.admin("createUser -u lake -c DefaultCluster")
        with Admin(**made.root) as admin:
            admin.create_topic("orders", queues=4)
            admin.wait_for_topic("orders")
        with Producer("shop", **made.root) as producer:
            producer.send([Message("orders", order(number)) for number in range(50)])
            producer.send(Message("orders", b"broken"))
        yield made


def commands() -> list[str]:
    """What the page tells an administrator to do."""
    return re.findall(r"^pyromq admin (createAcl -s User:lake .*)$", PAGE.read_text(), re.MULTILINE)


def test_the_rules_of_the_page_are_enough(spark: SparkSession, server: Secured, tmp_path: Path) -> None:
    spark.dataSource.register(RocketMQSource)

    def count(**more: str) -> int:
        return spark.read.format("rocketmq").options(**server.options, topic="orders", **more).load().count()

    with pytest.raises(AnalysisException, match="User:lake has no permission to access Topic:orders"):
        count()
    reading, *rest = commands()
    server.admin(reading)
    assert count(group="orders-lake") == 51
    with pytest.raises(Exception, match="User:lake has no permission to access Group:TOOLS_CONSUMER"):
        count()
    for command in rest:
        server.admin(command)
    assert count() == 51

    pipeline = (
        Pipeline("secured", checkpoint=str(tmp_path / "state"))
        .source(**server.options, topic="orders", group="orders-lake", start="earliest")
        .parse("id bigint")
        .to_parquet(str(tmp_path / "lake"))
        .to_topic("orders-clean", delivery="exactly-once")
        .dlq("orders-dlq")
    )
    pipeline.run(once=True, spark=spark)
    assert ids(tmp_path / "lake") == Counter(range(50))
    definition = pipeline.definition()
    assert sum(each.lag or 0 for each in lag(definition)) == 0
    with Letters(definition) as letters:
        assert [message.body for message in letters.waiting(10)] == [b"broken"]
        assert letters.drop() == 1
