// A table of any number of rows, of which only the visible ones are elements.

import { h, setText, shown } from "/text.js";

const ROW_HEIGHT = 30; // as in style.css
const SPARE = 6; // rows above and below what is visible
let tables = 0;

/**
 * A column: {key, title, text(row), sort(row), number, link(row), wide, low, tone(row)}. `low` is left out on narrow
 * screens. `tone` is a class for a cell.
 */
export class Table {
  constructor({ label, columns, order, descending = false, open = null, name = (row) => row.name, tall = true }) {
    this.id = `table-${(tables += 1)}`;
    this.columns = columns;
    this.order = order ?? columns[0].key;
    this.descending = descending;
    this.openRow = open;
    this.nameOf = name;
    this.all = [];
    this.rows = [];
    this.filter = "";
    this.selected = null; // the name of a row, which survives updates and sorting
    this.pool = [];

    this.head = h("div", { role: "row", class: "tr th", "aria-rowindex": 1 });
    this.body = h("div", { role: "rowgroup", class: "tbody" });
    this.grid = h(
      "div",
      {
        role: "grid",
        class: tall ? "grid tall" : "grid",
        tabindex: 0,
        "aria-label": label,
        "aria-readonly": "true",
        onkeydown: (event) => this.key(event),
        onscroll: () => this.render(),
      },
      h("div", { role: "presentation", class: "inner" }, h("div", { role: "rowgroup", class: "thead" }, this.head), this.body),
    );
    this.empty = h("p", { class: "empty" });
    this.element = h("div", { class: "table" }, this.grid, this.empty);
    this.narrow = matchMedia("(max-width: 700px)");
    this.onNarrow = () => this.layOut();
    this.narrow.addEventListener("change", this.onNarrow);
    this.resized = new ResizeObserver(() => this.render());
    this.resized.observe(this.grid);
    this.layOut();
  }

  close() {
    this.narrow.removeEventListener("change", this.onNarrow);
    this.resized.disconnect();
  }

  layOut() {
    this.visible = this.columns.filter((column) => !(column.low && this.narrow.matches));
    const widths = this.visible.map((column) =>
      this.narrow.matches
        ? column.wide ? "minmax(6rem, 1.4fr)" : "minmax(4.2rem, 1fr)"
        : column.wide ? `minmax(9rem, ${column.wide}fr)` : `minmax(${Math.max(5.5, 0.62 * column.title.length)}rem, ${column.number ? 1 : 1.2}fr)`,
    );
    this.grid.style.setProperty("--columns", widths.join(" "));
    this.head.replaceChildren(
      ...this.visible.map((column) =>
        h(
          "div",
          { role: "columnheader", class: column.number ? "td number" : "td", "data-key": column.key },
          h("button", { type: "button", tabindex: -1, title: column.title, onclick: () => this.sortBy(column.key) }, column.title),
        ),
      ),
    );
    this.pool = [];
    this.body.replaceChildren();
    this.showOrder();
    this.render();
  }

  sortBy(key) {
    if (key === this.order) this.descending = !this.descending;
    else {
      this.order = key;
      this.descending = Boolean(this.columns.find((column) => column.key === key).number);
    }
    this.showOrder();
    this.arrange();
  }

  showOrder() {
    for (const cell of this.head.children) {
      const isOrder = cell.dataset.key === this.order;
      cell.setAttribute("aria-sort", isOrder ? (this.descending ? "descending" : "ascending") : "none");
    }
  }

  setFilter(text) {
    this.filter = text.toLowerCase();
    this.grid.scrollTop = 0;
    this.arrange();
  }

  update(rows) {
    this.all = rows;
    this.arrange();
  }

  arrange() {
    const column = this.columns.find((each) => each.key === this.order);
    const value = column.sort ?? ((row) => row[column.key]);
    let rows = this.all;
    if (this.filter) rows = rows.filter((row) => shown(this.nameOf(row)).toLowerCase().includes(this.filter));
    const keyed = rows.map((row) => [value(row), row]);
    const sign = this.descending ? -1 : 1;
    keyed.sort(([a, one], [b, other]) => {
      if (a == null || b == null) {
        if (a == null && b != null) return 1; // unknown values last, in both orders
        if (b == null && a != null) return -1;
      } else if (a < b) return -sign;
      else if (a > b) return sign;
      const left = this.nameOf(one), right = this.nameOf(other);
      return left < right ? -1 : left > right ? 1 : 0;
    });
    this.rows = keyed.map(([, row]) => row);
    setText(this.empty, this.rows.length ? "" : this.filter ? "No row matches the filter." : "Nothing here yet.");
    this.grid.setAttribute("aria-rowcount", this.rows.length + 1);
    this.grid.setAttribute("aria-colcount", this.visible.length);
    this.render();
  }

