// The shapes a cost can take, as a function of the set T of attributes that differ (nabladp/privacy/terms.py).
(() => {
  "use strict";
  const { halfSquare } = nabladp;
  const FREE = { rho: 0n, pure: 0n };

  // Each offers `cost(T)` for a Set T of source attributes, in units: { rho, pure }, null where there is no bound.

  const descending = (a, b) => (a < b ? 1 : a > b ? -1 : 0);

  function weightsOf(body) {
    if (body.weights) return new Map(Object.entries(body.weights).map(([name, units]) => [name, BigInt(units)]));
    const weight = BigInt(body.weight);
    return new Map(body.on.map((name) => [name, weight]));
  }

  function ofAmount(body, amount) {
    if (body.shape === "linear" || body.pure) return { rho: halfSquare(amount), pure: body.pure ? amount : null };
    return { rho: amount, pure: null };
  }

  function weightTerm(body) {
    const weights = weightsOf(body);
    const limit = body.limit ?? Infinity;
    return {
      cost(chosen) {
        const picked = [];
        for (const [name, weight] of weights) if (chosen.has(name)) picked.push(weight);
        if (!picked.length) return FREE;
        if (picked.length > limit) picked.sort(descending).length = limit;
        return ofAmount(body, picked.reduce((a, b) => a + b, 0n));
      },
    };
  }

  function curveTerm(body) {
    const columns = Object.entries(body.columns);
    return {
      cost(chosen) {
        let held = 0;
        for (const [name, count] of columns) if (chosen.has(name)) held += count;
        return held ? { rho: BigInt(body.table[held]), pure: null } : FREE;
      },
    };
  }

  /** The cheapest way to pay for T: some caps as a whole, the attributes outside them one by one. */
  function cappedTerm(body) {
    const weights = weightsOf(body);
    const caps = body.caps.map((cap) => ({ on: new Set(cap.on), units: BigInt(cap.units) }));
    function cheapest(left, from) {
      let best = left.reduce((sum, name) => sum + weights.get(name), 0n);
      for (let i = from; i < caps.length; i++) {
        const rest = left.filter((name) => !caps[i].on.has(name));
        if (rest.length === left.length || caps[i].units >= best) continue;
        const whole = caps[i].units + cheapest(rest, i + 1);
        if (whole < best) best = whole;
      }
      return best;
    }
    return {
      cost(chosen) {
        const held = [...weights.keys()].filter((name) => chosen.has(name));
        return held.length ? { rho: cheapest(held, 0), pure: null } : FREE;
      },
    };
  }

  // lem:graph: the largest distance between two combinations of values that differ within T only.
  function graphTerm(body) {
    const sizes = body.values.map((values) => values.length);
    const codes = body.values.map((values) => new Map(values.map((value, code) => [value, code])));
    const strides = sizes.map((_, i) => sizes.slice(i + 1).reduce((a, b) => a * b, 1));
    const place = (node) => node.reduce((sum, value, i) => sum + strides[i] * codes[i].get(value), 0);
    const nodes = sizes.reduce((a, b) => a * b, 1);
    const neighbours = Array.from({ length: nodes }, () => []);
    for (const [one, other, weight] of body.edges) {
      neighbours[place(one)].push([place(other), BigInt(weight)]);
      neighbours[place(other)].push([place(one), BigInt(weight)]);
    }
    const known = new Map();

    function distances(start) {
      const done = new Array(nodes).fill(null);
      const frontier = new Heap();
      frontier.push(0n, start);
      for (let next = frontier.pop(); next; next = frontier.pop()) {
        const [distance, node] = next;
        if (done[node] !== null) continue;
        done[node] = distance;
        for (const [other, weight] of neighbours[node]) {
          if (done[other] === null) frontier.push(distance + weight, other);
        }
      }
      return done;
    }

    /** Every place that differs from `start` within the moving attributes only. */
    function reachable(start, moving) {
      let places = [start];
      for (const i of moving) {
        const own = Math.floor(start / strides[i]) % sizes[i];
        places = places.flatMap((at) => body.values[i].map((_, code) => at + (code - own) * strides[i]));
      }
      return places;
    }

    function diameter(moving) {
      let widest = 0n;
      for (let start = 0; start < nodes; start++) {
        const reached = distances(start);
        for (const goal of reachable(start, moving)) {
          if (reached[goal] === null) return null;
          if (reached[goal] > widest) widest = reached[goal];
        }
      }
      return widest;
    }

    return {
      cost(chosen) {
        const moving = body.names.flatMap((name, i) => (chosen.has(name) ? [i] : []));
        if (!moving.length) return FREE;
        const key = moving.join();
        if (!known.has(key)) known.set(key, diameter(moving));
        const distance = known.get(key);
        if (distance === null) return { rho: null, pure: null };
        return { rho: halfSquare(distance), pure: body.pure ? distance : distance === 0n ? 0n : null };
      },
    };
  }

  class Heap {
    items = [];
    push(key, value) {
      const items = this.items;
      let at = items.push([key, value]) - 1;
      for (let above = (at - 1) >> 1; at > 0 && items[above][0] > items[at][0]; above = (at - 1) >> 1) {
        [items[at], items[above]] = [items[above], items[at]];
        at = above;
      }
    }
    pop() {
      const items = this.items;
      if (items.length < 2) return items.pop();
      const first = items[0];
      items[0] = items.pop();
      for (let at = 0; ; ) {
        let small = at;
        for (const child of [2 * at + 1, 2 * at + 2]) {
          if (child < items.length && items[child][0] < items[small][0]) small = child;
        }
        if (small === at) return first;
        [items[at], items[small]] = [items[small], items[at]];
        at = small;
      }
    }
  }

  const SHAPES = { linear: weightTerm, squares: weightTerm, curve: curveTerm, capped: cappedTerm, graph: graphTerm };

  /** A touch term as a sum of layers of equal weight, each charged once T meets its attributes. */
  function layersOf(body) {
    const weights = weightsOf(body);
    const found = [];
    let below = { rho: 0n, pure: 0n };
    for (const weight of [...new Set(weights.values())].sort(descending).reverse()) {
      const on = [...weights.keys()].filter((name) => weights.get(name) >= weight);
      const cost = ofAmount(body, weight);
      found.push({ on, rho: cost.rho - below.rho, pure: body.pure ? cost.pure - below.pure : null });
      below = { rho: cost.rho, pure: cost.pure ?? 0n };
    }
    return found;
  }

  // ---- small changes of a number -----------------------------------------------------------------------------------

  /** "1000", "0.5" or "1/3" as an exact fraction, above and below the line; null if it is none. */
  function fraction(text) {
    const found = /^(\d{0,400})(?:\.(\d{1,400}))?(?:e([+-]?\d{1,3}))?(?:\/(\d{1,400}))?$/i.exec(text.trim());
    if (!found || (!found[1] && !found[2])) return null;
    const [, whole, decimals = "", exponent = "0", below = "1"] = found;
    const power = Number(exponent) - decimals.length;
    const tens = 10n ** BigInt(Math.abs(power));
    const number = BigInt(whole + decimals);
    return power < 0 ? [number, BigInt(below) * tens] : [number * tens, BigInt(below)];
  }
  const atMost = ([a, b], [c, d]) => a * d <= c * b;

  /** A touch term for rows in which numbers differ by at most these distances (WeightTerm.for_changes). */
  function forChanges(body, distances) {
    const lower = new Map();
    for (const [name, steps] of Object.entries(body.near ?? {})) {
      const far = distances.get(name);
      const found = far && steps.find(([listed]) => atMost(far, fraction(listed)));
      if (found) lower.set(name, found[1]);
    }
    if (!lower.size) return body;
    const weights = [...weightsOf(body)].map(([name, weight]) => [name, lower.get(name) ?? String(weight)]);
    return { shape: body.shape, pure: body.pure, count: body.count, weights: Object.fromEntries(weights) };
  }

  Object.assign(nabladp, { SHAPES, layersOf, forChanges, fraction });
})();
