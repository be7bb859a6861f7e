"""What keys do to the view of `penstock top`, and the rows it shows."""

from __future__ import annotations

import pytest

from penstock.cli.top.view import Table, View
from penstock.model.topic_partition import TopicPartition
from penstock.monitor.rounds import Rounds
from penstock.monitor.settings import MonitorSettings
from support.fake_survey import FakeSurvey

A, B = TopicPartition("t", 0), TopicPartition("u", 0)
WALL = 1_800_000_000.0


@pytest.fixture(scope="module")
def snapshot():
    survey = FakeSurvey(
        {A: 100, B: 10},
        commits={"one": {A: 90}, "two": {A: 50, B: 10}, "read": {A: 100}, "unknown": {A: 40}},
        times={(A, 90): int((WALL - 30) * 1000), (A, 50): int((WALL - 60) * 1000)},
    )
    return Rounds(survey, MonitorSettings(), wall=lambda: WALL).run()


def shown(view, snapshot):
    return [getattr(item, "name", None) or f"{item.topic}-{item.partition}" for item in view.rows(snapshot)]


def pressed(snapshot, *keys, view=None):
    view = view or View()
    for key in keys:
        view.press(key, snapshot)
    return view


def test_the_group_that_is_furthest_behind_comes_first_and_the_unknown_last(snapshot):
    view = View()
    assert shown(view, snapshot) == ["two", "one", "read", "unknown"]
    assert shown(pressed(snapshot, "r", view=view), snapshot) == ["read", "one", "two", "unknown"]


def test_columns_to_the_left_and_right_sort(snapshot):
    view = pressed(snapshot, "left")
    assert (view.sort[Table.GROUPS], shown(view, snapshot)) == (("LAG", True), ["unknown", "two", "one", "read"])
    pressed(snapshot, "left", "left", "left", view=view)
    assert (view.sort[Table.GROUPS], shown(view, snapshot)) == (("GROUP", False), ["one", "read", "two", "unknown"])
    assert pressed(snapshot, "left", view=view).sort[Table.GROUPS][0] == "DELETED"


def test_a_filter_is_typed_kept_and_cleared(snapshot):
    view = pressed(snapshot, "/", "O", "q", "backspace")
    assert (view.filter, view.is_over, shown(view, snapshot)) == ("O", False, ["two", "one", "unknown"])
    pressed(snapshot, "enter", "q", view=view)
    assert (view.filter, view.is_over) == ("O", True)
    assert pressed(snapshot, "escape", view=view).filter == ""


def test_the_partitions_of_the_selected_group_and_back(snapshot):
    view = pressed(snapshot, "down", "up", "enter")
    assert (view.table, view.of, shown(view, snapshot)) == (Table.POSITIONS, "two", ["t-0", "u-0"])
    pressed(snapshot, "escape", view=view)
    assert (view.table, view.selected) == (Table.GROUPS, "two")
    pressed(snapshot, "t", "end", "enter", view=view)
    assert (view.table, shown(view, snapshot)) == (Table.PARTITIONS, [f"{view.of}-0"])
    assert pressed(snapshot, "escape", "g", view=view).table is Table.GROUPS


def test_the_selection_stays_within_the_rows_and_on_its_name(snapshot):
    view = pressed(snapshot, *["down"] * 9)
    assert view.selected == "unknown"
    assert pressed(snapshot, "page-up", view=view).selected == "two"
    pressed(snapshot, "down", "r", view=view)
    assert (view.selected, view.place(view.rows(snapshot))) == ("one", 1)
    pressed(snapshot, "home", view=view)
    assert view.selected == "read"


@pytest.mark.parametrize("key", ["down", "enter", "escape", "x", "left", "r"])
def test_keys_before_the_first_snapshot_do_no_harm(key):
    assert not pressed(None, key).is_over


def test_every_column_of_every_table_sorts(snapshot):
    for table, of in ((Table.GROUPS, ""), (Table.TOPICS, ""), (Table.POSITIONS, "two"), (Table.PARTITIONS, "t")):
        view = View(table, of)
        for column in view.columns:
            for largest_first in (False, True):
                view.sort_by(column.name, largest_first=largest_first)
                for item in view.rows(snapshot):
                    assert isinstance(column.text(item), str)
