// Resets the offsets of a group, in two steps: the moves are shown, then these are committed.

import { post } from "/api.js";
import { MOVES } from "/columns.js";
import { Table } from "/table.js";
import { h, plural, setText, shown, shownLines } from "/text.js";

export class OffsetReset {
  constructor(group) {
    this.group = group;
    this.moves = [];
    this.isBusy = false;
    this.to = h("input", {
      type: "search", class: "position", "aria-label": "New position", autocomplete: "off", spellcheck: "false", required: true, maxlength: 200,
      placeholder: "earliest, latest, -1h, 2025-01-31T12:00Z, 1234",
    });
    this.topic = h("input", {
      type: "search", "aria-label": "Topic", autocomplete: "off", spellcheck: "false", maxlength: 300, placeholder: "all its topics",
    });
    this.show = h("button", {}, "Show the moves");
    this.commit = h("button", { type: "button", onclick: () => this.execute() }, "Commit");
    this.cancel = h("button", { type: "button", onclick: () => this.reset("") }, "Cancel");
    this.result = h("p", { role: "status" });
    this.table = new Table({
      label: "Moves", columns: MOVES, tall: false, name: (row) => `${row.topic} ${String(row.partition).padStart(9)}`,
    });
    this.confirm = h("div", { hidden: true }, this.table.element, h("p", { class: "bar" }, this.commit, this.cancel));
    this.element = h(
      "div", {},
      h("form", { class: "bar", onsubmit: (event) => this.submit(event) }, this.to, this.topic, this.show),
      this.result, this.confirm,
    );
  }

  submit(event) {
    event.preventDefault();
    const to = this.to.value.trim();
    const topic = this.topic.value.trim() || null;
    if (to) this.ask("/api/reset/plan", { group: this.group, to, topic }, ({ moves }) => this.ready(moves));
  }

  ready(moves) {
    this.moves = moves;
    this.table.update(moves);
    setText(this.commit, `Commit ${plural(moves.length, "offset")} of ${shown(this.group)}`);
    setText(this.result, "Nothing has been changed yet.");
    this.confirm.hidden = false;
  }

  execute() {
    const moves = this.moves.map((each) => [each.topic, each.partition, each.old, each.new]);
    this.ask("/api/reset", { group: this.group, moves }, ({ committed }) => this.reset(`Committed ${plural(committed, "offset")}.`));
  }

  reset(text) {
    this.moves = [];
    this.confirm.hidden = true;
    setText(this.result, text);
  }

  async ask(path, body, then) {
    if (this.isBusy) return;
    this.isBusy = this.show.disabled = this.commit.disabled = true;
    this.result.className = "dim";
    setText(this.result, "Asking the brokers…");
    try {
      then(await post(path, body));
    } catch (error) {
      this.reset(shownLines(error.message));
      this.result.className = "error";
    } finally {
      this.isBusy = this.show.disabled = this.commit.disabled = false;
    }
  }
}
