// Bars, columns and dots, with intervals.
(() => {
  "use strict";
  const { charting } = (window.nabladp ||= {});
  const { svg, reader, naming, telling, shown, textWidth, cut, ticks, picture, label, named, paragraph, grow, stepInList } = charting;
  const ROW = 24;
  const GAP = 8;
  const SHAPES = 3;

  function numbers(view, rows) {
    const list = [];
    for (const series of view.series) {
      for (const place of [series.value, series.low, series.high]) {
        if (place === null) continue;
        const read = reader(view, place);
        for (let row = rows.first; row < rows.last; row++) if (typeof read(row) === "number") list.push(read(row));
      }
    }
    return list;
  }

  /** From the smallest to the largest number, zero included; never empty. */
  function domain(view, rows) {
    let [low, high] = [0, 0];
    for (const value of numbers(view, rows)) [low, high] = [Math.min(low, value), Math.max(high, value)];
    if (view.line) high = Math.max(high, Math.min(view.line.at, 2 * high || view.line.at));
    return low === high ? [0, 1] : [low, high];
  }

  const scaled = ([low, high], from, to) => (value) => from + ((value - low) / (high - low)) * (to - from);

  // ---- a legend, line by line --------------------------------------------------------------------------------

  function legend(node, view, x, width) {
    const items = view.series.length > 1 ? view.series.map((series, i) => [series.name, i]) : [];
    if (view.line) items.push([view.line.text, "line"]);
    let [left, top] = [x, 16];
    for (const [text, kind] of items) {
      const room = Math.min(textWidth(text) + 34, width - x);
      if (left > x && left + room > width) [left, top] = [x, top + 20];
      if (kind === "line") node.append(svg("line", { class: "chart-line", x1: left, x2: left + 16, y1: top - 4, y2: top - 4 }));
      else mark(node, left + 8, top - 4, kind);
      label(node, left + 22, top, cut(text, room - 26), { class: "chart-text" });
      left += room;
    }
    return items.length ? top + 12 : 6;
  }
  function legendHeight(view, x, width) {
    return legend(svg("g"), view, x, width);
  }

  /** A circle, a diamond, a square: told apart without colour. */
  function mark(node, x, y, number) {
    const kind = number % SHAPES;
    const shape =
      kind === 0
        ? svg("circle", { cx: x, cy: y, r: 4.5 })
        : svg("path", { d: kind === 1 ? `M${x} ${y - 6}l6 6l-6 6l-6 -6z` : `M${x - 4} ${y - 4}h8v8h-8z` });
    shape.setAttribute("class", `chart-mark chart-mark-${kind}`);
    node.append(shape);
  }

  function whisker(node, from, to, across, upright, cap = 4) {
    if (![from, to, across].every(Number.isFinite)) return;
    const path = upright
      ? `M${across - cap} ${from}h${2 * cap}M${across} ${from}V${to}M${across - cap} ${to}h${2 * cap}`
      : `M${from} ${across - cap}v${2 * cap}M${from} ${across}H${to}M${to} ${across - cap}v${2 * cap}`;
    node.append(svg("path", { class: "chart-whisker", d: path }));
  }

  Object.assign(charting, { whisker, domain, scaled, legend, legendHeight, mark });

  // ---- lying: a row each, names on the left ------------------------------------------------------------------

  /** The empty plot; `row(name)` marks go in by the caller. */
  function lying(view, rows, width) {
    const name = naming(view);
    const count = rows.last - rows.first;
    const format = view.columns[view.series[0].value].format;
    const texts = Array.from({ length: count }, (_, i) => name(rows.first + i));
    const left = Math.min(Math.max(...texts.map((text) => textWidth(text)), 20) + GAP, 0.42 * width);
    const value = reader(view, view.series[0].value);
    const figures = view.series.length > 1 ? [] : texts.map((_, i) => shown(value(rows.first + i), format));
    const right = Math.max(8, ...figures.map((text) => textWidth(text))) + GAP;
    const top = legendHeight(view, 0, width);
    const bottom = top + count * ROW;
    const told = nabladp.text("rows_told", { caption: view.caption, count: view.rows.length });
    const node = picture(view, width, bottom + 44, told);
    legend(node, view, 0, width);
    const range = domain(view, rows);
    const x = scaled(range, left + 6, width - right - 6);
    const glow = node.appendChild(svg("rect", { class: "chart-glow", x: 0, width, height: ROW, y: top, visibility: "hidden" }));
    for (const at of ticks(range[0], range[1], Math.max(2, (width - left - right) / 80), format)) {
      node.append(svg("line", { class: at === 0 ? "chart-zero" : "chart-grid", x1: x(at), x2: x(at), y1: top, y2: bottom }));
      label(node, x(at), bottom + 16, shown(at, format), { class: "chart-quiet", "text-anchor": "middle" });
    }
    if (view.line) node.append(svg("line", { class: "chart-line", x1: x(view.line.at), x2: x(view.line.at), y1: top, y2: bottom }));
    texts.forEach((text, i) => {
      const y = top + i * ROW + ROW / 2;
      named(node, left - GAP, y + 4, text, left - GAP, { "text-anchor": "end" });
      if (figures.length) label(node, width, y + 4, figures[i], { class: "chart-quiet", "text-anchor": "end" });
    });
    grow(node, bottom + 28 + paragraph(node, 0, bottom + 38, view.caption, width));
    const tell = telling(view);
    return {
      x,
      middle: (i) => top + i * ROW + ROW / 2,
      drawing: {
        node,
        count,
        tell: (place) => tell(rows.first + place),
        mark: (place) => {
          glow.setAttribute("y", top + place * ROW);
          glow.setAttribute("visibility", "visible");
        },
        at: (_, y) => (y >= top && y < bottom ? Math.floor((y - top) / ROW) : null),
        step: stepInList(count),
      },
    };
  }
  function readers(view, series) {
    return [series.value, series.low, series.high].map((place) => (place === null ? () => NaN : reader(view, place)));
  }

  charting.bars = (view, rows, width) => {
    const { x, middle, drawing } = lying(view, rows, width);
    const [value, low, high] = readers(view, view.series[0]);
    for (let row = rows.first; row < rows.last; row++) {
      const [y, at] = [middle(row - rows.first), value(row)];
      if (typeof at !== "number") continue;
      const [from, to] = [Math.min(x(0), x(at)), Math.max(x(0), x(at))];
      const kind = at < 0 && view.signed ? "chart-bar chart-bar-below" : "chart-bar";
      drawing.node.append(svg("rect", { class: kind, x: from, width: Math.max(to - from, 1), y: y - 7, height: 14 }));
      if (low(row) !== null) whisker(drawing.node, x(low(row)), x(high(row)), y, false);
    }
    return drawing;
  };

  charting.dots = (view, rows, width) => {
    const { x, middle, drawing } = lying(view, rows, width);
    view.series.forEach((series, number) => {
      const [value, low, high] = readers(view, series);
      for (let row = rows.first; row < rows.last; row++) {
        const y = middle(row - rows.first);
        if (typeof value(row) !== "number") continue;
        if (low(row) !== null) whisker(drawing.node, x(low(row)), x(high(row)), y, false);
        mark(drawing.node, x(value(row)), y, number);
      }
    });
    return drawing;
  };

  // ---- standing: many ordered values side by side ------------------------------------------------------------

  charting.columns = (view, rows, width) => {
    const [height, top] = [220, 10];
    const name = naming(view);
    const count = rows.last - rows.first;
    const format = view.columns[view.series[0].value].format;
    const [value, low, high] = readers(view, view.series[0]);
    const range = domain(view, rows);
    const marks = ticks(range[0], range[1], 5, format);
    const left = Math.max(...marks.map((at) => textWidth(shown(at, format)))) + GAP;
    const told = nabladp.text("columns_told", { caption: view.caption, count: view.rows.length });
    const node = picture(view, width, height + 56, told);
    const y = scaled(range, height, top);
    const band = (width - left) / count;
    const glow = node.appendChild(svg("rect", { class: "chart-glow", y: top, height: height - top, width: band, visibility: "hidden" }));
    for (const at of marks) {
      node.append(svg("line", { class: at === 0 ? "chart-zero" : "chart-grid", x1: left, x2: width, y1: y(at), y2: y(at) }));
      label(node, left - GAP, y(at) + 4, shown(at, format), { class: "chart-quiet", "text-anchor": "end" });
    }
    const inset = band > 6 ? 1 : 0.25;
    for (let i = 0; i < count; i++) {
      const at = value(rows.first + i);
      if (typeof at !== "number") continue;
      const [from, to] = [Math.min(y(0), y(at)), Math.max(y(0), y(at))];
      const place = { x: left + i * band + inset, width: Math.max(band - 2 * inset, 0.5) };
      node.append(svg("rect", { class: "chart-bar", ...place, y: from, height: Math.max(to - from, 1) }));
      const [down, up] = [low(rows.first + i), high(rows.first + i)];
      if (down !== null) whisker(node, y(down), y(up), left + (i + 0.5) * band, true, Math.min(3, band / 3));
    }
    const widest = Math.max(...Array.from({ length: count }, (_, i) => textWidth(name(rows.first + i)))) + 14;
    const every = Math.max(1, Math.ceil(Math.min(widest, 90) / band));
    for (let i = 0; i < count; i += every) {
      const text = cut(name(rows.first + i), 80);
      const middle = left + (i + 0.5) * band;
      const end = middle + textWidth(text) / 2 > width;
      label(node, end ? width : middle, height + 18, text, { class: "chart-quiet", "text-anchor": end ? "end" : "middle" });
    }
    grow(node, height + 34 + paragraph(node, 0, height + 44, view.caption, width));
    const tell = telling(view);
    return {
      node,
      count,
      tell: (place) => tell(rows.first + place),
      mark: (place) => {
        glow.setAttribute("x", left + place * band);
        glow.setAttribute("visibility", "visible");
      },
      at: (x) => (x >= left && x < width ? Math.floor((x - left) / band) : null),
      step: stepInList(count),
    };
  };
})();
