"""A lake: Parquet files of many runs and ranks, made file by file by many workers.

    from tracedb import lake

    lake.ingest(["traces/"], "fleet", lake.Local(workers=8))
    with tracedb.open("fleet/run=job1/rank=3") as db:
        db.ask("idle_share")

Each file is ingested alone, into a database of its own (`worker.py`), whose rows become
a folder `run=.../rank=.../trace=...` of Parquet files; that counts once the manifest
(`manifest.py`) says so. All of it lies in a folder, or in an object store
(`storage.py`). Who has the workers work is a runner: processes of this machine
(`local.py`) or Spark (`spark.py`). `reading.py` opens chosen traces as a database,
`questions.py` asks about all of them, `job.py` for the critical path of jobs.
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
