"""Queries of our own in the habits of PostgreSQL, DuckDB, Spark and BigQuery users, over the table of sql_tables.

Each is answered as DuckDB answers it without noise, or refused with a message that is part of this file. ``rewrite`` is
the query that the message leads to; it is answered."""

from __future__ import annotations

from typing import NamedTuple


class Answered(NamedTuple):
    sql: str
    duckdb: str = ""  # where DuckDB writes it otherwise


class Refused(NamedTuple):
    sql: str
    reason: str
    fix: str
    rewrite: str = ""


POSTGRESQL = [
    Answered("SELECT COUNT(*) FROM people"),
    Answered("SELECT COUNT(*) AS n FROM people WHERE age >= 18"),
    Answered("select count(*) from people p where p.age between 18 and 65"),
    Answered("SELECT region, COUNT(*) FROM people GROUP BY region"),
    Answered("SELECT region, sex, COUNT(*) AS n FROM people GROUP BY region, sex ORDER BY n DESC"),
    Answered("SELECT region, AVG(income) FROM people GROUP BY 1"),
    Answered(
        "SELECT region, AVG(income) AS mean FROM people GROUP BY region HAVING COUNT(*) > 100 ORDER BY mean "
        "DESC LIMIT 3"
    ),
    Answered("SELECT COUNT(DISTINCT region) FROM people"),
    Answered("SELECT COUNT(DISTINCT score) FROM people"),
    Answered("SELECT sex, COUNT(DISTINCT age) FROM people GROUP BY sex"),
    Answered("SELECT SUM(score) FROM people"),
    Answered("SELECT SUM(income) / COUNT(*) AS per_head FROM people"),
    Answered("SELECT sex, SUM(steps) FILTER (WHERE employed) AS working_steps FROM people GROUP BY sex"),
    Answered(
        "SELECT COUNT(*) FILTER (WHERE age < 18) AS minors, COUNT(*) FILTER (WHERE age >= 18) AS adults FROM people"
    ),
    Answered("SELECT ROUND(100.0 * COUNT(*) FILTER (WHERE employed) / COUNT(*), 1) AS share FROM people"),
    Answered("SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY income) FROM people"),
    Answered("SELECT sex, PERCENTILE_DISC(0.9) WITHIN GROUP (ORDER BY age) AS p90 FROM people GROUP BY sex"),
    Answered("SELECT PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY age DESC) FROM people"),
    Answered("SELECT (age / 10)::int AS decade, COUNT(*) FROM people GROUP BY decade ORDER BY decade"),
    Answered("SELECT FLOOR(age / 10) * 10 AS decade, COUNT(*) FROM people GROUP BY FLOOR(age / 10)"),
    Answered(
        "SELECT CASE WHEN age < 18 THEN 'child' WHEN age < 65 THEN 'adult' ELSE 'senior' END AS stage, "
        "COUNT(*), AVG(score) FROM people GROUP BY stage"
    ),
    Answered("SELECT CASE sex WHEN 'f' THEN 'women' WHEN 'm' THEN 'men' END AS who, AVG(age) FROM people GROUP BY 1"),
    Answered("SELECT COALESCE(region, 'unknown') AS place, COUNT(*) FROM people GROUP BY COALESCE(region, 'unknown')"),
    Answered("SELECT AVG(COALESCE(score, 0)) FROM people"),
    Answered("SELECT AVG(NULLIF(score, 0)) FROM people"),
    Answered("SELECT AVG(income / NULLIF(age, 0)) FROM people"),
    Answered("SELECT COUNT(*) FROM people WHERE region = ANY(ARRAY['north', 'south'])"),
    Answered("SELECT COUNT(*) FROM people WHERE region IS NOT NULL AND region <> 'north'"),
    Answered("SELECT COUNT(*) FROM people WHERE region IS DISTINCT FROM 'north'"),
    Answered("SELECT COUNT(*) FROM people WHERE NOT (score > 0)"),
    Answered("SELECT COUNT(*) FROM people WHERE score NOT IN (1, 2, 3)"),
    Answered("SELECT COUNT(*) FROM people WHERE score NOT IN (1, 2, NULL)"),
    Answered("SELECT COUNT(*) FROM people WHERE region ILIKE 'N%'"),
    Answered("SELECT COUNT(*) FROM people WHERE region LIKE '%th' AND region NOT LIKE 'n%'"),
    Answered("SELECT COUNT(*) FROM people WHERE employed"),
    Answered("SELECT COUNT(*) FROM people WHERE employed IS NOT TRUE"),
    Answered("SELECT employed, COUNT(*) FROM people GROUP BY employed ORDER BY employed NULLS FIRST"),
    Answered("SELECT EXTRACT(YEAR FROM day) AS year, COUNT(*) FROM people GROUP BY year ORDER BY year"),
    Answered("SELECT DATE_TRUNC('month', day) AS month, SUM(steps) FROM people GROUP BY 1 ORDER BY 1"),
    Answered("SELECT COUNT(*) FROM people WHERE day >= DATE '2026-01-01' AND day < '2026-07-01'"),
    Answered("SELECT COUNT(*) FROM people WHERE day::date BETWEEN '2026-01-01' AND '2026-03-31'"),
    Answered("SELECT VAR_POP(age), VAR_SAMP(age), STDDEV_POP(age), STDDEV_SAMP(age) FROM people"),
    Answered("SELECT sex, STDDEV(income) FROM people GROUP BY sex"),
    Answered(
        "SELECT education, AVG(age) FROM people GROUP BY education ORDER BY education",
        ("SELECT education::VARCHAR, AVG(age) FROM people GROUP BY education ORDER BY education NULLS LAST"),
    ),
    Answered(
        "SELECT COUNT(*) FROM people WHERE education >= 'secondary'",
        "SELECT COUNT(*) FROM people WHERE education >= 'secondary'::edu",
    ),
    Answered("SELECT region, COUNT(*) FROM people GROUP BY ROLLUP (region)"),
    Answered("SELECT region, sex, COUNT(*) FROM people GROUP BY GROUPING SETS ((region, sex), (region), ())"),
    Answered("SELECT region, sex, SUM(score) FROM people GROUP BY CUBE (region, sex)"),
    Answered("SELECT COALESCE(sex, 'all') AS sex_or_all, COUNT(*) FROM people GROUP BY ROLLUP (sex)"),
    Answered("SELECT region, GROUPING(region) AS is_total, COUNT(*) FROM people GROUP BY ROLLUP (region)"),
    Answered(
        "SELECT CASE WHEN GROUPING(region) = 1 THEN 'all' ELSE region END AS region, sex, "
        "GROUPING(region, sex) AS level, SUM(age) FROM people GROUP BY CUBE (region, sex) "
        "HAVING GROUPING(sex) = 0 ORDER BY level, 1, 2"
    ),
    Answered("SELECT FLOOR(age / 10) AS d, sex, AVG(score), MEDIAN(age) FROM people GROUP BY ROLLUP (sex, d)"),
    Answered(
        "SELECT region, sex, education, COUNT(*) FROM people GROUP BY GROUPING SETS ((region, sex), (education), ())"
    ),
    Answered(
        "WITH adults AS (SELECT * FROM people WHERE age >= 18) SELECT region, AVG(income) FROM adults GROUP BY region"
    ),
    Answered(
        "WITH a AS (SELECT age, income * 12 AS yearly FROM people), b AS (SELECT yearly FROM a WHERE age > "
        "30) SELECT AVG(yearly) FROM b"
    ),
    Answered("SELECT AVG(x) FROM (SELECT age + 1 AS x FROM people WHERE sex = 'f') AS t WHERE x > 20"),
    Answered("SELECT COUNT(*) FROM (SELECT * FROM people) q WHERE q.age > 50"),
    Answered("SELECT COUNT(*) FROM people WHERE (region = 'north' OR region = 'south') AND (sex = 'f' OR age > 40)"),
    Answered(
        "SELECT SUM(rate * steps) / SUM(rate) AS weighted FROM people WHERE rate IS NOT NULL AND steps IS NOT NULL"
    ),
    Answered("SELECT ABS(AVG(score)) AS size FROM people"),
    Answered("SELECT CAST(AVG(age) AS NUMERIC(10, 1)) AS mean_age FROM people"),
    Answered("SELECT AVG(age)::numeric(10, 2) FROM people"),
    Answered('SELECT sex AS "Sex", COUNT(*) AS "How many" FROM people GROUP BY sex'),
    Answered('SELECT "age", COUNT(*) FROM people WHERE "age" > 90 GROUP BY "age"'),
    Answered("SELECT COUNT(*) -- all of them\nFROM people"),
    Answered("SELECT /* a comment */ COUNT(*) FROM people;"),
    Answered("SELECT COUNT(*) FROM public.people", "SELECT COUNT(*) FROM people"),
    Answered("SELECT sex, COUNT(*) * 2 AS twice FROM people GROUP BY sex HAVING AVG(age) > 10"),
    Answered("SELECT region FROM people GROUP BY region HAVING COUNT(*) > 100 ORDER BY COUNT(*) DESC"),
    Answered("SELECT COUNT(*) FROM people WHERE age % 2 = 0"),
    Answered("SELECT MOD(score, 7) AS m, COUNT(*) FROM people GROUP BY m"),
    Answered("SELECT GREATEST(score, 0) AS s, COUNT(*) FROM people GROUP BY 1"),
    Answered("SELECT AVG(LEAST(income, 100000)) FROM people"),
    Answered("SELECT SUM(POWER(score, 2)) FROM people"),
    Answered("SELECT AVG(LN(GREATEST(steps, 1))) FROM people WHERE steps IS NOT NULL"),
    Answered("SELECT SQRT(VAR_POP(age)) FROM people"),
    Answered("SELECT UPPER(region) AS r, COUNT(*) FROM people GROUP BY r"),
    Answered("SELECT region || '/' || sex AS cell, COUNT(*) FROM people GROUP BY cell"),
    Answered("SELECT SUBSTRING(region FROM 1 FOR 1) AS initial, COUNT(*) FROM people GROUP BY initial"),
    Answered("SELECT LENGTH(region) AS l, COUNT(*) FROM people GROUP BY l"),
    Answered("SELECT COUNT(region), COUNT(*) - COUNT(region) AS missing FROM people"),
    Answered("SELECT 100 * AVG(CASE WHEN employed THEN 1 ELSE 0 END) AS percent FROM people"),
    Answered(
        "SELECT SUM(CASE WHEN sex = 'f' THEN 1 ELSE 0 END) AS women, SUM(CASE WHEN sex = 'm' THEN 1 END) AS "
        "men FROM people"
    ),
    Answered("SELECT COUNT(CASE WHEN age > 60 THEN 1 END) FROM people"),
    Answered("SELECT COUNT(1), COUNT(0), COUNT('x') FROM people"),
    Answered("SELECT COUNT(*) FROM people LIMIT 0"),
    Answered("SELECT region, COUNT(*) c FROM people GROUP BY region ORDER BY c DESC FETCH FIRST 2 ROWS ONLY"),
    Answered("SELECT age > 30 AS older, COUNT(*) FROM people GROUP BY age > 30"),
    Answered("SELECT sex, COUNT(*) FROM people GROUP BY sex HAVING sex IN ('f')"),
    Answered("SELECT sex, COUNT(*) FROM people GROUP BY sex HAVING sex LIKE 'm%' AND COUNT(*) BETWEEN 1 AND 100000"),
    Answered("SELECT sex, CASE WHEN COUNT(*) > 10 THEN 'many' ELSE 'few' END AS how_many FROM people GROUP BY sex"),
    Answered(
        "SELECT region, COUNT(*) FROM people GROUP BY region LIMIT ALL",
        "SELECT region, COUNT(*) FROM people GROUP BY region",
    ),
    Answered(
        "SELECT COUNT(*) FROM people WHERE employed IS UNKNOWN", "SELECT COUNT(*) FROM people WHERE employed IS NULL"
    ),
]

