"""The pages of a fleet, made of those of its brokers: green when all are, and one scrape for all. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyromq.broker.httpserver import Page

_UP = "pyromq_process_up"
_RESTARTS = "pyromq_process_restarts_total"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Standing:
    """How one broker is; `trouble` is empty when all is well."""

    name: str
    trouble: str
    pid: int | None = None
    restarts: int = 0
    is_up: bool = True
    """Whether its process serves requests, however well."""

    @property
    def line(self) -> str:
        """For the page of health."""
        facts = [f"process {self.pid}"] if self.pid is not None else []
        facts += [f"restarts: {self.restarts}"] if self.restarts else []
        return f"{self.name}: {self.trouble or 'ok'}" + (f" ({', '.join(facts)})" if facts else "")


def health(standings: Sequence[Standing]) -> Page:
    """`ok` and a line for each broker, or how many are not, with status 503."""
    bad = sum(bool(each.trouble) for each in standings)
    head = f"{bad} of {len(standings)} brokers are not well" if bad else "ok"
    body = "\n".join([head, *(each.line for each in standings)]) + "\n"
    return Page(body.encode(), status="503 Service Unavailable" if bad else "200 OK")


def metrics(cluster: str, standings: Sequence[Standing], pages: Iterable[Page]) -> Page:
    """Those of all brokers, which name themselves in `node_id`, and two about their processes."""
    own = _family(_UP, "gauge", "Whether the broker's process runs.", cluster, _ups(standings))
    own += _family(_RESTARTS, "counter", "How often it fell and was started again.", cluster, _restarts(standings))
    shown = list(pages)
    kind = shown[0].content_type if shown else METRICS_TYPE
    return Page(merged([*(page.body for page in shown), own.encode()]), kind)


def merged(pages: Iterable[bytes]) -> bytes:
    """Several pages for Prometheus as one, in which the values of one metric stand together, as its form demands."""
    heads: dict[bytes, list[bytes]] = {}
    values: dict[bytes, list[bytes]] = {}
    for page in pages:
        family, of_page = b"", set()
        for line in page.splitlines():
            if line.startswith((b"# HELP ", b"# TYPE ")):
                family = line.split(b" ", 3)[2]
                if family not in heads:
                    of_page.add(family)
                if family in of_page:
                    heads.setdefault(family, []).append(line)
            elif line and not line.startswith(b"#"):
                values.setdefault(family, []).append(line)
    lines = [line for family in heads for line in (*heads[family], *values.get(family, ()))]
    return b"\n".join(lines) + b"\n" if lines else b""


def _ups(standings: Sequence[Standing]) -> list[tuple[str, int]]:
    return [(each.name, int(each.is_up)) for each in standings]


def _restarts(standings: Sequence[Standing]) -> list[tuple[str, int]]:
    return [(each.name, each.restarts) for each in standings]


def _family(name: str, kind: str, doc: str, cluster: str, values: Iterable[tuple[str, int]]) -> str:
    lines = [f"# HELP {name} {doc}", f"# TYPE {name} {kind}"]
    lines += [
        f'{name}{{cluster="{cluster}",node_type="broker",node_id="{broker}"}} {value}' for broker, value in values
    ]
    return "\n".join(lines) + "\n"
