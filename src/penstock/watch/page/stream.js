// The rows of the newest snapshot, kept up to date by server-sent events.

import { api, ask } from "/api.js";

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
    this.refusal = ""; // why the server gives no events
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

  /** By `fetch`, because an EventSource cannot send the token. */
  async open() {
    const source = new AbortController();
    this.source = source;
    this.heardAt = Date.now();
    let refusal = "";
    try {
      const response = await ask(api("/api/events"), { signal: source.signal }).catch(() => null);
      if (source !== this.source) return;
      if (response?.ok) {
        this.setState(true);
        await this.read(source, response.body.pipeThrough(new TextDecoderStream()).getReader());
      } else if (response) refusal = (await response.text().catch(() => "")).trim();
    } finally {
      if (source === this.source) this.retry(refusal);
    }
  }

  async read(source, reader) {
    let text = "";
    for (;;) {
      const { done, value } = await reader.read().catch(() => ({ done: true }));
      if (done || source !== this.source) return;
      this.heardAt = Date.now();
      let searched = Math.max(0, text.length - 1);
      text += value;
      for (let end; (end = text.indexOf("\n\n", searched)) >= 0; searched = 0) {
        const lines = text.slice(0, end).split("\n");
        text = text.slice(end + 2);
        const field = (name) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
        if (!this.take(field("event"), field("data"))) return;
      }
    }
  }

  retry(refusal = "") {
    this.source?.abort();
    this.source = null;
    this.setState(false, refusal);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.open(), RETRY_MS);
  }

  setState(isConnected, refusal = "") {
    if (this.isConnected === isConnected && this.refusal === refusal) return;
    this.isConnected = isConnected;
    this.refusal = refusal;
    this.onChange();
  }

  /** Returns false if the stream must begin again: it has ended, or an event was missed. */
  take(kind, data) {
    const apply = {
      full: this.replace, delta: this.change, queries: this.replaceQueries, clusters: this.replaceClusters,
    }[kind];
    if (!apply) return kind !== "end";
    const began = performance.now();
    if (apply.call(this, JSON.parse(data)) === false) return false;
    this.onChange();
    this.updateMs = performance.now() - began;
    document.documentElement.dataset.updateMs = this.updateMs.toFixed(1);
    document.documentElement.dataset.number = this.head?.number ?? 0;
    return true;
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
