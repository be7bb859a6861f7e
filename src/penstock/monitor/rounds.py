"""One round of questions after the other: what is due, in which order, and within which limits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from penstock.model.topic_partition import Offsets, TopicPartition
from penstock.monitor.picture import SETTINGS, Picture
from penstock.monitor.settings import MonitorSettings
from penstock.monitor.snapshot import Snapshot
from penstock.wire.api.group_admin import CLASSIC, CONSUMER, DescribedGroup, ListedGroup
from penstock.wire.api.metadata import Broker, Metadata
from penstock.wire.lookup.next_records import NextRecord

SHARE = "share"
"""Share groups have no committed offsets of this kind."""


class ClusterSurvey(Protocol):
    """The questions. `penstock.wire.survey.Survey` answers them."""

    leaders_moved: bool

    def take_problems(self) -> list[str]: ...

    def topics(self) -> Metadata | None: ...

    def first_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets: ...

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> Offsets: ...

    def groups(self) -> dict[Broker, list[ListedGroup]]: ...

    def descriptions(self, by_coordinator: Mapping[Broker, Sequence[str]], kind: str) -> list[DescribedGroup]: ...

    def committed(
        self, by_coordinator: Mapping[Broker, Sequence[str]]
    ) -> Mapping[str, Mapping[TopicPartition, int]]: ...

    def next_records(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, NextRecord]: ...

    def sizes(self) -> dict[int, Offsets]: ...

    def settings(self, topics: Sequence[str], names: Sequence[str]) -> Mapping[str, Mapping[str, str]]: ...


class Rounds:
    """For the thread of one collector."""

    def __init__(
        self,
        survey: ClusterSurvey,
        settings: MonitorSettings,
        requests: Callable[[], int] = lambda: 0,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`requests` returns the number of requests so far."""
        self._survey = survey
        self._settings = settings
        self._requests = requests
        self._clock = clock
        self._wall = wall
        self._picture = Picture(settings.topics, settings.groups)
        self._last: Snapshot | None = None
        self._asked_at: dict[str, float] = {}
        self._described_last: str | None = None
        self._committed_last: str | None = None

    def run(self) -> Snapshot:
        """Ask what is due, and return a new snapshot. The first round asks for everything."""
        began = self._clock()
        is_reachable = self._topics()
        renewed: Sequence[str] = ()
        left = 0
        listed = self._survey.groups() if is_reachable else {}
        if is_reachable and not listed:
            # No broker answered, or all of them were replaced: ask who is there.
            is_reachable = self._ask_topics()
            listed = self._survey.groups() if is_reachable else {}
        if is_reachable:
            renewed = self._groups(listed)
            self._offsets()
            self._sizes_and_settings()
            left = self._record_times()
        self._last = self._picture.snapshot(
            self._last,
            wall=self._wall(),
            is_reachable=is_reachable,
            renewed=renewed,
            problems=self._survey.take_problems(),
            requests=self._requests(),
            round_seconds=self._clock() - began,
            lookups_left=left,
        )
        return self._last

    def _is_due(self, what: str, interval: float) -> bool:
        """Whether it was not asked for in this time. Counts as asked now."""
        now, last = self._clock(), self._asked_at.get(what)
        if last is not None and now - last < interval:
            return False
        self._asked_at[what] = now
        return True

    def _topics(self) -> bool:
        """Ask for topics if that is due. Returns whether the cluster is reachable."""
        was_reachable = self._last is not None and self._last.is_reachable
        is_due = self._is_due("topics", self._settings.topics_interval)
        if was_reachable and not is_due and not self._survey.leaders_moved:
            return True
        return self._ask_topics()

    def _ask_topics(self) -> bool:
        metadata = self._survey.topics()
        if metadata is None:
            return False
        self._picture.learn_topics(metadata)
        return True

    def _groups(self, listed: Mapping[Broker, Sequence[ListedGroup]]) -> Sequence[str]:
        """Members and committed offsets. Returns the groups whose offsets were asked for."""
        picture, survey = self._picture, self._survey
        picture.learn_groups(listed)
        groups = picture.groups
        for kind in (CLASSIC, CONSUMER):
            names = [name for name in self._to_describe(groups) if groups[name].kind == kind]
            if names:
                picture.learn_descriptions(survey.descriptions(self._by_coordinator(names), kind))
        chosen = self._to_ask_for_offsets(groups)
        if not chosen:
            return ()
        committed = survey.committed(self._by_coordinator(chosen))
        picture.learn_committed(committed, self._clock())
        return list(committed)

    def _to_describe(self, groups: Mapping[str, ListedGroup]) -> Sequence[str]:
        """Groups whose state has changed, then others in turn."""
        limit = self._settings.descriptions_per_round
        able = [name for name in sorted(groups) if groups[name].kind in (CLASSIC, CONSUMER)]
        changed = [name for name in able if self._picture.is_description_old(name)][:limit]
        others = [name for name in _after(able, self._described_last) if name not in set(changed)]
        others = others[: limit - len(changed)]
        if others:
            self._described_last = others[-1]
        return [*changed, *others]

    def _to_ask_for_offsets(self, groups: Mapping[str, ListedGroup]) -> Sequence[str]:
        """Groups in turn, until their offsets are as many as one round may ask for. At least one."""
        able = [name for name in sorted(groups) if groups[name].kind != SHARE]
        chosen: list[str] = []
        left = self._settings.positions_per_round
        for name in _after(able, self._committed_last):
            left -= self._picture.positions_of(name)
            if left < 0 and chosen:
                break
            chosen.append(name)
        if chosen:
            self._committed_last = chosen[-1]
        return chosen

    def _by_coordinator(self, groups: Iterable[str]) -> dict[Broker, list[str]]:
        found: dict[Broker, list[str]] = {}
        for name in groups:
            found.setdefault(self._picture.coordinator(name), []).append(name)
        return found

    def _offsets(self) -> None:
        """Ends are asked for after committed offsets, as `kafka-consumer-groups` does: else a group that keeps up would
        seem to be past the end."""
        picture = self._picture
        if self._is_due("begins", self._settings.begins_interval):
            picture.learn_begins(self._survey.first_offsets(picture.partitions))
        picture.learn_ends(self._survey.end_offsets(picture.partitions), self._clock())

    def _sizes_and_settings(self) -> None:
        if self._is_due("sizes", self._settings.sizes_interval):
            self._picture.learn_sizes(self._survey.sizes())
        if self._is_due("settings", self._settings.settings_interval):
            self._picture.learn_settings(self._survey.settings(self._picture.topics, SETTINGS))

    def _record_times(self) -> int:
        """Look up next records within the limit. Returns how many were left for a later round."""
        picture, times = self._picture, self._picture.times
        wanted = picture.next_offsets()
        times.keep(wanted)
        missing = times.missing(wanted, picture.ends)
        for offsets in times.choose(missing, self._settings.lookups_per_round):
            times.learn(offsets, self._survey.next_records(offsets), picture.ends)
        return sum(map(len, times.missing(missing, picture.ends).values()))


def _after(names: Sequence[str], last: str | None) -> Sequence[str]:
    """The same sorted names, beginning behind the last one."""
    if last is None:
        return names
    start = next((at for at, name in enumerate(names) if name > last), 0)
    return [*names[start:], *names[:start]]
