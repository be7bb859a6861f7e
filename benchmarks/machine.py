"""The machine and the versions that the figures were measured with."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow

from benchmarks.environments import (
    AIOKAFKA_VERSION,
    AVRO_SOURCE_VERSION,
    CONFLUENT_VERSION,
    FLINK_VERSION,
    JVM_SOURCE_VERSION,
    KAFKA_PYTHON_VERSION,
    SAIL_VERSION,
)
from penstock.testing import KAFKA_VERSION, Distribution


def machine() -> dict[str, Any]:
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
    }


def versions(distribution: Distribution) -> dict[str, str]:
    output = subprocess.run([distribution.java, "-version"], capture_output=True, text=True, check=False).stderr
    java = re.search(r'version "([^"]+)"', output)
    return {
        "penstock": version("penstock"),
        "python": platform.python_version(),
        "pyarrow": pyarrow.__version__,
        "pyspark": version("pyspark"),
        "pyspark of the JVM source": JVM_SOURCE_VERSION,
        "pyspark of from_avro": AVRO_SOURCE_VERSION,
        "protobuf": version("protobuf"),
        "kafka": KAFKA_VERSION,
        "confluent-kafka": CONFLUENT_VERSION,
        "kafka-python": KAFKA_PYTHON_VERSION,
        "aiokafka": AIOKAFKA_VERSION,
        "flink": FLINK_VERSION,
        "pysail": SAIL_VERSION,
        "kcat": _printed(r"Version (\S+)", "kcat", "-V"),
        "jq": _printed(r"jq-(\S+)", "jq", "--version"),
        "java": java[1] if java else "?",
    }


def _printed(pattern: str, *command: str) -> str:
    """The version that a program of the system prints."""
    if shutil.which(command[0]) is None:
        return "none"
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = re.search(pattern, output)
    return found[1] if found else "?"


def load_average() -> float:
    """Load average of the last minute. Above 0.5 before the start, other programs are running."""
    return round(os.getloadavg()[0], 2)


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists() and (model := re.search(r"model name\s*:\s*(.+)", info.read_text())):
        return model[1].strip()
    if platform.system() == "Darwin":
        asked = subprocess.run(
            ["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False
        )
        return asked.stdout.strip()
    return platform.processor() or "?"