DUCKDB = [
    Answered("FROM people SELECT COUNT(*)"),
    Answered("SELECT region, sex, AVG(age) FROM people GROUP BY ALL"),
    Answered("SELECT sex, MEDIAN(income) FROM people GROUP BY ALL"),
    Answered("SELECT sex, QUANTILE_CONT(age, [0.25, 0.5, 0.75]) AS q FROM people GROUP BY sex"),
    Answered("SELECT QUANTILE(age, 0.1), QUANTILE_DISC(age, 0.9) FROM people"),
    Answered("SELECT age // 10 AS decade, COUNT(*) FROM people GROUP BY decade"),
    Answered("SELECT COUNT(*) AS n, n / 2 AS half FROM people"),
    Answered("SELECT age // 20 AS band, AVG(score) FROM people WHERE band > 1 GROUP BY band"),
    Answered("SELECT SUM(employed) FROM people"),
    Answered("SELECT SUM(age > 40) FROM people"),
    Answered("SELECT COUNT_IF(age > 40 OR sex = 'f') FROM people"),
    Answered("SELECT sex, COUNT_IF(employed) / COUNT(*) AS rate FROM people GROUP BY sex"),
    Answered("SELECT COUNT(*) FROM people WHERE age == 40 OR age != 41 AND sex = 'm'"),
    Answered("SELECT COUNT(*) FROM people WHERE region IN ['north', 'east']"),
    Answered("SELECT YEAR(day) AS y, MONTH(day) AS m, COUNT(*) FROM people GROUP BY ALL"),
    Answered("SELECT STRFTIME(day, '%Y-%m') AS month, COUNT(*) FROM people GROUP BY month ORDER BY month"),
    Answered("SELECT DAYOFWEEK(day) AS weekday, COUNT(*) FROM people GROUP BY weekday"),
    Answered("SELECT CONTAINS(region, 'o') AS has_o, COUNT(*) FROM people GROUP BY has_o"),
    Answered(
        "SELECT AVG(x) FROM (SELECT * REPLACE (age * 2 AS age), age AS x FROM people)", "SELECT AVG(age) FROM people"
    ),
    Answered("SELECT AVG(age) FROM (SELECT * REPLACE (age * 2 AS age) FROM people)"),
    Answered("SELECT COUNT(*) FROM (SELECT * EXCLUDE (income) FROM people) WHERE age > 10"),
    Answered("SELECT ROUND(income, -4) AS bracket, COUNT(*) FROM people GROUP BY bracket"),
    Answered(
        "SELECT FLOOR(income / 25000) AS step, COUNT(*) AS n FROM people WHERE income IS NOT NULL GROUP BY "
        "step HAVING n > 5"
    ),
    Answered("SELECT APPROX_COUNT_DISTINCT(age) FROM people", "SELECT COUNT(DISTINCT age) FROM people"),
    Answered("SELECT APPROX_QUANTILE(income, 0.5) FROM people", "SELECT MEDIAN(income) FROM people"),
    Answered(
        "SELECT CASE WHEN income >= 50000 THEN 'high' ELSE 'low' END AS level, COUNT(*), AVG(age) FROM people"
        " GROUP BY level"
    ),
    Answered("SELECT IF(income > 20000, 1, 0) AS rich, COUNT(*) FROM people GROUP BY rich"),
    Answered("SELECT TRY_CAST(region AS INTEGER) IS NULL AS no_number, COUNT(*) FROM people GROUP BY 1"),
    Answered("SELECT sex, AVG(balance), SUM(balance) FROM people GROUP BY sex"),
    Answered("SELECT COUNT(*) FROM people WHERE balance < 0"),
    Answered("SELECT COUNT(*) FROM people WHERE income >= 50000"),
    Answered("SELECT COUNT(*) FROM people WHERE income = 25000"),
]

