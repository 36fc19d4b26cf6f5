"""A small schema and plan, with comments, for tests of the studio."""

SCHEMA = """\
[[attribute]]
name = "region"
kind = "categorical"
values = ["north", "south"]
[[attribute]]
name = "age"
kind = "integer"
low = 0
high = 99
[[attribute]]
name = "sick"
kind = "boolean"
"""
PLAN = """\
# Our plan; keep this.
[table]
source = "people.csv"
schema = "schema.toml"
rows = 2000

[budget]
ledger = "ledger.db"
per_attribute = { cdp = 0.5 }  # agreed in May
person = { rho = 1.0 }

# the first question
[[release]]
name = "ages"
mechanism = "NoisyMarginals"
sets = [["age"]]
budget = { cdp = 0.2 }  # small

[[release]]
name = "means"
mechanism = "Statistics"
by = ["region"]
mean = ["age"]
budget = { cdp = 0.2 }

[[adversary]]
name = "an employer"
attributes = ["sick", "age"]
"""
