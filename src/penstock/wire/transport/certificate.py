"""The end of a certificate's validity, read from its bytes: the ssl module decodes only certificates of peers."""

from __future__ import annotations

import re
import ssl
from datetime import UTC, datetime

_BEGIN_TO_END = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)

_SEQUENCE, _VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0xA0, 0x17, 0x18


def expiry_in_pem(text: str) -> datetime | None:
    """The first end among the certificates of a PEM text; None if it has no certificate. Raises ValueError."""
    found = _BEGIN_TO_END.findall(text)
    return min((expiry(ssl.PEM_cert_to_DER_cert(each)) for each in found), default=None)


def expiry(der: bytes) -> datetime:
    """The end of validity of a certificate in DER (RFC 5280, 4.1). Raises ValueError if it cannot be read."""
    kind, certificate, _ = _element(der)
    _, fields, _ = _element(certificate)
    if kind != _SEQUENCE:
        raise ValueError("not a certificate")
    kind, _, rest = _element(fields)
    if kind == _VERSION:  # absent in version 1
        _, _, rest = _element(rest)
    for _ in ("signature algorithm", "issuer"):
        _, _, rest = _element(rest)
    _, validity, _ = _element(rest)
    _, _, rest = _element(validity)
    kind, end, _ = _element(rest)
    if kind not in (_UTC_TIME, _GENERALIZED_TIME):
        raise ValueError("not a time")
    text = end.decode("ascii")
    if kind == _UTC_TIME:  # two digits of the year: from 1950 to 2049
        text = ("19" if text[:2] >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _element(data: bytes) -> tuple[int, bytes, bytes]:
    """The first element: its tag, its content, and the bytes after it."""
    if len(data) < 2:
        raise ValueError("it is cut off")
    length, start = data[1], 2
    if length >= 0x80:
        start += length - 0x80
        length = int.from_bytes(data[2:start], "big")
    if start + length > len(data):
        raise ValueError("it is cut off")
    return data[0], data[start : start + length], data[start + length :]
