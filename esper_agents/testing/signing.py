"""Signatures of thinking blocks, valid for one text after one prompt."""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode

# One key for all servers, because a conversation may continue with another one.
_KEY = b"esper-agents scripted Messages API server"
_MAC_BYTES = 32


def signature_of(thinking: str, prompt: bytes) -> str:
    """Return the signature of a thinking block after the prompt with this digest."""
    return b64encode(_mac(thinking, prompt) + prompt).decode()


def prompt_of(thinking: str, signature: str) -> bytes | None:
    """Return the digest of the prompt that a block was generated for, or None if the signature is not valid."""
    try:
        taken = b64decode(signature, validate=True)
    except ValueError:
        return None
    mac, prompt = taken[:_MAC_BYTES], taken[_MAC_BYTES:]
    return prompt if hmac.compare_digest(mac, _mac(thinking, prompt)) else None


def _mac(thinking: str, prompt: bytes) -> bytes:
    return hmac.digest(_KEY, prompt + thinking.encode("utf-8", "surrogatepass"), "sha256")
