"""A cluster of plain values, which answers a monitor's questions."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.model.topic_partition import TopicPartition
from penstock.monitor.rounds import Rounds
from penstock.monitor.settings import MonitorSettings
from penstock.wire.api.group_admin import DescribedGroup, GroupMember, ListedGroup
from penstock.wire.api.metadata import Broker, Leader, Metadata, Topic
from penstock.wire.lookup.next_records import NOTHING_LEFT, NextRecord

BROKER = Broker(1, "broker", 9092)


@dataclass
class FakeSurvey:
    """Topics of one broker. Records have the timestamps in `times`; others have none that is known."""

    ends: dict[TopicPartition, int] = field(default_factory=dict)
    begins: dict[TopicPartition, int] = field(default_factory=dict)
    commits: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    members: dict[str, list[list[TopicPartition]]] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    times: dict[tuple[TopicPartition, int], int | None] = field(default_factory=dict)
    is_up: bool = True
    leaders_moved: bool = False
    problems: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    looked_up: list[tuple[TopicPartition, int]] = field(default_factory=list)

    def take_problems(self):
        problems, self.problems = self.problems, []
        return problems

    def _answer(self, what, answer, nothing):
        self.asked.append(what)
        if not self.is_up:
            self.problems.append(f"{what}: no broker answers")
            return nothing
        return answer

    def topics(self):
        topics = {}
        for tp in sorted(self.ends):
            topics.setdefault(tp.topic, {})[tp.partition] = Leader(BROKER, 0)
        found = {name: Topic(name, None, name.startswith("__"), leaders) for name, leaders in topics.items()}
        return self._answer("topics", Metadata({1: BROKER}, found, "fake"), None)

    def first_offsets(self, partitions):
        return self._answer("first offsets", {tp: self.begins.get(tp, 0) for tp in partitions}, {})

    def end_offsets(self, partitions):
        return self._answer("end offsets", {tp: self.ends[tp] for tp in partitions}, {})

    def groups(self):
        listed = [
            ListedGroup(
                name, self.kinds.get(name, "classic"), "Stable" if self.members.get(name) else "Empty", "consumer"
            )
            for name in self.commits
        ]
        return self._answer("groups", {BROKER: listed}, {})

    def descriptions(self, by_coordinator, kind):
        described = []
        for name in by_coordinator[BROKER]:
            members = tuple(
                GroupMember(f"{name}-{at}", "client", "10.0.0.1", None, tuple(owned))
                for at, owned in enumerate(self.members.get(name, ()))
            )
            state = "Stable" if members else "Empty"
            described.append(DescribedGroup(name, self.kinds.get(name, "classic"), state, "range", members))
        return self._answer(f"members {' '.join(by_coordinator[BROKER])}", described, [])

    def committed(self, by_coordinator):
        names = by_coordinator[BROKER]
        return self._answer(f"committed {' '.join(names)}", {name: dict(self.commits[name]) for name in names}, {})

    def next_records(self, offsets):
        self.looked_up.extend(offsets.items())
        found = {}
        for tp, offset in offsets.items():
            if (tp, offset) in self.times:
                timestamp = self.times[tp, offset]
                found[tp] = NOTHING_LEFT if timestamp is None else NextRecord(True, timestamp)
        return self._answer("record times", found, {})

    def sizes(self):
        return self._answer("sizes", {1: dict.fromkeys(self.ends, 1024)}, {})

    def settings(self, topics, names):
        settings = {"retention.ms": "60000", "retention.bytes": "-1", "cleanup.policy": "delete"}
        return self._answer("settings", dict.fromkeys(topics, settings), {})


def snapshot_of(survey, rounds=1, wall=1_800_000_000.0, before_each=lambda: None):
    """The last of so many rounds, which are a second apart."""
    monitor = Rounds(
        survey, MonitorSettings(), clock=lambda: float(survey.asked.count("end offsets")), wall=lambda: wall
    )
    for _ in range(rounds):
        before_each()
        snapshot = monitor.run()
    return snapshot
