// The page's texts in its language, and numbers as that language writes them (nabladp/report/language.py).
(() => {
  "use strict";
  const nabladp = (window.nabladp ||= {});
  const { locale, texts } = JSON.parse(document.getElementById("texts").textContent);
  const plural = new Intl.PluralRules(locale);
  const whole = new Intl.NumberFormat(locale, { maximumFractionDigits: 0, useGrouping: "always" });
  const point = new Intl.NumberFormat(locale).formatToParts(0.5).find(({ type }) => type === "decimal").value;

  function form(key, values) {
    const found = texts[key];
    if (found === undefined) throw new Error(`There is no text ${key}.`);
    return typeof found === "string" ? found : (found[plural.select(values.count)] ?? found.other);
  }
  const written = (value) => (typeof value === "number" ? whole.format(value) : value);

  /** The text of a key with its values; numbers are written as the language writes them. */
  nabladp.text = (key, values = {}) => form(key, values).replace(/\{(\w+)\}/g, (_, name) => String(written(values[name])));

  /** The same as a list to append: a value may be an element, or a list of elements and texts. */
  nabladp.pieces = (key, values) =>
    form(key, values)
      .split(/\{(\w+)\}/)
      .flatMap((piece, i) => (i % 2 ? written(values[piece]) : piece));

  nabladp.locale = locale;
  nabladp.whole = whole;
  /** A number in English digits, such as "0.45", as the language writes it. */
  nabladp.localised = (text) => text.replace(".", point);
})();
