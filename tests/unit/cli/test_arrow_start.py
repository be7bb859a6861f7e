"""Starting pyarrow without pandas."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import pyarrow as pa
from penstock.cli.arrow_start import without_pandas

without_pandas()
import penstock.predicate.row_filter
pa.array([1, None]), pa.scalar("a")
print("pandas" in sys.modules)
print(pa.table({"a": [1, 2]}).to_pandas().a.sum())
"""


def test_pyarrow_does_not_import_pandas_before_it_is_needed():
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert (ran.stdout.split(), ran.stderr) == (["False", "3"], "")
