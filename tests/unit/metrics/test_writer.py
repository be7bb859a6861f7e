"""W10: the metrics of a writer."""

from dataclasses import fields

from penstock.metrics.writer import WRITER_METRICS, WriterMetrics
from penstock.model.topic_partition import TopicPartition
from penstock.wire.producer.written import ProducerMetrics


def test_W10_every_counter_of_a_producer_and_every_partition_has_a_sample():
    counters = ProducerMetrics(*range(1, 1 + len(fields(ProducerMetrics))))
    offsets = {TopicPartition("t", 0): 41, TopicPartition("t", 3): 7}
    samples = list(WriterMetrics(counters, offsets).samples())
    assert {metric for metric, _, _ in samples} == set(WRITER_METRICS)
    assert [value for _, labels, value in samples if not labels] == [*range(1, 1 + len(fields(ProducerMetrics)))]
    assert [(labels, value) for _, labels, value in samples if labels] == [(("t", "0"), 41), (("t", "3"), 7)]
