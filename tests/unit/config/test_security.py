"""Security settings: each has its effect, or is refused by name. None is ignored (F5)."""

from __future__ import annotations

import re
import ssl
import subprocess

import pytest

from penstock.config.client import KAFKA_NO_EFFECT
from penstock.config.consumer import CONSUMER_NO_EFFECT, CONSUMER_OPTIONS, CONSUMER_REFUSED, parse_config
from penstock.config.security import SECURITY_OPTIONS, SECURITY_REFUSED
from penstock.config.source import REFUSED, parse_options
from penstock.errors import OptionError
from penstock.wire.transport.aws import OAUTH_CALLBACK, AwsLogin
from penstock.wire.transport.kerberos import KerberosLogin
from penstock.wire.transport.security import Security

LEAST = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}
TLS = {"kafka.security.protocol": "SSL"}
OAUTH_LINE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
CREDENTIALS = 'clientId="me" clientSecret="hush"'
ENDPOINT = "https://login.example.org/token"


def parse(options: dict[str, str]) -> Security:
    """Both ways in: the Spark source's options and a consumer's settings, which must agree."""
    security = parse_options(LEAST | options).client.security
    settings = {name.removeprefix("kafka."): value for name, value in options.items()}
    least = {"bootstrap.servers": "localhost:9092", "group.id": "g"}
    assert parse_config(least | settings).client.security == security
    return security


def refuse(options: dict[str, str]) -> OptionError:
    with pytest.raises(OptionError) as caught:
        parse_options(LEAST | options)
    settings = {name.removeprefix("kafka."): value for name, value in options.items()}
    with pytest.raises(OptionError) as by_consumer:
        parse_config({"bootstrap.servers": "localhost:9092", "group.id": "g"} | settings)
    assert by_consumer.value.name == caught.value.name.removeprefix("kafka.")
    return caught.value


def oauth(entries: str = CREDENTIALS, **more: str) -> dict[str, str]:
    return {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.sasl.jaas.config": f"{OAUTH_LINE} {entries};",
        "kafka.sasl.oauthbearer.token.endpoint.url": ENDPOINT,
    } | {f"kafka.sasl.{name.replace('_', '.')}": value for name, value in more.items()}


# TLS


@pytest.mark.parametrize(
    ("options", "versions"),
    [
        ({}, ("TLSv1.2", "TLSv1.3")),
        ({"enabled.protocols": "TLSv1.3"}, ("TLSv1.3",)),
        ({"enabled.protocols": "TLSv1.3, TLSv1.2"}, ("TLSv1.2", "TLSv1.3")),
        ({"protocol": "TLSv1.2"}, ("TLSv1.2",)),
        ({"protocol": "TLSv1.3"}, ("TLSv1.2", "TLSv1.3")),
        ({"protocol": "TLS"}, ("TLSv1.2", "TLSv1.3")),
        ({"cipher.suites": "TLS_AES_256_GCM_SHA384"}, ("TLSv1.3",)),
        ({"cipher.suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"}, ("TLSv1.2",)),
    ],
)
def test_protocols_and_suites_limit_the_versions_of_tls(options, versions):
    tls = parse(TLS | {f"kafka.ssl.{name}": value for name, value in options.items()}).tls
    assert tls.versions == versions
    context = tls.context()
    assert (
        context.minimum_version == {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}[versions[0]]
    )
    assert (
        context.maximum_version == {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}[versions[-1]]
    )


