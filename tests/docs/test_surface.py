"""What users import: the names of the two faces, and that documentation and examples need nothing deeper."""

import ast
import importlib
import inspect
import subprocess
import sys

import pytest

import pyromq
import pyromq.aio
from tests.docs.pages import ROOT, blocks, pages

PUBLIC = {
    "pyromq",
    "pyromq.aio",
    "pyromq.hooks",
    "pyromq.metrics",
    "pyromq.selectors",
    "pyromq.spark",
    "pyromq.testing",
}

CLIENTS = {"Admin", "Producer", "PullConsumer", "PushConsumer", "TransactionProducer"}

VALUES = {
    "AccessChannel",
    "AllocationStrategy",
    "Average",
    "AverageByCircle",
    "AvoidanceTable",
    "BrokerError",
    "ByConfig",
    "ByMachineRoom",
    "ClientConfig",
    "ClientError",
    "ClientTls",
    "CompressionType",
    "ConcurrentContext",
    "ConsistentHash",
    "ConsumeFromWhere",
    "ConsumeOutcome",
    "LocalTransactionState",
    "Message",
    "MessageModel",
    "MessageQueue",
    "NearbyRoom",
    "NoRouteError",
    "OffsetStore",
    "OnDamaged",
    "OrderlyContext",
    "PartialFailureError",
    "ProducerConfig",
    "PullConfig",
    "PullResult",
    "PullStatus",
    "PushConfig",
    "PyroMQError",
    "ReceivedMessage",
    "RedriveError",
    "RedriveTo",
    "RequestTimeout",
    "SendFailedError",
    "SendResult",
    "SendStatus",
    "ServiceStateError",
    "SocksProxy",
    "TooManyRequestsError",
    "TransactionListener",
    "TransactionSendResult",
    "TransportError",
    "context_of",
    "create_reply",
}


@pytest.mark.parametrize("face", ["pyromq", "pyromq.aio"])
def test_both_faces_have_exactly_these_names(face: str) -> None:
    module = importlib.import_module(face)
    assert sorted(module.__all__) == sorted(CLIENTS | VALUES)
    assert all(hasattr(module, name) for name in module.__all__)


def test_the_faces_differ_in_their_clients_only() -> None:
    for name in VALUES:
        assert getattr(pyromq, name) is getattr(pyromq.aio, name)
    for name in CLIENTS:
        assert getattr(pyromq, name) is not getattr(pyromq.aio, name)


def test_a_blocking_client_has_the_methods_of_its_twin() -> None:
    for name in CLIENTS:
        blocking, twin = getattr(pyromq, name), getattr(pyromq.aio, name)
        for method, function in inspect.getmembers(blocking, inspect.isfunction):
            if not method.startswith("_") and (other := getattr(twin, method, None)) is not None:
                assert list(inspect.signature(function).parameters) == list(inspect.signature(other).parameters), method


def test_importing_the_package_loads_no_client() -> None:
    code = "import sys, pyromq\nfrom pyromq import durable\nassert 'pyromq.client' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_producer_loads_no_consumer() -> None:
    code = (
        "import sys\nfrom pyromq import Message, Producer, PyroMQError, SendFailedError, SendStatus\n"
        "assert not [name for name in sys.modules if name.startswith('pyromq.client.consumer')]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_documentation_and_examples_import_public_modules_only() -> None:
    texts = {
        f"{page.name}:{block.line}": block.text
        for page in pages()
        for block in blocks(page)
        if block.language == "python"
    }
    texts |= {str(file.relative_to(ROOT)): file.read_text() for file in (ROOT / "examples").rglob("*.py")}
    assert len(texts) > len(CLIENTS)
    for place, text in texts.items():
        for node in ast.walk(ast.parse(text)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            deep = [name for name in names if name.partition(".")[0] == "pyromq" and name not in PUBLIC]
            assert not deep, f"{place} imports {deep}"
