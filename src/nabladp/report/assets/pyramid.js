// A population pyramid: the two values of one attribute back to back, along another one whose values are in order.
(() => {
  "use strict";
  const nabladp = (window.nabladp ||= {});
  const { charting } = nabladp;
  const { svg, reader, telling, shown, textWidth, cut, ticks, picture, label, paragraph, grow, whisker } = charting;
  const [LEAST, MOST] = [5, 150]; // ordered values
  const [ROW, HIGH] = [22, 800]; // height of a row and of all rows, at most
  charting.PRINTED_ROWS = 640; // height of all rows on paper, where their heading stands on the same page
  const [TOP, LINE] = [34, 14];

  /** The axes of a view that is a pyramid: which one has the two sides, which one goes up; null for any other view. */
  charting.pyramidOf = (view) => {
    if (view.kind !== "heat" || view.symmetric || view.signed) return null;
    const axes = view.names.map((number) => view.columns[number]);
    const at = axes.findIndex((column) => column.axis?.length === 2 && !column.ordered);
    const along = axes[1 - at];
    const fits = at >= 0 && along?.ordered >= LEAST && along.axis.length <= MOST;
    return fits && view.rows.length === 2 * along.axis.length ? { sides: axes[at], along } : null;
  };

  /** `shared` is the scale of several pyramids beside each other, whose caption stands below all of them. */
  charting.pyramid = (view, width, shared, high = HIGH) => {
    const { sides, along } = charting.pyramidOf(view);
    const series = view.series[0];
    const format = view.columns[series.value].format;
    const [value, low, upper] = [series.value, series.low, series.high].map((n) => (n === null ? () => null : reader(view, n)));
    const labels = along.axis;
    const ordered = labels.map((_, i) => i).slice(0, along.ordered).reverse(); // the highest on top
    const lines = [...ordered, ...labels.map((_, i) => i).slice(along.ordered)];
    const rowOf = (line, side) => lines[line] * along.every + side * sides.every;
    const tall = Math.min(ROW, Math.floor(high / lines.length));
    const every = Math.ceil(LINE / tall);
    const middle = Math.min(Math.max(...labels.map((text) => textWidth(text)), 20) + 16, 0.3 * width);
    const half = (width - middle) / 2;
    let top = shared?.top ?? 0;
    for (let line = 0; line < lines.length; line++) {
      for (const side of [0, 1]) top = Math.max(top, value(rowOf(line, side)) ?? 0, upper(rowOf(line, side)) ?? 0);
    }
    top = top || 1;
    const starts = [half, half + middle];
    const x = (side, amount) => starts[side] + ((side ? 1 : -1) * amount * (half - 8)) / top;
    const bottom = TOP + lines.length * tall;
    const told = nabladp.text("pyramid_told", { caption: view.caption, along: along.name, left: sides.axis[0], right: sides.axis[1] });
    const node = picture(view, width, bottom + 44, told);
    label(node, half / 2, 14, cut(sides.axis[0], half - 8), { class: "chart-text", "text-anchor": "middle" });
    label(node, half + middle + half / 2, 14, cut(sides.axis[1], half - 8), { class: "chart-text", "text-anchor": "middle" });
    label(node, width / 2, 28, cut(along.name, half), { class: "chart-quiet", "text-anchor": "middle" });
    const glow = node.appendChild(svg("rect", { class: "chart-glow", x: 0, width, height: tall, y: TOP, visibility: "hidden" }));
    for (const side of [0, 1]) {
      for (const amount of ticks(0, top, Math.max(2, half / 90), format)) {
        const place = x(side, amount);
        node.append(svg("line", { class: amount ? "chart-grid" : "chart-zero", x1: place, x2: place, y1: TOP, y2: bottom }));
        label(node, place, bottom + 16, shown(amount, format), { class: "chart-quiet", "text-anchor": "middle" });
      }
    }
    lines.forEach((code, line) => {
      const y = TOP + line * tall;
      const extra = line >= ordered.length; // what is in no order
      if (line % every === 0 || extra) {
        label(node, width / 2, y + tall / 2 + 4, cut(labels[code], middle - 8), { class: "chart-text", "text-anchor": "middle" });
      }
      for (const side of [0, 1]) {
        const row = rowOf(line, side);
        const at = value(row);
        if (typeof at !== "number") continue;
        const [from, to] = [x(side, 0), x(side, at)].sort((a, b) => a - b);
        const inset = tall > 10 ? 3 : 0.5;
        const bar = { x: from, width: Math.max(to - from, 1), y: y + inset, height: tall - 2 * inset };
        node.append(svg("rect", { class: side ? "chart-bar chart-bar-below" : "chart-bar", ...bar }));
        if (low(row) === null) continue;
        const ends = [low(row), upper(row)].map((end) => x(side, Math.max(0, end))); // below zero there are the names
        whisker(node, ...ends, y + tall / 2, false, Math.min(4, tall / 3));
      }
    });
    grow(node, bottom + 28 + (shared ? 0 : paragraph(node, 0, bottom + 38, view.caption, width)));
    const tell = telling(view);
    const count = 2 * lines.length;
    return {
      node,
      count,
      tell: (place) => tell(rowOf(Math.floor(place / 2), place % 2)),
      mark: (place) => {
        glow.setAttribute("y", TOP + Math.floor(place / 2) * tall);
        glow.setAttribute("visibility", "visible");
      },
      at: (px, py) => {
        const line = Math.floor((py - TOP) / tall);
        return line >= 0 && line < lines.length ? 2 * line + (px > width / 2 ? 1 : 0) : null;
      },
      step: (place, key) => {
        const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 2, ArrowUp: -2 };
        if (key === "Home") return 0;
        if (key === "End") return count - 1;
        if (!Object.hasOwn(moves, key)) return null;
        const next = place + moves[key];
        return next >= 0 && next < count ? next : place;
      },
    };
  };
  const pieces = (view, width) => [charting.pyramid(view, width, null, charting.PRINTED_ROWS)];
  charting.forms.push({ fits: charting.pyramidOf, draw: charting.pyramid, pieces });
})();
