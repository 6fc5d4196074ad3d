"""Many prompts: a hundred or ten million, on one machine or many.

job.py        what is asked of whom; `run` and `answers`
runner.py     one run of a job; via_batch.py one over a vendor's batch API
ledger.py     which rows that was handed
rows.py       rows of JSONL, CSV, Parquet or any iterable; forms.py makes requests of them
answers.py    what becomes of a row
journal/      what has been answered, kept through every kind of end
limits/       how many calls at a time, and how fast
spending.py   the limits of what a run may cost
tally.py      the state of a run, and its report
"""

import logging

from swink_batch.answers import Answer, Failed
from swink_batch.job import Job, answers, run
from swink_batch.tally import Tally

__all__ = ["Answer", "Failed", "Job", "Tally", "answers", "run"]

logging.getLogger(__name__).addHandler(logging.NullHandler())  # who wants the log says so
