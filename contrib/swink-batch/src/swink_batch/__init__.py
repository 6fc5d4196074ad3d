"""Answer many prompts: a hundred or ten million, on one machine or many.

The modules and packages:

    job.py        runs a job; `run` and `answers` are the public functions
    settings.py   models, prompts and limits of a job
    runner.py     one run of a job; via_batch.py is a run through a vendor's batch API
    ledger.py     records which rows were submitted to a batch API
    rows.py       reads rows from JSONL, CSV, Parquet or any iterable
    forms.py      converts rows to requests
    answers.py    the result of a row
    journal/      stores results so that a crash loses none
    limits/       limits the number of concurrent calls and the rate of new calls
    spending.py   spending limits
    tally.py      the state of a run, and its report
"""

import logging

from swink_batch.answers import Answer, Failed
from swink_batch.job import Job, answers, run
from swink_batch.tally import Tally

__all__ = ["Answer", "Failed", "Job", "Tally", "answers", "run"]

logging.getLogger(__name__).addHandler(logging.NullHandler())  # applications configure logging
