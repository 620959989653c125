"""The screen of `pyromq top`."""

import io

from rich.console import Console

from pyromq.cli.top.sample import BrokerLine, GroupLine, Sample, TopicLine
from pyromq.cli.top.screen import screen


def sample(topics: int = 3, groups: int = 3) -> Sample:
    return Sample(
        at=0.0,
        brokers=[
            BrokerLine(
                cluster="C", name="broker-a", number=0, address="h:1", version="V5_3_3", in_rate=12.34, disk=0.91
            ),
            BrokerLine(cluster="C", name="broker-a", number=1, address="h:2"),
        ],
        topics=[TopicLine(name=f"t{n}", queues=4, messages=1000, end=1000, in_rate=1.5) for n in range(topics)],
        groups=[
            GroupLine(name=f"g{n}", members=n, lag=None if n == 0 else n, known_lag=n, done=0, out_rate=0.0)
            for n in range(groups)
        ],
        problems=["topic \x1b[31mx is gone"],
    )


def drawn(view: Sample, height: int | None = None, problem: str | None = None) -> list[str]:
    paper = io.StringIO()
    Console(file=paper, width=100).print(screen(view, "names:9876", height, problem))
    return [line.rstrip() for line in paper.getvalue().splitlines()]


def test_everything_is_on_it_when_there_is_room() -> None:
    lines = drawn(sample(), problem="name server is away")
    assert "2 brokers, 3 topics, 3 groups, 4 messages/s in" in lines[0]
    text = "\n".join(lines)
    assert "12.3" in text
    assert "91%" in text
    assert [line.split()[0] for line in lines if line.startswith(("t", "g")) and line[1].isdigit()] == [
        "t0", "t1", "t2", "g0", "g1", "g2",
    ]  # fmt: skip
    slave = next(line for line in lines if "h:2" in line)
    assert slave.count("unknown") == 4
    assert "does not answer" in slave
    assert lines[-2:] == ["name server is away", "topic \\x1b[31mx is gone"]


def test_a_lag_that_is_not_known_is_not_shown_as_0() -> None:
    view = sample()
    groups = [GroupLine(name="half", members=0, lag=None, known_lag=7, done=0, out_rate=0.0), *view.groups]
    lines = drawn(Sample(at=0.0, groups=groups))
    assert "unknown, at least 7" in next(line for line in lines if line.startswith("half"))
    assert next(line for line in lines if line.startswith("g0")).split()[2] == "unknown"


def test_it_fits_the_terminal() -> None:
    for topics, groups in ((50, 50), (2, 50), (50, 2), (0, 0)):
        lines = drawn(sample(topics, groups), height=24)
        assert len(lines) <= 24
    crowded = drawn(sample(50, 2), height=24)
    assert any(line.startswith("g1") for line in crowded)  # few groups leave their room to the topics
    assert any("… and " in line for line in crowded)
