"""Place embedding tables on ranks: the cost of plans, and a search for better ones.

`run.py` takes the request, fills the relations of `reference` with tables, costs and
placements, and answers by `question.sharding`. `tables.py` reads tables, `costs.py`
queries the kernel models, `cuts.py` decides which tables to split, `plans.py` places
shards by rules, and `search.py` improves plans.
"""