def test_cipher_suites_are_taken_by_javas_names_and_by_openssls():
    given = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,ECDHE-ECDSA-CHACHA20-POLY1305"
    tls = parse(TLS | {"kafka.ssl.cipher.suites": given}).tls
    assert tls.cipher_suites == ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305")
    older = {cipher["name"] for cipher in tls.context().get_ciphers() if cipher["protocol"] != "TLSv1.3"}
    assert older == set(tls.cipher_suites)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ssl.enabled.protocols": "TLSv1.2,TLSv1.1"}, "'TLSv1.1' is not"),
        ({"ssl.enabled.protocols": " "}, "must be some of"),
        ({"ssl.enabled.protocols": "TLSv1.3", "ssl.protocol": "TLSv1.2"}, "allows none of"),
        ({"ssl.cipher.suites": "TLS_RSA_WITH_RC4_128_MD5"}, "not a cipher suite of this machine"),
        ({"ssl.cipher.suites": "ALL"}, "not a cipher suite"),
        (
            {"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256", "ssl.enabled.protocols": "TLSv1.2"},
            "names no suite of TLSv1.2",
        ),
        ({"ssl.truststore.password": "hush"}, "has no effect: it is the password of a JKS or PKCS12 store"),
        (
            {"ssl.keystore.password": "hush", "ssl.keystore.location": "c.pem", "ssl.keystore.type": "pem"},
            "has no effect: it is the password of a JKS or PKCS12 store",
        ),
        ({"ssl.keystore.type": "JCEKS"}, "must be one of PEM, JKS, PKCS12. Convert it to PKCS12"),
        (
            {"ssl.keystore.type": "JKS", "ssl.keystore.key": "hush", "ssl.keystore.certificate.chain": "x"},
            "is not the type of kafka.ssl.keystore.certificate.chain, which is PEM",
        ),
        (
            {
                "ssl.keystore.location": "c.jks",
                "ssl.keystore.key": "hush",
                "ssl.keystore.certificate.chain": "x",
            },
            "is given, and kafka.ssl.keystore.certificate.chain too",
        ),
        ({"ssl.engine.factory.class": "com.example.Factory"}, "Leave it out"),
        ({"ssl.trustmanager.algorithm": "SunX509"}, "Leave it out"),
        ({"security.providers": "com.example.Provider"}, "Leave it out"),
    ],
)
def test_what_tls_cannot_do_is_refused_by_name(options, words):
    error = refuse(TLS | {f"kafka.{name}": value for name, value in options.items()})
    assert words in str(error)
    assert "hush" not in str(error)


def test_stores_of_java_are_read_with_their_passwords():
    given = {"truststore.location": "t.jks", "truststore.password": " a ", "truststore.type": "jks"}
    given |= {"keystore.location": "k.p12", "keystore.password": "b", "keystore.type": "PKCS12", "key.password": "c"}
    tls = parse(TLS | {f"kafka.ssl.{name}": value for name, value in given.items()}).tls
    assert (tls.ca_file, tls.ca_password, tls.ca_type) == ("t.jks", " a ", "JKS")
    assert (tls.certificate_file, tls.certificate_password, tls.certificate_type) == ("k.p12", "b", "PKCS12")
    assert tls.key_password == "c"
    login = parse(oauth(f'{CREDENTIALS} ssl.truststore.location="t.jks" ssl.truststore.password="a"')).oauth
    assert login is not None
    assert (login.tls.ca_file, login.tls.ca_password) == ("t.jks", "a")


def test_tls_settings_without_tls_are_refused():
    assert "does not use TLS, but kafka.ssl.truststore.location" in str(
        refuse({"kafka.ssl.truststore.location": "ca.pem"})
    )


# Logins


def test_an_oauth_login_is_read_from_the_jaas_line_and_from_kafkas_newer_options():
    entries = f'{CREDENTIALS} scope="s" extension_logicalCluster="lkc-1" ssl.enabled.protocols="TLSv1.3"'
    login = parse(oauth(entries)).oauth
    assert login is not None
    assert (login.endpoint, login.client_id, login.client_secret, login.scope) == (ENDPOINT, "me", "hush", "s")
    assert login.extensions == (("logicalCluster", "lkc-1"),)
    assert login.tls.versions == ("TLSv1.3",)
    prefix = "kafka.sasl.oauthbearer."
    newer = {
        f"{prefix}client.credentials.client.id": "me",
        f"{prefix}client.credentials.client.secret": "hush",
        f"{prefix}scope": "s",
    }
    line = 'extension_logicalCluster="lkc-1" ssl.enabled.protocols="TLSv1.3"'
    assert parse(oauth(line) | newer).oauth == login


def by_function(entries: str = "", **more: str) -> dict[str, str]:
    given = oauth(entries, login_callback_handler_class="my_tokens.aws:Provider.get", **more)
    del given["kafka.sasl.oauthbearer.token.endpoint.url"]
    return given


def test_a_function_of_the_user_gets_the_entries_of_the_jaas_line_and_the_options():
    login = parse(by_function('region="eu" clientId="me" extension_pool="p-1"', oauthbearer_scope="s")).oauth
    assert login is not None
    assert (login.callback, login.endpoint) == ("my_tokens.aws:Provider.get", None)
    assert dict(login.entries) == {"region": "eu", "clientId": "me", "scope": "s"}
    assert login.extensions == (("pool", "p-1"),)
    assert "eu" not in repr(login), "an entry may be a secret"


