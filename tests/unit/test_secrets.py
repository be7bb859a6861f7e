"""No repr, error, log line or output shows a secret. The option tables say which options are secret."""

from __future__ import annotations

import contextlib
import logging
import traceback
from collections.abc import Callable, Iterator

import pytest

from penstock import AdbcSink, ConsumerConnector, Streamer, cli
from penstock.config.consumer import CONSUMER_OPTIONS, CONSUMER_REFUSED, parse_config
from penstock.config.source import REFUSED, SOURCE_OPTIONS, parse_options
from penstock.errors import PenstockError
from penstock.masking import get_logger, is_secret

LEAST = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}
CONSUMER_LEAST = {"bootstrap.servers": "localhost:9092", "group.id": "g"}
TABLES = SOURCE_OPTIONS
SECRET = [option.name for option in TABLES.values() if option.secret]
HUSH = "hush"

LOGINS = [
    {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"},
    {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "OAUTHBEARER"},
    {"kafka.security.protocol": "SSL"},
    {"schemaRegistry.url": "https://registry", "valueFormat": "avro"},
    {"keyFormat": "shop_formats:Orders", "valueFormat": "shop_formats:Orders"},
    {},
]
"""Settings without which some secrets are refused."""

VALUES = [
    HUSH,
    f"me:{HUSH}",
    f"https://me:{HUSH}@host",
    f"http://me:{HUSH}@host:3128",
    f"https://me:{HUSH}/x@host?x#",
    f"SASL_SSL://me:{HUSH},{HUSH}@host:9092",
    f'Module required username="me" password="{HUSH}";',
    f'Module required clientId="me" clientSecret="{HUSH}";',
    f'{{"X-Key": "{HUSH}"}}',
    f'{{"X-Key": ["{HUSH}"]}}',
    f"-----BEGIN PRIVATE KEY-----\n{HUSH}\n-----END PRIVATE KEY-----",
]
"""Right ones and wrong ones, of all kinds."""


@pytest.fixture(autouse=True)
def nothing_is_logged(caplog) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    assert HUSH not in caplog.text


def shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error))


def outcome(parse: Callable[[dict[str, str]], object], given: dict[str, str]) -> str:
    """Every text that the results of these options can show."""
    try:
        return repr(parse(given))
    except PenstockError as error:
        return shown(error)


class NotRefused(Exception):
    pass


def refusal(parse: Callable[[dict[str, str]], object], given: dict[str, str]) -> PenstockError:
    try:
        parse(given)
    except PenstockError as error:
        return error
    raise NotRefused  # a topic or a file may be called anything


def test_there_are_secrets():
    assert {
        "kafka.sasl.jaas.config",
        "kafka.ssl.keystore.key",
        "kafka.ssl.key.password",
        "kafka.sasl.oauthbearer.client.credentials.client.secret",
        "kafka.sasl.oauthbearer.token.endpoint.proxy",
        "schemaRegistry.url",
        "schemaRegistry.basic.auth.user.info",
        "schemaRegistry.bearer.auth.token",
        "schemaRegistry.headers",
        "schemaRegistry.proxy",
        "schemaRegistry.ssl.key.password",
        "keyFormatArguments",
        "valueFormatArguments",
    } <= set(SECRET)
    assert not {"kafka.bootstrap.servers", "subscribe", "kafka.group.id", "kafka.ssl.keystore.location"} & set(SECRET)


@pytest.mark.parametrize("login", LOGINS, ids=lambda login: "-".join(login.values()) or "none")
@pytest.mark.parametrize("name", SECRET)
def test_a_secret_option_shows_nowhere(name, login):
    for value in VALUES:
        given = login | {name: value}
        assert HUSH not in outcome(parse_options, LEAST | given)
        bare = {key.removeprefix("kafka."): text for key, text in given.items()}
        assert HUSH not in outcome(parse_config, CONSUMER_LEAST | bare)


def test_each_secret_option_is_taken_with_some_value_and_some_login():
    """Otherwise the test above would not prove anything about reprs."""
    partners = {
        "kafka.ssl.keystore.key": {"kafka.ssl.keystore.certificate.chain": "chain"},
        "kafka.ssl.keystore.certificate.chain": {"kafka.ssl.keystore.key": "key"},
        "kafka.ssl.keystore.password": {"kafka.ssl.keystore.location": "me.jks"},
        "kafka.ssl.truststore.password": {"kafka.ssl.truststore.location": "ca.jks"},
        "schemaRegistry.ssl.key.password": {"schemaRegistry.ssl.certificate.location": "me.pem"},
        "kafka.sasl.oauthbearer.client.credentials.client.secret": {},
    }
    for name in SECRET:
        for login in LOGINS:
            for value in VALUES:
                given = LEAST | login | partners.get(name, {}) | {name: value}
                try:
                    options = parse_options(given)
                except PenstockError:
                    continue
                assert HUSH not in repr(options)
                break
            else:
                continue
            break
        else:
            pytest.fail(f"{name} takes none of the values")


