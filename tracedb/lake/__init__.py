"""A lake: Parquet files of many runs and ranks, written file by file by many workers.

    from tracedb import lake

    lake.ingest(["traces/"], "fleet", lake.Local(workers=8))
    with tracedb.open("fleet/run=job1/rank=3") as db:
        db.ask("idle_share")

A worker ingests each file into its own database (`worker.py`), whose rows become a
folder `run=.../rank=.../trace=...` of Parquet files. The folder is part of the lake
once the manifest lists it (`manifest.py`). A lake is in a folder or in an object store
(`storage.py`). A runner starts the workers: local processes (`local.py`) or Spark
(`spark.py`). `reading.py` opens selected traces as a database, `questions.py` answers
questions about all of them, and `job.py` computes the critical path of jobs.
"""

from tracedb.lake.filling import ingest
from tracedb.lake.job import critical_path, path_stretches
from tracedb.lake.local import Local
from tracedb.lake.manifest import Entry, Failure, Manifest
from tracedb.lake.place import Place, find_place, place_of
from tracedb.lake.questions import ask, needs, questions
from tracedb.lake.reading import info, opened
from tracedb.lake.spark import Spark
from tracedb.lake.worker import OUTCOMES

__all__ = [
    "OUTCOMES",
    "Entry",
    "Failure",
    "Local",
    "Manifest",
    "Place",
    "Spark",
    "ask",
    "critical_path",
    "find_place",
    "info",
    "ingest",
    "needs",
    "opened",
    "path_stretches",
    "place_of",
    "questions",
]
