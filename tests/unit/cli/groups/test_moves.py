"""`penstock groups` without a broker: the offsets of a reset, files of offsets, descriptions."""

from __future__ import annotations

import logging
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import cli
from penstock.cli.groups import lookup, reset
from penstock.cli.groups.describe import Standing, standings
from penstock.cli.groups.moves import Listed, Move, Shift, moves, parse_target, parse_topic, read_offsets_file
from penstock.cli.positions import AtOffset, LastRecords
from penstock.errors import OptionError
from penstock.model.offset_spec import AtTimestamp, Earliest, Latest
from penstock.model.topic_partition import TopicPartition
from penstock.wire.api.frame import encode_count, encode_text
from penstock.wire.api.group_admin import CONSUMER_GROUP_DESCRIBE, DescribedGroup, GroupMember, consumer_group

TP = TopicPartition("clicks", 0)
BEGIN, END = {TP: 20}, {TP: 100}


def sent(target, committed=50, at_time=None):
    (move,) = moves(target, [TP], {TP: committed}, BEGIN, END, {TP: at_time})
    assert (move.topic, move.partition, move.old) == (*TP, committed)
    return move.new, move.note


@pytest.mark.parametrize(
    ("target", "new", "note"),
    [
        (Earliest(), 20, ""),
        (Latest(), 100, ""),
        (AtOffset(77), 77, ""),
        (AtOffset(100), 100, ""),
        (AtOffset(5), 20, "its beginning: 5 no longer exists"),
        (AtOffset(101), 100, "its end: 101 is not written yet"),
        (LastRecords(10), 90, ""),
        (LastRecords(1000), 20, ""),
        (Shift(-10), 40, ""),
        (Shift(10), 60, ""),
        (Shift(-1000), 20, "its beginning"),
        (Shift(1000), 100, "its end: 1050 is not written yet"),
        (Listed({TP: 33}), 33, ""),
    ],
)
def test_where_a_reset_leads(target, new, note):
    assert sent(target) == (new, note)


def test_a_time_leads_to_the_first_record_at_or_after_it_and_to_the_end_if_there_is_none():
    assert sent(AtTimestamp(1), at_time=42) == (42, "")
    assert sent(AtTimestamp(1), at_time=None) == (100, "no record at or after the time: its end")


def test_what_has_no_committed_offset_cannot_be_moved_by_some():
    with pytest.raises(OptionError, match=r"--by = '-5': clicks-0 has no committed offset to move from. Use --to"):
        sent(Shift(-5), committed=None)
    assert sent(Earliest(), committed=None) == (20, "")


offsets = st.integers(0, 2**40)


@given(st.one_of(offsets.map(AtOffset), offsets.map(LastRecords), st.integers(-(2**40), 2**40).map(Shift)), offsets)
def test_a_reset_never_leaves_the_log(target, committed):
    new, _ = sent(target, committed)
    assert BEGIN[TP] <= new <= END[TP]


@pytest.mark.parametrize(
    ("text", "parsed"),
    [("clicks", ("clicks", None)), ("clicks:2", ("clicks", (2,))), ("clicks:2, 0,2", ("clicks", (0, 2)))],
)
def test_topics_with_and_without_partitions(text, parsed):
    assert parse_topic(text) == parsed


@pytest.mark.parametrize("text", ["", ":1", "clicks:", "clicks:a", "clicks:-1", "clicks:1,,2", "clicks:²"])
def test_a_topic_that_cannot_be_read_is_named(text):
    with pytest.raises(OptionError, match="Example: words or words:0,2"):
        parse_topic(text)


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("earliest", Earliest()),
        ("-10", LastRecords(10)),
        ("1234", AtOffset(1234)),
        ("1738324800000", AtTimestamp(1738324800000, "--to")),
        ("2025-01-31T12:00Z", AtTimestamp(1738324800000, "--to")),
    ],
)
def test_positions_are_those_of_read(text, target):
    assert parse_target(text) == target


def test_the_groups_own_offsets_are_no_target():
    with pytest.raises(OptionError, match="use --by N"):
        parse_target("group")


@pytest.mark.parametrize(
    "text",
    [
        '"clicks",0,12\n"clicks",1,13\n',
        "# by hand\nclicks, 0, 12\n\nclicks,1,13",
        '{"clicks": {"0": 12, "1": 13}}',
        "\ufeffclicks,0,12\nclicks,1,13\n",  # from a table's program
    ],
)
def test_offsets_from_a_file(tmp_path, text):
    (tmp_path / "offsets").write_text(text)
    assert read_offsets_file(str(tmp_path / "offsets")) == Listed({TP: 12, TopicPartition("clicks", 1): 13})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "contains no offsets"),
        ("clicks,0,12\nclicks,0", "line 2 is not a topic, a partition and an offset"),
        ("clicks,0,-1", "line 1 is not"),
        ("clicks,zero,1", "line 1 is not"),
        ("group,clicks,0,1", "line 1 is not"),
        ("clicks,0,12\nclicks,0,13", "has two offsets for clicks-0"),
        ('{"clicks": 12}', "'clicks' is not"),
        ('{"clicks": {"0": true}}', "'clicks', partition 0 is not"),
        ('{"clicks"', "is not JSON"),
    ],
)
def test_a_file_that_makes_no_sense_is_refused_at_the_line(tmp_path, text, words):
    (tmp_path / "offsets").write_text(text)
    with pytest.raises(OptionError, match=words) as caught:
        read_offsets_file(str(tmp_path / "offsets"))
    assert caught.value.name == "--from-file"


