"""What `pyromq bench` counts, and the options of RocketMQ's scripts."""

import random

import pytest
import typer

from pyromq.cli.bench import app
from pyromq.cli.bench.figures import Figures, Latencies
from pyromq.cli.bench.run import Making, credentials
from pyromq.cli.bench.transactions import Dice
from pyromq.cli.options import OnOff
from pyromq.client.producer.results import LocalTransactionState
from pyromq.protocol.message import Message, ReceivedMessage

# The options of benchmark/producer.sh, batchproducer.sh, consumer.sh and tproducer.sh.
SCRIPTS = {
    "producer": "-t --topic -w --threadCount -s --messageSize -k --keyEnable -p --propertySize -l --tagCount "
    "-m --msgTraceEnable -a --aclEnable -ak --accessKey -sk --secretKey -q --messageQuantity -d --delayEnable "
    "-e --delayLevel -y --asyncEnable -n --namesrvAddr",
    "batch": "-t --topic -w --threadCount -s --messageSize -b --batchSize -k --keyEnable -p --propertySize "
    "-l --tagCount -m --msgTraceEnable -a --aclEnable -ak --accessKey -sk --secretKey -n --namesrv",
    "consumer": "-t --topic -w --threadCount -g --group -p -f --filterType -e --expression -r -m --msgTraceEnable "
    "-a --aclEnable -n --namesrvAddr",
    "transaction": "-t --topic -w --threadCount -s --messageSize -sr -su -cr -cu -b -i -a --aclEnable -n --namesrvAddr",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_commands_take_the_options_of_the_scripts(name: str) -> None:
    group = typer.main.get_command(app)
    command = group.commands[name]  # type: ignore[attr-defined]  # a group
    known = {option for parameter in command.params for option in parameter.opts}
    assert set(SCRIPTS[name].split()) <= known
    assert command.epilog.startswith(f"Example: pyromq bench {name} ")


def test_percentiles_are_right_within_a_tenth() -> None:
    latencies = Latencies()
    assert latencies.summary() == {"averageMs": 0.0, "p50Ms": 0.0, "p99Ms": 0.0, "p999Ms": 0.0, "maxMs": 0.0}
    chance = random.Random(5)
    times = sorted(chance.expovariate(100) for _ in range(10_000))
    for each in chance.sample(times, len(times)):
        latencies.add(each)
    for share in (0.5, 0.99, 0.999):
        assert latencies.percentile_ms(share) == pytest.approx(times[int(share * len(times)) - 1] * 1000, rel=0.1)
    assert latencies.percentile_ms(1.0) == pytest.approx(times[-1] * 1000)
    assert latencies.average_ms == pytest.approx(sum(times) / len(times) * 1000)
    latencies.add(1e12)  # beyond the last bucket
    assert latencies.longest == 1e12


def test_figures() -> None:
    now = 10.0
    figures = Figures(lambda: now)
    figures.size = 1000
    now = 12.0
    figures.messages = 500
    figures.latency("rt").add(0.004)
    assert figures.line() == "TPS: 250 Total: 500 Failed: 0 rt AVG 4.000 ms MAX 4.000 ms"
    now = 15.0
    figures.fail(ValueError("broken"))
    assert figures.line().startswith("TPS: 0 Total: 500 Failed: 1")
    figures.count("checks", 3)
    summary = figures.summary()
    assert (summary["seconds"], summary["tps"], summary["mbPerSecond"]) == (5.0, 100.0, 0.1)
    assert (summary["checks"], summary["lastError"]) == (3, "broken")


def test_messages_are_made_as_the_options_say() -> None:
    make = Making("t", 100, keys=True, properties=50, tags=2, delay_level=3)
    first, second = make(), make()
    assert len(first.body) == 100
    assert (first.keys, second.keys, first.tags, second.tags) == (("0",), ("1",), "tag0", "tag1")
    assert first.delay_level == 3
    assert sum(len(k) + len(v) for k, v in first.properties.items() if k.startswith("prop")) >= 50
    plain = Making("t", 1, keys=False, properties=0, tags=0)()
    assert plain.properties == {"WAIT": "true"}


def test_transactions_are_thrown() -> None:
    figures = Figures(lambda: 0.0)
    message = Message("t", b"x")

    def thrown(rollback: float, unknown: float) -> LocalTransactionState:
        return Dice(figures, "r", rollback=rollback, unknown=unknown, check=(0, 0)).execute(message, None)

    assert thrown(0.0, 0.0) is LocalTransactionState.COMMIT
    assert thrown(1.0, 0.0) is LocalTransactionState.ROLLBACK
    assert thrown(0.0, 1.0) is LocalTransactionState.UNKNOWN
    dice = Dice(figures, "r", rollback=0.0, unknown=0.0, check=(0.0, 0.0))
    assert dice.check(ReceivedMessage("t", b"x", {"run": "r"})) is LocalTransactionState.COMMIT
    assert dice.check(ReceivedMessage("t", b"x", {"run": "other"})) is LocalTransactionState.ROLLBACK
    assert figures.extra == {"checks": 1}


def test_signing_needs_both_keys() -> None:
    assert credentials(OnOff.FALSE, None, None) == {}
    assert credentials(OnOff.TRUE, "a", "s") == {"access_key": "a", "secret_key": "s"}
    with pytest.raises(SystemExit):
        credentials(OnOff.TRUE, "a", None)
