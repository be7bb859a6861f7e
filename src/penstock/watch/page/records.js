// The newest records of a topic, with a predicate as a search box.

import { post } from "/api.js";
import { RECORDS } from "/columns.js";
import { Table } from "/table.js";
import { bytes, count, h, indented, plural, setText, shown, shownLines } from "/text.js";

export class RecordSearch {
  constructor(topic) {
    this.topic = topic;
    this.isBusy = false;
    this.table = new Table({
      label: "Newest records", columns: RECORDS, order: "timestamp", descending: true, tall: false,
      name: (row) => `${row.partition}:${String(row.offset).padStart(20)}`, open: (row) => this.expand(row),
    });
    this.where = h("input", {
      type: "search", class: "where", "aria-label": "Search records, in SQL", autocomplete: "off", spellcheck: "false",
      placeholder: "value:user.id = 5 AND key LIKE 'a%'   (/)", "data-slash": true, maxlength: 10000,
    });
    this.button = h("button", {}, "Read");
    this.result = h("p", { class: "dim", role: "status" });
    this.detail = h("div", { class: "record", hidden: true });
    this.element = h(
      "div", {},
      h("form", { class: "bar", role: "search", onsubmit: (event) => this.submit(event) }, this.where, this.button),
      this.result, this.table.element, this.detail,
    );
    this.read();
  }

  submit(event) {
    event.preventDefault();
    this.read();
  }

  async read() {
    if (this.isBusy) return;
    this.isBusy = true;
    this.button.disabled = true;
    setText(this.result, "Reading…");
    try {
      this.show(await post("/api/records", { topic: this.topic, where: this.where.value || null }));
    } catch (error) {
      this.fail(error.message);
    } finally {
      this.isBusy = false;
      this.button.disabled = false;
    }
  }

  show({ records, scanned, seconds, stopped }) {
    this.result.className = "dim";
    const more = stopped ? ` Older records were not read: ${stopped}.` : "";
    setText(this.result, `${plural(records.length, "record")} among ${count(scanned)} in ${seconds.toFixed(1)} s.${shown(more)}`);
    this.table.update(records);
    this.detail.hidden = true;
  }

  fail(error) {
    this.result.className = "error";
    setText(this.result, shownLines(error));
  }

  /** All that was sent of one record. */
  expand(row) {
    const part = (title, cut) => [
      h("h3", {}, cut.is_cut ? `${title}: the first ${bytes(cut.text.length)} of ${bytes(cut.size)}` : title),
      h("pre", { tabindex: 0, "aria-label": title }, cut.text == null ? "∅" : shownLines(cut.is_cut ? cut.text : indented(cut.text))),
    ];
    const parts = [
      h("p", {}, `Partition ${row.partition}, offset ${count(row.offset)}, ${shown(row.timestamp)}`),
      row.error == null ? null : h("p", { class: "error" }, `Does not parse. ${shownLines(row.error)}`),
      ...part("Key", row.key),
      ...part("Value", row.value),
      ...row.headers.flatMap(([name, cut]) => part(`Header ${shown(name)}`, cut)),
    ];
    this.detail.replaceChildren(...parts.filter((each) => each != null));
    this.detail.hidden = false;
    this.detail.scrollIntoView({ block: "nearest" });
  }
}
