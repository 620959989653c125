"""`pyromq bench`: load on a cluster, with the options of RocketMQ's own benchmark scripts.

Their threads are tasks of one event loop here: `-w 64` keeps 64 sends under way.
"""

import typer

from pyromq.cli.bench import consumer as consuming
from pyromq.cli.bench import producer as producing
from pyromq.cli.bench import transactions

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
app.command("producer", epilog="Example: pyromq bench producer -w 64 -s 1024 --seconds 30")(producing.producer)
app.command("batch", epilog="Example: pyromq bench batch -b 32 -q 100000")(producing.batch)
app.command("consumer", epilog="Example: pyromq bench consumer -g bench -p false --seconds 30")(consuming.consumer)
app.command("transaction", epilog="Example: pyromq bench transaction -sr 0.1 --seconds 30")(transactions.transaction)


@app.callback()
def bench() -> None:
    """Put load on a cluster: the options of RocketMQ's own benchmark scripts."""
