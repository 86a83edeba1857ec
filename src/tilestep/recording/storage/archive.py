"""Zip files from anywhere, read within bounds: nothing is allocated, or unpacked further, than the sizes that were checked."""

import lzma
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Final, final

from tilestep.errors import RecordingError
from tilestep.messages import plain

MOST_MEMBERS: Final = 1_000
MOST_MEMBER_BYTES: Final = 128 * 2**20  # unpacked
MOST_UNPACKED_BYTES: Final = 512 * 2**20  # all members together

_END: Final = struct.Struct("<4s4H2LH")  # end of central directory
_DIRECTORY_ENTRY: Final = struct.Struct("<4s6H3L5H2L")
_LOCAL: Final = struct.Struct("<4s5H3L2H")  # before each member
_LZMA: Final = struct.Struct("<2xHBL")  # version, size of the properties, lc/lp/pb, size of the dictionary
_LZMA_PROPERTIES: Final = 5  # bytes
_MOST_DICTIONARY: Final = 2**26
_ENCRYPTED: Final = 1
_METHODS: Final = {zipfile.ZIP_STORED: "stored", zipfile.ZIP_DEFLATED: "deflate", zipfile.ZIP_LZMA: "lzma"}
_SMALL: Final = 4096  # bytes; LZMA does not pay for less
_DATE: Final = (1980, 1, 1, 0, 0, 0)  # the first that a zip file can have: equal content gives equal bytes
_MODE: Final = 0o644


@dataclass(frozen=True, kw_only=True)
class _Member:
    method: int
    crc: int
    packed_bytes: int
    size_bytes: int
    header_at: int


