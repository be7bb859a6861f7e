"""Test an installed wheel: imports, versions, the command line, the page, and the kernel on captured batches.

    python -m pip install dist/penstock-*.whl prometheus-client
    python tools/smoke_wheel.py

`penstock watch`, `top` and `exporter` run against simulated brokers, so that it needs no Java. Run it with the Python
that the wheel was installed into. It refuses a penstock that was imported from a source tree.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
PROGRAM = Path(sys.executable).parent / "penstock"
"""The entry point is part of the wheel."""
DEADLINE = 60.0


def main() -> int:
    check_package()
    check_command_line()
    check_page()
    check_monitoring()
    captures = sorted(GOLDEN.glob("*.bin"))
    if not captures:
        sys.exit(f"smoke_wheel: {GOLDEN} has no captured batches")
    rows = sum(check_capture(capture) for capture in captures)
    print(f"smoke_wheel: {len(captures)} captured topics decoded, {rows} records as expected")
    return 0


def check_package() -> None:
    import penstock

    home = Path(penstock.__file__).resolve()
    expect(ROOT / "src" not in home.parents, f"penstock comes from the source tree, not from a wheel: {home}")

    from penstock import _kernel, read_batches

    expect(callable(read_batches), "penstock.read_batches is not callable")
    version = distribution("penstock").version
    expect(penstock.__version__ == version, f"penstock.__version__ is {penstock.__version__}, the wheel's is {version}")
    expect(_kernel.__version__ == version, f"the kernel's version is {_kernel.__version__}, the wheel's is {version}")
    print(f"smoke_wheel: penstock {version} on Python {sys.version.split()[0]}, {home.parent}")


def check_command_line() -> None:
    finished = run("--help")
    expect(finished.returncode == 0, f"penstock --help ended with {finished.returncode}: {finished.stderr}")
    expect("read" in finished.stdout, f"penstock --help does not list its commands: {finished.stdout}")


def check_page() -> None:
    """The page of `penstock watch` has files that are no modules."""
    from penstock.watch.server import page_files

    source = ROOT / "src" / "penstock" / "watch" / "page"
    served = {path.removeprefix("/") or "index.html": content for path, (_, content) in page_files().items()}
    written = {path.name: path.read_bytes() for path in source.iterdir()}
    expect(served == written, f"the page has {sorted(served)}, its source {sorted(written)}")


def check_monitoring() -> None:
    """The three commands that show a cluster, as processes, and the page with its modules over HTTP."""
    sys.path.insert(0, str(ROOT / "tests"))
    from penstock.model.topic_partition import TopicPartition
    from support.simulated_cluster import Group, SimulatedCluster

    with SimulatedCluster({"orders": 1}, {"billing": Group({TopicPartition("orders", 0): 900})}, brokers=1) as cluster:
        once = run("top", "-b", cluster.bootstrap, "--once", "--json")
        expect(once.returncode == 0, f"penstock top ended with {once.returncode}: {once.stderr}")
        lags = {group["name"]: group["lag"] for group in json.loads(once.stdout)["groups"]}
        expect(lags == {"billing": 100}, f"penstock top shows {lags}")
        with serving("watch", "-b", cluster.bootstrap, "--port", "0") as url:
            check_modules(url)
        with serving("exporter", "-b", cluster.bootstrap, "--port", "0") as url:
            wanted = 'penstock_group_pending_records{group="billing"} 100.0'
            text = fetch(url)
            expect(wanted in text, f"penstock exporter serves no {wanted}: {text[:2000]}")
    print("smoke_wheel: penstock watch, top and exporter show a simulated cluster")


def check_modules(url: str) -> None:
    """Fetch the page and what it refers to, as a browser does."""
    fetched: set[str] = set()
    waiting = {""}
    while waiting:
        path = waiting.pop()
        fetched.add(path)
        text = fetch(url + path)
        waiting |= set(re.findall(r'(?:src|href|from)[= ]"/(\w+\.\w+)"', text)) - fetched
    expect({"", "main.js", "table.js", "queries.js", "style.css"} <= fetched, f"the page refers to {sorted(fetched)}")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=DEADLINE, check=False)  # noqa: S603


@contextmanager
def serving(*arguments: str) -> Iterator[str]:
    """A command that serves until it is terminated, and prints its URL first."""
    process = subprocess.Popen([PROGRAM, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        if not url.startswith("http://127.0.0.1:"):
            process.kill()
            sys.exit(f"smoke_wheel: penstock {arguments[0]} prints {url!r}: {process.communicate()[1]}")
        yield url
        process.terminate()
        _, errors = process.communicate(timeout=DEADLINE)
        expect(process.returncode == 0, f"penstock {arguments[0]} ended with {process.returncode}: {errors}")
    finally:
        process.kill()
        process.communicate()


def fetch(url: str) -> str:
    """The text at a URL; 503 is an exporter that has not asked the brokers yet."""
    deadline = time.monotonic() + DEADLINE
    while True:
        try:
            with urllib.request.urlopen(url, timeout=DEADLINE) as answer:  # noqa: S310
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                expect(error.code == 503 and time.monotonic() < deadline, f"{url}: HTTP {error.code}")
        time.sleep(0.1)


def check_capture(capture: Path) -> int:
    """Decode batches that a real broker served; compare them with the records that librdkafka read from it."""
    expected = json.loads(capture.with_suffix(".json").read_text())
    found = [printable(row) for row in decode(capture.read_bytes(), expected)]
    expect(found == expected["records"], f"{capture.name}: the decoded records differ from the expected ones")
    return len(found)


def decode(data: bytes, expected: dict[str, Any]) -> list[dict[str, Any]]:
    import pyarrow as pa

    from penstock._kernel import Decoder

    end = expected["high_watermark"]
    aborted = expected["aborted"] and [tuple(transaction) for transaction in expected["aborted"]]
    decoder = Decoder("topic", 0, ["offset", "key", "value", "timestamp", "timestampType", "headers"])
    decoder.open(data, start=0, stop=end, high_watermark=end, aligned=False, cut=False, aborted=aborted)
    rows: list[dict[str, Any]] = []
    while (batch := decoder.next_batch()) is not None:
        arrow = pa.record_batch(batch)
        arrow.validate(full=True)
        column = arrow.schema.get_field_index("timestamp")
        rows += arrow.set_column(column, "timestamp", arrow.column(column).view(pa.int64())).to_pylist()
    return rows


def printable(row: dict[str, Any]) -> dict[str, Any]:
    """A decoded row in the form of the golden files: bytes in hex, milliseconds, headers as pairs."""
    headers = row["headers"]
    return {
        "offset": row["offset"],
        "key": hexadecimal(row["key"]),
        "value": hexadecimal(row["value"]),
        "timestamp": row["timestamp"] // 1000,
        "timestampType": row["timestampType"],
        "headers": headers and [[header["key"], hexadecimal(header["value"])] for header in headers],
    }


def hexadecimal(value: bytes | None) -> str | None:
    return None if value is None else value.hex()


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        sys.exit(f"smoke_wheel: {otherwise}")


if __name__ == "__main__":
    sys.exit(main())