def test_an_audience_is_an_entry_of_the_jaas_line():
    login = parse(oauth(f'{CREDENTIALS} audience="kafka.example.org"')).oauth
    assert login is not None
    assert login.audience == "kafka.example.org"


def test_settings_of_the_login_have_their_effect():
    given = {
        "login_connect_timeout_ms": "1000",
        "login_read_timeout_ms": "2000",
        "login_retry_backoff_ms": "50",
        "login_retry_backoff_max_ms": "500",
        "login_refresh_window_factor": "0.5",
        "login_refresh_window_jitter": "0",
        "login_refresh_buffer_seconds": "10",
        "login_refresh_min_period_seconds": "5",
        "oauthbearer_header_urlencode": "true",
        "oauthbearer_token_endpoint_proxy": "http://proxy:3128",
    }
    login = parse(oauth(**given)).oauth
    assert login is not None
    assert (login.connect_timeout, login.read_timeout) == (1.0, 2.0)
    assert (login.retry_backoff, login.retry_backoff_max, login.urlencode) == (0.05, 0.5, True)
    assert [login.refresh_after(seconds) for seconds in (100, 16, 10)] == [50, 6, 5]


@pytest.mark.parametrize(
    "endpoint", ["https://h/token", "http://localhost:1/t", "http://127.1.2.3/t", "http://[::1]:8/t", "file:/run/token"]
)
def test_an_endpoint_with_tls_or_on_this_machine_is_taken(endpoint):
    assert parse(oauth(oauthbearer_token_endpoint_url=endpoint)).oauth.endpoint == endpoint


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (oauth(oauthbearer_token_endpoint_url="http://login.example.org/t"), "unencrypted .*allow.plaintext"),
        (oauth(oauthbearer_token_endpoint_url="http://127.0.0.1.example.org/t"), "unencrypted"),
        (oauth(oauthbearer_token_endpoint_url="https://u:hush@h/t"), "contains a login"),
        (oauth(oauthbearer_token_endpoint_url="ftp://h/t"), "must begin with http"),
        (oauth(oauthbearer_token_endpoint_url="file:relative"), "an absolute path"),
        (oauth(oauthbearer_token_endpoint_proxy="https://u:hush@proxy"), "must begin with http://"),
        (oauth('clientId="me"'), "must name clientId and clientSecret"),
        (oauth(f'{CREDENTIALS} clientid="x"'), "entry clientid is not supported. Did you mean clientId"),
        (oauth(f'{CREDENTIALS} oauth.token="hush"'), "entry oauth.token is not supported"),
        (oauth(f'{CREDENTIALS} extension_auth="Bearer"'), "not a SASL extension"),
        (oauth(f'{CREDENTIALS} ssl.provider="x"'), "entry ssl.provider is not supported"),
        (oauth(f'{CREDENTIALS} ssl.truststore.type="BKS"'), "must be one of PEM, JKS, PKCS12"),
        (oauth('unsecuredLoginNumberClaim_n="many"'), "is not a number"),
        (
            oauth(login_callback_handler_class="com.example.Handler"),
            r"cannot load Java classes.*Python function .*: my_package\.tokens:get_token",
        ),
        (oauth(login_callback_handler_class="my tokens:get"), "is not an import path"),
        (oauth(login_callback_handler_class="m:get"), r"endpoint\.url: has no effect: the function in"),
        (by_function(login_read_timeout_ms="5"), r"read\.timeout\.ms: has no effect: the function in"),
        (by_function('extension_auth="Bearer"'), "not a SASL extension"),
        (oauth(oauthbearer_jwt_retriever_class="m:get"), "cannot load Java classes"),
        (
            by_function() | {"kafka.sasl.mechanism": "GSSAPI", "kafka.sasl.jaas.config": "x required;"},
            r"handler\.class: has no effect with kafka\.sasl\.mechanism GSSAPI",
        ),
        (
            oauth(client_callback_handler_class="software.amazon.msk.auth.iam.IAMClientCallbackHandler"),
            "no effect with",
        ),
        (oauth(login_class="com.example.Login"), "cannot load Java classes"),
        (oauth(oauthbearer_assertion_file="/run/assertion"), "does not sign assertions"),
        (oauth(oauthbearer_expected_audience="me"), "Brokers check tokens"),
        (oauth(kerberos_service_name="kafka"), "no effect with kafka.sasl.mechanism OAUTHBEARER"),
        (oauth(kerberos_kinit_cmd="/bin/kinit"), "renews the tickets of a keytab itself"),
        ({"kafka.sasl.login.read.timeout.ms": "5"}, "does not log in, but kafka.sasl.login.read.timeout.ms"),
    ],
)
def test_what_a_login_cannot_do_is_refused_by_name(options, words):
    error = refuse(options)
    assert re.search(words, str(error))
    assert "hush" not in str(error)


