"""EmbeddedKafka: a Kafka cluster of 1 to 3 nodes on this machine."""

from __future__ import annotations

import atexit
import base64
import contextlib
import os
import shlex
import shutil
import tempfile
import time
import uuid
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from penstock.errors import BrokerError, EmbeddedBrokerError, OptionError
from penstock.testing.certificates import make_identity
from penstock.testing.distribution import Distribution, get_distribution
from penstock.testing.listeners import Listener, check_listener
from penstock.testing.listeners import listener as make_listener
from penstock.testing.node import LOOPBACK, Jvm, Node, Ports, free_ports, wait_until

if TYPE_CHECKING:
    from penstock.wire.api.topic_admin import Admin
    from penstock.wire.transport.security import Security

# Measured, start to ready: 2.0 s on 2 idle cores; on busy ones 2.9-3.8 s with these two and 4.7-5.0 s without.
# They cost throughput, so benchmarks run brokers without them.
QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
HEAP_MB = 512

_START_SECONDS = 90.0  # for a laptop under load; 2 s on an idle machine
_STOP_SECONDS = 30.0
_PORT_TRIES = 3
_WATCH_SECONDS = 0.25
_DESCRIBE_SECONDS = 3.0  # short: between two requests the process is checked
_RESERVED_SETTINGS = frozenset(
    {
        "process.roles",
        "node.id",
        "broker.id",
        "broker.rack",
        "listeners",
        "advertised.listeners",
        "controller.quorum.voters",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
    }
)


