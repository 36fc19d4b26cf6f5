// Views: released values drawn as small SVGs, each with its facts, a cursor for keyboard and pointer, and its table.
(() => {
  "use strict";
  const nabladp = (window.nabladp ||= {});
  const { charting, text } = nabladp;
  const { html, reader } = charting;
  const A_PAGE = 30; // rows of bars or dots drawn at once
  const COLUMNS_FROM = 16; // ordered values from which bars stand side by side
  const COLUMNS_A_PAGE = 200;
  const [PAPER, PRINTED] = [640, 300]; // pixels across A4 and Letter between their margins; rows of a view on paper

  /** A drawing that the reader can walk through: `drawing` is {node, count, tell, mark, at, step}. */
  function framed(drawing) {
    const readout = html("p", { class: "chart-readout", "aria-hidden": "true" });
    readout.textContent = text("point");
    const names = drawing.node.getAttribute("aria-labelledby").split(" ");
    const frame = html("div", { class: "chart-frame", role: "slider", tabindex: 0, "aria-labelledby": names[0] });
    frame.setAttribute("aria-describedby", names[1]);
    frame.setAttribute("aria-valuemin", 1);
    frame.setAttribute("aria-valuemax", Math.max(drawing.count, 1));
    const state = { place: 0 };
    const go = (place) => {
      state.place = place;
      drawing.mark(place);
      readout.textContent = drawing.tell(place);
      frame.setAttribute("aria-valuenow", place + 1);
      frame.setAttribute("aria-valuetext", drawing.tell(place));
    };
    frame.setAttribute("aria-valuenow", 1);
    frame.setAttribute("aria-valuetext", drawing.count ? drawing.tell(0) : text("nothing"));
    frame.addEventListener("focus", () => frame.matches(":focus-visible") && drawing.count && go(state.place));
    frame.addEventListener("keydown", (event) => {
      const next = drawing.step(state.place, event.key);
      if (next === null || !drawing.count) return;
      event.preventDefault();
      go(Math.max(0, Math.min(drawing.count - 1, next)));
    });
    for (const kind of ["pointermove", "pointerdown"]) {
      drawing.node.addEventListener(kind, (event) => {
        const box = drawing.node.getBoundingClientRect();
        const place = drawing.at(event.clientX - box.left, event.clientY - box.top);
        if (place !== null) go(place);
      });
    }
    frame.append(drawing.node);
    return [frame, readout];
  }

  // ---- the view ----------------------------------------------------------------------------------------------

  function facts(view) {
    const list = html("dl", { class: "view-facts" });
    for (const [name, fact] of view.facts || []) {
      const [term, told] = [html("dt"), html("dd")];
      term.textContent = name;
      told.textContent = fact;
      list.append(html("div", {}, term, told));
    }
    return list;
  }

  function quiet(words) {
    const line = html("p", { class: "quiet" });
    line.textContent = words;
    return line;
  }

  /** The chart of a whole view by the shape of its data; none where bars or dots are drawn, row by row. */
  const formOf = (view) => charting.forms.find((form) => form.fits(view));

  function draw(view, rows, width) {
    const form = formOf(view);
    if (form) return form.draw(view, width);
    if (view.kind === "dots") return charting.dots(view, rows, width);
    return sideBySide(view) ? charting.columns(view, rows, width) : charting.bars(view, rows, width);
  }
  const sideBySide = (view) => view.kind === "bars" && view.ordered && view.rows.length >= COLUMNS_FROM;

  /** Draws again whenever the room changes; bars and dots in pages. */
  function chart(container, view) {
    const figure = html("figure", { class: "chart-figure" });
    container.append(figure);
    const total = view.rows.length;
    const each = formOf(view) ? total : sideBySide(view) ? COLUMNS_A_PAGE : A_PAGE;
    const state = { first: 0, width: 0 };
    const place = html("div", { class: "chart-place" });
    const again = () => {
      state.width = figure.clientWidth || 600;
      const rows = { first: state.first, last: Math.min(state.first + each, total) };
      place.replaceChildren(...framed(draw(view, rows, state.width)));
    };
    figure.append(place);
    if (total > each) {
      nabladp.pager(figure, { count: total, each, what: "marks", show: (first) => ((state.first = first), again()) });
    } else again();
    new ResizeObserver(() => {
      if (figure.clientWidth && Math.abs(figure.clientWidth - state.width) > 4) again();
    }).observe(figure);
  }

  const columnsOf = (view) => view.columns.map((column, number) => ({ ...column, read: reader(view, number) }));

  function table(container, view) {
    nabladp.renderTable(container, {
      label: view.title,
      count: view.rows.length,
      columns: columnsOf(view),
    });
  }

  /** What stands above every view; false where there is nothing to show below it. */
  function beginning(container, view) {
    container.append(facts(view));
    if (view.left_out) container.append(quiet(text("left_out", { count: view.left_out })));
    else if (!view.rows.length) container.append(quiet(text("nothing_listed")));
    return view.rows.length > 0;
  }
  const isTable = (view) => view.kind === "table" || !view.series.length;

  nabladp.renderView = (container, view) => {
    if (beginning(container, view) && isTable(view)) {
      table(container, view);
    } else if (view.rows.length) {
      chart(container, view);
      const fold = html("details", { class: "view-table" }, html("summary", {}, text("as_table")));
      const body = html("div");
      fold.append(body);
      fold.addEventListener("toggle", () => {
        if (fold.open && !body.hasChildNodes()) table(body, view);
      });
      container.append(fold);
    }
    for (const note of view.notes || []) container.append(quiet(note));
  };

  // ---- on paper: nothing to turn, as wide as a page, in pieces that are no higher than one -------------------------

  function pieces(view, last) {
    const form = formOf(view);
    if (form) return form.pieces?.(view, PAPER) ?? [form.draw(view, PAPER)];
    const each = sideBySide(view) ? COLUMNS_A_PAGE : A_PAGE;
    return Array.from({ length: Math.ceil(last / each) }, (_, i) => {
      const rows = { first: i * each, last: Math.min((i + 1) * each, last) };
      return draw(view, rows, PAPER);
    });
  }

  nabladp.printView = (container, view) => {
    const count = view.rows.length;
    const form = isTable(view) ? null : formOf(view);
    const last = form && !form.beside ? count : Math.min(count, PRINTED);
    if (beginning(container, view)) {
      const tables = () => nabladp.printedTables(columnsOf(view), view.names, last, PAPER);
      if (isTable(view)) container.append(...tables());
      else container.append(...pieces(view, last).map(({ node }) => html("figure", { class: "chart-figure" }, node)));
      if (form?.beside) container.append(...tables()); // whose numbers do not all stand in the picture
      if (last < count) container.append(quiet(text("printed_part", { last, total: count })));
    }
    for (const note of view.notes || []) container.append(quiet(note));
  };
})();
