"""Test an installed wheel without a broker: imports, versions, the command line, and the kernel on captured batches.

    python -m pip install dist/penstock-*.whl
    python tools/smoke_wheel.py

Run it with the Python that the wheel was installed into. It refuses a penstock that was imported from a source tree.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"


def main() -> int:
    check_package()
    check_command_line()
    check_page()
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
    """Run the installed `penstock` program: the entry point is part of the wheel."""
    program = Path(sys.executable).parent / "penstock"
    finished = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    expect(finished.returncode == 0, f"penstock --help ended with {finished.returncode}: {finished.stderr}")
    expect("read" in finished.stdout, f"penstock --help does not list its commands: {finished.stdout}")


def check_page() -> None:
    """The page of `penstock watch` has files that are no modules."""
    from penstock.watch.server import page_files

    source = ROOT / "src" / "penstock" / "watch" / "page"
    served = {path.removeprefix("/") or "index.html": content for path, (_, content) in page_files().items()}
    written = {path.name: path.read_bytes() for path in source.iterdir()}
    expect(served == written, f"the page has {sorted(served)}, its source {sorted(written)}")


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
