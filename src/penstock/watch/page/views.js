// The views. Each has an element, `update(stream)` for a new snapshot, and `close()`.

import { api, ask, clusterAddress } from "/api.js";
import { BROKERS, CLUSTERS, GROUPS, MEMBERS, PARTITIONS, POSITIONS, TOPICS, address } from "/columns.js";
import { RecordSearch } from "/records.js";
import { OffsetReset } from "/resets.js";
import { changeRows } from "/stream.js";
import { Table } from "/table.js";
import { bytes, clock, count, duration, h, lateness, NONE, plural, rate, retention, setText, shown, signedRate } from "/text.js";

const go = (kind) => (row) => {
  location.hash = address(kind, row.name);
};

/** Values with a title each. */
export class Tiles {
  constructor(...titles) {
    this.values = titles.map(() => h("dd"));
    this.element = h("dl", { class: "tiles" }, ...titles.map((title, at) => h("div", {}, h("dt", {}, title), this.values[at])));
  }

  set(...texts) {
    texts.forEach((text, at) => setText(this.values[at], text));
  }
}

export function section(title, ...children) {
  return h("section", { "aria-label": title }, h("h2", {}, title), ...children);
}

export function filterBox(table, label) {
  return h("input", {
    type: "search", class: "filter", placeholder: `${label} (/)`, "aria-label": label, autocomplete: "off",
    spellcheck: "false", "data-slash": true, oninput: (event) => table.setFilter(event.target.value),
    onkeydown: (event) => {
      if (event.key === "ArrowDown" || event.key === "Enter") {
        table.grid.focus();
        table.select(0);
        event.preventDefault();
      }
    },
  });
}

export const sum = (rows, key) => rows.reduce((total, row) => total + (row[key] ?? 0), 0);

export class Overview {
  constructor() {
    this.tiles = new Tiles("Brokers", "Topics", "Partitions", "In/s", "Size", "Groups", "Lag", "Furthest behind");
    this.brokers = new Table({ label: "Brokers", columns: BROKERS, name: (row) => String(row.node_id), tall: false });
    this.late = new Table({
      label: "Groups that are furthest behind", columns: GROUPS, order: "seconds", descending: true, open: go("group"), tall: false,
    });
    this.busy = new Table({
      label: "Busiest topics", columns: TOPICS, order: "rate_in", descending: true, open: go("topic"), tall: false,
    });
    this.cluster = h("p", { class: "dim" });
    this.element = h(
      "div", { class: "view" },
      h("h1", {}, "Cluster"), this.cluster, this.tiles.element,
      section("Groups that are furthest behind", this.late.element),
      section("Busiest topics", this.busy.element),
      section("Brokers", this.brokers.element),
    );
    this.tables = [this.late, this.busy, this.brokers];
  }

  update({ head, topics, groups }) {
    const allTopics = [...topics.values()], allGroups = [...groups.values()];
    const latest = allGroups.reduce((found, row) => ((row.seconds ?? -1) > (found?.seconds ?? -1) ? row : found), null);
    setText(this.cluster, `${shown(head.cluster_id ?? "")} · a round of questions takes ${head.round_seconds < 0.1 ? "less than 0.1 s" : duration(head.round_seconds)} · ${plural(head.requests, "request")} so far`);
    this.tiles.set(
      count(head.brokers.length), count(allTopics.length), count(sum(allTopics, "partitions")), rate(sum(allTopics, "rate_in")),
      bytes(sum(allTopics, "size")), count(allGroups.length), count(sum(allGroups, "lag")), latest ? lateness(latest) : NONE,
    );
    this.late.update(allGroups);
    this.busy.update(allTopics);
    this.brokers.update(head.brokers);
  }
}

export class Listing {
  constructor(title, columns, kind, order, rows, name) {
    this.rows = rows;
    this.table = new Table({ label: title, columns, order, descending: true, open: go(kind), name });
    this.total = h("span", { class: "dim" });
    this.element = h(
      "div", { class: "view fill" },
      h("div", { class: "bar" }, h("h1", {}, title), this.total, filterBox(this.table, `Filter ${title.toLowerCase()}`)),
      this.table.element,
    );
    this.tables = [this.table];
  }

  update(stream) {
    const rows = [...this.rows(stream).values()];
    setText(this.total, count(rows.length));
    this.table.update(rows);
  }
}

export function clustersView() {
  const made = new Listing("Clusters", CLUSTERS, "cluster", "lag", (stream) => stream.clusters);
  made.table.openRow = (row) => location.assign(clusterAddress(row.name));
  return made;
}

export const topicsView = () => new Listing("Topics", TOPICS, "topic", "rate_in", (stream) => stream.topics);
export const groupsView = () => new Listing("Groups", GROUPS, "group", "lag", (stream) => stream.groups);

const DETAIL_SHARE = 0.1; // of a page's time, for details: large ones come less often than snapshots

/**
 * A view of one thing, whose detail is fetched with the snapshots: all of it first, then what has changed. A subclass
 * names the answer's table (`table`) and shows it with the other values.
 */
class Detail {
  constructor(kind, name, nameOf) {
    this.kind = kind;
    this.name = name;
    this.nameOf = nameOf;
    this.rows = new Map();
    this.number = 0; // of the snapshot that the rows are from
    this.fulls = 0;
    this.isBusy = false;
    this.dueAt = 0;
    this.missing = h("p", { class: "empty", hidden: true }, `There is no such ${kind}, or it is not selected.`);
  }

