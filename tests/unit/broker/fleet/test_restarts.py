"""When a broker that fell is started again."""

from pyromq.broker.fleet.restarts import LONGEST_PAUSE, MANY, STEADY_MS, Restarts


def test_the_pause_grows_while_it_keeps_falling() -> None:
    restarts = Restarts()
    assert [restarts.fell(0) for _ in range(8)] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, LONGEST_PAUSE, LONGEST_PAUSE]
    assert restarts.total == 8


def test_a_long_run_ends_the_row() -> None:
    restarts = Restarts()
    for _ in range(4):
        restarts.fell(0)
    restarts.begun(1_000)
    assert restarts.fell(1_000 + STEADY_MS) == 0.5
    assert (restarts.in_row, restarts.total) == (1, 5)
    restarts.begun(0)
    assert restarts.fell(STEADY_MS - 1) == 1.0


def test_many_falls_in_a_row_are_failing_and_it_never_gives_up() -> None:
    restarts = Restarts()
    for _ in range(MANY - 1):
        restarts.fell(0)
    assert not restarts.is_failing
    restarts.fell(0)
    assert restarts.is_failing
    assert {restarts.fell(0) for _ in range(1_000)} == {16.0, LONGEST_PAUSE}
