"""Keys made from content: the same content has the same key on every machine and at any time."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def canonical(value: Any) -> bytes:
    """Compact JSON with sorted keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def key(*parts: Any) -> str:
    """The first 64 bits of a SHA-256 over the parts, as 16 hexadecimal digits."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part if isinstance(part, bytes) else canonical(part))
        digest.update(b"\0")
    return digest.hexdigest()[:16]
