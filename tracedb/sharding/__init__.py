"""Embedding tables over ranks: what each plan costs, and a search for a better one.

`run.py` says what is asked for, fills the relations of `reference` with tables, costs
and placements, and asks `question.sharding`; `tables.py` reads tables, `costs.py` asks
the kernel models, `cuts.py` decides which tables are split, `plans.py` places shards by
rules, `search.py` improves that.
"""
