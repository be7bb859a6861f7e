// Streaming queries: what drivers with LagListener report.

import { api, ask } from "/api.js";
import { BATCHES, milliseconds, moment, OPERATORS, QUERIES, QUERY_PARTITIONS, SOURCES } from "/columns.js";
import { Table } from "/table.js";
import { bytes, count, duration, h, NONE, plural, rate, setText, shown, shownLines } from "/text.js";
import { filterBox, Listing, section, sum, svg, Tiles } from "/views.js";

export function queriesView() {
  const made = new Listing("Queries", QUERIES, "query", "state", (stream) => stream.queries, (row) => `${row.title} ${row.name}`);
  made.isOfQueries = true;
  return made;
}

/** The sum of the known values; null if none is known. */
const total = (rows, key) => (rows.some((row) => row[key] != null) ? sum(rows, key) : null);

/** One run. Its report is fetched whole when the rows of queries change. */
export class QueryView {
  constructor(runId) {
    this.runId = runId;
    this.isOfQueries = true;
    this.number = 0; // of the rows that the report belongs to
    this.isBusy = false;
    this.missing = h("p", { class: "empty", hidden: true }, "There is no such query, or it is no longer kept.");
    this.title = h("span", { class: "name" });
    this.ids = h("p", { class: "dim" });
    this.error = h("pre", { class: "error", hidden: true, tabindex: 0, role: "region", "aria-label": "Error" });
    this.tiles = new Tiles(
      "State", "Input/s", "Processed/s", "Lag", "Event time", "Batch", "Trigger", "Rows written", "Dropped", "Dead letters",
      "State rows", "State size",
    );
    this.chart = h("div", { class: "chart" });
    this.batches = new Table({
      label: "Batches", columns: BATCHES, order: "number", descending: true, tall: false, name: (row) => String(row.number).padStart(12),
    });
    this.phases = h("ul", { class: "phases" });
    this.partitions = new Table({
      label: "Lag by partition", columns: QUERY_PARTITIONS, order: "lag", descending: true, tall: false,
      name: (row) => `${row.topic} ${String(row.partition).padStart(9)} ${row.source}`,
    });
    this.leftOut = h("p", { class: "dim" });
    this.sources = new Table({ label: "Sources", columns: SOURCES, tall: false, name: (row) => String(row.source) });
    this.operators = new Table({ label: "State", columns: OPERATORS, tall: false, name: (row) => `${row.name} ${row.at}` });
    this.stateful = section("State", this.operators.element);
    this.element = h(
      "div", { class: "view" },
      h("h1", {}, h("span", { class: "dim" }, "Query "), this.title), this.ids, this.missing, this.error, this.tiles.element,
      section("Batches", this.chart, this.batches.element),
      section("Time of the last batch", this.phases),
      section("Lag by partition", filterBox(this.partitions, "Filter partitions"), this.leftOut, this.partitions.element),
      section("Sources", this.sources.element),
      this.stateful,
    );
    this.tables = [this.partitions, this.batches, this.sources, this.operators];
  }

  async update(stream) {
    if (this.isBusy || document.hidden || this.number === stream.queriesNumber) return;
    this.isBusy = true;
    const number = stream.queriesNumber;
    try {
      const response = await ask(api("/api/query", { name: this.runId }));
      if (response.ok) {
        const found = await response.json();
        this.missing.hidden = found != null;
        if (found != null) this.show(found);
      }
      this.number = number;
    } catch {
      return; // the server is away: the page says so, and asks again when it is back
    } finally {
      this.isBusy = false;
    }
    this.update(stream); // it may have changed meanwhile, for the last time
  }

  show({ row, report }) {
    const { sources, operators, partitions, batches } = report;
    setText(this.title, shown(row.title));
    const until = report.ended_at == null ? "" : `, ended ${moment(report.ended_at * 1000)}`;
    const began = report.started_at == null ? "" : `, started ${moment(report.started_at * 1000)}`;
    setText(this.ids, `id ${shown(report.id)}, run ${shown(report.run_id)}${began}${until}`);
    this.error.hidden = report.error == null;
    setText(this.error, shownLines(report.error));
    const dropped = [total(sources, "dropped"), total(operators, "dropped")].filter((value) => value != null);
    this.tiles.set(
      row.state, rate(row.input_rate), rate(row.processing_rate), count(row.lag), duration(row.event_time_lag),
      count(row.batch), milliseconds(row.trigger_ms), count(report.rows_written),
      dropped.length ? count(dropped.reduce((one, other) => one + other)) : NONE, count(total(sources, "dead_letters")),
      count(total(operators, "rows")), bytes(total(operators, "memory")),
    );
    this.chart.replaceChildren(batchChart(batches));
    this.batches.update(batches);
    this.phases.replaceChildren(...phaseBars(report.phases));
    this.partitions.update(partitions);
    const missing = report.partition_count - partitions.length;
    setText(this.leftOut, missing > 0 ? `${plural(missing, "partition")} with less lag are not listed. Totals include them.` : "");
    this.sources.update(sources.map((source, at) => ({ source: at, ...source })));
    this.operators.update(operators.map((operator, at) => ({ at, ...operator })));
    this.stateful.hidden = !operators.length;
  }
}

/** The rows of the last batches as bars, and their times as a line. */
function batchChart(batches) {
  if (!batches.length) return h("p", { class: "dim" }, "No batch has run yet.");
  const most = Math.max(1, ...batches.map((batch) => batch.rows));
  const longest = Math.max(1, ...batches.map((batch) => batch.milliseconds));
  const step = 600 / Math.max(batches.length, 30);
  const bars = batches.map((batch, at) => {
    const height = (Math.max(0, batch.rows) / most) * 76;
    return svg("rect", {
      class: "bar-of-rows", x: (at * step + step * 0.1).toFixed(1), y: (79 - height).toFixed(1), width: (step * 0.8).toFixed(1), height: height.toFixed(1),
    });
  });
  const line = batches.map((batch, at) => `${((at + 0.5) * step).toFixed(1)},${(78 - (Math.max(0, batch.milliseconds) / longest) * 76).toFixed(1)}`);
  const text = `Batches ${count(batches[0].number)} to ${count(batches.at(-1).number)}: bars are rows, at most ${count(most)}; the line is the time, at most ${milliseconds(longest)}.`;
  return h(
    "figure", {},
    svg("svg", { viewBox: "0 0 600 80", preserveAspectRatio: "none", role: "img", "aria-label": text },
      ...bars, svg("polyline", { class: "line", points: line.join(" ") })),
    h("figcaption", { class: "dim" }, text),
  );
}

/** Spark's phases of a trigger. `triggerExecution` is the whole. */
function phaseBars(phases) {
  if (!phases.length) return [h("li", { class: "dim" }, "No batch has run yet.")];
  const whole = Math.max(1, ...phases.map((phase) => phase.milliseconds));
  return [...phases].sort((one, other) => other.milliseconds - one.milliseconds).map((phase) => {
    const width = (Math.max(0, phase.milliseconds) / whole) * 100;
    return h(
      "li", {},
      h("span", { class: "phase" }, shown(phase.name)),
      svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
        svg("rect", { class: "bar-of-rows", x: 0, y: 0, width: width.toFixed(1), height: 10 })),
      h("span", { class: "number" }, milliseconds(phase.milliseconds)),
    );
  });
}
