"""Rows of tables, and what changes between two snapshots."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from penstock.monitor.snapshot import Certainty, GroupPosition
from penstock.watch.rows import compact, delta, detail, detail_delta, event, full, tables_of
from support.made_snapshots import HOSTILE, group, member, snapshot, topic


def applied(rows, changes):
    """What the page does with changes."""
    return merged(rows.values(), changes, "name")


def merged(rows, changes, *names):
    known = {tuple(row[name] for name in names): dict(row) for row in rows}
    for row in changes["gone"]:
        del known[tuple(row[name] for name in names)]
    for row in changes["set"]:
        known.setdefault(tuple(row[name] for name in names), {}).update(row)
    return known


def test_an_unchanged_row_is_not_sent_again():
    old = tables_of(snapshot(1, [topic("a"), topic("b")], [group("x")]))
    new = tables_of(snapshot(2, [topic("a"), topic("b", end=2000)], [group("x")]))
    found = delta(old, new)
    assert found["base"] == 1
    assert found["topics"] == {"set": [{"name": "b", "records": 2000}], "gone": []}
    assert found["groups"] == {"set": [], "gone": []}


def test_ten_thousand_unchanged_rows_are_less_than_a_kilobyte():
    groups = [group(f"g{at}") for at in range(10_000)]
    old, new = tables_of(snapshot(1, (), groups)), tables_of(snapshot(2, (), groups))
    assert len(event("delta", 2, delta(old, new))) < 1000


def test_changes_turn_the_old_rows_into_the_new_ones():
    old = tables_of(snapshot(1, [topic("a"), topic("b")], [group("x"), group("y")]))
    new = tables_of(snapshot(2, [topic("b", end=5), topic("c")], [group("y", committed=1000), group("z")]))
    found = json.loads(compact(delta(old, new)))
    assert applied(old.topics, found["topics"]) == {(name,): row for name, row in new.topics.items()}
    assert applied(old.groups, found["groups"]) == {(name,): row for name, row in new.groups.items()}


def test_hostile_names_stay_one_line_of_ascii_and_come_back_whole():
    tables = tables_of(snapshot(1, [topic(HOSTILE)], [group(HOSTILE), group("\ud800"), group("event: x\n\ndata: y")]))
    encoded = event("full", 1, full(tables))
    name, number, data, *rest = encoded.decode("ascii").split("\n")
    assert (name, number, rest) == ("event: full", "id: 1", ["", ""])
    found = json.loads(data.removeprefix("data: "))
    assert found["topics"][0]["name"] == HOSTILE
    assert [row["name"] for row in found["groups"]] == [HOSTILE, "\ud800", "event: x\n\ndata: y"]


def test_details_have_partitions_and_clients():
    assert detail(topic(partitions=3))["partitions"][2]["partition"] == 2
    found = detail(group(members=[member("m", 0)]))
    assert found["members"][0]["client_id"] == "client m"
    assert found["positions"][0]["lag"] == 100


def test_a_detail_of_ten_thousand_unchanged_partitions_is_less_than_a_kilobyte():
    found = detail_delta(topic(partitions=10_000), topic(partitions=10_000))
    assert found["partitions"] == {"set": [], "gone": []}
    assert len(compact(found)) < 1000


def test_changed_cells_of_a_partition_are_sent_with_its_number():
    found = detail_delta(topic(end=1000, partitions=2), topic(end=1001, partitions=2))
    assert found["partitions"]["set"] == [{"partition": 0, "end": 1001}, {"partition": 1, "end": 1001}]


@given(
    *[st.lists(st.tuples(st.sampled_from("tu"), st.integers(0, 5), st.integers(0, 3)), max_size=8) for _ in range(2)],
    *[st.booleans() for _ in range(2)],
)
def test_changes_turn_the_old_detail_of_a_group_into_the_new_one(before, after, is_old_named, is_new_named):
    def made(places, is_named):
        """Positions of topics and partitions; the client's name shows only if the member is known."""
        positions = {
            (name, partition): GroupPosition(name, partition, lag, 9, lag, 1.0, Certainty.EXACT, 0, "m")
            for name, partition, lag in places
        }
        return replace(group(members=[member("m")] * is_named), positions=tuple(positions.values()))

    old, new = made(before, is_old_named), made(after, is_new_named)
    found = merged(detail(old)["positions"], detail_delta(old, new)["positions"], "topic", "partition")
    assert found == {(row["topic"], row["partition"]): row for row in detail(new)["positions"]}
    assert detail_delta(old, new)["members"] == detail(new)["members"]