SPARK = [
    Answered("SELECT percentile(age, 0.5) FROM people", "SELECT MEDIAN(age) FROM people"),
    Answered(
        "SELECT sex, percentile_approx(income, 0.9) AS p90 FROM people GROUP BY sex",
        "SELECT sex, QUANTILE_CONT(income, 0.9) FROM people GROUP BY sex",
    ),
    Answered(
        "SELECT approx_percentile(income, array(0.25, 0.75), 100) AS q FROM people",
        "SELECT QUANTILE_CONT(income, [0.25, 0.75]) FROM people",
    ),
    Answered(
        "SELECT region, sex, COUNT(*) FROM people GROUP BY region, sex WITH ROLLUP",
        "SELECT region, sex, COUNT(*) FROM people GROUP BY ROLLUP (region, sex)",
    ),
    Answered(
        "SELECT region, COUNT(*) FROM people GROUP BY region WITH CUBE",
        "SELECT region, COUNT(*) FROM people GROUP BY CUBE (region)",
    ),
    Answered(
        "SELECT `region`, COUNT(`age`) AS `n` FROM `people` GROUP BY `region`",
        "SELECT region, COUNT(age) FROM people GROUP BY region",
    ),
    Answered(
        "SELECT NVL(region, 'none') AS r, COUNT(*) FROM people GROUP BY NVL(region, 'none')",
        "SELECT COALESCE(region, 'none') AS r, COUNT(*) FROM people GROUP BY 1",
    ),
    Answered("SELECT year(day), weekofyear(day), count(1) FROM people GROUP BY year(day), weekofyear(day)"),
    Answered(
        "SELECT sex, count(*) AS cnt, sum(if(employed, 1, 0)) AS working FROM people GROUP BY sex ORDER BY cnt DESC"
    ),
    Answered(
        ("SELECT avg(score) AS mean_score, stddev_pop(score) AS sd FROM people WHERE score <=> 3 OR score > 3"),
        "SELECT avg(score), stddev_pop(score) FROM people WHERE score >= 3",
    ),
    Answered("SELECT count(distinct case when employed then region end) FROM people"),
    Answered("SELECT mean(age) FROM people", "SELECT AVG(age) FROM people"),
    Answered("SELECT concat(sex, '-', age % 2) AS k, count(*) FROM people GROUP BY 1"),
]

BIGQUERY = [
    Answered(
        "SELECT COUNTIF(age > 18) AS adults FROM `project.dataset.people`",
        "SELECT COUNT(*) FILTER (WHERE age > 18) FROM people",
    ),
    Answered(
        "SELECT SAFE_DIVIDE(SUM(steps), COUNT(steps)) AS mean_steps FROM people",
        "SELECT SUM(steps) / COUNT(steps) FROM people",
    ),
    Answered("SELECT AVG(SAFE_DIVIDE(steps, age)) FROM people", "SELECT AVG(steps / NULLIF(age, 0)) FROM people"),
    Answered(
        "SELECT APPROX_QUANTILES(age, 100)[OFFSET(50)] AS median_age FROM people", "SELECT MEDIAN(age) FROM people"
    ),
    Answered(
        "SELECT region, APPROX_QUANTILES(income, 4)[OFFSET(3)] AS q3 FROM people GROUP BY region",
        "SELECT region, QUANTILE_CONT(income, 0.75) FROM people GROUP BY region",
    ),
    Answered("SELECT region, SUM(IF(sex = 'f', 1, 0)) / COUNT(*) AS share FROM people GROUP BY region"),
    Answered(
        "SELECT CAST(FLOOR(age / 10) AS INT64) AS decade, COUNT(*) FROM people GROUP BY decade",
        "SELECT FLOOR(age / 10), COUNT(*) FROM people GROUP BY 1",
    ),
    Answered(
        "SELECT SAFE_CAST(sex AS INT64) AS number, COUNT(*) FROM people GROUP BY 1",
        "SELECT TRY_CAST(sex AS BIGINT), COUNT(*) FROM people GROUP BY 1",
    ),
    Answered("SELECT IFNULL(region, 'n/a') AS region_or_none, COUNT(*) FROM people GROUP BY 1"),
    Answered("SELECT EXTRACT(QUARTER FROM day) AS quarter, AVG(steps) AS mean_steps FROM people GROUP BY quarter"),
    Answered("SELECT STARTS_WITH(region, 'n') AS n, COUNT(*) AS count FROM people GROUP BY n"),
    Answered(
        "SELECT region, ROUND(AVG(income), 2) AS mean_income, COUNT(*) AS people FROM people WHERE age >= 18 "
        "GROUP BY region HAVING people > 100 ORDER BY people DESC"
    ),
    Answered(
        "SELECT COUNT(*) AS people, AVG(income) AS mean, MEDIAN(income) AS middle, STDDEV(income) AS spread FROM people"
    ),
]
ANSWERED = [*POSTGRESQL, *DUCKDB, *SPARK, *BIGQUERY]

