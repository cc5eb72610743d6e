"""SHA-256 without `hashlib`, which loads OpenSSL: 6 ms of every command for digests of a few kilobytes."""

from __future__ import annotations

from rlspec.dsl.annotations import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import sha256
else:
    try:
        from _sha256 import sha256  # Python 3.11
    except ImportError:
        try:
            from _sha2 import sha256
        except ImportError:
            from hashlib import sha256

__all__ = ["sha256"]