  async update(stream) {
    const began = performance.now();
    if (this.isBusy || document.hidden || began < this.dueAt) return;
    if (this.fulls !== stream.fulls) this.number = 0;
    if (this.number === stream.head.number) return;
    this.fulls = stream.fulls;
    this.isBusy = true;
    try {
      const response = await ask(api(`/api/${this.kind}`, { name: this.name, since: this.number }));
      const found = response.ok ? await response.json() : undefined;
      if (response.ok) this.missing.hidden = found != null;
      if (found != null) this.take(found);
      else this.number = 0;
    } catch {
      this.number = 0; // the server is away: the page says so, and asks again with the next snapshot
    } finally {
      this.isBusy = false;
      const now = performance.now();
      this.dueAt = now + (now - began) / DETAIL_SHARE;
    }
  }

  take(answer) {
    const changes = answer[this.table] ?? [];
    if (answer.base == null) this.rows = new Map(changes.map((row) => [this.nameOf(row), row]));
    else changeRows(this.rows, changes, this.nameOf);
    this.number = answer.number;
    this.show(answer, [...this.rows.values()]);
  }
}

export class TopicView extends Detail {
  constructor(name) {
    super("topic", name, (row) => String(row.partition).padStart(9));
    this.table = "partitions";
    this.tiles = new Tiles("In/s", "Size", "Records", "Partitions", "Leaders", "Retention");
    this.partitions = new Table({ label: "Partitions", columns: PARTITIONS, name: this.nameOf, tall: false });
    this.records = new RecordSearch(name);
    this.element = h(
      "div", { class: "view" },
      h("h1", {}, h("span", { class: "dim" }, "Topic "), h("span", { class: "name" }, shown(name))),
      this.missing, this.tiles.element,
      section("Newest records", this.records.element),
      section("Partitions", this.partitions.element),
    );
    this.tables = [this.records.table, this.partitions];
  }

  show({ row }, partitions) {
    this.tiles.set(rate(row.rate_in), bytes(row.size), count(row.records), count(row.partitions), count(row.leaders), retention(row));
    this.partitions.update(partitions);
  }
}

export class GroupView extends Detail {
  constructor(name) {
    super("group", name, (row) => `${row.topic} ${String(row.partition).padStart(9)}`);
    this.table = "positions";
    this.tiles = new Tiles("State", "Members", "Lag", "Behind", "Trend/s", "Catches up", "Read/s", "Deleted");
    this.positions = new Table({
      label: "Lag by partition", columns: POSITIONS, order: "lag", descending: true, tall: false,
      name: this.nameOf,
    });
    this.members = new Table({ label: "Members", columns: MEMBERS, name: (row) => row.member_id, tall: false });
    this.chart = h("div", { class: "chart" });
    this.events = h("ol", { class: "events", tabindex: 0, "aria-label": "Rebalances and commits" }); // it scrolls
    this.since = h("p", { class: "dim" });
    this.element = h(
      "div", { class: "view" },
      h("h1", {}, h("span", { class: "dim" }, "Group "), h("span", { class: "name" }, shown(name))),
      this.missing, this.tiles.element,
      section("Lag over time", this.chart),
      section("Lag by partition", filterBox(this.positions, "Filter partitions"), this.positions.element),
      section("Rebalances and commits", this.since, this.events),
      section("Members", this.members.element),
    );
    this.tables = [this.positions, this.members];
    this.resets = null;
  }

  async update(stream) {
    if (stream.head.allows_writes && !this.resets) {
      this.resets = new OffsetReset(this.name);
      this.tables.push(this.resets.table);
      this.element.append(section("Reset offsets", this.resets.element));
    }
    return super.update(stream);
  }

  show({ row, members, events, points, since }, positions) {
    this.tiles.set(
      shown(row.state), count(row.members), count(row.lag), lateness(row), signedRate(row.trend),
      duration(row.lag === 0 ? null : row.catch_up_seconds), rate(row.consumed), count(row.deleted),
    );
    this.positions.update(positions);
    this.members.update(members);
    this.chart.replaceChildren(lagChart(points));
    setText(this.since, since == null ? "" : `Seen since ${clock(since)}, by comparing one round with the next.`);
    this.events.replaceChildren(
      ...events.map((event) =>
        h("li", { class: event.kind }, h("time", {}, clock(event.at)), h("span", { class: "kind" }, event.kind), h("span", {}, shown(event.text))),
      ),
    );
    if (!events.length) this.events.append(h("li", { class: "dim" }, "Nothing has happened yet."));
  }
}

const SVG = "http://www.w3.org/2000/svg";

export function svg(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/** The lag in records over time, as a line. */
function lagChart(points) {
  const known = points.filter(([, lag]) => lag != null);
  if (known.length < 2) return h("p", { class: "dim" }, "The line begins with the second round.");
  const [from, until] = [known[0][0], known.at(-1)[0]];
  const top = Math.max(1, ...known.map(([, lag]) => lag));
  const x = (at) => ((at - from) / Math.max(until - from, 1e-9)) * 600;
  const y = (lag) => 78 - (lag / top) * 76;
  const line = known.map(([at, lag]) => `${x(at).toFixed(1)},${y(lag).toFixed(1)}`).join(" ");
  const text = `From ${clock(from)} to ${clock(until)}: ${count(known[0][1])} to ${count(known.at(-1)[1])} records, at most ${count(top)}.`;
  return h(
    "figure", {},
    svg("svg", { viewBox: "0 0 600 80", preserveAspectRatio: "none", role: "img", "aria-label": text },
      svg("polygon", { class: "area", points: `0,80 ${line} 600,80` }), svg("polyline", { class: "line", points: line })),
    h("figcaption", { class: "dim" }, text),
  );
}
