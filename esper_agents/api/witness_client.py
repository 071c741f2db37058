"""Ask a witness for a cosignature over HTTP, by `add-checkpoint` of C2SP tlog-witness."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future
from hashlib import sha256
from http.client import HTTPException
from threading import Thread
from typing import TYPE_CHECKING
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from esper_agents.api.witnesses import demanded_witnesses, publish_log
from esper_agents.archive.publishing import write_published
from esper_agents.archive.witnessing import CHECKPOINT_SUFFIX
from esper_agents.certificates.log.cosignature import cosignature_of, cosigner_hash
from esper_agents.certificates.log.note import read_note, signature_line
from esper_agents.certificates.log.witness_request import read_request, write_request
from esper_agents.errors import EvidenceError, IntegrityError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from http.client import HTTPMessage, HTTPResponse
    from pathlib import Path
    from typing import IO

    from esper_agents.archive.witnessing import LogPublication
    from esper_agents.certificates.log.cosignature import Witness
    from esper_agents.certificates.log.note import NoteSignature, SignedNote
    from esper_agents.certificates.log.witness_request import WitnessRequest

_MOST_BYTES = 64 * 2**10
# For one operation of the network, and for the whole answer: a slow witness must not hold the caller.
_TIMEOUT_S, _PATIENCE_S = 10.0, 30.0
_LOCAL = frozenset(("localhost", "127.0.0.1", "::1"))
_DONE, _OTHER_SIZE = 200, 409
_MOST_DIGITS = 18
_REASONS = {
    400: "it cannot read the request",
    403: "it does not know the key of the log",
    404: "it does not know the log",
    422: "it refuses the consistency proof: it has seen another log under this name",
}


async def request_cosignature(url: str, given: Iterable[str], where: str | Path) -> LogPublication:
    """Publish the newest checkpoint of a log with the cosignature of a witness, which is asked over HTTP.

    Only lines with a valid cosignature of a demanded witness are stored. No redirect is followed.

    Args:
        url: Prefix of the witness; `add-checkpoint` is added. HTTPS, unless it is on this machine.
        given: Keys of witnesses; see `demanded_witnesses`.
        where: A path in the project.

    Raises:
        UsageError: The URL or a key is not valid, no key is known, or the project has no log.
        EvidenceError: The witness did not answer in time, refused, or did not sign.
        IntegrityError: The log has fewer or other entries than the witness has seen.
    """
    address = _address(url)
    witnesses = demanded_witnesses(given, where)
    if not witnesses:
        raise UsageError("no key of a witness is known", remedy="name it: --require-witness KEY")
    published = await publish_log(where)
    known = max((each.checkpoint.size for each in published.cosigned if _is_by(each.note, witnesses)), default=0)
    request = _request(published, known)
    status, body = await _post(address, request)
    if status == _OTHER_SIZE:
        size = _size(body)
        if size > published.size:
            raise IntegrityError(
                f"the witness has seen {size} entries of the log, which has {published.size}",
                remedy="restore the newer database; do not publish this log",
            )
        request = _request(await publish_log(where, (size,)), size)
        status, body = await _post(address, request)
    if status != _DONE:
        why = _REASONS.get(status, f"HTTP status {status}")
        raise EvidenceError(f"the witness did not cosign: {why}", remedy="ask the witness to add the log and its key")
    witness = _cosigner(request, body, witnesses)
    name = f"{sha256(witness.public_key).hexdigest()[:16]}{CHECKPOINT_SUFFIX}"
    write_published(published.folder / name, _cosigned(request, body, witness).encode())
    return await publish_log(where)


def _address(url: str) -> str:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        parts = urlsplit("")
    is_plain = url.isascii() and url.isprintable() and " " not in url
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOCAL)
    if not is_plain or not is_safe or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise UsageError(f"{url[:200]!r} is not the URL of a witness", remedy="write it as https://HOST/PATH")
    return f"{url.rstrip('/')}/add-checkpoint"


def _is_by(note: SignedNote, witnesses: Iterable[Witness]) -> bool:
    try:
        return any(cosignature_of(note, witness) is not None for witness in witnesses)
    except IntegrityError:
        return False


def _request(published: LogPublication, size: int) -> WitnessRequest:
    for path in published.requests:
        request = read_request(path.read_bytes())
        if request.old == size:
            return request
    raise EvidenceError(f"no request starts from {size} entries", remedy="run `esper log publish` again")


def _size(body: bytes) -> int:
    text = body.decode("ascii", "replace").strip()
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        raise EvidenceError("the witness answered without the size that it has seen", remedy="ask its operator")
    return int(text)


def _answered(request: WitnessRequest, body: bytes) -> SignedNote:
    return read_note(f"{request.signed.text}\n{body.decode('utf-8')}")


def _line_of(note: SignedNote, witness: Witness) -> NoteSignature:
    wanted = (witness.name, cosigner_hash(witness))
    return next(each for each in note.signatures if (each.name, each.key_hash) == wanted)


def _cosigned(request: WitnessRequest, body: bytes, witness: Witness) -> str:
    """Return the published checkpoint with only the signature line of a witness from its answer."""
    return f"{request.note}{signature_line(_line_of(_answered(request, body), witness))}"


def _cosigner(request: WitnessRequest, body: bytes, witnesses: Iterable[Witness]) -> Witness:
    """Return the demanded witness whose valid cosignature an answer has.

    Raises:
        EvidenceError: There is none.
    """
    try:
        answered = _answered(request, body)
        for witness in witnesses:
            # The answer may continue the text before it signs: only the note that will be stored counts.
            if cosignature_of(answered, witness) is not None and cosignature_of(
                read_note(_cosigned(request, body, witness)), witness
            ):
                return witness
    except (IntegrityError, UnicodeDecodeError) as error:
        raise EvidenceError("the answer of the witness is not a cosignature", remedy="ask its operator") from error
    raise EvidenceError("no demanded witness signed the answer", remedy="compare the key of --require-witness with it")


class _NoRedirects(HTTPRedirectHandler):
    """Answers a redirect as an error: another host must not get the request."""

    def redirect_request(  # noqa: PLR0917 - the signature of the standard library
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        """Return no further request."""
        del req, fp, code, msg, headers, newurl


async def _post(address: str, request: WitnessRequest) -> tuple[int, bytes]:
    """Return status and body of the answer to a request.

    Raises:
        EvidenceError: There is no answer in time, or it is too long.
    """
    data = write_request(request.old, request.hashes, request.note).encode()
    answer: Future[tuple[int, bytes]] = Future()
    answer.set_running_or_notify_cancel()
    # A daemon thread, because timeouts of sockets hold for one operation each, and a pool would wait for it at exit.
    Thread(target=_deliver, args=(answer, address, data), name="esper-witness", daemon=True).start()
    try:
        return await asyncio.wait_for(asyncio.wrap_future(answer), _PATIENCE_S)
    except TimeoutError as error:
        raise EvidenceError("the witness answers too slowly", remedy="try again later") from error


def _deliver(answer: Future[tuple[int, bytes]], address: str, data: bytes) -> None:
    try:
        answer.set_result(_exchange(address, data))
    except BaseException as error:  # noqa: BLE001 - the boundary of the thread; the caller raises it
        answer.set_exception(error)


def _exchange(address: str, data: bytes) -> tuple[int, bytes]:
    deadline = time.monotonic() + _PATIENCE_S
    asked = Request(address, data, {"content-type": "text/plain; charset=utf-8"}, method="POST")  # noqa: S310 - checked
    try:
        try:
            answer = build_opener(_NoRedirects).open(asked, timeout=_TIMEOUT_S)
        except HTTPError as error:
            answer = error
        with answer:
            return int(answer.status), _body(answer, deadline)
    except (URLError, HTTPException, OSError, UnicodeError) as error:
        why = str(getattr(error, "reason", "") or str(error) or type(error).__name__)[:200]
        raise EvidenceError(
            f"the witness does not answer: {why}", remedy="check the URL, or try again later"
        ) from error


def _body(answer: HTTPResponse | HTTPError, deadline: float) -> bytes:
    data = b""
    while part := answer.read1(1024):
        data += part
        if len(data) > _MOST_BYTES:
            raise EvidenceError(f"the witness answered with more than {_MOST_BYTES} bytes", remedy="ask its operator")
        if time.monotonic() > deadline:
            raise EvidenceError("the witness answers too slowly", remedy="try again later")
    return data
