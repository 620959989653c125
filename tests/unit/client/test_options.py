"""Options of clients: declared once, and the same for type checkers."""

import typing
from pathlib import Path

import pytest
from mypy import api

from pyromq.client.config import ClientConfig, ProducerConfig
from pyromq.client.consumer.config import ConsumerConfig, PullConfig, PushConfig
from pyromq.client.consumer.options import ConsumerOptions, PullOptions, PushOptions
from pyromq.client.errors import ClientError
from pyromq.client.options import ClientOptions, ProducerOptions
from pyromq.settings.declaration import options

PAIRS = [
    (ClientConfig, ClientOptions),
    (ProducerConfig, ProducerOptions),
    (ConsumerConfig, ConsumerOptions),
    (PushConfig, PushOptions),
    (PullConfig, PullOptions),
]


@pytest.mark.parametrize(("config", "keywords"), PAIRS)
def test_keyword_arguments_are_the_declared_options(config: type[ClientConfig], keywords: type) -> None:
    declared = typing.get_type_hints(config)
    expected = {name: declared[name] for name in options(config) if name != "namesrv"}
    assert typing.get_type_hints(keywords) == expected, "namesrv is a parameter of its own; all others belong here"
    assert keywords.__required_keys__ == frozenset()  # type: ignore[attr-defined]  # as every TypedDict has it


@pytest.mark.parametrize("config", [config for config, _ in PAIRS])
def test_each_option_says_what_it_means(config: type[ClientConfig]) -> None:
    for each in options(config).values():
        assert each.doc.endswith("."), each.name
        assert each.key == each.name, "keyword arguments are called what they are called"
        if each.type is float:
            assert each.unit == "s", each.name
    assert not config.ignored


@pytest.mark.parametrize("config", [ProducerConfig, PushConfig, PullConfig])
def test_limits_are_told_as_they_always_were(config: type[ClientConfig]) -> None:
    for each in options(config).values():
        if each.above is not None:
            with pytest.raises(ClientError, match=f"^{each.name} is 0, but must be above 0$"):
                config.build({each.name: 0}, environ={})
        if each.maximum is not None:
            wrong = each.maximum + 1
            text = f"^{each.name} is {wrong}, outside {each.minimum}[.][.]{each.maximum}$"
            with pytest.raises(ClientError, match=text):
                config.build({each.name: wrong}, environ={})


def test_minus_one_is_no_limit_of_a_topic() -> None:
    assert PushConfig.build({"pull_threshold_for_topic": -1}, environ={}).pull_threshold_for_topic == -1
    with pytest.raises(ClientError, match=r"pull_threshold_for_topic is 0, outside 1\.\.6553500"):
        PushConfig.build({"pull_threshold_for_topic": 0}, environ={})


def test_settings_with_the_same_values_are_equal() -> None:
    assert ProducerConfig(retries=3) == ProducerConfig(retries=3) != ProducerConfig(retries=4)
    assert "retries=3" in repr(ProducerConfig(retries=3))


WRONG = """\
import pyromq
from pyromq import aio

pyromq.Producer("g", namesrv="127.0.0.1:9876", retries=3, compress_over=1)
pyromq.PushConsumer("g", consume_from="CONSUME_FROM_FIRST_OFFSET", consume_thread_max=1)
pyromq.Producer("g", retrys=3)
pyromq.TransactionProducer("g", None, send_timout=1.0)
pyromq.PushConsumer("g", consume_threads=1)
pyromq.PullConsumer("g", autocommit=True)
pyromq.Admin(api_time_out=1.0)
aio.Producer("g", retrys=3)
aio.TransactionProducer("g", None, send_timout=1.0)
aio.PushConsumer("g", consume_threads=1)
aio.PullConsumer("g", autocommit=True)
aio.Admin(api_time_out=1.0)
pyromq.Producer("g", retries="3")
"""


def test_a_wrong_keyword_is_a_type_error(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(WRONG)
    report, _, status = api.run(
        ["--config-file=", f"--cache-dir={tmp_path / 'cache'}", "--hide-error-context", str(file)]
    )
    errors = [line.partition(" error: ")[2] for line in report.splitlines() if " error: " in line]
    names = ["retrys", "send_timout", "consume_threads", "autocommit", "api_time_out"]
    wrong = [f'Unexpected keyword argument "{name}"' for name in names * 2] + ['Argument "retries" to "Producer"']
    assert [error[: len(text)] for error, text in zip(errors, wrong, strict=True)] == wrong, report
    assert status == 1