@pytest.mark.parametrize("name", [*TABLES, *REFUSED])
def test_no_option_at_all_shows_a_password_that_stands_in_its_value(name):
    """Not only those that are secret: an address with a login may be pasted anywhere."""
    for value in VALUES[2:8]:
        with contextlib.suppress(NotRefused):
            assert HUSH not in shown(refusal(parse_options, LEAST | {name: value}))


@pytest.mark.parametrize("name", sorted({*CONSUMER_OPTIONS, *CONSUMER_REFUSED}))
def test_no_setting_of_a_consumer_shows_a_password_that_stands_in_its_value(name):
    for value in VALUES[2:8]:
        with contextlib.suppress(NotRefused):
            assert HUSH not in shown(refusal(parse_config, CONSUMER_LEAST | {name: value}))


@pytest.mark.parametrize("name", SECRET)
def test_a_misspelt_secret_shows_nowhere(name):
    with pytest.raises(PenstockError) as caught:
        parse_options(LEAST | {f"{name}x": HUSH})
    assert HUSH not in shown(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [
        *(["topics", "-b", "h:1", "-o", f"{name}={value}"] for name in SECRET for value in VALUES[1:4]),
        ["topics", "-b", f"SASL_SSL://me:{HUSH}@host:9092"],
        ["topics", "-b", f"me:{HUSH}@host:9092"],
        ["topics", "-b", "h:1", "-o", f"https://me:{HUSH}@host"],
        ["stream", "t", "-b", "h:1", "--to", f"postgresql://me:{HUSH}@host/db"],
        ["stream", "t", "-b", "h:1", "--to", f"postgresql://me:{HUSH}?{HUSH}@host/db"],
        ["stream", "t", "-b", "h:1", "--to", f"postgresql://me:{HUSH}/{HUSH}@host/db?table=t&duplicates=x"],
        ["stream", "t", "-b", "h:1", "--to", f"nosuch://me:{HUSH}@host/db"],
    ],
    ids=lambda arguments: arguments[-1][:40],
)
@pytest.mark.parametrize("debug", [[], ["--debug"]], ids=["", "debug"])
def test_the_command_line_shows_no_secret(arguments, debug, capsys, monkeypatch):
    from penstock.wire.cluster import Cluster

    def fail(*_: object, **__: object) -> None:
        raise OSError(f"cannot reach https://me:{HUSH}@host")

    monkeypatch.setattr(Cluster, "metadata", fail)
    try:
        code = cli.main([*arguments, *debug])
    except SystemExit as ended:
        code = ended.code
    assert code in (1, 2)
    printed = capsys.readouterr()
    assert HUSH not in printed.out
    # The traceback's last frame is in this file.
    assert HUSH not in printed.err


def test_a_sink_shows_no_password():
    uri = f"postgresql://me:{HUSH}@127.0.0.1:1/db"
    sink = AdbcSink(uri, "t", driver="nosuchdriver")
    assert HUSH not in repr(sink)
    with pytest.raises(PenstockError) as caught:
        sink.open("thread")
    assert HUSH not in str(caught.value)
    assert HUSH not in repr(caught.value)
    streamer = Streamer(
        "t",
        1,
        None,
        sink,
        config=CONSUMER_LEAST
        | {"sasl.jaas.config": VALUES[6]}
        | {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"},
    )
    assert HUSH not in repr(streamer)


def test_a_connector_shows_no_password():
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": VALUES[6]}
    connector = ConsumerConnector(CONSUMER_LEAST | login)
    try:
        assert HUSH not in repr(connector)
        assert HUSH not in repr(connector.config)
    finally:
        connector.shutdown()


def test_log_lines_and_their_tracebacks_are_masked(caplog):
    log = get_logger("penstock.somewhere")
    log.warning("cannot reach %s", f"https://me:{HUSH}@host")
    try:
        raise OSError(f"password={HUSH}")
    except OSError:
        log.exception("failed")
    assert "https://***@host" in caplog.text
    assert "password=***" in caplog.text
    logging.getLogger("elsewhere").warning("token=%s", "not ours to touch")
    assert "not ours to touch" in caplog.text


def test_formatters_that_read_the_error_itself_show_no_secret():
    """As those of JSON do: PySpark's gives every process that logs for Spark one."""
    shown = []

    class Json(logging.Handler):
        def emit(self, record):
            shown.append((record.exc_info[0].__name__, str(record.exc_info[1]), record.exc_info[1].__cause__))

    log, handler = get_logger("penstock.somewhere"), Json()
    log.addHandler(handler)
    try:
        try:
            raise ValueError(f"token={HUSH}")
        except ValueError as cause:
            raise OSError(f"password={HUSH}") from cause
    except OSError:
        log.exception("failed")
    try:
        raise KeyError("no secret")
    except KeyError:
        log.exception("failed")
    log.removeHandler(handler)
    assert shown == [("OSError", "password=***", None), ("KeyError", "'no secret'", None)]


def test_names_say_which_settings_are_secret():
    assert is_secret("sasl.password")
    assert not is_secret("kafka.sasl.oauthbearer.token.endpoint.url")
