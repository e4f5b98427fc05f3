from __future__ import annotations

import io
import stat
import tarfile
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.assets.origins import Allowance, unpack
from lamina.errors import AssetError

PLENTY = 1 << 20


def make_zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def make_tar(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def tree(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def into(tmp_path: Path) -> Path:
    folder = tmp_path / "box" / "into"
    folder.mkdir(parents=True)
    return folder


@pytest.mark.parametrize("make", [make_zip, make_tar])
def test_named_members_come_out_under_their_short_names(make, tmp_path: Path, into: Path) -> None:
    members = {"pkg/model/config.json": b"{}", "pkg/model/1_Pooling/config.json": b"[]", "pkg/code.py": b"1/0"}
    archive = make(tmp_path / "archive", members | {"pkg/data/deep/ids.json": b"ids"})
    unpack(archive, into, ["pkg/model/*", "pkg/data/deep/ids.json"], Allowance(PLENTY))
    assert tree(into) == {"config.json": b"{}", "1_Pooling/config.json": b"[]", "ids.json": b"ids"}


@pytest.mark.parametrize("make", [make_zip, make_tar])
@pytest.mark.parametrize("name", ["/etc/evil", "../evil", "pkg/../../evil", "pkg/..", "pkg\\evil", "C:/evil"])
def test_a_member_that_could_escape_refuses_the_whole_archive(make, name: str, tmp_path: Path, into: Path) -> None:
    archive = make(tmp_path / "archive", {"pkg/good": b"good", name: b"evil"})
    with pytest.raises(AssetError, match="unsafe member"):
        unpack(archive, into, ["pkg/good"], Allowance(PLENTY))
    assert tree(into.parent) == {}


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_a_tar_are_refused(kind: bytes, tmp_path: Path, into: Path) -> None:
    archive = tmp_path / "archive.tar"
    with tarfile.open(archive, "w") as tar:
        info = tarfile.TarInfo("pkg/link")
        info.type, info.linkname = kind, "/etc/passwd"
        tar.addfile(info)
    with pytest.raises(AssetError, match="unsafe member 'pkg/link'"):
        unpack(archive, into, ["pkg/*"], Allowance(PLENTY))


def test_a_symlink_in_a_zip_is_refused(tmp_path: Path, into: Path) -> None:
    archive = tmp_path / "archive.zip"
    with zipfile.ZipFile(archive, "w") as file:
        info = zipfile.ZipInfo("pkg/link")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        file.writestr(info, "/etc/passwd")
    with pytest.raises(AssetError, match="unsafe member 'pkg/link'"):
        unpack(archive, into, ["pkg/*"], Allowance(PLENTY))
    assert tree(into) == {}


def test_a_bomb_is_stopped_at_the_allowance(tmp_path: Path, into: Path) -> None:
    archive = make_zip(tmp_path / "bomb.zip", {"pkg/zeros": bytes(30 << 20)})
    with pytest.raises(AssetError, match="exceeds the 1,000 bytes"):
        unpack(archive, into, ["pkg/*"], Allowance(1000))
    assert sum(len(content) for content in tree(into).values()) <= 1000


def test_a_missing_member_and_a_broken_archive_are_named(tmp_path: Path, into: Path) -> None:
    archive = make_zip(tmp_path / "good.zip", {"pkg/a": b"a"})
    with pytest.raises(AssetError, match=r"good\.zip has no member pkg/b"):
        unpack(archive, into, ["pkg/b"], Allowance(PLENTY))
    broken = tmp_path / "broken.zip"
    broken.write_bytes(b"not an archive")
    with pytest.raises(AssetError, match=r"broken\.zip cannot be unpacked"):
        unpack(broken, into, ["*"], Allowance(PLENTY))


def test_a_member_given_twice_is_refused(tmp_path: Path, into: Path) -> None:
    archive = tmp_path / "archive.tar"
    with tarfile.open(archive, "w") as tar:
        for name in ("pkg/a", "pkg/./a"):
            tar.addfile(tarfile.TarInfo(name), io.BytesIO())
    with pytest.raises(AssetError, match="twice"):
        unpack(archive, into, ["pkg/*"], Allowance(PLENTY))


names = st.text("abcXYZ0189._- é", min_size=1, max_size=8).filter(lambda name: name.strip(".") != "")


@given(members=st.dictionaries(names, st.binary(max_size=200), min_size=1), zipped=st.booleans())
def test_what_was_packed_comes_out_unchanged(members: dict[str, bytes], zipped: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pack = make_zip if zipped else make_tar
        archive = pack(Path(folder) / "archive", {f"pkg/{name}": content for name, content in members.items()})
        into = Path(folder) / "into"
        into.mkdir()
        unpack(archive, into, ["pkg/*"], Allowance(PLENTY))
        assert tree(into) == members


@given(parts=st.lists(st.sampled_from(["..", ".", "", "a", "b", "/"]), min_size=1, max_size=6))
def test_no_name_writes_outside_its_folder(parts: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        archive = make_tar(Path(folder) / "archive", {"/".join(parts): b"x"})
        into = Path(folder) / "box" / "into"
        into.mkdir(parents=True)
        try:
            unpack(archive, into, ["*"], Allowance(PLENTY))
        except AssetError:
            assert tree(into) == {}
        outside = [p for p in Path(folder).rglob("*") if p.is_file() and p != archive and into not in p.parents]
        assert outside == []


def test_a_member_without_a_name_and_an_encrypted_one_are_refused(tmp_path: Path, into: Path) -> None:
    nameless = zipfile.ZipInfo("x")
    nameless.filename = ""
    with zipfile.ZipFile(tmp_path / "nameless.zip", "w") as archive:
        archive.writestr(nameless, b"")
    with pytest.raises(AssetError, match="unsafe member ''"):
        unpack(tmp_path / "nameless.zip", into, ["*"], Allowance(PLENTY))

    locked = make_zip(tmp_path / "locked.zip", {"a": b"alpha"})
    content = bytearray(locked.read_bytes())
    for start in (content.index(b"PK\x03\x04") + 6, content.index(b"PK\x01\x02") + 8):
        content[start] |= 1  # the flag that says it is encrypted
    locked.write_bytes(content)
    with pytest.raises(AssetError, match=r"locked\.zip cannot be unpacked: .*encrypted"):
        unpack(locked, into, ["a"], Allowance(PLENTY))
    assert tree(into) == {}


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ({"a/b": b"1", "a/b/c": b"2"}, "a file where a/b/c needs a folder"),
        ({f"a/{'x' * 300}": b"1"}, "too long a name"),
        ({f"a/{'x' * 300}/y": b"1"}, "too long a name"),
    ],
    ids=["file-as-folder", "long-file", "long-folder"],
)
def test_a_name_that_no_file_can_have_is_refused(
    members: dict[str, bytes], why: str, tmp_path: Path, into: Path
) -> None:
    with pytest.raises(AssetError, match=why):
        unpack(make_zip(tmp_path / "x.zip", members), into, ["a/*"], Allowance(PLENTY))
