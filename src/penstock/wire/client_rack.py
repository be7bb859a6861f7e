"""The rack of the process that reads: a name, or where to find it (`client.rack`).

Executors of one job may run in several zones, and their options are the same. So an option may name an environment
variable or a function, which is looked up in the process that reads, once.
"""

from __future__ import annotations

import functools
import importlib
import os
from typing import Any

from penstock.errors import OptionError
from penstock.masking import get_logger

log = get_logger(__name__)

OPTION = "client.rack"
ENVIRONMENT = "env:"
FUNCTION = "python:"


@functools.cache
def rack_of(spec: str) -> str:
    """The rack that a value of `client.rack` stands for, in this process; empty for none. Raises OptionError."""
    if spec.startswith(ENVIRONMENT):
        return _from_environment(spec.removeprefix(ENVIRONMENT))
    if spec.startswith(FUNCTION):
        return _from_function(spec, *spec.removeprefix(FUNCTION).split(":"))
    return spec


def _from_environment(name: str) -> str:
    rack = os.environ.get(name, "").strip()
    if not rack:
        log.warning("%s: environment variable %s is not set in this process: records come from leaders", OPTION, name)
    return rack


def _from_function(spec: str, module: str, name: str) -> str:
    hint = "The module must be on the path of every process that reads: of Spark's driver and executors"
    try:
        function: Any = functools.reduce(getattr, name.split("."), importlib.import_module(module))
    except (ImportError, AttributeError) as error:
        raise OptionError(OPTION, spec, f"cannot be imported: {error}", hint) from error
    try:
        rack = function()
    except Exception as error:
        raise OptionError(OPTION, spec, f"failed: {type(error).__name__}: {error}") from error
    if rack is not None and not isinstance(rack, str):
        raise OptionError(OPTION, spec, f"returned a {type(rack).__name__}", "Return the rack as a str, or None")
    return (rack or "").strip()
