// A map: every value of an attribute that has shapes in the colour of its number, and as far as they fit both written in it.
(() => {
  "use strict";
  const nabladp = (window.nabladp ||= {});
  const { charting, text } = nabladp;
  const { svg, reader, telling, shown, textWidth, picture, label, paragraph, grow, stepInList, stepping, scaleBar } = charting;
  const [WIDEST, TALLEST, PRINTED] = [640, 560, 360]; // the last one on paper, where its table stands below it

  /** The shapes of the attribute whose values name the rows of a view. */
  charting.shapesOf = (view) => {
    if (view.names.length !== 1 || view.kind === "table" || view.line) return null;
    return (nabladp.shapes ?? {})[view.columns[view.names[0]].shapes] ?? null;
  };

  charting.map = (view, width, tallest = TALLEST) => {
    const shapes = charting.shapesOf(view);
    const column = view.columns[view.names[0]];
    const [name, read] = [reader(view, view.names[0]), reader(view, view.series[0].value)];
    const format = view.columns[view.series[0].value].format;
    const rows = view.rows.map((_, row) => row);
    const on = rows.filter((row) => Object.hasOwn(shapes.paths, name(row)));
    const below = view.signed && rows.some((row) => read(row) < 0);
    const { low, high, step } = stepping({ ...view, signed: below }, read);
    const ramp = below ? "signed" : "heat";
    const scale = Math.min(Math.min(width, WIDEST) / shapes.width, tallest / shapes.height);
    const [wide, tall] = [shapes.width * scale, shapes.height * scale];
    const told = text("map_told", { caption: view.caption, name: column.name, count: on.length, low: shown(low, format), high: shown(high, format) });
    const node = picture(view, width, tall + 60, told);
    const tell = telling(view);
    const outline = (row) => shapes.paths[name(row)][0].replace(/-?\d+/g, (units) => (units * scale).toFixed(1));
    const drawn = new Map();
    for (const row of on) {
      const value = read(row);
      const group = svg("g", { class: typeof value === "number" ? `${ramp}-${step(value)}` : "chart-unknown" });
      const shape = svg("path", { class: "chart-shape", d: outline(row) });
      const title = svg("title");
      title.textContent = tell(row);
      shape.append(title);
      group.append(shape);
      node.append(group);
      drawn.set(row, shape);
    }
    for (const row of on) {
      const [, x, y, room] = shapes.paths[name(row)];
      const lines = [name(row), shown(read(row), format)].filter((words) => textWidth(words, 11.5) <= room * scale - 6);
      const group = svg("g", { class: drawn.get(row).parentNode.getAttribute("class") });
      lines.forEach((words, i) => {
        const at = y * scale + 4 + 13 * (i - (lines.length - 1) / 2);
        label(group, x * scale, at, words, { class: "chart-inside", "text-anchor": "middle" });
      });
      node.append(group);
    }
    scaleBar(node, { left: 0, top: tall + 12, width: Math.min(width, 320), low, high, ramp, format });
    let top = tall + 44;
    const off = rows.filter((row) => !drawn.has(row));
    for (const words of [...off.map(tell), view.caption]) top += paragraph(node, 0, top + 12, words, width);
    grow(node, top + 4);
    const order = [...on, ...off];
    const ring = node.appendChild(svg("path", { class: "chart-ring", visibility: "hidden" }));
    return {
      node,
      count: order.length,
      tell: (place) => tell(order[place]),
      mark: (place) => {
        ring.setAttribute("d", drawn.get(order[place])?.getAttribute("d") ?? "");
        ring.setAttribute("visibility", "visible");
      },
      at: (x, y) => {
        if (x > wide || y > tall) return null;
        const found = on.findIndex((row) => drawn.get(row).isPointInFill(new DOMPoint(x, y)));
        return found < 0 ? null : found;
      },
      step: stepInList(order.length),
    };
  };
  const pieces = (view, width) => [charting.map(view, width, PRINTED)];
  charting.forms.unshift({ fits: charting.shapesOf, draw: (view, width) => charting.map(view, width), pieces, beside: true });
})();