@pytest.mark.parametrize(
    ("mechanism", "entry"),
    [
        ("GSSAPI", 'useKeytab=true keyTab="/etc/k"'),
        ("GSSAPI", "useTicketCache=true renewTGT=true"),
        ("GSSAPI", "useTicketCache=true isInitiator=false"),
        ("GSSAPI", "useTicketCache=true doNotPrompt=false"),
        ("AWS_MSK_IAM", 'awsDebugCreds="true"'),
        ("PLAIN", 'username="u" password="hush" tokenauth="true"'),
    ],
)
def test_an_entry_of_the_jaas_line_that_would_be_ignored_is_refused(mechanism, entry):
    login = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": mechanism}
    error = refuse(login | {"kafka.sasl.jaas.config": f"some.Module required {entry};"})
    assert "is not supported" in str(error)
    assert "hush" not in str(error)


def test_classes_of_java_whose_work_penstock_does_are_taken():
    package = "org.apache.kafka.common.security.oauthbearer"
    parse(oauth(login_callback_handler_class=f"{package}.OAuthBearerLoginCallbackHandler"))
    parse(oauth(login_callback_handler_class=f"{package}.secured.OAuthBearerLoginCallbackHandler"))
    parse(oauth(oauthbearer_jwt_retriever_class=f"{package}.ClientCredentialsJwtRetriever"))
    parse(
        {
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "AWS_MSK_IAM",
            "kafka.sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
            "kafka.sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
        }
    )


AWS_ENTRIES = 'awsRoleArn="arn:aws:iam::1:role/r" awsRoleSessionName="s" awsStsRegion="eu-west-1" awsDebugCreds=false'


def msk(entries: str = AWS_ENTRIES, **more: str) -> dict[str, str]:
    return {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "AWS_MSK_IAM",
        "kafka.sasl.jaas.config": f"software.amazon.msk.auth.iam.IAMLoginModule required {entries};",
    } | more


def test_a_profile_or_a_role_of_aws_stands_in_the_jaas_line():
    login = parse(msk()).aws
    assert login is not None
    assert (login.role_arn, login.role_session_name, login.sts_region) == ("arn:aws:iam::1:role/r", "s", "eu-west-1")
    assert parse(msk('awsProfileName="p"')).aws == AwsLogin(profile="p")
    assert "is not encrypted" in str(refuse(msk() | {"kafka.security.protocol": "SASL_PLAINTEXT"}))


def test_awss_handler_for_oauthbearer_is_taken():
    handler = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
    given = oauth('awsProfileName="p"', login_callback_handler_class=handler)
    del given["kafka.sasl.oauthbearer.token.endpoint.url"]
    login = parse(given).oauth
    assert login is not None
    assert (login.callback, login.entries) == (OAUTH_CALLBACK, (("awsProfileName", "p"),))
    given["kafka.sasl.jaas.config"] = f'{OAUTH_LINE} awsProfile="p";'
    assert "entry awsProfile is not supported. Did you mean awsProfileName" in str(refuse(given))


KEYTAB = 'useKeyTab=true keyTab="/etc/me.keytab" principal="me@EXAMPLE.ORG" storeKey=true doNotPrompt=true'


def kerberos(entries: str | None = None, **more: str) -> KerberosLogin:
    given = {"kafka.security.protocol": "SASL_SSL"} | {
        f"kafka.sasl.kerberos.{name.replace('_', '.')}": value for name, value in more.items()
    }
    if entries is not None:
        given["kafka.sasl.jaas.config"] = f"com.sun.security.auth.module.Krb5LoginModule required {entries};"
    login = parse(given).kerberos
    assert login is not None
    return login


