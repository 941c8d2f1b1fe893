"""What is known of who has signed a file."""

from __future__ import annotations


class SignedLength(int):
    """A plaintext's length in bytes, and who has signed it: what :func:`phalanx.verify` returns with ``signers``."""

    signer: str
    """The signer's name in the file of signers."""

    def __new__(cls, length: int, signer: str) -> SignedLength:
        self = super().__new__(cls, length)
        self.signer = signer
        return self

    def __getnewargs__(self) -> tuple[int, str]:  # type: ignore[override]
        return (int(self), self.signer)
