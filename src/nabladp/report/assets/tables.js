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
      for (const keep of filters.wanted()) rows = rows.filter(keep);
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
    const filters = filtersOf(table, () => arrange());
    if (table.count > 8) bar.append(filters.details);
    const save = element("button", { type: "button", class: "button plain" }, say("as_csv"));
    save.addEventListener("click", () => download(table, state.rows ?? Array.from({ length: table.count }, (_, i) => i)));
    bar.append(save);
    container.append(bar, scroll);
    const pages = nabladp.pager(container, { count: table.count, show: page });
  };

  // ---- filters: values to pick, or a range of numbers, for every column ----------------------------------------------

  const MOST_PICKS = 200; // different texts of a column that are listed

  function labelled(words, input) {
    const label = element("label");
    label.append(input, element("bdi", {}, words));
    return label;
  }

  /** What a column's filter shows, and which rows it keeps: null for all. */
  function columnFilter(column, count, changed) {
    const { shown } = nabladp.charting;
    const values = Array.from({ length: count }, (_, row) => column.read(row));
    const numeric = column.format !== "text";
    const set = element("fieldset");
    const named = column.format === "share" ? say("in_percent", { name: column.name }) : column.name;
    const legend = element("legend");
    legend.append(element("bdi", {}, named));
    set.append(legend);
    if (numeric) {
      const unit = column.format === "share" ? 100 : 1;
      const known = values.filter((value) => typeof value === "number");
      const ends = [known.reduce((a, b) => Math.min(a, b), Infinity), known.reduce((a, b) => Math.max(a, b), -Infinity)];
      const grid = element("div", { class: "range" });
      const inputs = ["at_least", "at_most_number"].map((key, end) => {
        const input = element("input", { type: "number", step: "any", placeholder: known.length ? String(Number((ends[end] * unit).toPrecision(7))) : "" });
        input.setAttribute("aria-label", `${named}, ${say(key)}`);
        input.addEventListener("input", changed);
        grid.append(element("span", { class: "quiet" }, say(key)), input);
        return input;
      });
      set.append(grid);
      const [from, to] = inputs;
      const wanted = () => {
        if (!from.value && !to.value) return null;
        const [low, high] = [from.value ? Number(from.value) / unit : -Infinity, to.value ? Number(to.value) / unit : Infinity];
        return (row) => typeof values[row] === "number" && values[row] >= low && values[row] <= high;
      };
      return { set, wanted, clear: () => inputs.forEach((input) => (input.value = "")) };
    }
    const texts = [...new Set(values.map((value) => shown(value, column.format)))];
    if (texts.length > MOST_PICKS) {
      const input = element("input", { type: "search", "aria-label": `${named}, ${say("contains")}`, placeholder: say("contains") });
      input.addEventListener("input", changed);
      set.append(input);
      const wanted = () => {
        const part = input.value.trim().toLowerCase();
        return part ? (row) => shown(values[row], column.format).toLowerCase().includes(part) : null;
      };
      return { set, wanted, clear: () => (input.value = "") };
    }
    const picks = element("div", { class: "picks" });
    const chosen = new Map(texts.map((text) => [text, element("input", { type: "checkbox" })]));
    for (const [text, input] of chosen) picks.append(labelled(text, input));
    picks.addEventListener("change", changed);
    set.append(picks);
    const wanted = () => {
      const kept = new Set([...chosen].filter(([, input]) => input.checked).map(([text]) => text));
      return kept.size ? (row) => kept.has(shown(values[row], column.format)) : null;
    };
    return { set, wanted, clear: () => chosen.forEach((input) => (input.checked = false)) };
  }

  /** A fold with a filter for every column, made when it is opened. */
  function filtersOf(table, changed) {
    const details = element("details", { class: "table-filters" });
    const summary = element("summary", {}, say("filter_rows"));
    let made = [];
    let waiting = 0;
    const wanted = () => made.map((filter) => filter.wanted()).filter((keep) => keep !== null);
    const apply = () => {
      const count = wanted().length;
      summary.textContent = count ? say("filters_on", { count }) : say("filter_rows");
      changed();
    };
    const soon = () => {
      clearTimeout(waiting);
      waiting = setTimeout(apply, WAIT);
    };
    details.append(summary);
    details.addEventListener("toggle", () => {
      if (!details.open || made.length) return;
      made = table.columns.map((column) => columnFilter(column, table.count, soon));
      const clear = element("button", { type: "button", class: "button plain" }, say("clear_filters"));
      clear.addEventListener("click", () => {
        for (const filter of made) filter.clear();
        apply();
      });
      const grid = element("div", { class: "filters" });
      grid.append(...made.map(({ set }) => set), clear);
      details.append(grid);
    });
    return { details, wanted };
  }

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
