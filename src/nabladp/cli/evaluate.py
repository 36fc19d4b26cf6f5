"""``nabladp evaluate``: synthetic rows measured against the real table, for its owner alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nabladp.cli.answer import answering, print_json, printable, say, say_tables, working

_WORST = 10  # marginals in the terminal; the page has more


def evaluate(
    real: Annotated[str, typer.Argument(help="The real table: a file, a glob or a DuckDB query.")],
    synthetic: Annotated[str, typer.Argument(help="The synthetic rows, from any source: a file, a glob or a query.")],
    schema: Annotated[
        Path, typer.Option(help="The schema of both; or a plan, whose declared zeros are then checked as well.")
    ] = Path("schema.toml"),
    to: Annotated[
        Path | None, typer.Option("--to", help="Also write a new HTML file outside of any published folder.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="Also predict this column, learning from synthetic and from real rows.")
    ] = None,
    width: Annotated[int, typer.Option(help="How many columns a marginal of the k-marginal score has.")] = 2,
    models: Annotated[
        bool, typer.Option(help="Compare with models as well; --no-models needs no scikit-learn.")
    ] = True,
    language: Annotated[str, typer.Option(help="The page's language, en or de.")] = "en",
    json: Annotated[bool, typer.Option("--json", help="Answer with one JSON object.")] = False,
) -> None:
    """Measure how good synthetic rows are, against the real table. For the owner only: what it says is exact, spends
    nothing, and must not be published."""
    with answering(json):
        from nabladp.release.comparison import NOTICE, comparison_path
        from nabladp.release.evaluation import evaluate as evaluate_rows
        from nabladp.release.evaluation import read_declarations

        if to is not None:
            comparison_path(None, to)  # refuses before anything is read
        declared, zeros = read_declarations(schema)
        with working("comparing with the real table"):
            found = evaluate_rows(real, synthetic, declared, width=width, target=target, zeros=zeros, models=models)
        page = None
        if to is not None:
            from nabladp.report.evaluation_page import write_evaluation

            page = write_evaluation(found, Path(synthetic).name, to, spoken=language)
        body = found.to_json()
        if json:
            print_json(body | {"file": None if page is None else str(page)})
            return
        say(f" {NOTICE.upper()} ", "bold white on red")
        say_tables(*_tables(body))
        if page is not None:
            say(f"Wrote {page}.")
        say("For you alone: nothing here is protected, so publish none of it. Nothing was spent.")


def _tables(body: dict[str, Any]) -> list[Any]:
    from nabladp.cli.show import plain_table, shown_value

    marginals = body["k_marginal"]
    figures = plain_table("How good the synthetic rows are", ["measure"], ["value", "best"])
    figures.add_row(f"{marginals['k']}-marginal score", f"{marginals['score']:.1f}", "1000")
    single = sum(each["distance"] for each in body["univariate"]) / len(body["univariate"])
    figures.add_row("mean distance of single columns", f"{single:.2%}", "0%")
    if body["correlation_difference"] is not None:
        figures.add_row("mean difference of correlations", shown_value(body["correlation_difference"]), "0")
    if body["propensity"] is not None:
        figures.add_row("propensity (pMSE)", shown_value(body["propensity"]), "0")
    if (own := body["transfer"]) is not None:
        figures.add_row(
            f"rows predicted correctly: {printable(own['target'])}", f"{own['synthetic']:.2%}", f"{own['real']:.2%}"
        )
    worst = plain_table("Marginals that differ most", ["marginal"], ["distance"])
    for each in marginals["worst"][:_WORST]:
        worst.add_row(printable(" + ".join(each["attributes"])), f"{each['distance']:.2%}")
    tables = [figures, worst]
    if body["broken"]:
        broken = plain_table("Rows that break a declaration", ["declaration"], ["real", "synthetic"])
        for each in body["broken"]:
            numbers = ["?" if each[key] is None else f"{each[key]:,}" for key in ("real", "synthetic")]
            broken.add_row(printable(each["declaration"]), *numbers)
        tables.append(broken)
    return tables
