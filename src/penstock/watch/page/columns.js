// The columns of the tables.

import { clusterAddress } from "/api.js";
import { bytes, count, duration, lateness, NONE, rate, retention, shown, signedRate } from "/text.js";

/** The address of a topic or group within the page. A lone surrogate cannot be part of it. */
export function address(kind, name) {
  return `#/${kind}/${encodeURIComponent(name.toWellFormed ? name.toWellFormed() : name)}`;
}

function partitionRecords(row) {
  return row.begin == null || row.end == null ? null : Math.max(0, row.end - row.begin);
}

const number = (key, title, text, more = {}) => ({ key, title, number: true, text: (row) => text(row[key]), ...more });

export const CLUSTERS = [
  { key: "name", title: "Cluster", wide: 3, link: (row) => clusterAddress(row.name) },
  {
    key: "is_reachable", title: "State",
    text: (row) => (row.is_reachable == null ? "not asked yet" : row.is_reachable ? "answers" : "does not answer"),
    tone: (row) => (row.is_reachable === false ? "bad" : ""),
  },
  number("brokers", "Brokers", count),
  number("topics", "Topics", count, { low: true }),
  number("rate_in", "In/s", rate),
  number("groups", "Groups", count, { low: true }),
  number("lag", "Lag", count),
  { key: "seconds", title: "Behind", number: true, text: lateness, tone: (row) => (row.seconds > 60 ? "late" : "") },
  number("problems", "Problems", count, { low: true, tone: (row) => (row.problems ? "bad" : "") }),
];

export const TOPICS = [
  { key: "name", title: "Topic", wide: 3, link: (row) => address("topic", row.name) },
  number("rate_in", "In/s", rate),
  number("size", "Size", bytes),
  number("records", "Records", count, { low: true }),
  number("partitions", "Partitions", count),
  {
    key: "leaders", title: "Leaders", number: true, low: true,
    text: (row) => (row.leaderless ? `${count(row.leaders)}, ${count(row.leaderless)} without` : count(row.leaders)),
    tone: (row) => (row.leaderless ? "bad" : ""),
  },
  { key: "retention_seconds", title: "Retention", number: true, low: true, text: retention },
];

export const PARTITIONS = [
  number("partition", "Partition", String),
  {
    key: "leader", title: "Leader", number: true,
    text: (row) => (row.leader == null ? "none" : String(row.leader)),
    tone: (row) => (row.leader == null ? "bad" : ""),
  },
  number("begin", "Begin", count, { low: true }),
  number("end", "End", count),
  { key: "records", title: "Records", number: true, low: true, sort: partitionRecords, text: (row) => count(partitionRecords(row)) },
  number("size", "Size", bytes),
  number("rate_in", "In/s", rate),
];

const LAG = {
  key: "lag", title: "Lag", number: true, text: (row) => count(row.lag), tone: (row) => (row.lag ? "some" : ""),
};
const SECONDS = {
  key: "seconds", title: "Behind", number: true, text: lateness, tone: (row) => (row.seconds > 60 ? "late" : ""),
};
const DELETED = number("deleted", "Deleted", count, { low: true, tone: (row) => (row.deleted ? "bad" : "") });

export const GROUPS = [
  { key: "name", title: "Group", wide: 3, link: (row) => address("group", row.name) },
  { key: "state", title: "State", low: true, tone: (row) => (/dead|empty/i.test(row.state) ? "dim" : "") },
  number("members", "Members", count, { low: true }),
  LAG,
  SECONDS,
  number("trend", "Trend/s", signedRate, { low: true, tone: (row) => (row.trend > 0 && row.lag ? "late" : "") }),
  {
    key: "catch_up_seconds", title: "Catches up", number: true, low: true,
    text: (row) => (row.lag === 0 ? "–" : duration(row.catch_up_seconds)),
  },
  number("consumed", "Read/s", rate, { low: true }),
  DELETED,
];

export const POSITIONS = [
  { key: "topic", title: "Topic", wide: 3, link: (row) => address("topic", row.topic) },
  number("partition", "Partition", String),
  number("committed", "Committed", count, { low: true }),
  number("end", "End", count, { low: true }),
  LAG,
  SECONDS,
  DELETED,
  { key: "client", title: "Client", low: true, text: (row) => (row.client == null ? NONE : shown(row.client)) },
];

export const MEMBERS = [
  { key: "client_id", title: "Client", wide: 3 },
  { key: "host", title: "Host" },
  { key: "instance_id", title: "Instance", low: true, text: (row) => shown(row.instance_id) || NONE },
  number("partitions", "Partitions", count),
  { key: "member_id", title: "Member", low: true },
];

export const BROKERS = [
  number("node_id", "Broker", String),
  { key: "host", title: "Address", wide: 3, text: (row) => `${shown(row.host)}:${row.port}` },
  { key: "rack", title: "Rack", low: true, text: (row) => shown(row.rack) || NONE },
  number("leads", "Leads", count),
];

