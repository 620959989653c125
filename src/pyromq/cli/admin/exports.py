"""Admin commands that write what a cluster knows to JSON files."""

from pathlib import Path
from typing import Annotated

import typer

from pyromq.cli.admin.command import Session, Subject
from pyromq.cli.options import Broker, Cluster, at_most_one
from pyromq.cli.output import Lines, Output, json_text
from pyromq.client.errors import ClientError
from pyromq.protocol.names import is_dlq_topic, is_retry_topic, is_system_group

commands = Subject("Exports")

Folder = Annotated[Path, typer.Option("--filePath", "-f", help="Folder to write to.")]
Required = Annotated[str, typer.Option("--clusterName", "-c", help="Cluster.")]
HERE = Path("rocketmq-export")


@commands.command("exportMetadata", "-c DefaultCluster -f export")
def export_metadata(
    session: Session,
    broker: Broker = None,
    cluster: Cluster = None,
    folder: Folder = HERE,
    topics: Annotated[bool, typer.Option("--topic", "-t", help="Only topics.")] = False,
    groups: Annotated[bool, typer.Option("--subscriptionGroup", "-g", help="Only consumer groups.")] = False,
    special: Annotated[bool, typer.Option("--specialTopic", "-s", help="Retry topics and dead letters too.")] = False,
) -> Output:
    """Write the topics and consumer groups of a cluster or a broker to a file."""
    where = at_most_one(broker, cluster)
    both = topics == groups
    found: dict[str, object] = {}
    if topics or both:
        found["topicConfigTable"] = {
            name: config
            for table in session.admin.topic_configs(**where).values()
            for name, config in sorted(table.topic_config_table.items())
            if special or not (is_retry_topic(name) or is_dlq_topic(name))
        }
    if groups or both:
        found["subscriptionGroupTable"] = {
            name: config
            for table in session.admin.group_configs(**where).values()
            for name, config in sorted(table.subscription_group_table.items())
            if not is_system_group(name)
        }
    return _written(folder / ("metadata.json" if both else "topic.json" if topics else "subscriptionGroup.json"), found)


@commands.command("exportConfigs", "-c DefaultCluster -f export")
def export_configs(session: Session, cluster: Required, folder: Folder = HERE) -> Output:
    """Write the settings of brokers and name servers to a file."""
    info = session.admin.cluster_info()
    names = info.cluster_addr_table.get(cluster, [])
    sizes = [len(info.broker_addr_table[name].broker_addrs) for name in names if name in info.broker_addr_table]
    found = {
        "brokerConfigs": session.admin.broker_config(cluster=cluster),
        "namesrvConfigs": session.admin.name_server_config(),
        "clusterScale": {
            "namesrvSize": len(session.admin.name_servers()),
            "masterBrokerSize": len(sizes),
            "slaveBrokerSize": sum(sizes) - len(sizes),
        },
    }
    return _written(folder / "configs.json", found)


@commands.command("exportMetrics", "-c DefaultCluster -f export")
def export_metrics(session: Session, cluster: Required, folder: Folder = HERE) -> Output:
    """Write the runtime figures of brokers, and how much they hold, to a file."""
    status = session.admin.broker_status(cluster=cluster)
    topics = session.admin.topic_configs(cluster=cluster)
    groups = session.admin.group_configs(cluster=cluster)
    found = {
        name: {
            "runtimeQuota": table,
            "topicSize": len(topics[name].topic_config_table) if name in topics else None,
            "groupSize": len(groups[name].subscription_group_table) if name in groups else None,
        }
        for name, table in status.items()
    }
    return _written(folder / "metrics.json", {"evaluateReport": found})


def _written(path: Path, value: object) -> Output:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json_text(value) + "\n", encoding="utf-8")
    except OSError as error:
        raise ClientError(f"{path} cannot be written: {error}") from error
    return Lines([f"written to {path}"], {"path": str(path)})
