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
from heedful.localisation.text_content import read_file_bytes

_OLE_SIGNATURE: Final = bytes.fromhex("d0cf11e0a1b11ae1")
"""How files of Microsoft's older formats begin, and OOXML that is encrypted."""
_ENCRYPTED_FLAG: Final = 0x1
"""The flag of a member that needs a password (APPNOTE 4.4.4)."""
_ZIP64_FIELD: Final = 0x0001
"""The extra field that says sizes again (APPNOTE 4.5.3); they are written anew."""
_COMPRESSION_METHODS: Final = frozenset((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
"""Those that office documents may use."""
_MAX_COMPRESSION_RATIO: Final = 200
"""How many times as large a text may be when it is unpacked; letters become 10 to 50 times as large."""
_UNLIMITED_SIZE: Final = 1 << 20
"""Bytes of a text that may be packed as densely as it likes."""
MAX_MEMBERS: Final = 20_000
MAX_BYTES: Final = 1 << 29
"""Of all members together, unpacked."""


@final
class ZipArchive:
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
        if data.startswith(_OLE_SIGNATURE):
            raise DataError(
                f"{path}: is encrypted, or a file of an older format with another ending; save it anew, without a "
                "password"
            )
        try:
            self._file = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, EOFError, struct.error, NotImplementedError) as error:
            raise self._damaged_error(error) from None
        self._members = {member.filename: member for member in self._file.infolist()}
        self._check_limits()

    @classmethod
    def from_file(cls, path: Path) -> Self:
        """The archive in a file."""
        if path.is_file() and path.stat().st_size > MAX_BYTES:
            raise DataError(f"{path}: is larger than {MAX_BYTES >> 20} MiB; take pictures and films out, and try again")
        return cls(read_file_bytes(path), path)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def read_member(self, name: str) -> bytes:
        """What a member holds that is text.

        Raises:
            DataError: it is not there, damaged, or one text again and again.
        """
        if name not in self._members:
            raise DataError(f"{self.path}: has no {name}; is it what its ending says? save it anew and try again")
        member = self._members[name]
        if member.file_size > max(_UNLIMITED_SIZE, _MAX_COMPRESSION_RATIO * member.compress_size):
            raise DataError(
                f"{self.path}: {name} unpacks to more than {_MAX_COMPRESSION_RATIO} times its size, which no letter does; "
                "is it meant to harm?"
            )
        return self._read_unchecked(name)

    def _read_unchecked(self, name: str) -> bytes:
        try:
            return self._file.read(self._members[name])
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, struct.error, NotImplementedError) as error:
            raise self._damaged_error(error) from None

    def replace_members(self, contents: Mapping[str, bytes]) -> bytes:
        """The archive with other contents of some members.

        All keep order, name, date, method, rights and comment; what is not replaced is the same when it is unpacked.
        """
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as file:
            file.comment = self._file.comment
            for name, member in self._members.items():
                info = copy(member)
                info.extra = _drop_extra_field(member.extra, _ZIP64_FIELD)
                data = contents[name] if name in contents else self._read_unchecked(name)
                file.writestr(info, data)
                info.external_attr = member.external_attr  # where it has none, zipfile thinks of some
        return buffer.getvalue()

    def _check_limits(self) -> None:
        members = self._file.infolist()
        if len(members) > MAX_MEMBERS:
            raise DataError(f"{self.path}: has {len(members):,} members, and {MAX_MEMBERS:,} at most are read")
        if len(self._members) < len(members):
            raise DataError(f"{self.path}: has two members of one name; save it anew and try again")
        if sum(member.file_size for member in members) > MAX_BYTES:
            raise DataError(
                f"{self.path}: unpacks to more than {MAX_BYTES >> 20} MiB, which no letter does; is it meant to harm?"
            )
        for member in members:
            if member.flag_bits & _ENCRYPTED_FLAG:
                raise DataError(f"{self.path}: is encrypted; save it without a password and try again")
            if member.compress_type not in _COMPRESSION_METHODS:
                raise DataError(
                    f"{self.path}: {member.filename} is compressed by method {member.compress_type}, and 0 or 8 is "
                    "needed; save it anew and try again"
                )

    def _damaged_error(self, error: Exception) -> DataError:
        return DataError(f"{self.path}: no zip, or a damaged one ({error}); fetch it again, or save it anew")


def _drop_extra_field(extra: bytes, field_id: int) -> bytes:
    """Extra fields of a member but those of a kind."""
    result, position = b"", 0
    while position + 4 <= len(extra):
        field_kind, size = struct.unpack_from("<HH", extra, position)
        if field_kind != field_id:
            result += extra[position : position + 4 + size]
        position += 4 + size
    return result + extra[position:]
