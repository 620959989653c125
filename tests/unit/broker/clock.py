"""A clock that tests turn by hand."""


class FakeClock:
    """Unix milliseconds, moved only by the test."""

    def __init__(self, now: int = 1_700_000_000_000) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now

    def forward(self, millis: int) -> None:
        """Let time pass."""
        self.now += millis
