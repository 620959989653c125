"""Options: typed, checked, with a hint for slips."""

from pathlib import Path

import pytest

from pyromq.protocol.message import MessageQueue
from pyromq.spark.errors import OptionError
from pyromq.spark.options import ConnectionOptions, read_options
from pyromq.spark.source.options import DataLoss, SourceOptions
from pyromq.spark.units import option_instant, option_seconds

BASE = {"nameserver": "10.0.0.1:9876;10.0.0.2:9876", "topic": "orders"}


def read(**given: str) -> SourceOptions:
    return read_options(SourceOptions, BASE | given, {})


def test_keys_have_no_case_and_aliases() -> None:
    options = read(MAXROWSPERTRIGGER="7", failondataloss="record")
    assert options.max_offsets_per_trigger == 7
    assert options.fail_on_data_loss is DataLoss.RECORD
    assert options.name_server == ("10.0.0.1:9876", "10.0.0.2:9876")
    assert read_options(ConnectionOptions, {"namesrv": "a:1"}, {}).name_server == ("a:1",)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"startingOffset": "x"}, "did you mean startingOffsets"),
        ({"maxWaitMs": "-1"}, "maxWaitMs"),
        ({"maxTriggerDelay": "soon"}, "no duration"),
        ({"nameServer": "nowhere"}, "host:port"),
        ({"topics": "a,b c"}, "b c"),
        ({"topicsPattern": "a.*"}, "one of topic"),
        ({"startingOffsets": "group"}, "need a group"),
        ({"accessKey": "a"}, "belong together"),
        ({"bodyFormat": "json"}, "bodySchema"),
        ({"readMode": "log"}, "storePath"),
        ({"assign": "[1]"}, "assign"),
        ({"group": "a b"}, "a b"),
    ],
)
def test_refusals_say_what_to_do(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        read(**given)


def test_what_is_missing() -> None:
    with pytest.raises(OptionError, match="nameServer is missing"):
        read_options(SourceOptions, {"topic": "t"}, {})
    with pytest.raises(OptionError, match="topicsPattern or assign"):
        read_options(SourceOptions, {"nameServer": "a:1"}, {})
    with pytest.raises(OptionError, match="regular expression"):
        read_options(SourceOptions, {"nameServer": "a:1", "topicsPattern": "("}, {})


def test_secrets_come_from_environment_or_file_and_are_not_shown(tmp_path: Path) -> None:
    environ = {"PYROMQ_ACCESS_KEY": "ak", "PYROMQ_SECRET_KEY": "hush", "PYROMQ_TOPIC": "other"}
    options = read_options(SourceOptions, BASE, environ)
    assert options.credentials == ("ak", "hush", None)
    assert options.topic == "orders"
    assert "hush" not in repr(options)
    file = tmp_path / "secret"
    file.write_text("hush\n")
    assert read(accessKey="ak", secretKeyFile=str(file)).credentials == ("ak", "hush", None)
    with pytest.raises(OptionError, match="cannot be read"):
        read(accessKey="ak", secretKeyFile=str(tmp_path / "none"))


def test_assignment_and_tags() -> None:
    base = {"nameServer": "a:1", "assign": '{"t":{"b":[1,0]}}', "subExpression": " x || y "}
    options = read_options(SourceOptions, base, {})
    assert options.assigned == [MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)]
    assert options.wanted_tags == frozenset({"x", "y"})
    assert read(subExpression="*").wanted_tags is None
    assert read(subExpression="a = 1", filterType="SQL92").wanted_tags is None


def test_times() -> None:
    assert (
        option_instant("1700000000000", "k")
        == option_instant("2023-11-14T22:13:20Z", "k")
        == option_instant("2023-11-14 22:13:20", "k")
    )
    assert option_instant("2023-11-14T23:13:20+01:00", "k") == 1_700_000_000_000
    with pytest.raises(OptionError):
        option_instant("yesterday", "k")
    assert [option_seconds(text, "k") for text in ("15m", "30s", "500ms", "2 h", "250")] == [900, 30, 0.5, 7200, 0.25]
