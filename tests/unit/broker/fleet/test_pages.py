"""The pages of a fleet, made of those of its brokers."""

from prometheus_client.parser import text_string_to_metric_families

from pyromq.broker.fleet.pages import Standing, health, merged, metrics
from pyromq.broker.httpserver import Page

ONE = b"""# HELP rocketmq_messages_in_total Messages.
# TYPE rocketmq_messages_in_total counter
rocketmq_messages_in_total{node_id="shop",topic="a b"} 1.0
rocketmq_messages_in_total{node_id="shop",topic="c"} 2.0
# HELP lag Lag.
# TYPE lag gauge
lag{node_id="shop"} 7.0
"""
TWO = b"""# HELP other Other.
# TYPE other gauge
other{node_id="shop-1"} 1.0
# HELP rocketmq_messages_in_total Messages.
# TYPE rocketmq_messages_in_total counter
rocketmq_messages_in_total{node_id="shop-1",topic="c"} 5.0
"""


def test_health_is_green_when_all_are() -> None:
    page = health([Standing("shop", "", 11), Standing("shop-1", "", 12, restarts=2)])
    assert page.status == "200 OK"
    assert page.body == b"ok\nshop: ok (process 11)\nshop-1: ok (process 12, restarts: 2)\n"


def test_one_that_is_not_well_makes_it_red() -> None:
    page = health([Standing("shop", "", 11), Standing("shop-1", "not running, ended by SIGKILL", is_up=False)])
    assert page.status.startswith("503")
    first, good, bad = page.body.decode().splitlines()
    assert first == "1 of 2 brokers are not well"
    assert good.startswith("shop: ok")
    assert bad == "shop-1: not running, ended by SIGKILL"


def test_values_of_one_metric_stand_together() -> None:
    lines = merged([ONE, TWO]).decode().splitlines()
    assert lines[:5] == [*ONE.decode().splitlines()[:4], TWO.decode().splitlines()[-1]]
    assert len(lines) == len(set(lines)) == 11
    assert merged([]) == b""


def test_prometheus_reads_the_page_of_all() -> None:
    standings = [Standing("shop", "", 11), Standing("shop-1", "not running", restarts=3, is_up=False)]
    page = metrics("Default", standings, [Page(ONE, "text/x"), Page(TWO, "text/x")])
    assert page.content_type == "text/x"
    families = {family.name: family for family in text_string_to_metric_families(page.body.decode())}
    assert len(families["rocketmq_messages_in"].samples) == 3
    up = {sample.labels["node_id"]: sample.value for sample in families["pyromq_process_up"].samples}
    assert up == {"shop": 1, "shop-1": 0}
    restarts = {sample.labels["node_id"]: sample.value for sample in families["pyromq_process_restarts"].samples}
    assert restarts == {"shop": 0, "shop-1": 3}


def test_without_any_broker_there_is_still_a_page() -> None:
    page = metrics("Default", [Standing("shop", "not running", is_up=False)], [])
    assert b'pyromq_process_up{cluster="Default",node_type="broker",node_id="shop"} 0\n' in page.body
