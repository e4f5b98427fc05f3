// A table of many rows, packed in columns: filtered, sorted and shown a page at a time. The data come from a script
// beside the page, since a page opened from a disk may not read other files.
const SHOWN = 100;
const packed = globalThis.laminaCells;
const home = document.getElementById("cells-table");

/** Bytes of base64 text that were packed by gzip. */
async function unpacked(text) {
  const raw = Uint8Array.fromBase64 ? Uint8Array.fromBase64(text) : Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([raw]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

const KINDS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f4: Float32Array };

/** name -> { values, words }: words are what the values stand for, where these are no numbers. */
async function columnsOf(data) {
  const read = await Promise.all(data.columns.map(async (column) => [column.name, {
    values: new KINDS[column.kind](await unpacked(column.data)), words: column.words ?? null,
  }]));
  return Object.fromEntries(read);
}

const element = (tag, text, properties = {}) => Object.assign(document.createElement(tag), text === undefined ? {} : { textContent: text }, properties);

/** A number as findings write it. */
function written(value) {
  if (!Number.isFinite(value)) return "";
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return Math.abs(value) >= 1000 ? value.toFixed(0) : String(Number(value.toPrecision(3))).replace(/^(-?)0\./, "$1.");
}

class CellsTable {
  constructor(columns, count, chosen) {
    this.columns = columns;
    this.count = count;
    this.page = 0;
    this.sorted = { name: "", up: true };
    this.filters = {};
    // A column that says the same in every row takes room from the numbers.
    const same = (name) => name !== "model" && columns[name].words?.length === 1;
    this.names = Object.keys(columns).filter((name) => name !== "fingerprint" && name !== "version" && !same(name));
    home.replaceChildren(this.controls(chosen), this.status = element("p", "", { className: "key", role: "status" }), this.frame());
    this.apply();
  }

  /** A menu for every column of a few words, and a field that searches tasks and measures. */
  controls(chosen) {
    const bar = element("div", undefined, { className: "filters" });
    for (const name of ["model", "corpus", "analysis", "task", "measure"]) {
      const words = this.columns[name]?.words;
      if (!words || words.length < 2) continue;
      const menu = element("select");
      menu.append(element("option", `all (${words.length})`, { value: "" }));
      words.map((word, index) => [word, index]).sort(([one], [other]) => (one < other ? -1 : 1)).forEach(([word, index]) => menu.append(element("option", word || "none", { value: String(index) })));
      menu.addEventListener("change", () => { this.filters[name] = menu.value === "" ? undefined : Number(menu.value); this.page = 0; this.apply(); });
      if (chosen[name] !== undefined && words.includes(chosen[name])) { menu.value = String(words.indexOf(chosen[name])); this.filters[name] = words.indexOf(chosen[name]); }
      const label = element("label", name);
      label.append(menu);
      bar.append(label);
    }
    const search = element("input", undefined, { type: "search" });
    search.addEventListener("input", () => { this.text = search.value.trim().toLowerCase(); this.page = 0; this.apply(); });
    const label = element("label", "search");
    label.append(search);
    bar.append(label);
    return bar;
  }

  frame() {
    const scroll = element("div", undefined, { className: "scroll", tabIndex: 0, role: "region" });
    scroll.setAttribute("aria-label", "Numbers of all cells");
    const table = element("table");
    const head = element("tr");
    for (const name of this.names) {
      const cell = element("th", undefined, { scope: "col" });
      const button = element("button", name.replaceAll("_", " "), { type: "button" });
      button.addEventListener("click", () => { this.sorted = { name, up: this.sorted.name === name ? !this.sorted.up : true }; this.apply(); });
      cell.append(button);
      head.append(cell);
    }
    this.head = head;
    this.body = element("tbody");
    const top = element("thead");
    top.append(head);
    table.append(top, this.body);
    const steps = element("div", undefined, { className: "steps" });
    this.before = element("button", "previous", { type: "button" });
    this.after = element("button", "next", { type: "button" });
    this.before.addEventListener("click", () => { this.page -= 1; this.show(); });
    this.after.addEventListener("click", () => { this.page += 1; this.show(); });
    steps.append(this.before, this.after);
    scroll.append(table);
    const both = element("div");
    both.append(scroll, steps);
    return both;
  }

  /** The rows that pass all filters, in their order. */
  apply() {
    const wanted = Object.entries(this.filters).filter(([, code]) => code !== undefined).map(([name, code]) => [this.columns[name].values, code]);
    const hits = this.text ? ["model", "corpus", "analysis", "task", "measure"].map((name) => [this.columns[name].values, this.columns[name].words.map((word) => word.toLowerCase().includes(this.text))]) : null;
    const rows = new Uint32Array(this.count);
    let size = 0;
    for (let row = 0; row < this.count; row += 1) {
      if (wanted.every(([values, code]) => values[row] === code) && (!hits || hits.some(([values, hit]) => hit[values[row]]))) { rows[size] = row; size += 1; }
    }
    this.rows = rows.subarray(0, size);
    if (this.sorted.name) this.sort();
    this.show();
  }

  sort() {
    const { values, words } = this.columns[this.sorted.name];
    const ranks = words && words.map((word, index) => [word, index]).sort(([one], [other]) => (one < other ? -1 : 1)).reduce((all, [, index], rank) => { all[index] = rank; return all; }, []);
    const sign = this.sorted.up ? 1 : -1;
    const keys = new Float64Array(this.count);
    for (const row of this.rows) { const value = ranks ? ranks[values[row]] : values[row]; keys[row] = Number.isNaN(value) ? Infinity : sign * value; }
    this.rows = this.rows.slice().sort((one, other) => keys[one] - keys[other] || one - other);
  }

  cell(name, row) {
    const { values, words } = this.columns[name];
    return words ? words[values[row]] : written(values[row]);
  }

  show() {
    const pages = Math.max(1, Math.ceil(this.rows.length / SHOWN));
    this.page = Math.min(Math.max(this.page, 0), pages - 1);
    const start = this.page * SHOWN;
    const lines = Array.from(this.rows.subarray(start, start + SHOWN), (row) => {
      const line = element("tr");
      line.append(...this.names.map((name) => element("td", this.cell(name, row))));
      return line;
    });
    this.body.replaceChildren(...lines);
    this.status.textContent = this.rows.length
      ? `${this.rows.length.toLocaleString("en")} of ${this.count.toLocaleString("en")} numbers; rows ${(start + 1).toLocaleString("en")} to ${(start + lines.length).toLocaleString("en")}`
      : "No number passes these filters.";
    this.before.disabled = this.page === 0;
    this.after.disabled = this.page === pages - 1;
    [...this.head.children].forEach((cell, index) => cell.setAttribute("aria-sort", this.names[index] !== this.sorted.name ? "none" : this.sorted.up ? "ascending" : "descending"));
  }
}

if (home && packed) {
  columnsOf(packed).then((columns) => { new CellsTable(columns, packed.count, JSON.parse(home.dataset.chosen ?? "{}")); home.dataset.ready = "yes"; });
}
