"""Talking to Kafka. The only package that imports kafka-python, and it knows nothing of Spark.

kafka-python's own `__init__` loads everything it has, clients and the messages of every API: 150 ms in each new worker
and in the planner of each query, which need a few protocol classes. So whoever comes here first makes its package known
without running that; it runs when somebody asks the package for a name, as `from kafka import KafkaProducer` does.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
from types import ModuleType
from typing import Any

ITS_OWN = ("__all__", "__author__", "__copyright__", "__license__", "__title__", "__version__")
"""Names between underscores that kafka-python's package defines itself."""


class _KafkaPackage(ModuleType):
    """The package `kafka`, loaded when its first name is asked for, by whichever thread."""

    def __getattr__(self, name: str) -> Any:
        with _LOADING:
            probed = name.startswith("__") and name not in ITS_OWN  # by the import system, by doctest, by pickle
            if probed or "_running" in vars(self):  # what runs asks for its own submodules
                raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
            if isinstance(self, _KafkaPackage):
                assert self.__spec__ is not None
                assert self.__spec__.loader is not None
                vars(self)["_running"] = True
                try:
                    self.__spec__.loader.exec_module(self)
                finally:
                    del vars(self)["_running"]
                self.__class__ = ModuleType  # type: ignore[assignment]
        return getattr(self, name)


_LOADING = threading.RLock()


def _make_known() -> None:
    spec = None if "kafka" in sys.modules else importlib.util.find_spec("kafka")
    if spec is not None:
        module = _KafkaPackage("kafka")
        module.__spec__ = spec
        module.__loader__ = spec.loader
        module.__file__ = spec.origin
        module.__package__ = "kafka"
        module.__path__ = list(spec.submodule_search_locations or ())
        sys.modules["kafka"] = module


_make_known()
