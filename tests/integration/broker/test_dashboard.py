"""The Grafana dashboard shows only what brokers and clients measure."""

import json
import re
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from pyromq.broker.admin.metrics import BrokerMetrics
from pyromq.metrics import ClientMetrics
from tests.integration.broker.servers import standalone

DASHBOARD = Path(__file__).resolve().parents[3] / "deploy" / "grafana" / "pyromq.json"
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
NAME = re.compile(r"\b(?:rocketmq|pyromq)_[a-z0-9_]+")


def names(families: list[Metric]) -> dict[str, set[str]]:
    """Each name that can be asked for, and its labels as far as they are known."""
    return {
        family.name + suffix: set(getattr(family, "_labelnames", ()))
        for family in families
        for suffix in SUFFIXES[family.type]
    }


def expressions(dashboard: Any) -> list[str]:
    found = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    return found + [each["query"]["query"] for each in dashboard["templating"]["list"] if each["type"] == "query"]


async def test_every_metric_on_the_dashboard_exists(tmp_path: Path) -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    async with standalone(tmp_path) as (broker, _):
        known = names(list(BrokerMetrics(broker.core, broker.parts).collect()))
    registry = CollectorRegistry()
    ClientMetrics(registry)
    known |= names(list(registry.collect()))
    asked = expressions(dashboard)
    assert len(asked) > 30
    for expression in asked:
        for name in NAME.findall(expression):
            assert name in known, expression
            grouped = {label.strip() for by in re.findall(r"by \(([^)]*)\)", expression) for label in by.split(",")}
            labels = known[name] | {"le"}
            if known[name]:
                assert grouped <= labels, expression
                assert set(re.findall(r"([a-z_]+)=~?\"", expression)) <= labels, expression


def test_panels_are_in_order_and_do_not_overlap() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    identities = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(identities)) == len(identities)
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
