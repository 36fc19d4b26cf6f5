// What was released: one line for each view, in pages with a search where there are many. A view is drawn when opened.
(() => {
  "use strict";
  const nabladp = (window.nabladp ||= {});
  const A_PAGE = 20;
  const MOST_PRINTED = 100; // views on paper

  function make(tag, properties = {}, ...children) {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children.filter((child) => child !== null));
    return element;
  }

  function name(text) {
    return make("bdi", { textContent: text });
  }

  function drawn(details) {
    const body = details.querySelector(".view-body");
    if (!body.childElementCount) nabladp.renderView(body, details.view);
  }

  function line(view) {
    const summary = make("summary", {}, make("span", { className: "name" }, name(view.title)));
    if (view.summary) summary.append(make("span", { className: "quiet", textContent: view.summary }));
    const details = make("details", { className: "view" }, summary, make("div", { className: "view-body" }));
    details.view = view;
    details.addEventListener("toggle", () => details.open && drawn(details));
    return details;
  }

  function show(place, views) {
    const list = make("div");
    const status = make("span", { className: "quiet", role: "status" });
    const back = make("button", { type: "button", className: "button plain", textContent: nabladp.text("back") });
    const on = make("button", { type: "button", className: "button plain", textContent: nabladp.text("on") });
    let [found, first] = [views, 0];

    function turn(to) {
      first = to;
      list.replaceChildren(...found.slice(first, first + A_PAGE).map(line));
      const last = Math.min(first + A_PAGE, found.length);
      const shown = { first: first + 1, last, total: found.length };
      status.textContent = found.length ? nabladp.text("views_page", shown) : nabladp.text("none");
      back.disabled = first === 0;
      on.disabled = last === found.length;
    }

    if (views.length > A_PAGE) {
      const search = make("input", { type: "search", placeholder: nabladp.text("search"), ariaLabel: nabladp.text("search_views") });
      const words = views.map((view) => view.title.toLowerCase());
      search.addEventListener("input", () => {
        const wanted = search.value.toLowerCase().split(/\s+/);
        found = views.filter((_, i) => wanted.every((word) => words[i].includes(word)));
        turn(0);
      });
      back.addEventListener("click", () => turn(first - A_PAGE));
      on.addEventListener("click", () => turn(first + A_PAGE));
      place.append(make("div", { className: "row" }, search, back, on, status));
    }
    place.append(list);
    turn(0);
    if (views.length) list.firstChild.open = true;
  }

  const parts = [];
  async function start() {
    nabladp.shapes = await nabladp.block("shapes");
    for (const place of document.querySelectorAll(".views")) {
      const views = (await nabladp.block(`views-${place.dataset.part}`)) ?? [];
      parts.push(views);
      place.replaceChildren();
      show(place, views);
    }
  }

  /** Every view, also those on other pages of the list: part, number, title. */
  nabladp.listed = () => parts.flatMap((views, part) => views.map((view, number) => [part, number, view.title]));

  /** Draws one view alone at the end of the page; answers where its chart is, or null if it has none. */
  nabladp.stage = (part, number) => {
    document.getElementById("stage")?.remove();
    const stage = make("div", { id: "stage", className: "view-body" });
    document.body.append(stage);
    nabladp.renderView(stage, parts[part][number]);
    const box = stage.querySelector("svg.chart")?.getBoundingClientRect();
    return box?.width ? { x: box.x + scrollX, y: box.y + scrollY, width: box.width, height: box.height } : null;
  };

  // ---- on paper: every view, open, as wide as the paper; whatever is on the screen stays as it is -------------------

  function printed(views) {
    const page = make("div", { className: "printed" });
    for (const view of views) {
      const head = make("h4", {}, name(view.title));
      if (view.summary) head.append(make("small", { className: "quiet", textContent: ` ${view.summary}` }));
      const body = make("div", { className: "printed-view" }, head);
      nabladp.printView(body, view);
      page.append(body);
    }
    return page;
  }

  /** Adds what the paper shows in place of the screen's views. */
  nabladp.toPaper = () => {
    if (document.querySelector(".printed")) return;
    let room = MOST_PRINTED;
    document.querySelectorAll(".views").forEach((place, part) => {
      const views = (parts[part] ?? []).slice(0, room);
      room -= views.length;
      const page = printed(views);
      const hidden = (parts[part] ?? []).length - views.length;
      if (hidden) page.append(make("p", { className: "quiet", textContent: nabladp.text("printed_views", { count: hidden }) }));
      place.append(page);
    });
  };
  nabladp.fromPaper = () => document.querySelectorAll(".printed").forEach((page) => page.remove());

  // A page with a certificate prints just that, unless the whole is asked for.
  const wholePage = () => document.documentElement.classList.contains("print-all") || !document.querySelector(".certificate");
  window.addEventListener("beforeprint", () => wholePage() && nabladp.toPaper());
  window.addEventListener("afterprint", () => nabladp.fromPaper());

  nabladp.make = make;
  nabladp.name = name;
  nabladp.released = start();
})();
