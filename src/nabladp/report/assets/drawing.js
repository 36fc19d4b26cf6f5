// What all charts are made of: elements, the values of a view, texts that fit, ticks, and a named picture.
// What a view is, nabladp/views/view.py says. Text enters the page as text only.
(() => {
  "use strict";
  const nabladp = (window.nabladp ||= {});
  const SVG = "http://www.w3.org/2000/svg";
  const LINE = 16;
  let made = 0;

  function fill(node, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value !== null && value !== undefined) node.setAttribute(name, value);
    }
    node.append(...children.filter((child) => child !== null));
    return node;
  }
  const html = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
  const svg = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

  // ---- reading a view ----------------------------------------------------------------------------------------

  const item = (row, place) => (Array.isArray(row) ? row[place] : row);

  /** A function from a row's number to the value in one column. */
  function reader(view, number) {
    const column = view.columns[number];
    if (column.axis) return (row) => column.axis[Math.floor(row / column.every) % column.axis.length];
    if (column.of !== undefined) {
      const of = reader(view, column.of);
      return (row) => (of(row) === null ? null : of(row) + column.plus);
    }
    if (column.labels) return (row) => column.labels[item(view.rows[row], column.place)];
    return (row) => item(view.rows[row], column.place) ?? null;
  }

  /** The name of a row: its naming columns, one after another. */
  function naming(view) {
    const readers = view.names.map((number) => reader(view, number));
    return (row) => readers.map((read) => String(read(row) ?? "")).filter((text) => text !== "").join(" · ");
  }

  const { whole } = nabladp;
  const digits = new Intl.NumberFormat(nabladp.locale, { maximumSignificantDigits: 4, useGrouping: "always" });

  function shown(value, format) {
    if (value === null || value === undefined) return "–";
    if (typeof value !== "number" || format === "text") return String(value);
    if (format === "count") return whole.format(Math.round(value) + 0);
    if (format === "share") return nabladp.text("percent", { number: Math.abs(value) < 5e-7 ? 0 : digits.format(Number((100 * value).toFixed(4))) });
    return digits.format(value);
  }

  // ---- what charts share -------------------------------------------------------------------------------------

  const ruler = document.createElement("canvas").getContext("2d");
  function textWidth(text, size = 12.5) {
    ruler.font = `${size}px system-ui, sans-serif`;
    return ruler.measureText(text).width;
  }

  /** As much of a text as fits. */
  function cut(text, room, size) {
    if (textWidth(text, size) <= room) return text;
    let [low, high] = [0, text.length];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (textWidth(`${text.slice(0, middle)}…`, size) <= room) low = middle;
      else high = middle - 1;
    }
    return `${text.slice(0, low).trimEnd()}…`;
  }

  /** Round numbers that divide a range, about as many as wanted and at least two; whole ones for counts. */
  function ticks(low, high, wanted, format) {
    const rough = (high - low) / Math.max(wanted, 1);
    const power = 10 ** Math.floor(Math.log10(rough));
    const round = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= rough * 0.999) || rough;
    const step = format === "count" ? Math.max(1, Math.round(round)) : round;
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) found.push(k === 0 ? 0 : k * step);
    return found.length < 2 && wanted < 9 ? ticks(low, high, wanted + 1, format) : found;
  }

  /** An empty picture, named for screen readers. */
  function picture(view, width, height, told) {
    const id = `chart-${++made}`;
    const node = svg("svg", { class: "chart", role: "img", width, height, viewBox: `0 0 ${width} ${height}` });
    node.setAttribute("aria-labelledby", `${id}-t ${id}-d`);
    const title = svg("title", { id: `${id}-t` });
    title.textContent = view.title;
    const description = svg("desc", { id: `${id}-d` });
    description.textContent = told;
    node.append(title, description);
    return node;
  }

  function label(node, x, y, text, attributes) {
    const made = svg("text", { x, y, ...attributes });
    made.textContent = text;
    node.append(made);
    return made;
  }

  /** A name beside a mark: in two smaller lines if one is too short, and cut only then; whole in its title. */
  function named(node, x, y, text, room, attributes) {
    if (textWidth(text) <= room) return label(node, x, y, text, { class: "chart-text", ...attributes });
    const words = text.split(" ");
    let first = words.shift();
    while (words.length && textWidth(`${first} ${words[0]}`, 10.5) <= room) first += ` ${words.shift()}`;
    const lines = words.length ? [first, words.join(" ")] : [first];
    const made = svg("text", { class: "chart-text chart-small", ...attributes });
    lines.forEach((line, i) => {
      const part = svg("tspan", { x, y: lines.length > 1 ? y - 6 + 11 * i : y });
      part.textContent = cut(line, room, 10.5);
      made.append(part);
    });
    const title = svg("title");
    title.textContent = text;
    made.append(title);
    node.append(made);
    return made;
  }

  /** A text in as many lines as it needs; returns how much room they take. */
  function paragraph(node, x, y, text, room) {
    const lines = [""];
    for (const word of text.split(" ")) {
      const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
      if (textWidth(longer) <= room || !lines.at(-1)) lines[lines.length - 1] = longer;
      else lines.push(word);
    }
    lines.forEach((line, i) => label(node, x, y + i * LINE, line, { class: "chart-quiet" }));
    return lines.length * LINE;
  }

  /** A picture grows to hold what was put at its end. */
  function grow(node, height) {
    node.setAttribute("height", height);
    node.setAttribute("viewBox", `0 0 ${node.getAttribute("width")} ${height}`);
  }

  /** Every value and interval of a row, in words. */
  function telling(view) {
    const name = naming(view);
    const parts = view.series.map((series) => ({
      name: series.name,
      format: view.columns[series.value].format,
      value: reader(view, series.value),
      low: series.low === null ? null : reader(view, series.low),
      high: series.high === null ? null : reader(view, series.high),
    }));
    return (row) => {
      const told = parts.map((part) => {
        const interval =
          part.low === null || part.low(row) === null
            ? ""
            : ` (${nabladp.text("range", { low: shown(part.low(row), part.format), high: shown(part.high(row), part.format) })})`;
        return `${parts.length > 1 ? `${part.name} ` : ""}${shown(part.value(row), part.format)}${interval}`;
      });
      return `${name(row)}: ${told.join("; ")}`;
    };
  }

  const STEPS = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1, PageDown: 10, PageUp: -10 };
  /** Where a key leads in a list. */
  function stepInList(count) {
    return (place, key) => {
      if (key === "Home") return 0;
      if (key === "End") return count - 1;
      return Object.hasOwn(STEPS, key) ? place + STEPS[key] : null;
    };
  }

  const reading = { reader, naming, telling, shown };
  const drawing = { html, svg, textWidth, cut, ticks, picture, label, named, paragraph, grow, stepInList };
  // charts of whole views, by the shape of their data: {fits, draw, pieces, beside}; the first one that fits is drawn
  nabladp.charting = { ...reading, ...drawing, forms: [] };
})();