/** The value of a record in a row of a table. */
export function cutText(cut) {
  if (cut.text == null) return "∅";
  const text = shown(cut.text.slice(0, 300));
  return cut.is_cut ? `${text}… (${bytes(cut.size)})` : text;
}

export const RECORDS = [
  number("partition", "Partition", String, { low: true }),
  number("offset", "Offset", count),
  {
    key: "timestamp", title: "Time", wide: 2.4, text: (row) => shown(row.timestamp) || NONE,
    sort: (row) => `${row.timestamp ?? ""} ${String(row.offset).padStart(20)}`, // of a millisecond the latest first
  },
  { key: "key", title: "Key", sort: (row) => row.key.text, text: (row) => cutText(row.key) },
  {
    key: "value", title: "Value", wide: 5, sort: (row) => row.value.text,
    text: (row) => (row.error == null ? "" : "⚠ ") + cutText(row.value), tone: (row) => (row.error == null ? "" : "bad"),
  },
];

const change = (row) => (row.old == null ? null : row.new - row.old);

export const MOVES = [
  { key: "topic", title: "Topic", wide: 3 },
  number("partition", "Partition", String),
  number("old", "Old", count),
  number("new", "New", count),
  {
    key: "change", title: "Change", number: true, sort: change,
    text: (row) => (change(row) > 0 ? "+" : "") + count(change(row)), tone: (row) => (change(row) > 0 ? "late" : ""),
  },
  { key: "note", title: "Note", wide: 2, low: true },
];

export const milliseconds = (value) =>
  value == null ? NONE : value < 1000 ? `${count(value)} ms` : duration(value / 1000);
export const moment = (value) => {
  const time = value == null ? new Date(NaN) : new Date(value);
  return Number.isNaN(time.getTime()) ? NONE : time.toISOString().replace("T", " ").replace(/\.000Z$/, "Z");
};
const STATES = ["finished", "lost", "failed", "running"]; // the most important ones last
const TONES = { failed: "bad", lost: "late", finished: "dim" };
const QUERY_LAG = number("lag", "Lag", count, { tone: (row) => (row.lag ? "some" : "") });
const FAULT = (key, title) => number(key, title, count, { tone: (row) => (row[key] ? "bad" : "") });

export const QUERIES = [
  { key: "title", title: "Query", wide: 2, link: (row) => address("query", row.name) },
  { key: "state", title: "State", sort: (row) => STATES.indexOf(row.state), tone: (row) => TONES[row.state] ?? "" },
  number("input_rate", "Input/s", rate),
  number("processing_rate", "Processed/s", rate, { low: true }),
  QUERY_LAG,
  number("event_time_lag", "Event time", duration, { low: true }),
  number("batch", "Batch", count, { low: true }),
  number("trigger_ms", "Trigger", milliseconds),
  { key: "error", title: "Error", wide: 2, low: true, text: (row) => shown(row.error), tone: () => "bad" },
];

export const QUERY_PARTITIONS = [
  { key: "topic", title: "Topic", wide: 2 },
  number("partition", "Partition", String),
  QUERY_LAG,
  number("current_offset", "Read", count, { low: true }),
  number("latest_offset", "End", count, { low: true }),
  number("committed_offset", "Committed", count, { low: true }),
  { key: "watermark", title: "Watermark", wide: 2.4, text: (row) => moment(row.watermark) },
  {
    key: "mark", title: "Marked", sort: (row) => (row.held ? 2 : row.idle ? 1 : 0),
    text: (row) => [row.idle ? "idle" : "", row.held ? "held" : ""].filter(Boolean).join(", ") || NONE,
    tone: (row) => (row.held ? "late" : "dim"),
  },
];

export const SOURCES = [
  number("source", "Source", String),
  number("records_per_second", "Records/s", rate),
  number("bytes_per_second", "Bytes/s", bytes),
  QUERY_LAG,
  { key: "watermark", title: "Watermark", wide: 2, low: true, text: (row) => moment(row.watermark) },
  number("late", "Late", count, { low: true }),
  FAULT("malformed", "Malformed"),
  FAULT("dropped", "Dropped"),
  FAULT("dead_letters", "Dead letters"),
  number("skipped", "Skipped", count, { low: true }),
  FAULT("lost_ranges", "Lost ranges"),
  number("commits_succeeded", "Commits", count, { low: true }),
  FAULT("commits_failed", "Failed commits"),
];

export const OPERATORS = [
  { key: "name", title: "Operator", wide: 3 },
  number("rows", "Rows", count),
  number("memory", "Size", bytes),
  number("updated", "Updated", count, { low: true }),
  FAULT("dropped", "Dropped as late"),
];

export const BATCHES = [
  number("number", "Batch", count),
  { key: "at", title: "Began", wide: 2, text: (row) => moment(row.at == null ? null : row.at * 1000) },
  number("rows", "Rows", count),
  number("milliseconds", "Time", milliseconds),
];
