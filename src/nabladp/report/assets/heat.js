// Heat maps: nine steps of one colour ramp, told apart by lightness, or two ramps that meet at zero; with the sums of
// counts and shares beside their rows and below their columns.
(() => {
  "use strict";
  const { charting, text: say } = (window.nabladp ||= {});
  const { svg, reader, telling, shown, textWidth, cut, picture, label, named, paragraph, grow } = charting;
  const STEPS = 9;
  const [LEAST, MOST, HEIGHT] = [14, 72, 24]; // widths and height of a square
  const TALLEST = 26; // rows of squares on a page of paper
  const LONGEST = 120; // of a name that stands upright
  const SIZE = 12.5;
  const [SUMS, STANDING] = [84, 34]; // width of the sums of rows, height of the bars below columns

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

  /** Sums of rows, of columns and of all; null where they mean nothing. */
  function sumsOf(view, { down, across, cells }, read) {
    const adds = ["count", "share"].includes(view.columns[view.series[0].value].format);
    if (!adds || view.signed || view.symmetric || cells.size < down.length * across.length) return null;
    const [rows, columns] = [new Array(down.length).fill(0), new Array(across.length).fill(0)];
    for (const [place, row] of cells) {
      if (typeof read(row) !== "number") return null;
      rows[Math.floor(place / across.length)] += read(row);
      columns[place % across.length] += read(row);
    }
    return { rows, columns, all: rows.reduce((sum, one) => sum + one, 0) };
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
  charting.heatPieces = (view, width, shared) => {
    const { down, across } = grid(view);
    const room = width - nameRoom(down, width) - (shared ? 0 : SUMS);
    const [tall, wide] = [evenly(down.length, TALLEST), evenly(across.length, Math.floor(room / LEAST))];
    const found = [];
    for (let top = 0; top < down.length; top += tall) {
      for (let left = 0; left < across.length; left += wide) {
        const ends = { bottom: Math.min(top + tall, down.length), right: Math.min(left + wide, across.length) };
        found.push(charting.heat(view, width, { top, left, ...ends }, shared));
      }
    }
    return found;
  };
  /** The size of pieces, about equal, that are no longer than the most. */
  const evenly = (count, most) => Math.ceil(count / Math.ceil(count / most));
  const nameRoom = (texts, width) => Math.min(Math.max(...texts.map((text) => textWidth(text, SIZE))) + 8, 0.36 * width);

  /** `piece` is the part of the grid that is drawn, `shared` the scale of several heat maps, which then have no sums. */
  charting.heat = (view, width, piece, shared) => {
    const all = grid(view);
    const { down, across, cells, axes } = piece ? cutOut(all, piece) : all;
    const series = view.series[0];
    const read = reader(view, series.value);
    const format = view.columns[series.value].format;
    const { low, high, step } = shared?.colours ?? stepping(view, read);
    const sums = shared ? null : sumsOf(view, all, read);
    const ends = { right: sums && (piece?.right ?? all.across.length) === all.across.length };
    ends.below = sums && (piece?.bottom ?? all.down.length) === all.down.length;
    const ramp = view.signed ? "signed" : "heat";
    const left = nameRoom(all.down, width);
    const square = Math.max(LEAST, Math.min(MOST, (width - left - (sums ? SUMS : 0)) / across.length));
    const slanted = across.some((text) => textWidth(text, SIZE) > square - 4);
    const head = slanted ? Math.min(Math.max(...across.map((text) => textWidth(text, SIZE))), LONGEST) + 36 : 44;
    const edge = left + square * across.length;
    const full = Math.max(width, edge + (ends.right ? SUMS : 0));
    const bottom = head + down.length * HEIGHT;
    const [rowName, columnName] = axes.map((i) => view.columns[view.names[i]].name);
    const caption = say("heat_told", {
      caption: view.caption,
      row: rowName,
      column: columnName,
      down: down.length,
      across: across.length,
      low: shown(low, format),
      high: shown(high, format),
    });
    const node = picture(view, full, bottom + 70, caption);
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
    let end = bottom;
    const corner = piece ?? { top: 0, left: 0 };
    const own = sums && { rows: sums.rows.slice(corner.top), columns: sums.columns.slice(corner.left), all: sums.all };
    const [mostBeside, mostBelow] = sums ? [Math.max(...sums.rows, 1e-9), Math.max(...sums.columns, 1e-9)] : [];
    if (ends.right) {
      label(node, edge + 8, head - 8, say("sum"), { class: "chart-quiet" });
      down.forEach((_, i) => besideRow(node, edge + 8, head + i * HEIGHT, own.rows[i], mostBeside, format));
    }
    if (ends.below) {
      const texts = across.map((_, j) => shown(own.columns[j], format));
      const turned = texts.some((words) => textWidth(words, 11.5) > square - 4);
      const room = turned ? Math.max(...texts.map((words) => textWidth(words, 11.5))) + 10 : 18;
      label(node, left - 8, bottom + STANDING, say("sum"), { class: "chart-quiet", "text-anchor": "end" });
      across.forEach((_, j) => belowColumn(node, left + j * square, bottom + 6, square, own.columns[j] / mostBelow, texts[j], turned));
      end = bottom + 6 + STANDING + room;
      if (ends.right) label(node, edge + 8, bottom + STANDING, shown(own.all, format), { class: "chart-text" });
    }
    if (shared) end += piece ? 14 + paragraph(node, 0, end + 16, view.caption, full) : 6;
    else {
      scaleBar(node, { left: 0, top: end + 14, width: Math.min(full, 320), low, high, ramp, format });
      end += 50 + paragraph(node, 0, end + 60, view.caption, full);
    }
    grow(node, end);
    const ring = node.appendChild(svg("rect", { class: "chart-ring", width: square, height: HEIGHT, visibility: "hidden" }));
    const tell = telling(view);
    const [wide, tall] = [across.length + (ends.right ? 1 : 0), down.length + (ends.below ? 1 : 0)];
    const told = (place) => {
      const [i, j] = [Math.floor(place / wide), place % wide];
      const inside = i * across.length + j;
      if (i < down.length && j < across.length) return cells.has(inside) ? tell(cells.get(inside)) : say("with_itself", { name: down[i] });
      if (i < down.length) return say("sum_of", { name: down[i], value: shown(own.rows[i], format) });
      if (j < across.length) return say("sum_of", { name: across[j], value: shown(own.columns[j], format) });
      return say("sum_of_all", { value: shown(own.all, format) });
    };
    return {
      node,
      written,
      count: wide * tall,
      tell: told,
      mark: (place) => {
        const [i, j] = [Math.floor(place / wide), place % wide];
        ring.setAttribute("x", j < across.length ? left + j * square : edge + 4);
        ring.setAttribute("y", i < down.length ? head + i * HEIGHT : bottom + 6);
        ring.setAttribute("width", j < across.length ? square : SUMS - 8);
        ring.setAttribute("height", i < down.length ? HEIGHT : STANDING);
        ring.setAttribute("visibility", "visible");
      },
      at: (x, y) => {
        const i = y < bottom || !ends.below ? Math.floor((y - head) / HEIGHT) : y < bottom + 6 + STANDING ? down.length : tall;
        const j = x < edge || !ends.right ? Math.floor((x - left) / square) : across.length;
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

  /** The sum of a row: a bar, and the number over it. */
  function besideRow(node, x, y, sum, most, format) {
    node.append(svg("rect", { class: "chart-sum", x, y: y + 3, width: Math.max((sum / most) * (SUMS - 12), 1), height: HEIGHT - 6 }));
    label(node, x + 4, y + HEIGHT / 2 + 4, shown(sum, format), { class: "chart-over" });
  }

  /** The sum of a column: a bar that stands, and the number below it, upright where it is too wide. */
  function belowColumn(node, x, y, square, share, text, turned) {
    const [high, middle] = [Math.max(share * STANDING, 1), x + square / 2];
    node.append(svg("rect", { class: "chart-sum", x: x + 1, y: y + STANDING - high, width: square - 2, height: high }));
    const below = y + STANDING + (turned ? 6 : 14);
    const turn = turned ? { transform: `rotate(-90 ${middle + 4} ${below})`, x: middle + 4, "text-anchor": "end" } : { "text-anchor": "middle" };
    label(node, middle, below, text, { class: "chart-over", ...turn });
  }

  Object.assign(charting, { stepping, scaleBar });
  charting.forms.push({ fits: (view) => view.kind === "heat", draw: (view, width) => charting.heat(view, width), pieces: charting.heatPieces });

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
