"""SHA-256 without `hashlib`, which loads OpenSSL: 6 ms of every command for digests of a few kilobytes."""

from __future__ import annotations

try:
    from _sha256 import sha256  # Python 3.11
except ImportError:
    try:
        from _sha2 import sha256  # type: ignore[no-redef]
    except ImportError:
        from hashlib import sha256  # type: ignore[assignment]

__all__ = ["sha256"]
