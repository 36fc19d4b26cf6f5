// Tables that stay quick: one page of rows at a time, searched and sorted by number of row.
(() => {
  "use strict";
  const nabladp = (window.nabladp ||= {});
  const EACH = 25;
  const WAIT = 150; // milliseconds after the last key before a search begins
  const { text: say } = nabladp;
  const order = new Intl.Collator(nabladp.locale, { numeric: true });
  let made = 0;

  function element(tag, attributes, text) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    return node;
  }

  /** Buttons to walk through `count` things, `each` at a time: rows or marks; `show(first, last)` is called for every page. */
  nabladp.pager = (container, { count, each = EACH, what = "rows", show }) => {
    const bar = element("div", { class: "pager" });
    const [back, on] = [say("previous"), say("next")].map((text) => element("button", { type: "button", class: "button plain" }, text));
    const where = element("span", { class: "pager-where", role: "status" });
    const state = { first: 0, count };
    const go = (first) => {
      state.first = Math.max(0, first);
      const last = Math.min(state.first + each, state.count);
      back.disabled = state.first === 0;
      on.disabled = last >= state.count;
      where.textContent = state.count
        ? say(`${what}_page`, { first: state.first + 1, last, total: state.count })
        : say(`no_${what}`);
      bar.hidden = state.count <= each && state.count === count;
      show(state.first, last);
    };
    back.addEventListener("click", () => go(state.first - each));
    on.addEventListener("click", () => go(state.first + each));
    bar.append(back, on, where);
    container.append(bar);
    go(0);
    return {
      restart: (next) => {
        state.count = next;
        go(0);
      },
    };
  };

  // ---- on paper, where nothing can be turned or sorted ---------------------------------------------------------------

  const [PADDING, WIDEST] = [14, 240]; // pixels beside and of a column

  function widthOf(column, last) {
    const { shown, textWidth } = nabladp.charting;
    let widest = textWidth(column.name, 13);
    for (let row = 0; row < last; row++) widest = Math.max(widest, textWidth(shown(column.read(row), column.format), 13));
    return Math.min(widest, WIDEST) + PADDING;
  }

  /** Columns in groups that are no wider than the paper; those that name a row begin every group. */
  function columnGroups(columns, names, last, width) {
    const widths = columns.map((column) => widthOf(column, last));
    const start = columns.map((_, i) => i).filter((i) => names.includes(i));
    const used = (group) => group.reduce((sum, i) => sum + widths[i], 0);
    const groups = [[...start]];
    columns.forEach((_, i) => {
      if (start.includes(i)) return;
      if (groups.at(-1).length > start.length && used(groups.at(-1)) + widths[i] > width) groups.push([...start]);
      groups.at(-1).push(i);
    });
    return groups.map((group) => group.map((i) => columns[i]));
  }

  /** The first rows of a table; one that is wider than the paper in several tables. */
  nabladp.printedTables = (columns, names, last, width) => {
    const { shown } = nabladp.charting;
    const kind = (column) => (column.format === "text" ? "" : "num");
    return columnGroups(columns, names, last, width).map((group) => {
      const [head, body] = [element("thead"), element("tbody")];
      head.append(element("tr"));
      head.firstChild.append(...group.map((column) => element("th", { scope: "col", class: kind(column) }, column.name)));
      for (let row = 0; row < last; row++) {
        body.append(element("tr"));
        body.lastChild.append(...group.map((column) => element("td", { class: kind(column) }, shown(column.read(row), column.format))));
      }
      const grid = element("table", { class: "values" });
      grid.append(head, body);
      return grid;
    });
  };

  /** `table` is {label, count, columns}; a column has a name, a format, and `read(row)`. */
  nabladp.renderTable = (container, table) => {
    const id = `table-${++made}`;
    const shown = nabladp.charting.shown;
    const state = { rows: null, sorted: null, down: false }; // rows: null stands for all, in their own order
    const at = (place) => (state.rows === null ? place : state.rows[place]);

    const body = element("tbody");
    const heads = table.columns.map((column, number) => {
      const cell = element("th", { scope: "col", class: column.format === "text" ? "" : "num" });
      const button = element("button", { type: "button", class: "sort" });
      button.append(element("bdi", {}, column.name));
      button.addEventListener("click", () => sortBy(number));
      cell.append(button);
      return cell;
    });
    const row = element("tr");
    row.append(...heads);
    const head = element("thead");
    head.append(row);
    const grid = element("table", { class: "values" });
    grid.append(element("caption", { class: "out-of-sight" }, table.label), head, body);
    const scroll = element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": say("table_of", { label: table.label }) });
    scroll.append(grid);

    function page(first, last) {
      body.replaceChildren();
      for (let place = first; place < last; place++) {
        const line = element("tr");
        table.columns.forEach((column, number) => {
          const cell = element(number === 0 ? "th" : "td", { class: column.format === "text" ? "" : "num" });
          if (number === 0) cell.setAttribute("scope", "row");
          cell.textContent = shown(column.read(at(place)), column.format);
          line.append(cell);
        });
        body.append(line);
      }
    }

    function sortBy(number) {
      state.down = state.sorted === number ? !state.down : false;
      state.sorted = number;
      heads.forEach((cell, i) => (i === number ? cell.setAttribute("aria-sort", state.down ? "descending" : "ascending") : cell.removeAttribute("aria-sort")));
      arrange();
    }

    /** Rows that hold every word, in any order and in any column. */
    function matching(words) {
      const found = [];
      for (let number = 0; number < table.count; number++) {
        const text = table.columns.map((column) => shown(column.read(number), column.format)).join("\n").toLowerCase();
        if (words.every((word) => text.includes(word))) found.push(number);
      }
      return found;
    }

    function arrange() {
      const words = search.value.trim().toLowerCase().split(/\s+/);
      let rows = words[0] ? matching(words) : Array.from({ length: table.count }, (_, i) => i);
      if (state.sorted !== null) {
        const { read } = table.columns[state.sorted];
        const sign = state.down ? -1 : 1;
        const keys = new Map(rows.map((number) => [number, read(number)]));
        rows = rows.sort((a, b) => sorted(keys.get(a), keys.get(b), sign) || a - b);
      }
      state.rows = rows;
      pages.restart(rows.length);
    }

    const search = element("input", { type: "search", id: `${id}-search`, autocomplete: "off" });
    const bar = element("div", { class: "table-search" });
    const sought = element("span", { class: "sought" });
    sought.append(element("label", { for: `${id}-search` }, say("search_table")), search);
    sought.hidden = table.count <= 8;
    bar.append(sought);
    let waiting = 0;
    search.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(arrange, WAIT);
    });
    const save = element("button", { type: "button", class: "button plain" }, say("as_csv"));
    save.addEventListener("click", () => download(table, state.rows ?? Array.from({ length: table.count }, (_, i) => i)));
    bar.append(save);
    container.append(bar, scroll);
    const pages = nabladp.pager(container, { count: table.count, show: page });
  };

  /** The rows as they are found and sorted, with all digits, as a CSV file (RFC 4180). */
  function download(table, rows) {
    const cell = (value) => (/[",\r\n]/.test(String(value ?? "")) ? `"${String(value).replaceAll('"', '""')}"` : String(value ?? ""));
    const line = (values) => `${values.map(cell).join(",")}\r\n`;
    const lines = rows.map((row) => line(table.columns.map((column) => column.read(row))));
    const file = new Blob([line(table.columns.map((column) => column.name)), ...lines], { type: "text/csv" });
    const name = table.label.replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60) || "table";
    const link = element("a", { href: URL.createObjectURL(file), download: `${name}.csv` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }

  /** Numbers by size, texts by letters, what is missing last either way. */
  function sorted(a, b, sign) {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a === "number" && typeof b === "number") return sign * (a - b);
    return sign * order.compare(String(a), String(b));
  }
})();
