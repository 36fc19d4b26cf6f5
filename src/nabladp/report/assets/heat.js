// Heat maps: nine steps of one colour ramp, told apart by lightness, or two ramps that meet at zero.
(() => {
  "use strict";
  const { charting } = (window.nabladp ||= {});
  const { svg, reader, telling, shown, textWidth, cut, picture, label, named, paragraph, grow } = charting;
  const STEPS = 9;
  const [LEAST, MOST, HEIGHT] = [14, 72, 24]; // widths and height of a square
  const TALLEST = 26; // rows of squares on a page of paper
  const LONGEST = 120; // of a name that stands upright
  const SIZE = 12.5;

  /** Where each cell lies: distinct names down and across, and the row of the view behind each square. */
  function grid(view) {
    const [one, other] = view.names.map((number) => labelsOf(view, number));
    const both = view.symmetric ? merged(one, other) : null;
    const [down, across] = both ? [both, both] : one.length < other.length && other.length > 12 ? [other, one] : [one, other];
    const turned = !both && down === other;
    const places = [down, across].map((labels) => new Map(labels.map((text, i) => [text, i])));
    const [read, second] = view.names.map((number) => reader(view, number));
    const cells = new Map();
    for (let row = 0; row < view.rows.length; row++) {
      const [a, b] = turned ? [second(row), read(row)] : [read(row), second(row)];
      cells.set(places[0].get(a) * across.length + places[1].get(b), row);
      if (both) cells.set(places[0].get(b) * across.length + places[1].get(a), row);
    }
    return { down, across, cells, axes: turned ? [1, 0] : [0, 1] };
  }

  function labelsOf(view, number) {
    const column = view.columns[number];
    if (column.axis) return column.axis;
    const read = reader(view, number);
    return [...new Set(view.rows.map((_, row) => read(row)))];
  }
  const merged = (one, other) => [...new Set([...one, ...other])];

  /** From a value to its step: 0 … 8, or for signed values −4 … 4 moved up by 4. */
  function stepping(view, read) {
    let [low, high] = [Infinity, -Infinity];
    for (let row = 0; row < view.rows.length; row++) {
      const value = read(row);
      if (typeof value === "number") [low, high] = [Math.min(low, value), Math.max(high, value)];
    }
    if (view.signed) [low, high] = [-Math.max(Math.abs(low), Math.abs(high)), Math.max(Math.abs(low), Math.abs(high))];
    if (!(high > low)) [low, high] = [low || 0, (low || 0) + 1];
    const step = (value) => Math.min(STEPS - 1, Math.max(0, Math.floor(((value - low) / (high - low)) * STEPS)));
    return { low, high, step };
  }

  /** A rectangle of the grid: the names from `top` to `bottom` and from `left` to `right`, and the squares there. */
  function cutOut({ down, across, cells, axes }, { top, bottom, left, right }) {
    const inside = new Map();
    for (const [place, row] of cells) {
      const [i, j] = [Math.floor(place / across.length), place % across.length];
      if (i >= top && i < bottom && j >= left && j < right) inside.set((i - top) * (right - left) + j - left, row);
    }
    return { down: down.slice(top, bottom), across: across.slice(left, right), cells: inside, axes };
  }

  /** The drawings of a heat map on paper, none wider or higher than a page. */
  charting.heatPieces = (view, width) => {
    const { down, across } = grid(view);
    const room = width - nameRoom(down, width);
    const [tall, wide] = [evenly(down.length, TALLEST), evenly(across.length, Math.floor(room / LEAST))];
    const found = [];
    for (let top = 0; top < down.length; top += tall) {
      for (let left = 0; left < across.length; left += wide) {
        const ends = { bottom: Math.min(top + tall, down.length), right: Math.min(left + wide, across.length) };
        found.push(charting.heat(view, width, { top, left, ...ends }));
      }
    }
    return found;
  };
  /** The size of pieces, about equal, that are no longer than the most. */
  const evenly = (count, most) => Math.ceil(count / Math.ceil(count / most));
  const nameRoom = (texts, width) => Math.min(Math.max(...texts.map((text) => textWidth(text, SIZE))) + 8, 0.36 * width);

  charting.heat = (view, width, piece) => {
    const all = grid(view);
    const { down, across, cells, axes } = piece ? cutOut(all, piece) : all;
    const series = view.series[0];
    const read = reader(view, series.value);
    const format = view.columns[series.value].format;
    const { low, high, step } = stepping(view, read);
    const ramp = view.signed ? "signed" : "heat";
    const left = nameRoom(all.down, width);
    const square = Math.max(LEAST, Math.min(MOST, (width - left) / across.length));
    const slanted = across.some((text) => textWidth(text, SIZE) > square - 4);
    const head = slanted ? Math.min(Math.max(...across.map((text) => textWidth(text, SIZE))), LONGEST) + 36 : 44;
    const full = Math.max(width, left + square * across.length);
    const bottom = head + down.length * HEIGHT;
    const [rowName, columnName] = axes.map((i) => view.columns[view.names[i]].name);
    const told = nabladp.text("heat_told", {
      caption: view.caption,
      row: rowName,
      column: columnName,
      down: down.length,
      across: across.length,
      low: shown(low, format),
      high: shown(high, format),
    });
    const node = picture(view, full, bottom + 70, told);
    label(node, 0, 14, cut(`${rowName} ↓   ${columnName} →`, full, SIZE), { class: "chart-quiet" });
    across.forEach((text, i) => {
      const x = left + (i + 0.5) * square;
      const turn = slanted ? { transform: `rotate(-90 ${x + 4} ${head - 8})`, x: x + 4 } : { "text-anchor": "middle" };
      label(node, x, head - 8, cut(text, slanted ? LONGEST : square - 4, SIZE), { class: "chart-text", ...turn });
    });
    down.forEach((text, i) =>
      named(node, left - 8, head + (i + 0.5) * HEIGHT + 4, text, left - 8, { "text-anchor": "end" }),
    );
    const written = square >= 36;
    for (const [place, row] of cells) {
      const [i, j] = [Math.floor(place / across.length), place % across.length];
      const value = read(row);
      if (typeof value !== "number") continue;
      const [x, y] = [left + j * square, head + i * HEIGHT];
      const group = svg("g", { class: `${ramp}-${step(value)}` });
      group.append(svg("rect", { class: "chart-square", x, y, width: square, height: HEIGHT }));
      const text = written ? shown(value, format) : "";
      if (written && textWidth(text, 11.5) <= square - 4) {
        label(group, x + square / 2, y + HEIGHT / 2 + 4, text, { class: "chart-inside", "text-anchor": "middle" });
      }
      node.append(group);
    }
    scaleBar(node, { left: 0, top: bottom + 14, width: Math.min(full, 320), low, high, ramp, format });
    grow(node, bottom + 50 + paragraph(node, 0, bottom + 60, view.caption, full));
    const ring = node.appendChild(svg("rect", { class: "chart-ring", width: square, height: HEIGHT, visibility: "hidden" }));
    const tell = telling(view);
    const [wide, tall] = [across.length, down.length];
    return {
      node,
      count: wide * tall,
      tell: (place) => (cells.has(place) ? tell(cells.get(place)) : nabladp.text("with_itself", { name: down[Math.floor(place / wide)] })),
      mark: (place) => {
        ring.setAttribute("x", left + (place % wide) * square);
        ring.setAttribute("y", head + Math.floor(place / wide) * HEIGHT);
        ring.setAttribute("visibility", "visible");
      },
      at: (x, y) => {
        const [i, j] = [Math.floor((y - head) / HEIGHT), Math.floor((x - left) / square)];
        return i >= 0 && i < tall && j >= 0 && j < wide ? i * wide + j : null;
      },
      step: (place, key) => {
        const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: wide, ArrowUp: -wide };
        if (key === "Home") return 0;
        if (key === "End") return wide * tall - 1;
        if (!Object.hasOwn(moves, key)) return null;
        const next = place + moves[key];
        return next >= 0 && next < wide * tall ? next : place;
      },
    };
  };

  function scaleBar(node, { left, top, width, low, high, ramp, format }) {
    const ends = [shown(low, format), shown(high, format)];
    const start = left + textWidth(ends[0]) + 8;
    const each = (width - textWidth(ends[0]) - textWidth(ends[1]) - 16) / STEPS;
    label(node, left, top + 12, ends[0], { class: "chart-quiet" });
    for (let i = 0; i < STEPS; i++) {
      const group = svg("g", { class: `${ramp}-${i}` });
      group.append(svg("rect", { class: "chart-square", x: start + i * each, y: top, width: each, height: 16 }));
      node.append(group);
    }
    label(node, start + STEPS * each + 8, top + 12, ends[1], { class: "chart-quiet" });
  }
})();
