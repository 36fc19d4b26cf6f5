// Before anything is spent: sliders over budgets. Everything was worked out beforehand for a few factors; costs of
// several releases are added here, in exact units, as the ledger would.
(() => {
  "use strict";
  const { charting } = nabladp;
  const { html, svg, label, ticks, picture, paragraph, grow, textWidth } = charting;
  const { cost: up, text: say } = nabladp;
  const digits = new Intl.NumberFormat(nabladp.locale, { maximumSignificantDigits: 4, useGrouping: "always" });

  class Prospect {
    constructor(data) {
      Object.assign(this, data);
      this.places = data.parts.map(() => data.planned);
    }

    step(part) {
      return this.parts[part].steps[this.places[part]];
    }

    /** Of one set, over all releases at their sliders; null stands for no bound, undefined for a refused budget. */
    total(set) {
      const sums = [0n, 0n, 0n];
      for (let part = 0; part < this.parts.length; part++) {
        const step = this.step(part);
        if (step === null) return undefined;
        step.totals[set].forEach((units, i) => {
          sums[i] = units === null || sums[i] === null ? null : sums[i] + BigInt(units);
        });
      }
      const [rho, pure, rest] = sums;
      return { rho, pure, rest };
    }

    epsilon({ rho, pure, rest }, convert = nabladp.tight) {
      const through = convert(nabladp.toFloat(rho), this.delta);
      if (!pure) return through;
      return Math.min(through, nabladp.toFloat(pure) + convert(nabladp.toFloat(rest), this.delta));
    }
  }

  const factorText = (factor) => (factor === 1 ? say("planned") : say("factor", { factor: digits.format(factor) }));

  // ---- one release -------------------------------------------------------------------------------------------

  /** The figure that most likely is an error: one that changes with the budget and whose label says so. */
  function firstFigure(figures) {
    const changing = figures.filter(({ values }) => new Set(values.filter((value) => value !== null)).size > 1);
    return changing.find(({ likely }) => likely) || changing[0] || figures[0];
  }

  class Part {
    constructor(place, prospect, number, changed) {
      Object.assign(this, { prospect, number, data: prospect.parts[number] });
      this.output = html("output", { for: `slider-${number}` });
      this.slider = html("input", { type: "range", id: `slider-${number}`, min: 0, max: prospect.factors.length - 1, step: 1 });
      this.slider.value = prospect.planned;
      this.slider.addEventListener("input", () => {
        prospect.places[number] = Number(this.slider.value);
        changed();
      });
      this.budget = html("code");
      this.said = html("p", { role: "status" });
      const row = html("div", { class: "slider" }, html("label", { for: `slider-${number}` }, say("budget")), this.slider, this.output);
      place.append(row, html("pre", { tabindex: 0 }, this.budget));
      this.curve(place);
    }

    curve(place) {
      const { figures } = this.data;
      if (!figures.length) return void place.append(this.said);
      this.figure = firstFigure(figures);
      const choice = html("select", { id: `figure-${this.number}` });
      figures.forEach((figure, i) => {
        const option = html("option", { value: i });
        option.textContent = figure.label;
        option.selected = figure === this.figure;
        choice.append(option);
      });
      choice.addEventListener("change", () => {
        this.figure = figures[Number(choice.value)];
        this.draw();
      });
      this.place = html("figure", { class: "chart-figure" });
      const told = html("div", { class: "slider" }, html("label", { for: `figure-${this.number}` }, say("expected_error")), choice);
      const fold = html("details", { class: "view-table" }, html("summary", {}, say("as_table")));
      this.table = html("div");
      fold.append(this.table);
      place.append(told, this.said, this.place, fold);
      new ResizeObserver(() => this.place.clientWidth !== this.width && this.draw()).observe(this.place);
    }

    update() {
      const step = this.prospect.step(this.number);
      const factor = factorText(this.prospect.factors[this.prospect.places[this.number]]);
      this.slider.value = this.prospect.places[this.number];
      this.slider.setAttribute("aria-valuetext", step ? `${factor}: ${step.budget.join(", ")}` : `${factor}: ${say("refused")}`);
      this.output.textContent = factor;
      this.budget.textContent = step ? step.budget.join("\n") : say("refuses");
      if (this.figure) this.draw();
    }

    /** Error against ε, both on logarithmic axes where all numbers are above zero. */
    draw() {
      const width = (this.width = this.place.clientWidth || 600);
      const here = this.prospect.places[this.number];
      const points = this.data.steps
        .map((step, i) => ({ i, x: step?.epsilon ?? null, y: this.figure.values[i] }))
        .filter(({ x, y }) => x !== null && y !== null && x > 0);
      const at = points.find(({ i }) => i === here);
      this.said.textContent = at
        ? say("error_at", { label: this.figure.label, value: digits.format(at.y), epsilon: up(at.x) })
        : say("no_error_at");
      this.place.replaceChildren();
      if (points.length > 1) this.place.append(lines(this.data.name, this.figure.label, points, here, width));
      this.table.replaceChildren();
      nabladp.renderTable(this.table, {
        label: `${this.data.name}: ${this.figure.label}`,
        count: points.length,
        columns: [
          { name: say("budget_column"), format: "text", read: (row) => factorText(this.prospect.factors[points[row].i]) },
          { name: say("epsilon_column"), format: "number", read: (row) => points[row].x },
          { name: this.figure.label, format: "number", read: (row) => points[row].y },
        ],
      });
    }
  }

  function lines(name, what, points, here, width) {
    const [height, top] = [220, 14];
    const [xs, ys] = [points.map(({ x }) => x), points.map(({ y }) => y)];
    const steep = Math.min(...ys) > 0 && Math.max(...ys) > 4 * Math.min(...ys);
    const x = axis(xs, true);
    const y = axis(ys, steep);
    const texts = y.marks.map((value) => digits.format(value));
    const left = Math.max(...texts.map((text) => textWidth(text))) + 10;
    const across = (value) => left + 8 + x.at(value) * (width - left - 24);
    const down = (value) => height - y.at(value) * (height - top);
    const told = say("curve_told", { what, count: points.length });
    const node = picture({ title: `${name}: ${what}` }, width, height + 50, told);
    y.marks.forEach((value, i) => {
      node.append(svg("line", { class: "chart-grid", x1: left, x2: width, y1: down(value), y2: down(value) }));
      label(node, left - 8, down(value) + 4, texts[i], { class: "chart-quiet", "text-anchor": "end" });
    });
    for (const value of x.marks) {
      node.append(svg("line", { class: "chart-grid", x1: across(value), x2: across(value), y1: top, y2: height }));
      label(node, across(value), height + 18, digits.format(value), { class: "chart-quiet", "text-anchor": "middle" });
    }
    node.append(svg("path", { class: "chart-curve", d: `M${points.map((p) => `${across(p.x)} ${down(p.y)}`).join("L")}` }));
    for (const { i, x: ex, y: error } of points) {
      const kind = i === here ? "chart-point chart-point-here" : "chart-point";
      node.append(svg("circle", { class: kind, cx: across(ex), cy: down(error), r: i === here ? 7 : 3.5 }));
    }
    grow(node, height + 30 + paragraph(node, 0, height + 42, say("curve", { what }), width));
    return node;
  }

  /** Where values lie between 0 and 1, and round numbers among them. */
  function axis(values, logarithmic) {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    if (logarithmic && low > 0 && high > low) {
      const marks = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
        for (const times of high / low > 300 ? [1] : [1, 2, 5]) marks.push(times * 10 ** power);
      }
      const inside = marks.filter((value) => value >= low * 0.999 && value <= high * 1.001);
      return { at: (value) => Math.log(value / low) / Math.log(high / low), marks: inside };
    }
    const [from, to] = [Math.min(0, low), high > Math.min(0, low) ? high : 1];
    return { at: (value) => (value - from) / (to - from), marks: ticks(from, to, 5) };
  }

  // ---- limits and figures ------------------------------------------------------------------------------------

  function bar(cell, spent, asked, allowed) {
    const scale = 100 / Math.max(allowed, spent + asked);
    const node = svg("svg", { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" });
    const rect = (kind, x, width) => node.append(svg("rect", { class: kind, x, width, height: 8 }));
    rect("left", 0, 100);
    rect("others", 0, spent * scale);
    rect("here", spent * scale, asked * scale);
    if (spent + asked > allowed) rect("edge", allowed * scale - 0.5, 1);
    cell.replaceChildren(node);
  }

  /** One limit at the sliders; answers whether it holds. */
  function showLimit(prospect, line, row) {
    const found = prospect.total(line.set);
    const units = found === undefined ? null : line.pure ? (found.rest === 0n ? found.pure : null) : found.rho;
    const spent = line.spent === null ? null : BigInt(line.spent);
    const allowed = BigInt(line.allowed);
    const fits = units === 0n || (units !== null && spent !== null && units <= allowed - spent);
    row.querySelector(".asked").textContent = up(nabladp.toFloat(units));
    row.classList.toggle("over", !fits);
    const whole = nabladp.toFloat(allowed);
    const before = spent === null ? whole : nabladp.toFloat(spent);
    bar(row.querySelector(".limit"), before, units === null ? whole : nabladp.toFloat(units), whole);
    const note = row.querySelector(".broken") || row.cells[0].appendChild(html("small", { class: "broken" }));
    note.textContent = fits ? "" : say("exceeded");
    return fits;
  }

  function showFigure(prospect, row) {
    const found = prospect.total(Number(row.dataset.set));
    row.querySelector(".epsilon").textContent = found ? up(prospect.epsilon(found)) : "–";
    row.querySelector(".paper").textContent = found ? up(prospect.epsilon(found, nabladp.paper)) : "–";
    row.querySelector(".rho").textContent = found ? up(nabladp.toFloat(found.rho)) : "–";
    return found;
  }

  function showAll(prospect, parts) {
    parts.forEach((part) => part.update());
    const rows = [...document.querySelectorAll("[data-limit]")];
    const fits = rows.map((row, i) => showLimit(prospect, prospect.limits[i], row)).every(Boolean);
    const figures = [...document.querySelectorAll("[data-set]")].map((row) => showFigure(prospect, row));
    const headline = (name) => document.querySelector(`[data-headline="${name}"]`);
    headline("epsilon").textContent = figures[0] ? `ε = ${up(prospect.epsilon(figures[0]))}` : "–";
    headline("paper").textContent = figures[0] ? up(prospect.epsilon(figures[0], nabladp.paper)) : "–";
    headline("fits").textContent = say(fits ? "met" : "exceeded");
    headline("sentence").textContent = say(fits ? "plan_within" : "plan_over");
  }

  async function start() {
    const prospect = new Prospect(await nabladp.block("outlook"));
    const parts = [];
    const master = document.getElementById("slider-all");
    const changed = () => {
      showAll(prospect, parts);
      const same = new Set(prospect.places).size === 1;
      master.nextElementSibling.textContent = same ? factorText(prospect.factors[prospect.places[0]]) : say("one_by_one");
    };
    for (const place of document.querySelectorAll(".part")) {
      parts.push(new Part(place.querySelector(".part-body"), prospect, Number(place.dataset.part), changed));
    }
    Object.assign(master, { min: 0, max: prospect.factors.length - 1, step: 1, value: prospect.planned });
    master.addEventListener("input", () => {
      prospect.places.fill(Number(master.value));
      changed();
    });
    document.getElementById("sliders").hidden = false;
    changed();
    return prospect;
  }

  nabladp.prospect = start();
})();
