"""The journal: what has been answered, kept so that nothing is lost and nothing is asked twice."""

from swink_batch.journal.engines import Engine, FileEngine, SQLiteEngine, engine_of
from swink_batch.journal.index import Index
from swink_batch.journal.journal import Journal, Kept

__all__ = ["Engine", "FileEngine", "Index", "Journal", "Kept", "SQLiteEngine", "engine_of"]
