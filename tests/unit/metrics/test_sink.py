"""W10: the metrics of a query's sink."""

from penstock.metrics.sink import SINK_METRICS, SinkMetrics


def test_W10_rows_add_up_and_the_rate_is_that_of_the_last_batch():
    sink = SinkMetrics().after(0, 100, 500).after(1, 300, 2000)
    assert (sink.records_out, sink.records_per_second) == (400, 150)


def test_W10_a_batch_that_spark_reports_again_is_counted_once_and_the_rate_falls_to_zero():
    sink = SinkMetrics().after(3, 100, 500).after(3, 100, 500)
    assert (sink.records_out, sink.records_per_second) == (100, 0)


def test_W10_a_sink_that_spark_does_not_count_has_no_rows():
    assert SinkMetrics().after(3, -1, 500) == SinkMetrics()
    assert SinkMetrics().after(3, 10, None).records_per_second == 0


def test_W10_every_metric_has_a_sample():
    samples = list(SinkMetrics(5, 2.5, 7).samples())
    assert [metric for metric, _, _ in samples] == list(SINK_METRICS)
    assert [value for _, _, value in samples] == [5, 2.5]
