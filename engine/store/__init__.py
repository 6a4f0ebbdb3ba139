"""The store: one DuckDB file, written by one process and read by many."""

from .connection import reading, writing
from .journal import Generation, Journal
from .rows import insert, transaction

__all__ = ["Generation", "Journal", "insert", "reading", "transaction", "writing"]