class EmbeddedKafka:
    """A Kafka cluster on this machine, for as long as a `with` block or until `stop`.

    nodes           1 to 3, each broker and controller in one process; node ids begin at 1
    listener        PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL; certificates and passwords are made at start
    users           name -> password (None: random) for SASL; each user may log in with PLAIN and SCRAM-SHA-256 / -512
    client_auth     with SSL: clients must present a certificate (it is in `client_options`)
    racks           one rack id per node
    settings        broker settings under Kafka's names; they replace the defaults here
    port            of the first node; the others follow. Default: free ports
    data_dir        keeps the partitions after a stop. Default: a temporary directory
    heap_mb, jvm_options, start_seconds     for slow machines and benchmarks
    distribution    Kafka's jars, for another version. Default: the pinned jars of KAFKA_VERSION

    PENSTOCK_KAFKA_OPTS in the environment is added to `jvm_options`, for programs that start brokers by themselves.
    The brokers end with this process, also if it is killed, and the temporary directory is removed.
    Not thread-safe.
    """

    def __init__(
        self,
        nodes: int = 1,
        *,
        listener: str = "PLAINTEXT",
        users: Mapping[str, str | None] | None = None,
        client_auth: bool = False,
        racks: Sequence[str] | None = None,
        settings: Mapping[str, object] | None = None,
        port: int | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        heap_mb: int = HEAP_MB,
        jvm_options: Sequence[str] = QUICK_START,
        start_seconds: float = _START_SECONDS,
        distribution: Distribution | None = None,
    ) -> None:
        if nodes not in (1, 2, 3):
            raise OptionError("nodes", nodes, "must be 1, 2 or 3")
        if racks is not None and (isinstance(racks, str) or len(racks) != nodes):
            raise OptionError("racks", racks, f"must name one rack for each of the {nodes} nodes")
        if port is not None and not 1 <= port <= 65_535 - nodes + 1:
            raise OptionError("port", port, "is not a port number")
        check_listener(listener, users, client_auth)
        self._node_count = nodes
        self._protocol = listener
        self._users = users
        self._client_auth = client_auth
        self._racks = tuple(racks) if racks is not None else None
        self._settings = {name: _as_setting(value) for name, value in (settings or {}).items()}
        for name in sorted(self._settings.keys() & _RESERVED_SETTINGS):
            raise OptionError(
                f"settings[{name!r}]", self._settings[name], "is set by the embedded broker", "Leave it out"
            )
        self._port = port
        self._data_dir = Path(data_dir).absolute() if data_dir is not None else None
        self._jvm = Jvm(heap_mb, (*jvm_options, *shlex.split(os.environ.get("PENSTOCK_KAFKA_OPTS", ""))))
        self._start_seconds = start_seconds
        self._distribution = distribution
        self._work_dir: Path | None = None
        self._listener: Listener | None = None
        self._nodes: list[Node] = []
        self._cluster_id = ""

    def __repr__(self) -> str:
        where = self.bootstrap_servers if self._nodes else "not running"
        return f"<EmbeddedKafka {self._protocol}, nodes={self._node_count}, {where}>"

    # Start and stop

    def start(self) -> Self:
        """Download Kafka if needed and start all nodes. Returns when the cluster lists all of them."""
        if self._nodes:
            return self
        kafka = self._distribution or get_distribution()
        end = time.monotonic() + self._start_seconds
        self._work_dir = Path(tempfile.mkdtemp(prefix="penstock-kafka-"))
        atexit.register(_stop_at_exit, weakref.ref(self), os.getpid())
        try:
            self._listener = self._make_listener(kafka.java)
            self._cluster_id = self._find_cluster_id()
            for left in reversed(range(_PORT_TRIES)):
                self._make_nodes(kafka)
                self._start_nodes(self._nodes)
                if self._await_ready(self._nodes, end, may_retry=left > 0 and self._port is None):
                    break
                self._kill_all()
            if self._listener.uses_sasl:
                self._admin().set_scram_users(self._listener.users)
                self._await_users(end)
        except BaseException:
            self._tear_down(graceful=False)
            raise
        return self

    def stop(self) -> None:
        """End all nodes and remove the temporary directory. `data_dir` stays. May be called twice."""
        # A clean shutdown takes a second or more per node, and matters only if the partitions are kept.
        self._tear_down(graceful=self._data_dir is not None)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def wait(self) -> int:
        """Block until a node ends by itself. Returns its id. A signal (Ctrl-C) interrupts it."""
        while True:
            for node in self._started():
                if not node.running:
                    return node.id
            time.sleep(_WATCH_SECONDS)

    # For clients

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{LOOPBACK}:{node.ports.client}" for node in self._started())

    def client_options(
        self,
        prefix: str = "kafka.",
        *,
        mechanism: str = "PLAIN",
        user: str | None = None,
        password: str | None = None,
    ) -> dict[str, str]:
        """The options of a client for this cluster: Spark options with the prefix `kafka.`, or with prefix "" Kafka's
        own names. With SASL: for the first user, unless one is named. They contain passwords: do not print them."""
        self._started()
        assert self._listener is not None
        options = {"bootstrap.servers": self.bootstrap_servers}
        options |= self._listener.client_options(mechanism, user, password)
        return {prefix + name: value for name, value in options.items()}

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        configs: Mapping[str, object] | None = None,
    ) -> None:
        """Create a topic, by default with replicas on all nodes. Every partition has a leader on return."""
        self._admin().create_topic(
            name,
            partitions,
            self._node_count if replication_factor is None else replication_factor,
            {key: _as_setting(value) for key, value in (configs or {}).items()},
        )

    def topics(self) -> list[str]:
        """The names of all topics except Kafka's internal ones."""
        return self._admin().topics()

    def delete_topic(self, name: str) -> None:
        self._admin().delete_topic(name)

    # Single nodes, by node id

    @property
    def node_ids(self) -> tuple[int, ...]:
        return tuple(node.id for node in self._started())

    def pid(self, node_id: int) -> int | None:
        """The process id of a broker; None if it is down."""
        node = self._node(node_id)
        return node.pid if node.running else None

    def kill_node(self, node_id: int) -> None:
        """End a node with SIGKILL: it does not flush, and does not notify the controller."""
        node = self._node(node_id)
        node.order("kill")
        node.wait(_STOP_SECONDS)

    def stop_node(self, node_id: int) -> None:
        """End a node with SIGTERM: its leaderships move first. It is killed after 30 s."""
        node = self._node(node_id)
        node.order("resume")
        node.order("stop")
        if not node.wait(_STOP_SECONDS):
            self.kill_node(node_id)

    def pause_node(self, node_id: int) -> None:
        """Pause a node with SIGSTOP: connections stay open without answers, as in a long garbage collection."""
        self._node(node_id).order("pause")

    def resume_node(self, node_id: int) -> None:
        self._node(node_id).order("resume")

    def restart_node(self, node_id: int) -> None:
        """Stop a node if it runs, and start it with the same ports and data. Returns when the cluster lists it."""
        node = self._node(node_id)
        if node.running:
            self.stop_node(node_id)
        end = time.monotonic() + self._start_seconds
        self._start_nodes([node])
        self._await_ready([node for node in self._nodes if node.running], end, may_retry=False)

    def logs(self, node_id: int) -> str:
        """The log of a node."""
        node = self._node(node_id)
        return node.console() + node.log()

    # Internal

    def _node(self, node_id: int) -> Node:
        for node in self._started():
            if node.id == node_id:
                return node
        raise OptionError("node_id", node_id, f"does not exist. The nodes are {', '.join(map(str, self.node_ids))}")

    def _started(self) -> list[Node]:
        if not self._nodes:
            raise EmbeddedBrokerError(
                "the embedded broker is not running. Call start(), or use it as `with ... as kafka`"
            )
        return self._nodes

    def _admin(self) -> Admin:
        assert self._listener is not None or not self._nodes
        up = [node for node in self._started() if node.running]
        servers = ",".join(f"{LOOPBACK}:{node.ports.client}" for node in up) or self.bootstrap_servers
        return _connect(servers, self._listener.node_security() if self._listener else None)

    def _make_listener(self, java: Path) -> Listener:
        assert self._work_dir is not None
        broker = client = None
        if self._protocol.endswith("SSL"):
            names = f"dns:localhost,ip:{LOOPBACK}"
            broker = make_identity(self._work_dir, "broker", java, subject_alternative=names)
            client = make_identity(self._work_dir, "client", java) if self._client_auth else None
        return make_listener(self._protocol, self._users, broker, client)

    def _find_cluster_id(self) -> str:
        """A new id, or the id in the data directory: Kafka refuses data of another cluster."""
        if self._data_dir is not None:
            for path in sorted(self._data_dir.glob("node-*/meta.properties")):
                for line in path.read_text("utf-8").splitlines():
                    if line.startswith("cluster.id="):
                        return line.partition("=")[2].strip()
        return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")

    def _make_nodes(self, kafka: Distribution) -> None:
        assert self._work_dir is not None
        count = self._node_count
        free = free_ports(2 * count)
        client_ports = free[:count] if self._port is None else range(self._port, self._port + count)
        self._nodes = []
        for node_id, client_port, controller_port in zip(range(1, count + 1), client_ports, free[count:], strict=True):
            node_dir = f"node-{node_id}"
            data = self._work_dir / node_dir / "data" if self._data_dir is None else self._data_dir / node_dir
            self._nodes.append(Node(node_id, Ports(client_port, controller_port), self._work_dir, data, kafka))
        for node in self._nodes:
            node.configure(self._properties(node))
            node.format(self._cluster_id)

    def _properties(self, node: Node) -> dict[str, str]:
        """The settings of a node."""
        assert self._listener is not None
        voters = ",".join(f"{each.id}@{LOOPBACK}:{each.ports.controller}" for each in self._nodes)
        client = f"CLIENT://{LOOPBACK}:{node.ports.client}"
        ours = self._listener.broker_settings()
        properties = _defaults(self._node_count) | ours | self._settings
        if "super.users" in ours and "super.users" in self._settings:
            properties["super.users"] = f"{ours['super.users']};{self._settings['super.users']}"
        properties |= {
            "process.roles": "broker,controller",
            "node.id": str(node.id),
            "controller.quorum.voters": voters,
            "listeners": f"{client},CONTROLLER://{LOOPBACK}:{node.ports.controller}",
            "advertised.listeners": client,
            "log.dirs": str(node.data_dir),
        }
        if self._racks is not None:
            properties["broker.rack"] = self._racks[node.id - 1]
        return properties

    def _start_nodes(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            node.wait(0)  # reap one that ended by itself
            node.start(self._jvm, grace_seconds=_STOP_SECONDS if self._data_dir is not None else 0.0)

    def _await_ready(self, nodes: Sequence[Node], end: float, *, may_retry: bool) -> bool:
        """Wait until each of these nodes listens and the cluster lists it as unfenced.

        Returns False if another process has taken a port and a retry is allowed. Raises at once, with the end of the
        log, if a node's process ends.
        """
        expected = {node.id for node in nodes}
        what = "it does not accept connections yet"
        pause = 0.05
        while True:
            for node in nodes:
                if not node.running:
                    if node.port_was_taken() and may_retry:
                        return False
                    if self._port is not None and node.port_was_taken(node.ports.client):
                        raise EmbeddedBrokerError(
                            f"port {node.ports.client} is used by another program (Address already in use). "
                            "Choose another one, or leave it out for a free port"
                        )
                    raise EmbeddedBrokerError(
                        f"node {node.id} ended while starting. The end of its log:\n{node.end_of_log()}"
                    )
            # No request before the ports are open: kafka-python logs every refused connection as a warning.
            if all(node.accepts() for node in nodes):
                try:
                    cluster = self._admin().describe(seconds=_DESCRIBE_SECONDS)
                except BrokerError as error:
                    what = str(error)
                else:
                    present = {broker.id for broker in cluster.brokers if not broker.fenced}
                    # Another Kafka may have taken the port, and would answer too.
                    if cluster.id == self._cluster_id and expected <= present:
                        return True
                    what = f"the cluster has only {sorted(present)} of nodes {sorted(expected)}"
            if not wait_until(end, pause):
                logs = "\n".join(node.end_of_log() for node in nodes)
                raise EmbeddedBrokerError(
                    f"the broker was not ready within {self._start_seconds:g} s: {what}. Raise start_seconds "
                    f"on a slow machine. The end of its log:\n{logs}"
                )
            pause = min(pause * 1.5, 0.3)

    def _await_users(self, end: float) -> None:
        """Log in to every node as the last user: nodes apply users one after the other."""
        assert self._listener is not None
        for node in self._nodes:
            admin = _connect(f"{LOOPBACK}:{node.ports.client}", self._listener.last_user_security())
            while True:
                try:
                    admin.describe(seconds=_DESCRIBE_SECONDS)
                    break
                except BrokerError as error:
                    if not wait_until(end, 0.05):
                        raise EmbeddedBrokerError(f"node {node.id} does not accept its users: {error}") from error

    def _kill_all(self) -> None:
        for node in self._nodes:
            node.order("kill")
        for node in self._nodes:
            node.wait(_STOP_SECONDS)

    def _tear_down(self, *, graceful: bool) -> None:
        if graceful:
            end = time.monotonic() + _STOP_SECONDS
            for node in self._nodes:
                node.order("resume")
                node.order("stop")
            for node in self._nodes:
                node.wait(end - time.monotonic())
        self._kill_all()
        self._nodes = []
        self._listener = None
        if self._work_dir is not None:
            shutil.rmtree(self._work_dir, ignore_errors=True)
            self._work_dir = None


def _stop_at_exit(cluster: weakref.ref[EmbeddedKafka], owner: int) -> None:
    # A forked child inherits this hook, and must not stop the broker of its parent.
    alive = cluster()
    if alive is not None and os.getpid() == owner:
        with contextlib.suppress(Exception):
            alive.stop()


def _defaults(nodes: int) -> dict[str, str]:
    """Settings for 1 to 3 nodes and tests: Kafka's defaults are for larger clusters in production."""
    replicas = str(nodes)
    in_sync = str(max(1, nodes - 1))
    return {
        "offsets.topic.replication.factor": replicas,
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": "4",
        "default.replication.factor": replicas,
        "group.initial.rebalance.delay.ms": "0",
        # Retention goes by timestamps, and tests write old ones: with Kafka's seven days these records would be deleted
        # within minutes.
        "log.retention.ms": "-1",
        # A killed node is fenced after 3 s instead of 9, which shortens tests of a lost leader.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "controlled.shutdown.max.retries": "1",
    }


def _as_setting(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _connect(servers: str, security: Security | None) -> Admin:
    """An admin client. Imported here: `make` fetches the broker's jars before kafka-python is installed."""
    from penstock.wire.api.topic_admin import Admin

    return Admin(servers, security)
