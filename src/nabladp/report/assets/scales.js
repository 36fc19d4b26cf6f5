// Values along a scale: lines for numbers in order, densities for bins of unequal width.
(() => {
  "use strict";
  const nabladp = (window.nabladp ||= {});
  const { charting, text } = nabladp;
  const { svg, reader, telling, shown, textWidth, ticks, picture, label, paragraph, grow, stepInList } = charting;
  const { domain, legend, legendHeight, mark, scaled, whisker } = charting;
  const [HEIGHT, GAP] = [230, 8];
  const [LINES_FROM, DATES_FROM] = [16, 4]; // numbers and dates from which a line is drawn
  const APART = 56; // pixels between the signs that tell lines apart

  /** The column whose values lie along a scale, where a view has just this one. */
  function scaleOf(view) {
    if (view.names.length !== 1 || !["bars", "dots"].includes(view.kind) || view.line) return null;
    const column = view.columns[view.names[0]];
    return column.axis && column.every === 1 && view.rows.length === column.axis.length ? column : null;
  }

  function readers(view, series) {
    return [series.value, series.low, series.high].map((place) => (place === null ? () => null : reader(view, place)));
  }

  /** The empty plot: numbers on the left, the picture grows below. */
  function plot(view, width, { range, format, told, above = "" }) {
    const room = above ? paragraph(svg("g"), 0, 0, above, width) : 0;
    const head = legendHeight(view, 0, width) + room + 4;
    const bottom = head + HEIGHT;
    const marks = ticks(range[0], range[1], 5, format);
    const left = Math.max(...marks.map((at) => textWidth(shown(at, format)))) + GAP;
    const node = picture(view, width, bottom + 56, told);
    legend(node, view, 0, width);
    if (above) paragraph(node, 0, head - room + 6, above, width);
    const y = scaled(range, bottom, head + 4);
    const glow = node.appendChild(svg("rect", { class: "chart-glow", y: head, height: HEIGHT, visibility: "hidden" }));
    for (const at of marks) {
      node.append(svg("line", { class: at === 0 ? "chart-zero" : "chart-grid", x1: left, x2: width, y1: y(at), y2: y(at) }));
      label(node, left - GAP, y(at) + 4, shown(at, format), { class: "chart-quiet", "text-anchor": "end" });
    }
    return { node, left, head, bottom, y, glow };
  }

  /** Texts below the plot, as many as have room beside each other; the last one always, as it ends the scale. */
  function below(node, y, width, places) {
    let free = -Infinity;
    const last = places.at(-1);
    places.forEach(([x, words]) => {
      const half = textWidth(words, 12) / 2;
      const middle = Math.min(x, width - half);
      const reach = last[0] - textWidth(last[1], 12);
      if (middle - half < free || (words !== last[1] && middle + half > reach - GAP)) return;
      label(node, middle, y, words, { class: "chart-quiet", "text-anchor": "middle" });
      free = middle + half + GAP;
    });
  }

  /** What stands under the picture: rows that have no place on the scale, and the caption. */
  function ending(view, plotted, width, column, extra = []) {
    const { node, bottom } = plotted;
    const tell = telling(view);
    const rest = view.rows.map((_, row) => row).slice(column.ordered);
    let top = bottom + 36;
    label(node, width, top, column.name, { class: "chart-text", "text-anchor": "end" });
    for (const words of [...rest.map(tell), ...extra, view.caption]) top += paragraph(node, 0, top + 18, words, width);
    grow(node, top + 6);
    return tell;
  }

  function drawing(view, plotted, tell, spans) {
    const { node, glow, head, bottom } = plotted;
    const count = view.rows.length;
    return {
      node,
      count,
      tell,
      mark: (place) => {
        const [from, to] = spans[place] ?? [0, 0];
        glow.setAttribute("x", from);
        glow.setAttribute("width", to - from);
        glow.setAttribute("visibility", to > from ? "visible" : "hidden");
      },
      at: (x, y) => {
        const found = spans.findIndex(([from, to]) => x >= from && x < to);
        return y >= head && y < bottom && found >= 0 ? found : null;
      },
      step: stepInList(count),
    };
  }

  // ---- lines -------------------------------------------------------------------------------------------------

  function lineOf(view) {
    const column = scaleOf(view);
    return column && ((column.at && column.ordered >= LINES_FROM) || (column.dates && column.ordered >= DATES_FROM)) ? column : null;
  }

  /** Neighbouring rows without a gap. */
  function runs(count, known) {
    const found = [];
    for (let row = 0; row < count; row++) {
      if (!known(row)) continue;
      if (row && known(row - 1)) found.at(-1).push(row);
      else found.push([row]);
    }
    return found;
  }

  function lines(view, width) {
    const column = lineOf(view);
    const { at = column.dates, ordered } = column;
    const format = view.columns[view.series[0].value].format;
    const range = domain(view, { first: 0, last: ordered });
    const told = text("lines_told", { caption: view.caption, along: column.name, count: ordered });
    const plotted = plot(view, width, { range, format, told });
    const { node, left, bottom, y } = plotted;
    const x = scaled([at[0], at[ordered - 1]], left + 6, width - 10);
    view.series.forEach((series, number) => {
      const [value, low, high] = readers(view, series);
      const joined = (rows, read) => rows.map((row) => `${x(at[row])} ${y(read(row))}`).join("L");
      for (const rows of runs(ordered, (row) => typeof low(row) === "number" && typeof high(row) === "number")) {
        if (rows.length < 2) whisker(node, y(low(rows[0])), y(high(rows[0])), x(at[rows[0]]), true);
        else node.append(svg("path", { class: "chart-area", d: `M${joined(rows, high)}L${joined([...rows].reverse(), low)}Z` }));
      }
    });
    view.series.forEach((series, number) => {
      const [value] = readers(view, series);
      const joined = (rows) => rows.map((row) => `${x(at[row])} ${y(value(row))}`).join("L");
      for (const rows of runs(ordered, (row) => typeof value(row) === "number")) {
        if (rows.length > 1) node.append(svg("path", { class: `chart-curve chart-curve-${number % 3}`, d: `M${joined(rows)}` }));
        let free = -Infinity;
        for (const row of rows) {
          const single = view.series.length === 1 && rows.length > 1;
          if (single || x(at[row]) < free) continue;
          mark(node, x(at[row]), y(value(row)), number);
          free = x(at[row]) + APART;
        }
      }
    });
    const plain = column.axis.slice(0, ordered).every((words, row) => words === String(at[row]));
    const wanted = ticks(at[0], at[ordered - 1], Math.max(2, (width - left) / 90), "count");
    const places = plain
      ? wanted.map((number) => [x(number), String(number)])
      : column.axis.slice(0, ordered).map((words, row) => [x(at[row]), words]);
    below(node, bottom + 18, width, places);
    const tell = ending(view, plotted, width, column);
    const half = (row, by) => (at[row + by] === undefined || row + by >= ordered ? x(at[row]) + 6 * by : (x(at[row]) + x(at[row + by])) / 2);
    return drawing(view, plotted, tell, at.slice(0, ordered).map((_, row) => [half(row, -1), half(row, 1)]));
  }
  charting.forms.push({ fits: lineOf, draw: lines });

  // ---- densities ---------------------------------------------------------------------------------------------

  function densityOf(view) {
    const column = scaleOf(view);
    if (!column?.edges || column.ordered < 2) return null;
    const widths = column.edges.slice(1).map((edge, i) => edge - column.edges[i]);
    return Math.max(...widths) > 1.001 * Math.min(...widths) ? column : null;
  }

  /** Widths as they are drawn: those of the first and of the last bin are cut at half of all others together. */
  function drawnWidths(edges) {
    const widths = edges.slice(1).map((edge, i) => edge - edges[i]);
    const all = widths.reduce((sum, each) => sum + each, 0);
    return widths.map((each, i) => (i === 0 || i === widths.length - 1 ? Math.min(each, (all - each) / 2 || each) : each));
  }

  function density(view, width) {
    const column = densityOf(view);
    const { edges, ordered } = column;
    const widths = edges.slice(1).map((edge, i) => edge - edges[i]);
    const unit = 10 ** Math.floor(Math.log10([...widths].sort((a, b) => a - b)[Math.floor(widths.length / 2)]));
    const per = (row) => unit / widths[row];
    const kind = view.columns[view.series[0].value].format;
    const format = kind === "share" ? "share" : "number";
    let range = [0, 0];
    for (const series of view.series) {
      for (const read of readers(view, series)) {
        for (let row = 0; row < ordered; row++) {
          if (typeof read(row) === "number") range = [Math.min(range[0], read(row) * per(row)), Math.max(range[1], read(row) * per(row))];
        }
      }
    }
    if (range[0] === range[1]) range = [0, 1];
    const value = view.columns[view.series[0].value].name;
    const above = text("density_axis", { value, unit: nabladp.whole.format(unit) === "0" ? String(unit) : nabladp.whole.format(unit), name: column.name });
    const told = text("density_told", { caption: view.caption, along: column.name, count: ordered });
    const plotted = plot(view, width, { range, format, told, above });
    const { node, left, bottom, y } = plotted;
    const drawn = drawnWidths(edges);
    const total = drawn.reduce((sum, each) => sum + each, 0);
    const places = [left + 4];
    for (const each of drawn) places.push(places.at(-1) + (each / total) * (width - left - 14));
    const mark0 = view.series[0];
    view.series.forEach((series, number) => {
      const [read, low, high] = readers(view, series);
      for (let row = 0; row < ordered; row++) {
        if (typeof read(row) !== "number") continue;
        const at = y(read(row) * per(row));
        const [from, to] = [places[row], places[row + 1]];
        const middle = (from + to) / 2;
        if (series === mark0) {
          const box = { x: from, width: Math.max(to - from, 0.5), y: Math.min(at, y(0)), height: Math.max(Math.abs(at - y(0)), 1) };
          node.append(svg("rect", { class: "chart-bar chart-bin", ...box }));
        } else mark(node, middle, at, number);
        if (low(row) !== null) whisker(node, y(low(row) * per(row)), y(high(row) * per(row)), middle, true, Math.min(4, (to - from) / 3));
      }
    });
    const cut = drawn.map((each, row) => (each < widths[row] ? row : -1)).filter((row) => row >= 0);
    for (const row of cut) {
      const x = row ? places[row + 1] - 12 : places[0] + 6;
      node.append(svg("path", { class: "chart-zero chart-break", d: `M${x} ${bottom + 5}l4 -10M${x + 5} ${bottom + 5}l4 -10` }));
    }
    const written = new Intl.NumberFormat(nabladp.locale, { maximumSignificantDigits: 6 });
    below(node, bottom + 18, width, edges.map((edge, i) => [places[i], written.format(edge)]));
    const tell = ending(view, plotted, width, column, cut.length ? [text("scale_cut")] : []);
    return drawing(view, plotted, tell, drawn.map((_, row) => [places[row], places[row + 1]]));
  }
  charting.forms.push({ fits: densityOf, draw: density });
})();
