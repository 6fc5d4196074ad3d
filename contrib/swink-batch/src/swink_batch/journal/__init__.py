"""The journal: stores the answered rows durably, so that none is lost or sent twice."""

from swink_batch.journal.engines import Engine, FileEngine, SQLiteEngine, engine_of
from swink_batch.journal.index import Index
from swink_batch.journal.journal import Journal, Kept

__all__ = ["Engine", "FileEngine", "Index", "Journal", "Kept", "SQLiteEngine", "engine_of"]
