"""Zip archives that are read with size limits, and rewritten with some members replaced."""

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
"""First bytes of files in Microsoft's older formats, and of encrypted OOXML."""
_ENCRYPTED_FLAG: Final = 0x1
"""Flag of a member that needs a password (APPNOTE 4.4.4)."""
_ZIP64_FIELD: Final = 0x0001
"""Extra field that repeats sizes (APPNOTE 4.5.3); they are written anew."""
_COMPRESSION_METHODS: Final = frozenset((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
"""Compression methods that office documents may use."""
_MAX_COMPRESSION_RATIO: Final = 200
"""Maximum ratio of unpacked to packed size; ordinary documents unpack to 10 to 50 times their size."""
_UNLIMITED_SIZE: Final = 1 << 20
"""Number of unpacked bytes up to which any compression ratio is allowed."""
MAX_MEMBERS: Final = 20_000
MAX_BYTES: Final = 1 << 29
"""Maximum unpacked size of all members together."""


@final
class ZipArchive:
    """The members of a zip file by name; https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT.

    Args:
        data: the file.
        path: of the file, for messages.

    Raises:
        DataError: it is not a zip file, damaged, encrypted or too large, or uses a compression that office documents do
            not.
    """

    def __init__(self, data: bytes, path: Path) -> None:
        self.data = data
        self.path = path
        if data.startswith(_OLE_SIGNATURE):
            raise DataError(
                f"{path}: is encrypted, or has an older format in spite of its ending; save it again, without a "
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
        """Read the archive in a file."""
        if path.is_file() and path.stat().st_size > MAX_BYTES:
            raise DataError(
                f"{path}: is larger than {MAX_BYTES >> 20} MiB; take pictures and videos out, and try again"
            )
        return cls(read_file_bytes(path), path)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def read_member(self, name: str) -> bytes:
        """Return the content of a text member.

        Raises:
            DataError: it does not exist, is damaged, or unpacks to a suspiciously large size.
        """
        if name not in self._members:
            raise DataError(f"{self.path}: has no {name}; does it have the right ending? save it again and try again")
        member = self._members[name]
        if member.file_size > max(_UNLIMITED_SIZE, _MAX_COMPRESSION_RATIO * member.compress_size):
            raise DataError(
                f"{self.path}: {name} unpacks to more than {_MAX_COMPRESSION_RATIO} times its size, which no normal "
                "document does; is it an attack?"
            )
        return self._read_unchecked(name)

    def _read_unchecked(self, name: str) -> bytes:
        """Return the content of a member without a check of its size."""
        try:
            return self._file.read(self._members[name])
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, struct.error, NotImplementedError) as error:
            raise self._damaged_error(error) from None

    def replace_members(self, contents: Mapping[str, bytes]) -> bytes:
        """Return the bytes of the archive with new contents of some members.

        All members keep order, name, date, method, permissions and comment; unpacked contents that are not replaced
        stay the same.
        """
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as file:
            file.comment = self._file.comment
            for name, member in self._members.items():
                info = copy(member)
                info.extra = _drop_extra_field(member.extra, _ZIP64_FIELD)
                data = contents[name] if name in contents else self._read_unchecked(name)
                file.writestr(info, data)
                info.external_attr = member.external_attr  # if it has none, zipfile sets others
        return buffer.getvalue()

    def _check_limits(self) -> None:
        """Raise DataError if the members break a limit, or are encrypted or compressed by another method."""
        members = self._file.infolist()
        if len(members) > MAX_MEMBERS:
            raise DataError(f"{self.path}: has {len(members):,} members, but at most {MAX_MEMBERS:,} are read")
        if len(self._members) < len(members):
            raise DataError(f"{self.path}: has two members with the same name; save it again and try again")
        if sum(member.file_size for member in members) > MAX_BYTES:
            raise DataError(
                f"{self.path}: unpacks to more than {MAX_BYTES >> 20} MiB, which no normal document does; is it an "
                "attack?"
            )
        for member in members:
            if member.flag_bits & _ENCRYPTED_FLAG:
                raise DataError(f"{self.path}: is encrypted; save it without a password and try again")
            if member.compress_type not in _COMPRESSION_METHODS:
                raise DataError(
                    f"{self.path}: {member.filename} is compressed by method {member.compress_type}, but 0 or 8 is "
                    "needed; save it again and try again"
                )

    def _damaged_error(self, error: Exception) -> DataError:
        """Build the error for a damaged archive."""
        return DataError(
            f"{self.path}: is not a zip archive, or is damaged ({error}); fetch it again, or save it again"
        )


def _drop_extra_field(extra: bytes, field_id: int) -> bytes:
    """Remove the extra fields of one kind from those of a member."""
    result, position = b"", 0
    while position + 4 <= len(extra):
        field_kind, size = struct.unpack_from("<HH", extra, position)
        if field_kind != field_id:
            result += extra[position : position + 4 + size]
        position += 4 + size
    return result + extra[position:]