  render() {
    const height = this.grid.clientHeight || 600;
    const first = Math.max(0, Math.floor(this.grid.scrollTop / ROW_HEIGHT) - SPARE);
    const last = Math.min(this.rows.length, first + Math.ceil(height / ROW_HEIGHT) + 2 * SPARE);
    this.body.style.height = `${this.rows.length * ROW_HEIGHT}px`;
    while (this.pool.length < last - first) this.pool.push(this.makeRow());
    let active = null;
    for (let slot = 0; slot < this.pool.length; slot += 1) {
      const at = first + slot;
      const element = this.pool[slot];
      if (at >= last) {
        element.root.hidden = true;
        continue;
      }
      const row = this.rows[at];
      this.fill(element, row, at);
      const isSelected = this.nameOf(row) === this.selected;
      element.root.setAttribute("aria-selected", isSelected);
      if (isSelected) active = element.root.id;
    }
    if (active) this.grid.setAttribute("aria-activedescendant", active);
    else this.grid.removeAttribute("aria-activedescendant");
  }

  makeRow() {
    const cells = this.visible.map((column) => {
      const link = column.link ? h("a", { tabindex: -1 }) : null;
      const cell = h("div", { role: "gridcell", class: column.number ? "td number" : "td" }, link);
      return { cell, link };
    });
    const root = h(
      "div",
      { role: "row", class: "tr", id: `${this.id}-${this.pool.length}` },
      ...cells.map(({ cell }) => cell),
    );
    const made = { root, cells, row: null };
    root.addEventListener("click", (event) => {
      this.selected = this.nameOf(made.row);
      this.render();
      if (!event.target.closest("a") && this.openRow) this.openRow(made.row);
    });
    this.body.append(root);
    return made;
  }

  fill(element, row, at) {
    element.row = row;
    element.root.hidden = false;
    element.root.style.transform = `translateY(${at * ROW_HEIGHT}px)`;
    element.root.setAttribute("aria-rowindex", at + 2);
    this.visible.forEach((column, index) => {
      const { cell, link } = element.cells[index];
      const text = column.text ? column.text(row) : shown(row[column.key]);
      setText(link ?? cell, text);
      if (link) link.setAttribute("href", column.link(row));
      const title = text.length > 12 ? text.slice(0, 1000) : "";
      if (cell.title !== title) cell.title = title;
      const tone = (column.number ? "td number " : "td ") + (column.tone?.(row) ?? "");
      if (cell.className !== tone) cell.className = tone;
    });
  }

  select(at) {
    if (!this.rows.length) return;
    at = Math.max(0, Math.min(this.rows.length - 1, at));
    this.selected = this.nameOf(this.rows[at]);
    const top = at * ROW_HEIGHT;
    const space = this.grid.clientHeight - 2 * ROW_HEIGHT; // less the header, which is sticky
    if (top < this.grid.scrollTop) this.grid.scrollTop = top;
    else if (top > this.grid.scrollTop + space) this.grid.scrollTop = top - space;
    this.render();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = this.rows.findIndex((row) => this.nameOf(row) === this.selected);
    const page = Math.max(1, Math.floor(this.grid.clientHeight / ROW_HEIGHT) - 2);
    const column = this.visible.findIndex((each) => each.key === this.order);
    const actions = {
      ArrowDown: () => this.select(at + 1),
      ArrowUp: () => this.select(at < 0 ? 0 : at - 1),
      PageDown: () => this.select(at + page),
      PageUp: () => this.select(at - page),
      Home: () => this.select(0),
      End: () => this.select(this.rows.length - 1),
      ArrowRight: () => this.sortBy(this.visible[(column + 1) % this.visible.length].key),
      ArrowLeft: () => this.sortBy(this.visible[(column + this.visible.length - 1) % this.visible.length].key),
      r: () => this.sortBy(this.order),
      Enter: () => at >= 0 && this.openRow?.(this.rows[at]),
    };
    if (event.target.closest("button")) return;
    if (actions[event.key]) {
      actions[event.key]();
      event.preventDefault();
    }
  }
}
