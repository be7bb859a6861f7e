"""Rows of tables, and what changes between two snapshots."""

from __future__ import annotations

import json

from penstock.watch.rows import compact, delta, event, full, group_detail, tables_of, topic_detail
from support.made_snapshots import HOSTILE, group, member, snapshot, topic


def applied(rows, changes):
    """What the page does with changes."""
    known = {name: dict(row) for name, row in rows.items()}
    for name in changes["gone"]:
        del known[name]
    for row in changes["set"]:
        known.setdefault(row["name"], {}).update(row)
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
    assert applied(old.topics, found["topics"]) == new.topics
    assert applied(old.groups, found["groups"]) == new.groups


def test_hostile_names_stay_one_line_of_ascii_and_come_back_whole():
    tables = tables_of(snapshot(1, [topic(HOSTILE)], [group(HOSTILE), group("\ud800"), group("event: x\n\ndata: y")]))
    encoded = event("full", 1, full(tables))
    name, number, data, *rest = encoded.decode("ascii").split("\n")
    assert (name, number, rest) == ("event: full", "id: 1", ["", ""])
    found = json.loads(data.removeprefix("data: "))
    assert found["topics"][0]["name"] == HOSTILE
    assert [row["name"] for row in found["groups"]] == [HOSTILE, "\ud800", "event: x\n\ndata: y"]


def test_details_have_partitions_and_clients():
    assert topic_detail(topic(partitions=3))["partitions"][2]["partition"] == 2
    found = group_detail(group(members=[member("m", 0)]))
    assert found["members"][0]["client_id"] == "client m"
    assert found["positions"][0]["lag"] == 100
