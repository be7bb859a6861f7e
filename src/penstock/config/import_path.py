"""Loads what a user names by its import path, `package.module:Name`, on the driver and in tasks.

Every error is a ValueError that says how to fix it.
"""

from __future__ import annotations

import difflib
import importlib
from types import ModuleType
from typing import Any

SEND = (
    "The driver, the planner and all executors need it: install it there, or send it with "
    "spark.sparkContext.addPyFile(...), spark.addArtifact(..., pyfile=True) or spark-submit --py-files. Without Spark, "
    "add its directory to PYTHONPATH"
)


def is_import_path(text: str) -> bool:
    module, colon, name = text.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), *name.split(".")))


def imported(path: str) -> Any:
    """The class, function or object at a path."""
    module_name, _, name = path.partition(":")
    if not is_import_path(path):
        hint = "a module as in an import statement, without .py or slashes, a colon, and the name of a class in it"
        raise ValueError(f"{path} is not an import path: expected package.module:Name, {hint}")
    found: Any = _module(module_name)
    for part in name.split("."):
        if not hasattr(found, part):
            within = found.__name__ if isinstance(found, ModuleType) else f"{module_name}:{found.__name__}"
            near = difflib.get_close_matches(part, [each for each in dir(found) if not each.startswith("_")], n=1)
            hint = f": did you mean {near[0]}?" if near else f" ({getattr(found, '__file__', None) or 'no file'})"
            raise ValueError(f"{within} has no {part}{hint}")
        found = getattr(found, part)
    return found


def _module(name: str) -> ModuleType:
    if name == "__main__":
        raise ValueError(f"on executors, __main__ is another program: move the class to a module of its own. {SEND}")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise ValueError(f"there is no module {error.name} here. {SEND}") from error
        raise ValueError(
            f"importing {name} failed: it needs module {error.name}, which is not installed here. {SEND}"
        ) from error
    except Exception as error:
        raise ValueError(f"importing {name} failed: {type(error).__name__}: {error}") from error
