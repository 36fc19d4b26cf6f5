// Small multiples: a table of three attributes as one small chart for every value of one of them, all on the same scale.
(() => {
  "use strict";
  const nabladp = (window.nabladp ||= {});
  const { charting, text } = nabladp;
  const { svg, reader, shown, picture, label, paragraph, grow, scaleBar, stepping } = charting;
  const [MOST, ACROSS, GAP, HEAD] = [12, 3, 16, 20];
  const HIGHEST = 740; // pixels of a panel on paper

  /** Which axis of a view has a panel for each of its values: one that leaves pyramids, otherwise the shortest. */
  function panelAxis(view) {
    if (view.kind !== "panels") return null;
    const axes = view.names.map((number) => view.columns[number]);
    const short = [0, 1, 2].filter((i) => axes[i].axis.length <= MOST);
    short.sort((i, j) => axes[i].axis.length - axes[j].axis.length || (axes[i].ordered ?? 0) - (axes[j].ordered ?? 0) || j - i);
    return short.find((i) => charting.pyramidOf(panel(view, i, 0))) ?? short[0];
  }

  /** One panel: the view of those rows in which an axis has this value. */
  function panel(view, at, value) {
    const sizes = view.names.map((number) => view.columns[number].axis.length);
    const sides = [0, 1, 2].filter((i) => i !== at);
    const rows = [];
    for (let i = 0; i < sizes[sides[0]]; i++) {
      for (let j = 0; j < sizes[sides[1]]; j++) {
        const place = [];
        [place[at], place[sides[0]], place[sides[1]]] = [value, i, j];
        rows.push(view.rows[(place[0] * sizes[1] + place[1]) * sizes[2] + place[2]]);
      }
    }
    const columns = [...view.columns];
    const [name, ...names] = [at, ...sides].map((i) => view.names[i]);
    columns[names[0]] = { ...columns[names[0]], every: sizes[sides[1]] };
    columns[names[1]] = { ...columns[names[1]], every: 1 };
    columns[name] = { ...columns[name], axis: [columns[name].axis[value]], every: 1 };
    return { ...view, kind: "heat", columns, names, rows, title: columns[name].axis[0], caption: columns[name].axis[0] };
  }

  function panelsOf(view) {
    const at = panelAxis(view);
    return view.columns[view.names[at]].axis.map((_, value) => panel(view, at, value));
  }

  /** What all panels share: the colours of heat maps, the length of bars. */
  function sharedScale(view) {
    const series = view.series[0];
    const [value, high] = [series.value, series.high].map((place) => (place === null ? () => 0 : reader(view, place)));
    const top = view.rows.reduce((most, _, row) => Math.max(most, value(row) ?? 0, high(row) ?? 0), 0);
    return { top: top || 1, colours: stepping(view, value) };
  }

  /** Panels in lines, each as wide as its place; fewer in a line where they need more room, or so that numbers fit into
      the squares where there is no cursor to read them off. */
  function laidOut(parts, shared, width, written = false) {
    for (let across = Math.min(ACROSS, parts.length); across > 0; across--) {
      const each = (width - GAP * (across - 1)) / across;
      const drawn = parts.map((part) => (charting.pyramidOf(part) ? charting.pyramid(part, each, shared, written ? charting.PRINTED_ROWS : undefined) : charting.heat(part, each, null, shared)));
      const fits = each >= 200 && drawn.every(({ node }) => Number(node.getAttribute("width")) <= each + 1);
      if ((fits || across === 1) && !(written && drawn.some((own) => own.written === false))) return { across, each, drawn };
    }
    return laidOut(parts, shared, width);
  }

  function together(view, parts, shared, { across, each, drawn }, width, last = true) {
    const pyramids = charting.pyramidOf(parts[0]) !== null;
    const full = Math.max(width, ...drawn.map(({ node }) => Number(node.getAttribute("width"))));
    const name = view.columns[view.names[panelAxis(view)]].name;
    const told = text("panels_told", { caption: view.caption, name, count: parts.length });
    const node = picture(view, full, 10, told);
    const boxes = [];
    let top = 0;
    for (let first = 0; first < drawn.length; first += across) {
      const line = drawn.slice(first, first + across);
      line.forEach(({ node: own }, i) => {
        const x = i * (each + GAP);
        label(node, x, top + 14, `${name}: ${parts[first + i].title}`, { class: "chart-text chart-head" });
        for (const [key, given] of Object.entries({ x, y: top + HEAD })) own.setAttribute(key, given);
        for (const key of ["class", "role", "aria-labelledby"]) own.removeAttribute(key);
        own.querySelector("title").remove();
        own.querySelector("desc").remove();
        node.append(own);
        boxes.push({ x, y: top + HEAD, width: Number(own.getAttribute("width")), height: Number(own.getAttribute("height")) });
      });
      top += HEAD + Math.max(...line.map(({ node: own }) => Number(own.getAttribute("height")))) + GAP;
    }
    if (last && !pyramids) {
      const { low, high } = shared.colours;
      const format = view.columns[view.series[0].value].format;
      scaleBar(node, { left: 0, top, width: Math.min(full, 320), low, high, ramp: view.signed ? "signed" : "heat", format });
      top += 30;
    }
    if (last) top += paragraph(node, 0, top + 12, view.caption, width);
    grow(node, top + 2);
    const starts = [0];
    for (const own of drawn) starts.push(starts.at(-1) + own.count);
    const find = (place) => {
      const i = starts.findIndex((start, k) => place >= start && place < starts[k + 1]);
      return [i, place - starts[i]];
    };
    return {
      node,
      count: starts.at(-1),
      tell: (place) => {
        const [i, own] = find(place);
        return `${parts[i].title} · ${drawn[i].tell(own)}`;
      },
      mark: (place) => {
        for (const old of node.querySelectorAll(".chart-ring, .chart-glow")) old.setAttribute("visibility", "hidden");
        const [i, own] = find(place);
        drawn[i].mark(own);
      },
      at: (x, y) => {
        const i = boxes.findIndex((box) => x >= box.x && x < box.x + box.width && y >= box.y && y < box.y + box.height);
        const own = i < 0 ? null : drawn[i].at(x - boxes[i].x, y - boxes[i].y);
        return own === null ? null : starts[i] + own;
      },
      step: (place, key) => {
        const [i, own] = find(place);
        if (key === "Home") return 0;
        if (key === "End") return starts.at(-1) - 1;
        if (key === "PageDown") return starts[Math.min(i + 1, drawn.length - 1)];
        if (key === "PageUp") return starts[Math.max(i - 1, 0)];
        const next = drawn[i].step(own, key);
        return next === null ? null : starts[i] + Math.max(0, Math.min(drawn[i].count - 1, next));
      },
    };
  }

  charting.panels = (view, width) => {
    const [parts, shared] = [panelsOf(view), sharedScale(view)];
    return together(view, parts, shared, laidOut(parts, shared, width), width);
  };

  /** On paper a drawing for every line of panels; where a panel is higher than a page, its pieces. */
  function pieces(view, width) {
    const [parts, shared] = [panelsOf(view), sharedScale(view)];
    const { across, each, drawn } = laidOut(parts, shared, width, true);
    const fits = ({ node }) => Number(node.getAttribute("height")) <= HIGHEST && Number(node.getAttribute("width")) <= width;
    if (!drawn.every(fits)) return parts.flatMap((part) => charting.heatPieces(part, width, shared));
    const found = [];
    for (let first = 0; first < parts.length; first += across) {
      const line = drawn.slice(first, first + across);
      found.push(together(view, parts.slice(first, first + across), shared, { across, each, drawn: line }, width, first + across >= parts.length));
    }
    return found;
  }
  charting.forms.push({ fits: (view) => view.kind === "panels", draw: charting.panels, pieces });
})();
