"""Kafka's SASL options of all mechanisms: their choice, the JAAS line, and Java's login classes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.config.kerberos import KERBEROS, KERBEROS_REFUSED
from penstock.config.oauth import AWS_CALLBACK, CALLBACK, JAAS, JAVA_OAUTH, LOGIN, OAUTH, is_python
from penstock.config.option import Option, OptionTable, OptionValues
from penstock.config.parsers import one_of, text
from penstock.errors import OptionError
from penstock.wire.transport.aws import JAAS_ENTRIES
from penstock.wire.transport.security import MECHANISMS

MECHANISM = "kafka.sasl.mechanism"

JAVA_CLASSES = {
    CALLBACK: {
        f"{JAVA_OAUTH}OAuthBearerLoginCallbackHandler": "OAUTHBEARER",
        f"{JAVA_OAUTH}secured.OAuthBearerLoginCallbackHandler": "OAUTHBEARER",
        AWS_CALLBACK: "OAUTHBEARER",
        f"{JAVA_OAUTH}internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler": "OAUTHBEARER",
    },
    "kafka.sasl.client.callback.handler.class": {
        "software.amazon.msk.auth.iam.IAMClientCallbackHandler": "AWS_MSK_IAM",
    },
    f"{OAUTH}jwt.retriever.class": {
        f"{JAVA_OAUTH}{kind}JwtRetriever": "OAUTHBEARER" for kind in ("Default", "ClientCredentials", "File")
    },
    f"{OAUTH}jwt.validator.class": {f"{JAVA_OAUTH}{kind}JwtValidator": "OAUTHBEARER" for kind in ("Default", "Client")},
}
"""Java classes whose work Penstock does itself, each with the mechanism that it belongs to."""


_IMPORT_PATH = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


def java_class(name: str, value: str) -> str:
    option = "kafka." + name.removeprefix("kafka.")  # a consumer's settings have no prefix
    known = JAVA_CLASSES[option]
    if option == CALLBACK and is_python(value):
        if not _IMPORT_PATH.fullmatch(value.strip()):
            raise OptionError(name, value, "is not an import path", "Example: my_package.tokens:get_token")
    elif value.strip() not in known:
        raise OptionError(
            name,
            value,
            "Penstock cannot load Java classes. It does the work of "
            + ", ".join(each.rpartition(".")[2] for each in known),
            f"For OAUTHBEARER, set {CALLBACK} to a Python function that returns a token: my_package.tokens:get_token",
        )
    return value.strip()


SASL_OPTIONS = OptionTable(
    Option(
        MECHANISM,
        one_of(*MECHANISMS),
        None,
        f"The SASL mechanism: one of {', '.join(MECHANISMS)}. Default: GSSAPI, as in Kafka, if the protocol has a "
        "login.",
    ),
    Option(
        JAAS,
        text,
        None,
        'The login as a JAAS line, as in Java. `username="..."` and `password="..."` are read from it, and for SCRAM '
        '`tokenauth="true"`, with the id and HMAC of a delegation token. For OAUTHBEARER '
        "`clientId`, `clientSecret`, `scope`, `audience`, `extension_*` (SASL extensions) and `ssl.*` (TLS to the "
        "token endpoint). For GSSAPI those of `Krb5LoginModule`: `useKeyTab`, `keyTab`, `principal`, `useTicketCache`, "
        "`ticketCache`. For AWS_MSK_IAM `awsProfileName`, `awsRoleArn` and the other entries of AWS's Java module.",
    ),
)

_CALLBACK_DOC = (
    "A Python function that returns tokens for OAUTHBEARER, as `module:function`. It gets the entries of the JAAS line "
    "as a dict, and returns a token, or a token and the Unix time in seconds at which it expires. Or a Java class "
    "whose work Penstock does itself: "
)

JAVA_CLASS_OPTIONS = OptionTable(
    *(
        Option(
            name,
            java_class,
            None,
            (_CALLBACK_DOC if name == CALLBACK else "Accepted only for Java classes whose work Penstock does itself: ")
            + ", ".join(f"`{known.rpartition('.')[2]}`" for known in classes)
            + ".",
        )
        for name, classes in JAVA_CLASSES.items()
    )
)

SASL_REFUSED = {f"{LOGIN}class": "Penstock cannot load Java classes. Leave it out", **KERBEROS_REFUSED}
"""SASL settings of Java's clients that Penstock cannot support, each with the alternative."""

_MECHANISM_OF = {OAUTH: "OAUTHBEARER", LOGIN: "OAUTHBEARER", KERBEROS: "GSSAPI"}
"""Prefixes of options that have an effect with one mechanism only."""

_JAAS_REFUSED: dict[str, tuple[str, str]] = {
    "AWS_MSK_IAM": (rf"(?!({'|'.join(JAAS_ENTRIES)})$)aws\w*", f"Known entries are {', '.join(JAAS_ENTRIES)}"),
    "PLAIN": (r"tokenauth", "Brokers take delegation tokens by SCRAM-SHA-256 and SCRAM-SHA-512 only"),
}
"""Entries of a JAAS line that would have no effect, by mechanism, with the alternative."""


def check_mechanism(values: OptionValues, mechanism: str, jaas: Mapping[str, str]) -> None:
    """Refuse options and entries of the JAAS line that are missing for a mechanism, or have no effect with it."""
    if mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512") and not {"username", "password"} <= set(jaas):
        raise OptionError(
            JAAS,
            "***" if JAAS in values.given else None,
            f"must name username and password for {MECHANISM} {mechanism}",
            'Example: org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="...";',
        )
    for name, value in values.given.items():
        wanted = next((of for prefix, of in _MECHANISM_OF.items() if name.startswith(prefix)), mechanism)
        if name in JAVA_CLASSES:
            wanted = JAVA_CLASSES[name].get(value, "OAUTHBEARER")  # a Python function is for OAUTHBEARER
        if wanted != mechanism:
            raise OptionError(name, None, f"has no effect with {MECHANISM} {mechanism}", f"Set that to {wanted}")
    pattern, hint = _JAAS_REFUSED.get(mechanism, ("", ""))
    for name, value in jaas.items():
        if pattern and re.fullmatch(pattern, name) and value.lower() != "false":
            raise OptionError(JAAS, None, f"its entry {name} is not supported", hint)
