"""The engine: one relation a file, in folders that are the stages of the pipeline.

| folder | schema | holds |
| --- | --- | --- |
| 10_raw | raw | what the loaders read, as the profiler wrote it |
| 15_reference | reference | what commands put in: devices, lessons, estimates |
| 20_staging | staging | typed events, one set of words and units; sole reader of raw |
| 30_graph | graph | nodes, and edges that say what had to be over before what |
| 40_overhead | overhead | host time by overhead type T1..T5, waits and idle time |
| 50_prediction | prediction | kernel times, overheads and delays to predict with |
| 55_simulation | simulation | when all of it happens, as predicted |
| 60_critical_path | critical_path | what bounds a step: paths, idle time, slack |
| 70_question | question | one view a question: what the command line asks |

`CREATE VIEW` is computed when read; `CREATE TABLE ... AS` when a trace is ingested;
`CREATE MACRO ... AS TABLE` when it is read with the values that it takes. `CREATE MACRO
... AS (...)` is a rule that several relations follow. `public.toml` lists the relations
that users may rely on.
"""
