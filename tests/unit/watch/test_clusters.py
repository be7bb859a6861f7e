"""The rows of the clusters of a page."""

from __future__ import annotations

from penstock.watch.clusters import ClusterRows
from penstock.watch.rows import cluster_row, tables_of
from support.made_snapshots import group, snapshot, topic


def test_rows_keep_their_order_and_only_changes_count():
    rows = ClusterRows()
    assert (rows.version, rows.rows()) == (0, [])
    rows.put({"name": "b"})
    rows.put({"name": "a"})
    before = rows.version
    rows.put({"name": "b"})
    assert rows.version == before
    rows.put({"name": "b", "lag": 5})
    assert rows.version > before
    assert rows.rows() == [{"name": "b", "lag": 5}, {"name": "a"}]


def test_a_row_sums_a_cluster_and_names_its_latest_group():
    assert cluster_row("c", None) == {"name": "c"}
    made = snapshot(1, [topic("t", partitions=2), topic("u")], [group("g", seconds=5.0), group("h", seconds=None)])
    row = cluster_row("c", tables_of(made))
    assert (row["topics"], row["groups"], row["lag"], row["seconds"]) == (2, 2, 200, 5.0)
    assert (row["rate_in"], row["certainty"], row["is_reachable"]) == (4.0, "exact", True)
    assert cluster_row("c", tables_of(snapshot()))["seconds"] is None
