"""Errors of the Kerberos library, as python-gssapi raises them."""

from __future__ import annotations

import pytest

from penstock.wire.transport.kerberos_errors import code_of, explained
from penstock.wire.transport.oauth import TokenRefused, TokenUnavailable

UNSPECIFIED, EXPIRED = 13 << 16, 11 << 16


class GssapiError(Exception):
    """The part of gssapi.exceptions.GSSError that is used."""

    def __init__(self, number: int, text: str = "why", major: int = UNSPECIFIED) -> None:
        self.maj_code = major
        self.min_code = (number - 1765328384) & 0xFFFFFFFF if number < 256 else number
        self._text = text

    def get_all_statuses(self, code: int, is_major: bool) -> list[str]:
        return ["Unspecified GSS failure."] if is_major else [self._text]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (6, "The KDC does not have this principal"),
        (7, "Check sasl.kerberos.service.name"),
        (14, "permitted_enctypes"),
        (18, "locked"),
        (24, "have a new keytab exported"),
        (31, "have a new keytab exported"),
        (32, "Run kinit again"),
        (37, "Set the clocks"),
        (148, "Set the clocks"),
        (154, "[realms] in krb5.conf"),
        (220, "DNS"),
    ],
)
def test_a_refusal_has_the_step_the_reason_and_a_hint(number, words):
    error = explained("the first step failed", GssapiError(number))
    assert isinstance(error, TokenRefused)
    assert str(error).startswith("the first step failed: why. ")
    assert words in str(error)


@pytest.mark.parametrize("number", [29, 156])
def test_a_kdc_that_cannot_be_reached_is_retriable(number):
    assert isinstance(explained("x", GssapiError(number)), TokenUnavailable)


def test_an_expired_credential_has_no_reason_of_its_own():
    error = explained("no ticket", GssapiError(100_001, "Success", EXPIRED))
    assert str(error) == (
        "no ticket: the ticket has expired. Run kinit again, or use a keytab, from which Penstock renews tickets itself"
    )


@pytest.mark.parametrize("text", ["Success", "Unknown error", ""])
def test_an_error_without_words_of_the_library_has_those_of_gssapi(text):
    error = GssapiError(39_756_032, text)
    assert code_of(error) is None
    assert str(explained("x", error)) == "x: Unspecified GSS failure"