REFUSED = [
    Refused(
        "SELECT * FROM people",
        "Rows themselves are never released (line 1, column 8).",
        "Select aggregates, such as COUNT(*).",
        "SELECT COUNT(*) FROM people",
    ),
    Refused(
        "SELECT people.* FROM people",
        "Rows themselves are never released (line 1, column 8).",
        "Select aggregates, such as COUNT(*).",
        "SELECT COUNT(*) FROM people",
    ),
    Refused(
        "SELECT age FROM people",
        "age is neither an aggregate nor in GROUP BY (line 1, column 8).",
        "Add age to GROUP BY, or aggregate it, for example AVG(age).",
        "SELECT AVG(age) FROM people",
    ),
    Refused(
        "SELECT region FROM people GROUP BY region",
        "The query has no aggregate (line 1, column 8).",
        "Select an aggregate, such as COUNT(*) or AVG(x).",
        "SELECT region, COUNT(*) FROM people GROUP BY region",
    ),
    Refused(
        "SELECT DISTINCT region FROM people",
        "SELECT DISTINCT would release rows (line 1, column 17).",
        "Use GROUP BY with COUNT(*).",
        "SELECT region, COUNT(*) FROM people GROUP BY region",
    ),
    Refused(
        "SELECT DISTINCT region, COUNT(*) FROM people GROUP BY region",
        "SELECT DISTINCT would release rows (line 1, column 17).",
        "Use GROUP BY with COUNT(*).",
        "SELECT region, COUNT(*) FROM people GROUP BY region",
    ),
    Refused(
        "SELECT MIN(age) FROM people",
        "MIN depends on a single row (line 1, column 12).",
        "Use a low quantile: write QUANTILE_CONT(age, 0.01).",
        "SELECT QUANTILE_CONT(age, 0.01) FROM people",
    ),
    Refused(
        "SELECT sex, MAX(income) FROM people GROUP BY sex",
        "MAX depends on a single row (line 1, column 17).",
        "Use a high quantile: write QUANTILE_CONT(income, 0.99).",
        "SELECT sex, QUANTILE_CONT(income, 0.99) FROM people GROUP BY sex",
    ),
    Refused(
        "SELECT MODE(region) FROM people",
        "MODE is not available (line 1, column 8).",
        "Write GROUP BY region ORDER BY COUNT(*) DESC LIMIT 1.",
        "SELECT region FROM people GROUP BY region ORDER BY COUNT(*) DESC LIMIT 1",
    ),
    Refused(
        "SELECT ANY_VALUE(region) FROM people",
        "ANY_VALUE would release values of single rows (line 1, column 18).",
        "Write COUNT(*), and GROUP BY region.",
        "SELECT COUNT(*) FROM people GROUP BY region",
    ),
    Refused(
        "SELECT FIRST(region) FROM people",
        "FIRST would release values of single rows (line 1, column 8).",
        "Write COUNT(*), and GROUP BY region.",
        "SELECT COUNT(*) FROM people GROUP BY region",
    ),
    Refused(
        "SELECT STRING_AGG(region, ',') FROM people",
        "STRING_AGG would release values of single rows (line 1, column 19).",
        "Write COUNT(*), and GROUP BY region.",
        "SELECT COUNT(*) FROM people GROUP BY region",
    ),
    Refused(
        "SELECT ARRAY_AGG(age) FROM people",
        "ARRAY_AGG would release values of single rows (line 1, column 8).",
        "Write COUNT(*), and GROUP BY age.",
        "SELECT COUNT(*) FROM people GROUP BY age",
    ),
    Refused(
        "SELECT ARG_MAX(region, age) FROM people",
        "ARG_MAX would release values of single rows (line 1, column 16).",
        "Write COUNT(*), and GROUP BY region.",
        "SELECT COUNT(*) FROM people GROUP BY region",
    ),
    Refused(
        "SELECT BOOL_OR(employed) FROM people",
        "BOOL_OR depends on a single row (line 1, column 8).",
        "Write COUNT(*) FILTER (WHERE employed).",
        "SELECT COUNT(*) FILTER (WHERE employed) FROM people",
    ),
    Refused(
        "SELECT HISTOGRAM(age) FROM people",
        "HISTOGRAM is not available (line 1, column 8).",
        "Write COUNT(*), and GROUP BY age.",
        "SELECT COUNT(*) FROM people GROUP BY age",
    ),
    Refused(
        "SELECT CORR(age, income) FROM people",
        "CORR is not available (line 1, column 8).",
        "Use the mechanism GramMatrix, or AVG(age * income).",
        "SELECT AVG(age * income) FROM people",
    ),
    Refused(
        "SELECT SKEWNESS(age) FROM people",
        "SKEWNESS is not available (line 1, column 8).",
        ("Aggregates: COUNT, COUNT(DISTINCT x), SUM, AVG, VAR_POP, VAR_SAMP, STDDEV, MEDIAN, QUANTILE_CONT(x, q)."),
        "SELECT STDDEV(age) FROM people",
    ),
    Refused(
        "SELECT SUM(DISTINCT age) FROM people",
        "DISTINCT is available in COUNT alone (line 1, column 8).",
        "Write COUNT(DISTINCT age).",
        "SELECT COUNT(DISTINCT age) FROM people",
    ),
    Refused(
        "SELECT COUNT(DISTINCT age, sex) FROM people",
        "COUNT(DISTINCT x) takes one expression (line 1, column 8).",
        "Write COUNT(DISTINCT CONCAT(age, '/', sex)).",
        "SELECT COUNT(DISTINCT CONCAT(age, '/', sex)) FROM people",
    ),
    Refused(
        "SELECT COUNT(DISTINCT income) FROM people",
        "COUNT(DISTINCT x) takes values that can be listed (line 1, column 8).",
        "Group the values first: write COUNT(DISTINCT FLOOR(income / 1000)).",
        "SELECT COUNT(DISTINCT FLOOR(income / 1000)) FROM people",
    ),
    Refused(
        "SELECT APPROX_QUANTILES(age, 4) FROM people",
        "APPROX_QUANTILES without a position gives the smallest and the largest value (line 1, column 8).",
        "Write APPROX_QUANTILES(age, 4)[OFFSET(2)], or QUANTILE_CONT(age, [0.25, 0.5, 0.75]).",
        "SELECT APPROX_QUANTILES(age, 4)[OFFSET(2)] FROM people",
    ),
    Refused(
        "SELECT QUANTILE_CONT(age, 1) FROM people",
        "The level of a quantile lies between 0 and 1, with at most four decimals (line 1, column 22).",
        "For the ends write 0.01 or 0.99.",
        "SELECT QUANTILE_CONT(age, 0.99) FROM people",
    ),
    Refused(
        "SELECT QUANTILE_CONT(age, 0.5 + 0.1) FROM people",
        "The level of a quantile is a number between 0 and 1 (line 1, column 22).",
        "Write QUANTILE_CONT(x, 0.5).",
        "SELECT QUANTILE_CONT(age, 0.5) FROM people",
    ),
    Refused(
        "SELECT PERCENTILE_CONT(1.5) WITHIN GROUP (ORDER BY age) FROM people",
        "The level of a quantile lies between 0 and 1, with at most four decimals (line 1, column 8).",
        "For the ends write 0.01 or 0.99.",
        "SELECT PERCENTILE_CONT(0.99) WITHIN GROUP (ORDER BY age) FROM people",
    ),
    Refused(
        "SELECT MODE() WITHIN GROUP (ORDER BY age) FROM people",
        "WITHIN GROUP takes PERCENTILE_CONT, not MODE (line 1, column 8).",
        "Write QUANTILE_CONT(x, 0.5).",
        "SELECT QUANTILE_CONT(age, 0.5) FROM people",
    ),
    Refused(
        "SELECT SUM(age ORDER BY income) FROM people",
        "This aggregate takes an expression alone (line 1, column 12).",
        "Write age without ORDER BY.",
        "SELECT SUM(age) FROM people",
    ),
    Refused(
        "SELECT AVG(region) FROM people",
        "AVG takes numbers, not text (line 1, column 12).",
        "Write COUNT(region).",
        "SELECT COUNT(region) FROM people",
    ),
    Refused(
        "SELECT SUM(NULL) FROM people",
        "This is always NULL (line 1, column 8).",
        "Aggregate a column, for example AVG(x).",
        "SELECT AVG(age) FROM people",
    ),
    Refused(
        "SELECT AVG(AVG(age)) FROM people",
        "An aggregate cannot contain another one (line 1, column 8).",
        "Use one of them: write AVG(age).",
        "SELECT AVG(age) FROM people",
    ),
    Refused(
        "SELECT AVG(age) OVER (PARTITION BY sex) FROM people",
        "Window functions depend on other rows, so that noise cannot protect a person (line 1, column 8).",
        "Use GROUP BY, and work with the released groups.",
        "SELECT AVG(age) FROM people GROUP BY sex",
    ),
    Refused(
        "SELECT ROW_NUMBER() OVER (ORDER BY age), COUNT(*) FROM people",
        "Window functions depend on other rows, so that noise cannot protect a person (line 1, column 8).",
        "Use GROUP BY, and work with the released groups.",
        "SELECT age, COUNT(*) FROM people GROUP BY age",
    ),
    Refused(
        "SELECT sex, COUNT(*) FROM people GROUP BY sex QUALIFY ROW_NUMBER() OVER (ORDER BY COUNT(*)) = 1",
        "QUALIFY filters by window functions, which depend on other rows (line 1, column 55).",
        "Use HAVING.",
        "SELECT sex, COUNT(*) FROM people GROUP BY sex HAVING COUNT(*) > 10",
    ),
    Refused(
        "SELECT COUNT(*) FROM people p JOIN cities c ON p.region = c.region",
        "JOIN cannot be answered: one table is protected (line 1, column 36).",
        "Join first, and declare the joined table's schema.",
    ),
    Refused(
        "SELECT COUNT(*) FROM people, cities",
        "JOIN cannot be answered: one table is protected (line 1, column 30).",
        "Join first, and declare the joined table's schema.",
    ),
    Refused(
        "SELECT COUNT(*) FROM people WHERE region IN (SELECT region FROM people)",
        "A subquery inside an expression cannot be answered (line 1, column 35).",
        "Write the values: region IN (…, …).",
        "SELECT COUNT(*) FROM people WHERE region IN ('north', 'south')",
    ),
    Refused(
        "SELECT COUNT(*) FROM people p WHERE EXISTS (SELECT 1 FROM people q WHERE q.age = p.age)",
        "A subquery inside an expression cannot be answered (line 1, column 52).",
        "Write the condition itself.",
    ),
    Refused(
        "SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people)",
        "A subquery inside an expression cannot be answered (line 1, column 49).",
        "Ask for its value first, and write it as a number.",
        "SELECT COUNT(*) FROM people WHERE age > 49.5",
    ),
    Refused(
        "SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM people GROUP BY region)",
        "A subquery computes columns of each row, no aggregates (line 1, column 63).",
        "Ask for the aggregates of the subquery, and go on from the answer.",
        "SELECT COUNT(*) AS n FROM people GROUP BY region",
    ),
    Refused(
        "SELECT COUNT(*) FROM (SELECT region FROM people LIMIT 10)",
        "LIMIT in a subquery depends on the order of the rows (line 1, column 55).",
        "Leave LIMIT out.",
        "SELECT COUNT(*) FROM (SELECT region FROM people)",
    ),
    Refused(
        "WITH RECURSIVE t AS (SELECT age FROM people) SELECT COUNT(*) FROM t",
        "A recursive query cannot be answered (line 1, column 16).",
        "Compute columns of each row only.",
    ),
    Refused(
        "SELECT COUNT(*) FROM people UNION ALL SELECT COUNT(*) FROM people",
        "UNION, INTERSECT and EXCEPT are not available (line 1, column 8).",
        "Give several queries as a list.",
    ),
    Refused(
        "SELECT COUNT(*) FROM people TABLESAMPLE (10 PERCENT)",
        "A random sample changes the guarantee (line 1, column 22).",
        "Ask about all rows; the noise does not grow with them.",
        "SELECT COUNT(*) FROM people",
    ),
    Refused(
        "SELECT COUNT(*) FROM people USING SAMPLE 10",
        "A random sample changes the guarantee (line 1, column 42).",
        "Ask about all rows; the noise does not grow with them.",
        "SELECT COUNT(*) FROM people",
    ),
    Refused(
        "SELECT COUNT(*) FROM read_csv('people.csv')",
        "FROM takes the name of the table (line 1, column 22).",
        "Write FROM people.",
        "SELECT COUNT(*) FROM people",
    ),
    Refused(
        "SELECT COUNT(*) FROM people WHERE RANDOM() < 0.5",
        "An answer may depend on the rows alone, not on chance or on the time (line 1, column 35).",
        "Write a constant instead.",
        "SELECT COUNT(*) FROM people WHERE 0.2 < 0.5",
    ),
    Refused(
        "SELECT COUNT(*) FROM people WHERE day > CURRENT_DATE",
        "An answer may depend on the rows alone, not on chance or on the time (line 1, column 35).",
        "Write a constant instead.",
        "SELECT COUNT(*) FROM people WHERE day > '2026-01-31'",
    ),
    Refused(
        "SELECT COUNT(*) FROM people WHERE NOW() > day",
        "An answer may depend on the rows alone, not on chance or on the time (line 1, column 35).",
        "Write a constant instead.",
        "SELECT COUNT(*) FROM people WHERE '2026-01-31' > day",
    ),
    Refused(
        "SELECT COUNT(*) FROM people WHERE day > DATE '2026-01-31' - INTERVAL 7 DAY",
        "Arithmetic with dates is not available (line 1, column 46).",
        "Compare with a constant date, or use EXTRACT and DATE_TRUNC.",
        "SELECT COUNT(*) FROM people WHERE day > DATE '2026-01-24'",
    ),
    Refused(
        "SELECT AVG(DATE_DIFF('day', day, DATE '2026-01-01')) FROM people",
        "Arithmetic with dates is not available (line 1, column 12).",
        "Compare with a constant date, or use EXTRACT and DATE_TRUNC.",
        "SELECT AVG(EXTRACT(doy FROM day)) FROM people",
    ),
    Refused(
        "SELECT AVG(income / age) FROM people",
        "This may divide by 0 (line 1, column 12).",
        "Write income / NULLIF(age, 0), which is NULL where age is 0.",
        "SELECT AVG(income / NULLIF(age, 0)) FROM people",
    ),
    Refused(
        "SELECT AVG(age % score) FROM people",
        "This may divide by 0 (line 1, column 12).",
        "Write age % NULLIF(score, 0), which is NULL where score is 0.",
        "SELECT AVG(age % NULLIF(score, 0)) FROM people",
    ),
    Refused(
        "SELECT AVG(age / income) FROM people",
        "The divisor may be 0, or arbitrarily close to it (line 1, column 12).",
        "Write age / GREATEST(income, 1).",
        "SELECT AVG(age / GREATEST(income, 1)) FROM people",
    ),
    Refused(
        "SELECT AVG(age / NULLIF(income, 0)) FROM people",
        "The divisor may come arbitrarily close to 0 (line 1, column 12).",
        "Write age / GREATEST(NULLIF(income, 0), 1).",
        "SELECT AVG(age / GREATEST(NULLIF(income, 0), 1)) FROM people",
    ),
    Refused(
        "SELECT AVG(LN(age)) FROM people",
        "LN is not defined for every value that its argument may take (line 1, column 12).",
        "Set a lower bound: write LN(GREATEST(age, 1)).",
        "SELECT AVG(LN(GREATEST(age, 1))) FROM people",
    ),
    Refused(
        "SELECT AVG(SQRT(score)) FROM people",
        "SQRT is not defined for every value that its argument may take (line 1, column 12).",
        "Set a lower bound: write SQRT(GREATEST(score, 1)).",
        "SELECT AVG(SQRT(GREATEST(score, 1))) FROM people",
    ),
    Refused(
        "SELECT AVG(income // 7) FROM people",
        "'//' takes whole numbers (line 1, column 12).",
        "Write FLOOR(income / 7).",
        "SELECT AVG(FLOOR(income / 7)) FROM people",
    ),
    Refused(
        "SELECT AVG(EXP(steps)) FROM people",
        "The values of this expression may become too large (line 1, column 12).",
        "Clamp an argument first: write LEAST(steps, 20) for steps.",
        "SELECT AVG(EXP(LEAST(steps, 20))) FROM people",
    ),
    Refused(
        "SELECT AVG(POWER(steps, 5)) FROM people",
        "The values of this expression may become too large (line 1, column 12).",
        "Clamp an argument first: write LEAST(steps, 20) for steps.",
        "SELECT AVG(POWER(LEAST(steps, 20), 5)) FROM people",
    ),
    Refused(
        "SELECT AVG(POWER(age, score)) FROM people",
        "POWER takes a constant whole exponent from 0 to 8 (line 1, column 12).",
        "Write POWER(age, 2), SQRT(age) or EXP(age).",
        "SELECT AVG(POWER(age, 2)) FROM people",
    ),
    Refused(
        "SELECT AVG(CAST(region AS INTEGER)) FROM people",
        "Not every declared value of this column is a number (line 1, column 17).",
        "Use CASE to give each value a number.",
        "SELECT region, AVG(CASE region WHEN 'north' THEN 1 ELSE 0 END) FROM people GROUP BY region",
    ),
    Refused(
        "SELECT AVG(CAST(age AS TINYINT) + CAST(steps AS TINYINT)) FROM people",
        "Values from 0 to 30,000 do not fit into TINYINT (line 1, column 40).",
        "Cast to BIGINT.",
        "SELECT AVG(CAST(age AS TINYINT) + CAST(steps AS BIGINT)) FROM people",
    ),
    Refused(
        "SELECT AVG(CAST(region AS BOOLEAN)) FROM people",
        "Text is not cast to BOOLEAN (line 1, column 17).",
        "Write a comparison, such as region = 'yes'.",
        "SELECT SUM(region = 'north') FROM people",
    ),
    Refused(
        "SELECT AVG(age + region) FROM people",
        "'+' takes numbers, not text (line 1, column 12).",
        "Compare text with =, IN or LIKE, or CAST it to a number.",
        "SELECT AVG(age) FROM people WHERE region = 'north'",
    ),
    Refused(
        "SELECT COUNT(*) FROM people WHERE age = 'old'",
        "This compares a number with a text (line 1, column 35).",
        "Compare values of one kind, or CAST one of them.",
        "SELECT COUNT(*) FROM people WHERE CAST(age AS VARCHAR) = 'old'",
    ),
    Refused(
        "SELECT COUNT(*) FROM people WHERE region = 'nort'",
        "Column 'region' has no value 'nort' (line 1, column 35).",
        "Did you mean 'north'?",
        "SELECT COUNT(*) FROM people WHERE region = 'north'",
    ),
    Refused(
        "SELECT COUNT(*) FROM people WHERE region IN ('north', 'Nowhere')",
        "Column 'region' has no value 'Nowhere' (line 1, column 35).",
        "Did you mean 'other'?",
        "SELECT COUNT(*) FROM people WHERE region IN ('north', 'other')",
    ),
    Refused(
        'SELECT COUNT(*) FROM people WHERE region = "north"',
        "There is no column 'north' (line 1, column 44).",
        (
            "Write text between single quotes: 'north'. Columns: region, sex, education, age, score, steps, "
            "income, balance, rate, employed, day."
        ),
        "SELECT COUNT(*) FROM people WHERE region = 'north'",
    ),
    Refused(
        "SELECT COUNT(*) FROM people WHERE education > 'master'",
        "Column 'education' has no value 'master' (line 1, column 35).",
        "Its values: 'none', 'primary', 'secondary', 'degree'.",
        "SELECT COUNT(*) FROM people WHERE education > 'secondary'",
    ),
    Refused(
        "SELECT COUNT(*) FROM people WHERE ages > 18",
        "There is no column 'ages' (line 1, column 35).",
        "Did you mean 'age'?",
        "SELECT COUNT(*) FROM people WHERE age > 18",
    ),
    Refused(
        "SELECT COUNT(*) FROM people WHERE p.age > 18",
        "There is no table 'p' here (line 1, column 35).",
        "Write people.age, or age alone.",
        "SELECT COUNT(*) FROM people WHERE people.age > 18",
    ),
    Refused(
        "SELECT COUNT(*) FROM people WHERE age",
        "WHERE takes a condition (line 1, column 35).",
        "Write a comparison, such as age >= 18.",
        "SELECT COUNT(*) FROM people WHERE age >= 18",
    ),
    Refused(
        "SELECT COUNT(*) FROM people WHERE COUNT(*) > 3",
        "WHERE, GROUP BY and aggregates take values of rows, not aggregates (line 1, column 35).",
        "Use HAVING for conditions on them.",
        "SELECT COUNT(*) FROM people HAVING COUNT(*) > 3",
    ),
    Refused(
        "SELECT COUNT(*) AS n FROM people WHERE n > 3",
        "'n' is an aggregate, which rows do not have (line 1, column 40).",
        "Use HAVING for conditions on it.",
        "SELECT COUNT(*) AS n FROM people HAVING n > 3",
    ),
    Refused(
        "SELECT COUNT(*) FROM people WHERE region ~ '^n'",
        "Regular expressions are not available (line 1, column 35).",
        "Use LIKE: write region LIKE 'a%'.",
        "SELECT COUNT(*) FROM people WHERE region LIKE 'n%'",
    ),
    Refused(
        "SELECT COUNT(*) FROM people WHERE REGEXP_MATCHES(region, 'n.*')",
        "Regular expressions are not available (line 1, column 35).",
        "Use LIKE: write region LIKE 'a%'.",
        "SELECT COUNT(*) FROM people WHERE region LIKE 'n%'",
    ),
    Refused(
        "SELECT COUNT(*) FROM people WHERE region LIKE sex",
        "LIKE takes one constant pattern (line 1, column 35).",
        "Write region LIKE 'a%' OR region LIKE 'b%'.",
        "SELECT COUNT(*) FROM people WHERE region LIKE 'f%' OR region LIKE 'm%'",
    ),
    Refused(
        "SELECT COUNT(*) FROM people WHERE age BETWEEN SYMMETRIC 60 AND 18",
        "BETWEEN with SYMMETRIC is not available (line 1, column 35).",
        "Write BETWEEN without it.",
        "SELECT COUNT(*) FROM people WHERE age BETWEEN 18 AND 60",
    ),
    Refused(
        "SELECT COUNT(*) FROM people WHERE age = ?",
        "Parameters are not available (line 1, column 35).",
        "Write the value into the query.",
        "SELECT COUNT(*) FROM people WHERE age = 40",
    ),
    Refused(
        "SELECT COUNT(*) FROM people WHERE age > 0x12",
        "A name cannot follow a number without a space (line 1, column 42).",
        "Write numbers in digits.",
        "SELECT COUNT(*) FROM people WHERE age > 18",
    ),
    Refused(
        "SELECT region, age FROM people GROUP BY region",
        "age is neither an aggregate nor in GROUP BY (line 1, column 16).",
        "Add age to GROUP BY, or aggregate it, for example AVG(age).",
        "SELECT region, AVG(age) FROM people GROUP BY region",
    ),
    Refused(
        "SELECT region, age, COUNT(*) FROM people GROUP BY region",
        "age is neither an aggregate nor in GROUP BY (line 1, column 16).",
        "Add age to GROUP BY, or aggregate it, for example AVG(age).",
        "SELECT region, age, COUNT(*) FROM people GROUP BY region, age",
    ),
    Refused(
        "SELECT region, COUNT(*) FROM people GROUP BY 3",
        "There is no column 3 in the SELECT (line 1, column 46).",
        "Count from 1, or write the expression.",
        "SELECT region, COUNT(*) FROM people GROUP BY 1",
    ),
    Refused(
        "SELECT COUNT(*) FROM people GROUP BY COUNT(*)",
        "GROUP BY takes values of rows, not aggregates (line 1, column 38).",
        "Use HAVING for conditions on aggregates.",
        "SELECT COUNT(*) FROM people GROUP BY sex HAVING COUNT(*) > 10",
    ),
    Refused(
        "SELECT income / 3 AS third, COUNT(*) FROM people GROUP BY third",
        "The values of this key cannot be listed (line 1, column 8).",
        "Bin them: write FLOOR(income / 3 / 1000), or use CASE.",
        "SELECT FLOOR(income / 3 / 1000) AS third, COUNT(*) FROM people GROUP BY third",
    ),
    Refused(
        "SELECT steps, age, score, COUNT(*) FROM people GROUP BY steps, age, score",
        ("Grouping by steps, age, score gives 129,008,600 groups, each of which is answered (line 1, column 57)."),
        (
            "Bin steps, for example FLOOR(steps / 100), or list the groups that you want in 'groups'; "
            "at most 16,777,216 groups."
        ),
        ("SELECT FLOOR(steps / 10000) AS s, FLOOR(age / 10) AS a, score, COUNT(*) FROM people GROUP BY s, a, score"),
    ),
    Refused(
        "SELECT region, COUNT(*) FROM people GROUP BY region HAVING age > 3",
        "age is neither an aggregate nor in GROUP BY (line 1, column 60).",
        "Add age to GROUP BY, or aggregate it, for example AVG(age).",
        "SELECT region, COUNT(*) FROM people GROUP BY region HAVING AVG(age) > 3",
    ),
    Refused(
        "SELECT income, COUNT(*) FROM people GROUP BY income HAVING income > 1000",
        "'income' is a range of numbers in the answer (line 1, column 60).",
        "Write the condition into WHERE, or GROUP BY FLOOR(income / 1000).",
        "SELECT income, COUNT(*) FROM people WHERE income > 1000 GROUP BY income",
    ),
    Refused(
        "SELECT GROUPING(sex), COUNT(*) FROM people GROUP BY ROLLUP (region)",
        "GROUPING takes keys of GROUP BY (line 1, column 8).",
        "Write GROUPING(x) with GROUP BY ROLLUP (x).",
        "SELECT GROUPING(region), COUNT(*) FROM people GROUP BY ROLLUP (region)",
    ),
    Refused(
        "SELECT COUNT(*) FROM people WHERE GROUPING(sex) = 1 GROUP BY ROLLUP (sex)",
        "GROUPING is not available for values of rows (line 1, column 35).",
        "Use HAVING GROUPING(x) = 1.",
        "SELECT COUNT(*) FROM people GROUP BY ROLLUP (sex) HAVING GROUPING(sex) = 1",
    ),
    Refused(
        "SELECT region, COUNT(*) FROM people GROUP BY region LIMIT 2 OFFSET 1",
        "OFFSET is not available (line 1, column 68).",
        "Use LIMIT, or skip rows of the answer.",
        "SELECT region, COUNT(*) FROM people GROUP BY region LIMIT 2",
    ),
    Refused(
        "SELECT region, QUANTILE_CONT(age, [0.1, 0.9]) AS q FROM people GROUP BY region ORDER BY q",
        "Several quantiles at once make several columns (line 1, column 30).",
        "Ask for one quantile here.",
        (
            "SELECT region, QUANTILE_CONT(age, [0.1, 0.9]) AS q FROM people GROUP BY region ORDER BY "
            "QUANTILE_CONT(age, 0.1)"
        ),
    ),
    Refused(
        "SELECT QUANTILE_CONT(age, [0.1, 0.9]) + 1 FROM people",
        "Several quantiles at once make several columns (line 1, column 22).",
        "Ask for one quantile here.",
        "SELECT QUANTILE_CONT(age, 0.1) + 1, QUANTILE_CONT(age, 0.9) + 1 FROM people",
    ),
    Refused(
        "SELECT COUNT(*)",
        "The query has no FROM (line 1, column 8).",
        "Write FROM people, or any other name for the table.",
        "SELECT COUNT(*) FROM people",
    ),
    Refused(
        "SELECT COUNT(*) FROM people WHERE",
        "This is not valid SQL (line 1, column 33).",
        "Write SELECT … FROM people [WHERE …] [GROUP BY …].",
        "SELECT COUNT(*) FROM people WHERE age > 18",
    ),
    Refused(
        "SELEC COUNT(*) FROM people",
        "A query begins with SELECT (line 1, column 1).",
        "Write SELECT … FROM people [WHERE …] [GROUP BY …].",
        "SELECT COUNT(*) FROM people",
    ),
    Refused(
        "DROP TABLE people",
        "A query begins with SELECT (line 1, column 1).",
        "Write SELECT … FROM people [WHERE …] [GROUP BY …].",
    ),
    Refused(
        "SELECT COUNT(*) FROM people; DROP TABLE people",
        "A query is one statement (line 1, column 30).",
        "Give several queries as a list.",
    ),
    Refused(
        "INSERT INTO people VALUES (1)",
        "A query begins with SELECT (line 1, column 1).",
        "Write SELECT … FROM people [WHERE …] [GROUP BY …].",
    ),
    Refused(
        "EXPLAIN SELECT COUNT(*) FROM people",
        "A query begins with SELECT (line 1, column 1).",
        "Write SELECT … FROM people [WHERE …] [GROUP BY …].",
        "SELECT COUNT(*) FROM people",
    ),
    Refused(
        "SELECT COUNT(*) INTO t FROM people",
        "A query cannot write a table (line 1, column 22).",
        "Leave INTO out.",
        "SELECT COUNT(*) FROM people",
    ),
    Refused(
        "SELECT REGEXP_REPLACE(region, 'n', 'm') AS r, COUNT(*) FROM people GROUP BY r",
        "REGEXP_REPLACE is not available for values of rows (line 1, column 8).",
        (
            "Row-wise functions: + - * / // %, CASE, COALESCE, NULLIF, LEAST, GREATEST, ABS, ROUND, FLOOR, CEIL, "
            "SQRT, LN, EXP, POWER, CAST, LIKE, UPPER, LOWER, SUBSTRING, EXTRACT, DATE_TRUNC."
        ),
        "SELECT REPLACE(region, 'n', 'm') AS r, COUNT(*) FROM people GROUP BY r",
    ),
    Refused(
        "SELECT FOO(age) AS f, COUNT(*) FROM people GROUP BY f",
        "FOO is not available for values of rows (line 1, column 8).",
        (
            "Row-wise functions: + - * / // %, CASE, COALESCE, NULLIF, LEAST, GREATEST, ABS, ROUND, FLOOR, CEIL, "
            "SQRT, LN, EXP, POWER, CAST, LIKE, UPPER, LOWER, SUBSTRING, EXTRACT, DATE_TRUNC."
        ),
    ),
    Refused(
        "SELECT AVG(age) FROM (SELECT *, age + 1 AS age FROM people)",
        "The subquery has two columns 'age' (line 1, column 30).",
        "Write SELECT * REPLACE (… AS age).",
        "SELECT AVG(age) FROM (SELECT * REPLACE (age + 1 AS age) FROM people)",
    ),
    Refused(
        "SELECT AVG(z) FROM (SELECT age + 1 FROM people)",
        "A computed column of a subquery needs a name (line 1, column 28).",
        "Write (expression) AS name.",
        "SELECT AVG(z) FROM (SELECT (age + 1) AS z FROM people)",
    ),
    Refused(
        "SELECT AVG(income) FROM (SELECT age FROM people)",
        "The subquery has no column 'income' (line 1, column 12).",
        "Columns: age.",
        "SELECT AVG(age) FROM (SELECT age FROM people)",
    ),
    Refused(
        "SELECT SIN(AVG(age)) FROM people",
        "SIN cannot be computed from released values (line 1, column 8).",
        "Use + - * /, comparisons, CASE, ROUND, ABS, SQRT or COALESCE, or compute it from the answer.",
    ),
    Refused(
        "SELECT COUNT(*) FROM people PIVOT (COUNT(*) FOR sex IN ('f', 'm'))",
        "PIVOT is not available (line 1, column 22).",
        "Use GROUP BY, and pivot the answer.",
        "SELECT sex, COUNT(*) FROM people GROUP BY sex",
    ),
    Refused(
        "SELECT CASE WHEN age > 3 THEN 'a' ELSE 3 END AS x, COUNT(*) FROM people GROUP BY x",
        "One expression gives number and text values (line 1, column 18).",
        "Let every branch give values of one kind; CAST turns one into another.",
        "SELECT CASE WHEN age > 3 THEN 'a' ELSE CAST(3 AS VARCHAR) END AS x, COUNT(*) FROM people GROUP BY x",
    ),
]