def test_a_file_that_is_not_there_is_named():
    with pytest.raises(OptionError, match="cannot be read: No such file"):
        read_offsets_file("nowhere.csv")


# --- usage --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["reset", "g", "--to", "earliest"], "--topic: is missing"),
        (["reset", "g", "--to", "earliest", "--topic", "t", "--all-topics"], "contradicts --all-topics"),
        (["reset", "g", "--from-file", "x", "--topic", "t"], "contradicts --from-file"),
        (["reset", "g", "--to", "soon", "--topic", "t"], "is not a position"),
        (["list"], "--bootstrap-server: is missing"),
        (["--event-time"], "--bootstrap-server: is missing"),
        (["describe", "g", "--max-drift", "5m"], "Add --event-time"),
        (["--event-time", "--max-drift", "soon", "describe", "g"], "--max-drift"),
        (["--event-time", "--max-drift", "5", "describe", "g"], "has no unit. Write 5s or 5ms"),
        (["--event-time", "delete", "g"], "cannot be used with delete"),
        (["--event-time", "reset", "g", "--topic", "t", "--to", "earliest"], "cannot be used with reset"),
    ],
)
def test_wrong_usage_fails_before_any_request(arguments, words, capsys, monkeypatch):
    monkeypatch.delenv("PENSTOCK_BOOTSTRAP", raising=False)
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    assert cli.main(["groups", *arguments]) == cli.WRONG_USAGE
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [["reset", "g", "--topic", "t"], ["reset", "g", "--to", "earliest", "--by", "1"], ["describe"], []],
)
def test_missing_and_extra_arguments_print_the_usage(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["groups", *arguments])
    assert ended.value.code == cli.WRONG_USAGE
    assert "usage: penstock groups" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["-b", "a:1", "-o", "client.id=x", "list"],
        ["list", "-b", "a:1", "-o", "client.id=x"],
        ["-o", "client.id=x", "-b", "nobody:2", "list", "-b", "a:1"],
        ["-b", "a:1", "-o", "client.id=y", "-o", "client.rack=r", "list", "-o", "client.id=x"],
    ],
)
def test_the_broker_may_stand_before_or_after_the_verb(arguments, monkeypatch):
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)
    seen = []

    class Admin:
        def __init__(self, client):
            seen.append((client.bootstrap_text, client.client_id, client.client_rack))

        def groups(self):
            return []

    monkeypatch.setattr(lookup, "ShareGroupAdmin", Admin)
    assert cli.main(["groups", *arguments]) == 0
    assert seen == [("a:1", "x", "r" if "client.rack=r" in arguments else "")]


# --- describe -----------------------------------------------------------------------------------------------------


def test_standings_have_committed_and_owned_partitions():
    one, two, three = (TopicPartition("clicks", number) for number in range(3))
    described = DescribedGroup("g", "classic", "Stable", "range", (GroupMember("m", "c", "h", None, (two, three)),))
    assert standings(described, {one: 5, two: 200}, {one: 10, two: 150, three: 7}) == [
        Standing("clicks", 0, 5, 10, 5, None),
        Standing("clicks", 1, 200, 150, 0, "m"),
        Standing("clicks", 2, None, 7, None, "m"),
    ]


def described_frame(tags: bytes = b"\0") -> bytes:
    """A ConsumerGroupDescribe response, version 0, as the protocol has it; with tagged fields where it may have."""

    def text(value: str | None) -> bytes:
        return b"\0" if value is None else encode_text(value, True)

    numbers = encode_count(2, True) + (0).to_bytes(4) + (2).to_bytes(4)
    assignment = encode_count(1, True) + b"i" * 16 + text("clicks") + numbers + tags + tags
    member = (text("m-1") + text("static-1") + text(None) + (7).to_bytes(4) + text("me") + text("/10.0.0.1")) + (
        encode_count(1, True) + text("clicks") + text(None) + assignment + assignment + tags
    )
    group = ((0).to_bytes(2) + text(None) + text("g") + text("Stable") + (7).to_bytes(4) + (7).to_bytes(4)) + (
        text("uniform") + encode_count(1, True) + member + (0).to_bytes(4) + tags
    )
    return (3).to_bytes(4) + tags + (0).to_bytes(4) + encode_count(1, True) + group + tags


@pytest.mark.parametrize("tags", [b"\0", b"\1\0\3abc"])
def test_a_description_of_the_new_kind_is_read(tags):
    response = CONSUMER_GROUP_DESCRIBE.read_response(memoryview(described_frame(tags)), 0, 3)
    assert consumer_group(response, "g") == DescribedGroup(
        "g",
        "consumer",
        "Stable",
        "uniform",
        (GroupMember("m-1", "me", "10.0.0.1", "static-1", (TopicPartition("clicks", 0), TopicPartition("clicks", 2))),),
    )


def test_a_description_that_is_cut_short_is_an_error_and_not_a_hang():
    frame = described_frame()
    for length in range(len(frame)):
        with pytest.raises((ValueError, IndexError, struct.error)):
            CONSUMER_GROUP_DESCRIBE.read_response(memoryview(frame[:length]), 0, 3)


def test_a_move_says_what_changes():
    assert [reset._change(Move("t", 0, old, 5)) for old in (None, 5, 1, 1005)] == ["", "0", "+4", "-1,000"]
