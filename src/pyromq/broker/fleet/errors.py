"""What keeps a fleet from starting."""

from pyromq.errors import PyroMQError


class FleetError(PyroMQError):
    """A broker of the fleet could not be started. The text names it, says why, and what it takes."""
