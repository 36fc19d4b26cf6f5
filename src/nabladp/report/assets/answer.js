// What the explorer answers about a set of attributes: figures next to those of all protected ones, and what they mean.
// The sentences say what nabladp/privacy/interpretation.py says; their texts are in nabladp/report/languages.
(() => {
  "use strict";
  const { make, name, text: say, pieces, cost: up } = nabladp;
  const SVG = "http://www.w3.org/2000/svg";

  const distance = new Intl.NumberFormat(nabladp.locale, { maximumSignificantDigits: 15, useGrouping: "always" });
  const text = (tag, className, words) => make(tag, { className, textContent: words });
  const chance = (delta) => say("one_in", { number: Math.floor(Number((1 / delta).toPrecision(12))) });
  const percent = (share) => say("percent", { number: String(Math.round(100 * share)) });
  const percentUp = (share) => say("percent", { number: nabladp.localised(nabladp.percentUp(share).slice(0, -1)) });

  /** 1e-6 as 10⁻⁶. */
  function power(delta) {
    const found = /^1e-(\d+)$/.exec(delta.toExponential());
    if (!found) return nabladp.localised(nabladp.general(delta));
    return `10⁻${[...found[1]].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("")}`;
  }

  const titles = new Map(); // what people read in place of the name of an attribute
  const called = (attribute) => name(titles.get(attribute) ?? attribute);

  /** Attributes with a sign between them, of very many the first few. */
  function joined(names, sign = " + ", most = 8) {
    const shown = names.slice(0, most).flatMap((attribute, i) => (i ? [sign, called(attribute)] : [called(attribute)]));
    return names.length > most ? [...shown, sign, say("others", { count: names.length - most })] : shown;
  }

  /** A bar of 100 units from pieces [class, width]; the content policy forbids style attributes. */
  function bar(className, ...pieces) {
    const element = document.createElementNS(SVG, "svg");
    const given = { viewBox: "0 0 100 12", preserveAspectRatio: "none", "aria-hidden": "true", class: className };
    for (const [key, value] of Object.entries(given)) element.setAttribute(key, value);
    let x = 0;
    for (const [kind, width] of pieces) {
      const rect = document.createElementNS(SVG, "rect");
      for (const [key, value] of Object.entries({ class: kind, x, width, height: 12 })) rect.setAttribute(key, value);
      element.append(rect);
      x += width;
    }
    return element;
  }

  function box(title, className, figure, delta, open = []) {
    const apart = open.length ? [make("dd", { className: "quiet" }, ...pieces("without_public", { names: joined(open) }))] : [];
    const lines = [
      text("dt", "", title),
      ...apart,
      text("dd", "big", figure.tight === Infinity ? say("no_bound") : `ε = ${up(figure.tight)}`),
      text("dd", "quiet", say("tight_at", { delta: power(delta) })),
      text("dd", "", say("epsilon_paper", { value: up(figure.paper) })),
      text("dd", "", `ρ ${up(figure.rho)}`),
    ];
    if (figure.pure !== Infinity) lines.push(text("dd", "", say("epsilon_pure", { value: up(figure.pure) })));
    return make("div", { className }, ...lines);
  }

  /** All protected attributes together, and which are public and therefore not among them. */
  const everything = ({ figures: person, open }, delta) => box(say("all_protected"), "whole", person, delta, open);

  function figures(found, whole, delta) {
    const boxes = [box(say("these"), "", found, delta), everything(whole, delta)];
    return make("dl", { className: "pair" }, ...boxes);
  }

  function rising({ after, exact }, one, prior, delta) {
    const most = text("b", "", percentUp(after));
    const exception = exact ? say("always") : say("except", { chance: chance(delta), one });
    return pieces("rises", { before: percent(prior), after: most, exception });
  }

  function meaning({ after, exact }, one, prior, delta) {
    const rises = rising({ after, exact }, one, prior, delta);
    const bars = [["before", 100 * prior], ["gain", 100 * (after - prior)], ["track", 100 * (1 - after)]];
    return make(
      "div",
      { className: "meaning" },
      make("p", { className: "says" }, ...rises),
      bar("belief", ...bars),
      text("p", "assume", `${say(exact ? "by_pure" : "by_paper")} ${say("assumed", { one })}`),
    );
  }

  /** For someone who knows a number up to a range: never to be taken for the figures of the attributes themselves. */
  function smallDifferences({ asked, units, figures: found, posterior }, whole, prior, delta) {
    const written = (far) => nabladp.whole.format(far).length && nabladp.number(far);
    const known = [...asked].flatMap(([attribute, far], i) => [
      ...(i ? ["; "] : []),
      ...pieces("known_range", { name: called(attribute), far: distance.format(Number(far)), unit: units[attribute] ? ` ${units[attribute]}` : "" }),
    ]);
    const figure = [`ε = ${up(found.tight)}`, say("epsilon_paper", { value: up(found.paper) }), `ρ ${up(found.rho)}`];
    if (found.pure !== Infinity) figure.push(say("epsilon_pure", { value: up(found.pure) }));
    return make(
      "div",
      { className: "small-differences" },
      text("h3", "", say("small")),
      make("p", {}, ...pieces("small_known", { known })),
      make("p", { className: "says" }, ...rising(posterior, whole.one, prior, delta)),
      text("p", "", found.tight === Infinity ? say("no_bound") : figure.join(" · ")),
      make("p", { className: "assume" }, ...pieces("small_only", { names: joined([...asked.keys()], ", ") })),
    );
  }

  /** Compared with what group privacy alone would give, in pure ε where there is one, otherwise in ρ. */
  function comparison(found, delta) {
    const { group, rho, pure } = found;
    const exact = pure !== Infinity;
    const [ours, theirs] = exact ? [pure, group.pure] : [rho, group.rho];
    const most = Math.max(ours, theirs);
    const share = (value) => (most === 0 ? 0 : most === Infinity ? (value === most ? 100 : 0) : (100 * value) / most);
    const figure = (value, epsilon) =>
      exact ? say("pure_figure", { value: up(value) }) : say("rho_figure", { value: up(value), epsilon: up(epsilon) });
    const line = (title, kind, value, epsilon) =>
      make(
        "div",
        { className: "compare" },
        text("span", "", title),
        bar("", [kind, share(value)]),
        text("span", "num", figure(value, epsilon)),
      );
    const looser = say(theirs > ours ? "looser" : "same_here");
    const note = exact
      ? say("group_pure", { looser, group: up(group.rho), rho: up(rho) })
      : say("group_rho", { looser });
    return make(
      "div",
      {},
      line(say("together"), "mine", ours, found.tight),
      line(say("group_alone"), "group", theirs, nabladp.tight(theirs, delta)),
      text("p", "assume", note),
    );
  }

  function information({ rho }, one, open) {
    const [nats, bits] = [rho, rho / Math.log(2)].map((value) => up(value, 3));
    const told = rho === Infinity ? say("no_information") : say("information", { nats, bits });
    const assumed = say(open ? "independent_open" : "independent", { one });
    return make("div", {}, text("p", "", told), text("p", "assume", assumed));
  }

  /** Everything about the chosen attributes, beside all protected ones. */
  function about(guarantee, chosen, found, small, whole, delta, prior) {
    const head = make("p", { className: "asked" }, ...pieces("curious", { names: joined(chosen) }));
    const sources = [...guarantee.sources(chosen)];
    const open = sources.filter((source) => guarantee.public.has(source));
    if (open.length) {
      const nothing = make("p", {}, ...pieces("public_ticked", { names: joined(open), count: open.length }));
      return [head, nothing, figures(found, whole, delta)];
    }
    const compared = sources.length > 1 ? [comparison(found, delta)] : [];
    const means = meaning(found.posterior, whole.one, prior, delta);
    const smaller = small ? [smallDifferences(small, whole, prior, delta)] : [];
    return [head, figures(found, whole, delta), means, ...smaller, ...compared, information(found, whole.one, whole.open.length > 0)];
  }

  function nothing(whole, delta) {
    return [
      text("p", "asked", say("nothing_ticked")),
      text("p", "", say("tick")),
      make("dl", { className: "pair" }, everything(whole, delta)),
    ];
  }

  /** One line: for a narrow screen, and for those who hear the page. */
  function glance(found, { figures: person }, prior) {
    const last = say("glance_all", { epsilon: up(person.tight) });
    if (!found) return say("glance_nothing", { last });
    const rise = { epsilon: up(found.tight), before: percent(prior), after: percentUp(found.posterior.after) };
    return say("glance", { ...rise, last });
  }

  nabladp.answer = { about, nothing, glance, joined, called, titles };
})();
