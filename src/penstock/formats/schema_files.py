"""Schemas from options: the text itself, or the name of a file that the driver reads."""

from __future__ import annotations

import base64
from pathlib import Path

from penstock._kernel import compile_protobuf, protobuf_file
from penstock.errors import OptionError

_GOOGLE = "google/protobuf/"


def text_or_file(option: str, given: str, suffixes: tuple[str, ...]) -> str:
    """The text, or the content of the file that it names."""
    if given.lstrip()[:1] in ("{", "[", '"') or not given.endswith(suffixes):
        return given
    try:
        return Path(given).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(option, given, f"cannot be read: {error}") from None


def descriptor_set(option: str, given: str) -> bytes:
    """Read a descriptor set, or a `.proto` file with its imports from the same folder."""
    path = Path(given)
    try:
        data = path.read_bytes()
    except OSError as error:
        hint = "Give a descriptor set (protoc --include_imports --descriptor_set_out=...) or a .proto file"
        raise OptionError(option, given, f"cannot be read: {error.strerror}", hint) from None
    if path.suffix != ".proto":
        return data
    beside = [(each.name, each.read_text("utf-8")) for each in sorted(path.parent.glob("*.proto"))]
    try:
        return compile_protobuf(path.name, beside)
    except ValueError as error:
        raise OptionError(option, given, str(error)) from None


def proto_text(option: str, given: str, descriptors: bytes) -> str:
    """The text under which a Protobuf schema is registered: the compiled file in base64.

    Not the source of a `.proto` file: Confluent's Python client reads only the compiled form, and not every registry
    converts. Confluent's registry stores both forms as the same source.
    """
    compiled, imports = protobuf_file(descriptors)
    own = [name for name in imports if not name.startswith(_GOOGLE)]
    if own:
        what = f"imports {own[0]}: a schema with imports is not registered from here"
        raise OptionError(option, given, what, f"Register it with its imports, and remove {option}")
    return base64.b64encode(compiled).decode()


def shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 80 else text[:77] + "..."
