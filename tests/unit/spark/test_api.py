"""Which versions of PySpark are supported, and what depends on them."""

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from penstock.cli.doctor import environment
from penstock.errors import OptionError, UnsupportedSpark
from penstock.spark import api
from penstock.spark.datasource import PenstockDataSource


@pytest.mark.parametrize("version", ["4.0.0", "4.0.0.dev1", "4.3.0", "4.10.0rc2"])
def test_supported_versions(version):
    api.check_version(version)


@pytest.mark.parametrize("version", ["3.5.8", "3.0.0", "5.0.0"])
def test_another_version_is_refused_in_one_sentence(version):
    with pytest.raises(UnsupportedSpark) as caught:
        api.check_version(version)
    assert str(caught.value) == (
        f"Penstock needs PySpark 4.0 or newer 4.x, and this is PySpark {version}. "
        'Install one with pip install "pyspark>=4.0,<5"'
    )


def test_penstock_doctor_accepts_the_same_versions():
    assert (environment.OLDEST_PYSPARK, environment.PYSPARK_BEFORE) == (api.OLDEST, api.BEFORE)


def test_filter_pushdown_is_refused_by_name_where_spark_has_none(monkeypatch):
    monkeypatch.setattr(api, "HAS_FILTERS", False)
    monkeypatch.setattr(api, "VERSION", "4.0.0")
    options = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "a", "filterPushdown": "true"}
    with pytest.raises(OptionError, match=r"filterPushdown = 'true': needs PySpark 4.1, and this is 4.0.0"):
        PenstockDataSource(options).reader(StructType([StructField("value", BinaryType())]))


@pytest.mark.parametrize(
    ("description", "reports"),
    [
        ("org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStream@7ad1a4cc", False),
        ("org.apache.spark.sql.execution.datasources.v2.python.PythonMicroBatchStreamWithTriggerAvailableNow@1", True),
        ("KafkaV2[Subscribe[clicks]]", True),
    ],
)
def test_F26_a_progress_before_spark_4_2_has_no_ends_of_logs(description, reports):
    assert api.reports_ends(description) is reports
