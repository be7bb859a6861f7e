"""The offsets of positions in the partitions of a topic."""

from __future__ import annotations

from penstock.cli.positions import AtOffset, LastRecords, Position, nearest
from penstock.config.source import SourceOptions
from penstock.errors import UnknownTopic
from penstock.model.offset_spec import AtTimestamp, Earliest, GroupOffsets, Latest
from penstock.model.topic_partition import TopicPartition
from penstock.planner.starting_offsets import resolve_end, resolve_start
from penstock.wire.cluster import Cluster, Topic


class TopicOffsets:
    """Looks up offsets of all partitions of a topic, or of some."""

    def __init__(self, options: SourceOptions, topic: str, partitions: list[int] | None) -> None:
        self.cluster = Cluster(options.client)
        self.topic: Topic = self.cluster.metadata((topic,)).topics[topic]
        self._rules = options.rules
        chosen = sorted(set(partitions)) if partitions else sorted(self.topic.partitions)
        for partition in chosen:
            if partition not in self.topic.partitions:
                raise UnknownTopic(topic, partition, f"the topic has {len(self.topic.partitions)} partitions")
        self.partitions = [TopicPartition(topic, partition) for partition in chosen]

    def at(self, position: Position, ending: bool = False) -> dict[TopicPartition, int]:
        """The offset of a position in each partition."""
        partitions, cluster = self.partitions, self.cluster
        match position:
            case AtOffset() | LastRecords():
                begin = {tp.partition: at for tp, at in cluster.begin(partitions).items()}
                end = {tp.partition: at for tp, at in cluster.end(partitions).items()}
                found = nearest(position, begin, end)
                return {tp: found[tp.partition] for tp in partitions}
            case Latest() | AtTimestamp() if ending:
                return resolve_end(position, partitions, cluster)
            case Earliest() | Latest() | GroupOffsets() | AtTimestamp():
                return resolve_start(position, partitions, cluster, self._rules)