@final
class Archive:
    """The members of a zip file.

    Args:
        data: the whole file.
        where: what messages call it.
    Raises: RecordingError if the file is no such zip file, or a bound is passed.
    """

    def __init__(self, data: bytes, *, where: str) -> None:
        self._data = data
        self.where = where
        self._members: dict[str, _Member] = {}
        for name, member in self._entries():
            if name in self._members:
                raise self.error(f"has two members '{plain(name)}'", "each may be there once")
            self._members[name] = member
        unpacked = sum(member.size_bytes for member in self._members.values())
        if unpacked > MOST_UNPACKED_BYTES:
            raise self.error(f"unpacks to {unpacked:,} B", f"at most {MOST_UNPACKED_BYTES:,} B are read")

    @property
    def sizes(self) -> Mapping[str, int]:
        """Name of each member -> its bytes when it is unpacked, as the directory has it."""
        return {name: member.size_bytes for name, member in self._members.items()}

    def error(self, what: str, bound: str) -> RecordingError:
        """An error that names the file."""
        return RecordingError(f"{self.where} {what}: {bound}")

    def read(self, name: str) -> bytes:
        """All bytes of a member. Raises: RecordingError if they are not what the directory says."""
        member = self._members[name]
        data = self.begin(name, member.size_bytes + 1)
        if len(data) != member.size_bytes:
            longer = "more bytes" if len(data) > member.size_bytes else f"{len(data):,} B"
            raise self.error(f"has a damaged member '{name}'", f"it has {longer} where its directory says {member.size_bytes:,} B")
        if zlib.crc32(data) != member.crc:
            raise self.error(f"has a damaged member '{name}'", "its checksum differs from that in the directory")
        return data

    def begin(self, name: str, most_bytes: int) -> bytes:
        """The first bytes of a member, unchecked. Raises: RecordingError if they cannot be unpacked."""
        member = self._members[name]
        packed = self._packed(name, member)
        try:
            match member.method:
                case zipfile.ZIP_DEFLATED:
                    return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, most_bytes)
                case zipfile.ZIP_LZMA:
                    return self._lzma(name, packed, most_bytes)
                case _:
                    return bytes(packed[:most_bytes])
        except (zlib.error, lzma.LZMAError, EOFError, struct.error) as error:
            raise self.error(f"has a damaged member '{name}'", f"{_METHODS[member.method]} cannot unpack it ({plain(error)})") from None

    def _lzma(self, name: str, packed: memoryview, most_bytes: int) -> bytes:
        properties, modes, dictionary = _LZMA.unpack_from(packed)
        lc, lp, pb = modes % 9, modes // 9 % 5, modes // 45
        if properties != _LZMA_PROPERTIES or dictionary > _MOST_DICTIONARY or lc + lp > 4 or pb > 4:
            raise self.error(
                f"has a damaged member '{name}'", f"its LZMA dictionary may have {_MOST_DICTIONARY:,} B, and it has {dictionary:,} B"
            )
        chain = [{"id": lzma.FILTER_LZMA1, "dict_size": dictionary, "lc": lc, "lp": lp, "pb": pb}]
        return lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=chain).decompress(packed[_LZMA.size :], most_bytes)

    def _packed(self, name: str, member: _Member) -> memoryview:
        """The bytes of a member as they stand in the file."""
        if member.header_at + _LOCAL.size > len(self._data):
            raise self.error(f"has a damaged member '{name}'", "it lies behind the end of the file")
        signature, *_, name_bytes, extra_bytes = _LOCAL.unpack_from(self._data, member.header_at)
        begin = member.header_at + _LOCAL.size + name_bytes + extra_bytes
        if signature != b"PK\x03\x04" or begin + member.packed_bytes > len(self._data):
            raise self.error(f"has a damaged member '{name}'", "no member begins, or ends, where the directory says")
        return memoryview(self._data)[begin : begin + member.packed_bytes]

    def _entries(self) -> Iterator[tuple[str, _Member]]:
        """(name, member) in order of the directory, checked as far as the directory tells."""
        data = self._data
        if len(data) < _END.size or not data.startswith(b"PK"):
            raise self.error("is no recording", "it must be a zip file, written by tilestep")
        signature, _, _, _, count, directory_bytes, position, _ = _END.unpack_from(data, len(data) - _END.size)
        if signature != b"PK\x05\x06" or position + directory_bytes + _END.size > len(data):
            raise self.error("is truncated or damaged", "its end must be the directory of a zip file; record again, or copy the file again")
        if count > MOST_MEMBERS:
            raise self.error(f"has {count:,} members", f"at most {MOST_MEMBERS:,} are read")
        end = position + directory_bytes
        for _ in range(count):
            if position + _DIRECTORY_ENTRY.size > end:
                raise self.error("has a damaged directory", f"it ends before the last of {count:,} members")
            entry = _DIRECTORY_ENTRY.unpack_from(data, position)
            signature, made_by, _, flags, method, _, _, crc, packed, size, name_bytes, extra, comment, _, _, attributes, header_at = entry
            begin = position + _DIRECTORY_ENTRY.size
            name = data[begin : begin + name_bytes].decode("utf-8", "backslashreplace")
            position = begin + name_bytes + extra + comment
            if signature != b"PK\x01\x02" or position > end:
                raise self.error("has a damaged directory", f"it ends before the last of {count:,} members")
            member = f"has the member '{plain(name)}'"
            if flags & _ENCRYPTED:
                raise self.error(member, "it is encrypted, and no recording is")
            if made_by >> 8 == 3 and stat.S_ISLNK(attributes >> 16):
                raise self.error(member, "it is a symbolic link, and no recording has one")
            if method not in _METHODS:
                raise self.error(member, f"it is packed by method {method}; stored (0), deflate (8) and LZMA (14) are read")
            if size > MOST_MEMBER_BYTES:
                raise self.error(member, f"it unpacks to {size:,} B, and at most {MOST_MEMBER_BYTES:,} B are read")
            yield name, _Member(method=method, crc=crc, packed_bytes=packed, size_bytes=size, header_at=header_at)


def archived(members: Mapping[str, bytes], *, quickly: bool = False) -> bytes:
    """A zip file of the members, in their order. Equal members give equal bytes.

    Args: quickly: takes a tenth of the time, and up to twice the bytes.
    Raises: RecordingError if `Archive` would not read it.
    """
    largest = max(members, key=lambda name: len(members[name]), default="")
    size = len(members.get(largest, b""))
    if size > MOST_MEMBER_BYTES:
        raise RecordingError(
            f"a recording would have {size:,} B in '{largest}': at most {MOST_MEMBER_BYTES:,} B are read; record fewer runs"
        )
    unpacked = sum(map(len, members.values()))
    if unpacked > MOST_UNPACKED_BYTES:
        raise RecordingError(f"a recording would have {unpacked:,} B: at most {MOST_UNPACKED_BYTES:,} B are read; record fewer runs")
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, _DATE)
            info.create_system = 3
            info.external_attr = (stat.S_IFREG | _MODE) << 16
            info.compress_type = zipfile.ZIP_LZMA if len(data) > _SMALL and not quickly else zipfile.ZIP_DEFLATED
            archive.writestr(info, data, compresslevel=6 if quickly else 9)
    return file.getvalue()