def test_a_keytab_and_its_principal_stand_in_the_jaas_line_or_in_options():
    by_line = kerberos(KEYTAB)
    assert (by_line.keytab, by_line.principal) == ("/etc/me.keytab", "me@EXAMPLE.ORG")
    assert (by_line.use_keytab, by_line.use_ticket_cache) == (True, False)
    assert kerberos(keytab="/etc/me.keytab", principal="me@EXAMPLE.ORG") == by_line
    assert kerberos(KEYTAB, principal="you@EXAMPLE.ORG").principal == "you@EXAMPLE.ORG"


def test_without_a_keytab_the_ticket_cache_is_used_and_then_the_default_keytab():
    assert kerberos() == KerberosLogin()
    assert kerberos("useTicketCache=true") == KerberosLogin(use_keytab=False)
    assert kerberos('useTicketCache=true ticketCache="/tmp/c"').ticket_cache == "/tmp/c"
    both = kerberos(f"{KEYTAB} useTicketCache=true")
    assert (both.use_keytab, both.use_ticket_cache) == (True, True)


def test_the_kerberos_service_is_an_option_or_an_entry_of_the_jaas_line():
    assert kerberos('useTicketCache=true serviceName="broker"').service == "broker"
    assert kerberos('useTicketCache=true serviceName="broker"', service_name="other").service == "other"
    assert kerberos(domain_name="brokers.example.org").domain == "brokers.example.org"


def test_kerberos_tickets_are_renewed_by_kafkas_settings():
    given = {"ticket_renew_window_factor": "0.5", "ticket_renew_jitter": "0", "min_time_before_relogin": "20000"}
    login = kerberos(**given)
    assert [login.renew_after(seconds) for seconds in (100, 30, 20, 10)] == [50, 20, 10, 5]


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ('keyTab="/etc/k"', "keyTab has no effect without useKeyTab=true"),
        ('useTicketCache=false ticketCache="/tmp/c"', "ticketCache has no effect without useTicketCache=true"),
        ("useKeyTab=yes", "useKeyTab must be true or false"),
        ('useKeyTab=true keytab="/etc/k"', "entry keytab is not supported. Did you mean keyTab"),
    ],
)
def test_entries_of_kerberos_that_do_not_fit_are_refused(entries, words):
    line = f"com.sun.security.auth.module.Krb5LoginModule required {entries};"
    error = refuse({"kafka.security.protocol": "SASL_SSL", "kafka.sasl.jaas.config": line})
    assert words in str(error)


# All of them


def test_no_security_setting_is_ignored():
    ignored = {*KAFKA_NO_EFFECT, *(f"kafka.{name}" for name in CONSUMER_NO_EFFECT)}
    assert not [name for name in ignored if name.startswith(("kafka.ssl.", "kafka.sasl.", "kafka.security."))]
    assert not set(SECURITY_OPTIONS) & set(SECURITY_REFUSED)


@pytest.mark.broker
@pytest.mark.parametrize("config", ["consumer.ConsumerConfig", "admin.AdminClientConfig"])
def test_every_setting_of_kafkas_own_clients_is_known(config):
    """By Kafka's own list: its classes print it."""
    from penstock.masking import is_secret
    from penstock.testing.distribution import get_distribution

    kafka = get_distribution()
    command = [kafka.java, "-cp", kafka.classpath(), f"org.apache.kafka.clients.{config}"]
    page = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    settings = dict(
        re.findall(r'<h4><a id="[^"]*"></a><a [^>]*>([a-z0-9.]+)</a></h4>.*?<th>Type:</th><td>(\w+)</td>', page, re.S)
    )
    assert len(settings) > 50
    unknown = set(settings) - {*CONSUMER_OPTIONS, *CONSUMER_REFUSED, *CONSUMER_NO_EFFECT}
    assert not unknown
    in_spark = {name.removeprefix("kafka.") for name in {*SECURITY_OPTIONS, *KAFKA_NO_EFFECT, *REFUSED}}
    assert {name for name in settings if name.startswith(("ssl.", "sasl.", "security."))} <= in_spark
    # Certificates are not secrets, though Kafka does not print them.
    passwords = {name for name, kind in settings.items() if kind == "password"} - {"ssl.truststore.certificates"}
    assert all(map(is_secret, passwords))
