"""Zip archives whose members are read with limits, and exchanged while all others stay as they are."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from copy import copy
from pathlib import Path
from typing import Final, Self, final

from heedful.errors import DataError
from heedful.localisation.encodings import read_bytes

_OLE: Final = bytes.fromhex("d0cf11e0a1b11ae1")
"""How files of Microsoft's older formats begin, and OOXML that is encrypted."""
_ENCRYPTED: Final = 0x1
"""The flag of a member that needs a password (APPNOTE 4.4.4)."""
_ZIP64: Final = 0x0001
"""The extra field that says sizes again (APPNOTE 4.5.3); they are written anew."""
_METHODS: Final = frozenset((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
"""Those that office documents may use."""
_DENSEST: Final = 200
"""How many times as large a text may be when it is unpacked; letters become 10 to 50 times as large."""
_SMALL: Final = 1 << 20
"""Bytes of a text that may be packed as densely as it likes."""
MOST_MEMBERS: Final = 20_000
MOST_BYTES: Final = 1 << 29
"""Of all members together, unpacked."""


@final
class Archive:
    """The members of a zip by their names; https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT.

    Args:
        data: the file.
        path: where it is, for messages.

    Raises:
        DataError: it is no zip, damaged, encrypted, too large, or compressed in a way that office documents are not.
    """

    def __init__(self, data: bytes, path: Path) -> None:
        self.data = data
        self.path = path
        if data.startswith(_OLE):
            raise DataError(
                f"{path}: is encrypted, or a file of an older format with another ending; save it anew, without a "
                "password"
            )
        try:
            self._file = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, EOFError, struct.error, NotImplementedError) as error:
            raise self._damaged(error) from None
        self._members = {member.filename: member for member in self._file.infolist()}
        self._judge()

    @classmethod
    def read(cls, path: Path) -> Self:
        """The archive in a file."""
        if path.is_file() and path.stat().st_size > MOST_BYTES:
            raise DataError(
                f"{path}: is larger than {MOST_BYTES >> 20} MiB; take pictures and films out, and try again"
            )
        return cls(read_bytes(path), path)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def member(self, name: str) -> bytes:
        """What a member holds that is text.

        Raises:
            DataError: it is not there, damaged, or one text again and again.
        """
        if name not in self._members:
            raise DataError(f"{self.path}: has no {name}; is it what its ending says? save it anew and try again")
        member = self._members[name]
        if member.file_size > max(_SMALL, _DENSEST * member.compress_size):
            raise DataError(
                f"{self.path}: {name} unpacks to more than {_DENSEST} times its size, which no letter does; "
                "is it meant to harm?"
            )
        return self._read(name)

    def _read(self, name: str) -> bytes:
        try:
            return self._file.read(self._members[name])
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, struct.error, NotImplementedError) as error:
            raise self._damaged(error) from None

    def replaced(self, contents: Mapping[str, bytes]) -> bytes:
        """The archive with other contents of some members.

        All keep order, name, date, method, rights and comment; what is not replaced is the same when it is unpacked.
        """
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w") as file:
            file.comment = self._file.comment
            for name, member in self._members.items():
                again = copy(member)
                again.extra = _without(member.extra, _ZIP64)
                data = contents[name] if name in contents else self._read(name)
                file.writestr(again, data)
                again.external_attr = member.external_attr  # where it has none, zipfile thinks of some
        return written.getvalue()

    def _judge(self) -> None:
        members = self._file.infolist()
        if len(members) > MOST_MEMBERS:
            raise DataError(f"{self.path}: has {len(members):,} members, and {MOST_MEMBERS:,} at most are read")
        if len(self._members) < len(members):
            raise DataError(f"{self.path}: has two members of one name; save it anew and try again")
        if sum(member.file_size for member in members) > MOST_BYTES:
            raise DataError(
                f"{self.path}: unpacks to more than {MOST_BYTES >> 20} MiB, which no letter does; is it meant to harm?"
            )
        for member in members:
            if member.flag_bits & _ENCRYPTED:
                raise DataError(f"{self.path}: is encrypted; save it without a password and try again")
            if member.compress_type not in _METHODS:
                raise DataError(
                    f"{self.path}: {member.filename} is compressed by method {member.compress_type}, and 0 or 8 is "
                    "needed; save it anew and try again"
                )

    def _damaged(self, error: Exception) -> DataError:
        return DataError(f"{self.path}: no zip, or a damaged one ({error}); fetch it again, or save it anew")


def _without(extra: bytes, kind: int) -> bytes:
    """Extra fields of a member but those of a kind."""
    kept, place = b"", 0
    while place + 4 <= len(extra):
        found, size = struct.unpack_from("<HH", extra, place)
        if found != kind:
            kept += extra[place : place + 4 + size]
        place += 4 + size
    return kept + extra[place:]
