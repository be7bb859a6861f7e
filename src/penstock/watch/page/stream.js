// The rows of the newest snapshot, kept up to date by server-sent events.

import { api } from "/api.js";

const SILENCE_MS = 25000; // the server sends a heartbeat every 10 s
const RETRY_MS = 1500;

/** Apply changed cells of known rows, whole new rows, and the names of rows that are gone. */
export function changeRows(rows, { set, gone }, nameOf = (row) => row.name) {
  for (const row of gone) rows.delete(nameOf(row));
  for (const row of set) {
    const name = nameOf(row);
    const known = rows.get(name);
    if (known) Object.assign(known, row);
    else rows.set(name, row);
  }
}

export class Stream {
  constructor(onChange) {
    this.head = null;
    this.topics = new Map();
    this.groups = new Map();
    this.queries = new Map();
    this.clusters = new Map(); // none if the page has one cluster
    this.queriesNumber = 0; // how often rows of queries came
    this.hasCluster = true; // a driver's own page has none
    this.isConnected = false;
    this.receivedAt = 0;
    this.fulls = 0; // how often all rows came: what was fetched before may be of another server
    this.updateMs = 0; // the script time of the last update
    this.onChange = onChange;
    this.source = null;
    this.timer = 0;
    this.open();
    setInterval(() => {
      if (this.source && this.heardAt && Date.now() - this.heardAt > SILENCE_MS) this.retry();
    }, 1000);
  }

  open() {
    this.heardAt = Date.now();
    const source = new EventSource(api("/api/events"));
    this.source = source;
    source.addEventListener("full", (event) => this.take(source, event, (data) => this.replace(data)));
    source.addEventListener("delta", (event) => this.take(source, event, (data) => this.change(data)));
    source.addEventListener("queries", (event) => this.take(source, event, (data) => this.replaceQueries(data)));
    source.addEventListener("clusters", (event) => this.take(source, event, (data) => this.replaceClusters(data)));
    source.addEventListener("alive", () => {
      this.heardAt = Date.now();
    });
    source.addEventListener("open", () => {
      this.heardAt = Date.now();
      this.setConnected(true);
    });
    source.addEventListener("end", () => this.retry());
    source.addEventListener("error", () => this.retry());
  }

  /** EventSource gives up after some failures, so this page opens the next one itself. */
  retry() {
    this.source?.close();
    this.source = null;
    this.setConnected(false);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.open(), RETRY_MS);
  }

  setConnected(isConnected) {
    if (this.isConnected !== isConnected) {
      this.isConnected = isConnected;
      this.onChange();
    }
  }

  take(source, event, apply) {
    if (source !== this.source) return;
    const began = performance.now();
    this.heardAt = this.receivedAt = Date.now();
    if (apply(JSON.parse(event.data)) === false) {
      this.retry(); // an event was missed: a new stream begins with all rows
      return;
    }
    this.onChange();
    this.updateMs = performance.now() - began;
    document.documentElement.dataset.updateMs = this.updateMs.toFixed(1);
    document.documentElement.dataset.number = this.head?.number ?? 0;
  }

  replace(data) {
    this.head = data.head;
    this.fulls += 1;
    this.topics = new Map(data.topics.map((row) => [row.name, row]));
    this.groups = new Map(data.groups.map((row) => [row.name, row]));
  }

  replaceQueries(data) {
    this.hasCluster = data.has_cluster;
    this.queriesNumber += 1;
    this.queries = new Map(data.queries.map((row) => [row.name, row]));
  }

  replaceClusters(data) {
    this.clusters = new Map(data.clusters.map((row) => [row.name, row]));
  }

  change(data) {
    if (!this.head || data.base !== this.head.number) return false;
    this.head = data.head;
    changeRows(this.topics, data.topics);
    changeRows(this.groups, data.groups);
    return true;
  }
}
