"""What is found in tar archives of every format, and what is refused: by hand-made and by tarfile's archives."""

from __future__ import annotations

import gzip
import io
import pickle
import random
import tarfile

import pytest
from tar_shards import entry

from torchbucket import ArchiveError, ConfigError, NotFoundError, TarDataset, TarSample
from torchbucket.listing import Manifest
from torchbucket.store import open_store

FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}
TAIL = bytes(1024)


def archive(*members: tuple[str, bytes] | tarfile.TarInfo, form: int = tarfile.PAX_FORMAT, **options) -> bytes:
    """An archive that tarfile wrote."""
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w", format=form, **options) as writer:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                writer.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                writer.addfile(info, io.BytesIO(member[1]))
    return body.getvalue()


def samples(body: bytes, **options) -> list:
    open_store("memory://archives").write("a.tar", body)
    return list(TarDataset.from_prefix("memory://archives/a.tar", **options))


def contents(body: bytes, **options) -> list[tuple[str, dict[str, bytes]]]:
    return samples(body, transform=lambda sample: (sample.key, dict(sample)), **options)


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
def test_members_are_grouped_by_the_name_up_to_its_first_dot(form):
    body = archive(
        ("train/a.x/0001.jpg", b"one"),
        ("train/a.x/0001.seg.png", b"two"),
        ("train/a.x/0002.jpg", b""),
        ("train/0002.jpg", b"another directory"),
        form=form,
    )
    assert contents(body) == [
        ("train/a.x/0001", {"jpg": b"one", "seg.png": b"two"}),
        ("train/a.x/0002", {"jpg": b""}),
        ("train/0002", {"jpg": b"another directory"}),
    ]
    assert samples(body)[0] == {
        "__key__": "train/a.x/0001",
        "__url__": "memory://archives/a.tar",
        "jpg": b"one",
        "seg.png": b"two",
    }


@pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
def test_names_of_any_length_and_script(form):
    names = ["ü/日本.jpg", "d" * 60 + "/" + "e" * 90 + ".jpg"]
    if form != tarfile.USTAR_FORMAT:
        names += ["n" * 300 + "/" + "m" * 200 + ".jpg", "deep/" * 60 + "x.jpg"]
    body = archive(*((name, name.encode()) for name in names), form=form)
    assert contents(body) == [(name.removesuffix(".jpg"), {"jpg": name.encode()}) for name in names]


def test_a_name_that_is_no_utf_8_is_kept():
    (found,) = contents(entry(b"caf\xe9.txt", b"latin") + TAIL)
    assert found == ("caf\udce9", {"txt": b"latin"})


def test_a_prefix_belongs_to_posix_headers_alone():
    posix = entry(b"b.txt", b"1", prefix=b"a")
    gnu = entry(b"c.txt", b"2", magic=b"ustar  \0", prefix=b"12345670123")  # GNU tar keeps a time there
    old = entry(b"d.txt", b"3", kind=b"\0", magic=bytes(8), prefix=b"rubbish")
    assert [key for key, _ in contents(posix + gnu + old + TAIL)] == ["a/b", "c", "d"]


def test_sizes_in_base_256_and_in_extended_headers():
    big = entry(b"a.bin", b"x" * 700, size=b"\x80" + (700).to_bytes(11, "big"))
    record = b"12 size=600\n"
    pax = entry(b"pax", record, kind=b"x") + entry(b"b.bin", b"y" * 600, size=b"00000000000\0")
    assert contents(big + pax + TAIL) == [("a", {"bin": b"x" * 700}), ("b", {"bin": b"y" * 600})]


def test_checksums_of_signed_bytes_and_padded_by_blanks_are_accepted():
    block = bytearray(entry("é.txt".encode(), b""))
    block[148:156] = b" " * 8
    signed = sum(byte - 256 if byte > 127 else byte for byte in block)
    block[148:156] = b"%6o\0 " % signed
    assert [key for key, _ in contents(bytes(block) + TAIL)] == ["é"]


def test_what_belongs_to_no_sample_is_left_out_and_parts_none():
    link, hard, directory, device = (tarfile.TarInfo(name) for name in ("0.lnk", "0.hard", "0.dir", "0.dev"))
    link.type, hard.type, directory.type, device.type = (
        tarfile.SYMTYPE,
        tarfile.LNKTYPE,
        tarfile.DIRTYPE,
        tarfile.CHRTYPE,
    )
    link.linkname = hard.linkname = "long/" * 40
    body = archive(
        directory,
        ("README", b"no extension"),
        ("0.a", b"first"),
        link,
        hard,
        device,
        (".hidden", b"nothing before the dot"),
        ("__meta.json__", b"WebDataset's own"),
        ("__meta__/0.c", b"WebDataset's own"),
        ("0.b", b"second"),
        form=tarfile.GNU_FORMAT,
    )
    assert contents(body) == [("0", {"a": b"first", "b": b"second"})]
    old_directory = entry(b"old.d/", kind=b"\0", magic=bytes(8))
    assert contents(old_directory + body) == [("0", {"a": b"first", "b": b"second"})]


def test_a_comment_for_all_members_is_read_over():
    body = archive(("0.a", b"1"), pax_headers={"comment": "git archive writes its commit here"})
    assert contents(body) == [("0", {"a": b"1"})]


def test_only_the_wanted_members_are_given_and_samples_without_any_left_out():
    body = archive(("0.jpg", b"0"), ("0.cls", b"1"), ("1.txt", b"2"), ("2.cls", b"3"))
    for fetch in ("whole", "lazy"):
        found = contents(body, extensions=["cls"], fetch=fetch)
        assert found == [("0", {"cls": b"1"}), ("2", {"cls": b"3"})]


def test_an_archive_without_samples_is_accepted_where_that_is_said():
    assert contents(archive(), allow_empty=True) == []
    assert contents(bytes(512), allow_empty=True) == []  # one block of zeros is as good as two


@pytest.mark.parametrize("fetch", ["whole", "lazy"])
@pytest.mark.parametrize("body", [archive(), archive(("README", b"no sample"), ("__meta.json__", b"nor this"))])
def test_an_epoch_without_a_sample_is_an_error_and_not_short(body, fetch):
    with pytest.raises(ArchiveError, match=r"no sample is in it.*0001\.jpg.*allow_empty=True"):
        contents(body, fetch=fetch)
    with pytest.raises(ArchiveError, match=r"such as 0001\.png.*Correct extensions"):
        contents(archive(("0.jpg", b"0")), fetch=fetch, extensions=["png"])


@pytest.mark.parametrize("fetch", ["whole", "lazy"])
def test_extensions_are_compared_without_regard_to_case(fetch):
    body = archive(("0.JPG", b"0"), ("0.Cls", b"1"), ("1.jpg", b"2"))
    wanted = contents(body, fetch=fetch, extensions=["jpg", "CLS"])
    assert wanted == [("0", {"jpg": b"0", "CLS": b"1"}), ("1", {"jpg": b"2"})]
    assert contents(body)[0] == ("0", {"JPG": b"0", "Cls": b"1"})
    with pytest.raises(ArchiveError, match="two members in a row for the extension 'jpg'"):
        contents(archive(("0.jpg", b"0"), ("0.JPG", b"1")), fetch=fetch, extensions=["jpg"])
    with pytest.raises(ConfigError, match="'JPG' and 'jpg'"):
        contents(body, extensions=["JPG", "jpg"])


def test_what_webdataset_takes_for_its_own_is_left_out_and_no_more():
    """Compared with webdataset 1.0.2, of these very names."""
    body = archive(("d/__meta.json__", b"0"), ("__a__.jpg", b"1"), ("__b__/1.jpg", b"2"), ("__c.jpg__", b"3"))
    assert contents(body) == [("d/__meta", {"json__": b"0"}), ("__a__", {"jpg": b"1"})]


def test_a_sample_gives_its_members_in_several_ways():
    body = archive(("d/0.jpg", b"line\nrest"), ("d/0.cls", b"7"))

    def look(sample: TarSample):
        with sample.open("jpg") as reader:
            first = reader.readline(), reader.key, reader.uri, reader.size_bytes
        with pytest.raises(KeyError, match="no member with the extension 'png'; it has jpg, cls"):
            sample["png"]
        view = sample.view("cls")
        assert view.readonly
        copy = pickle.loads(pickle.dumps(sample))
        assert copy == sample
        return first, bytes(view), list(sample), "cls" in sample, sample.size_bytes, sample.uri, copy.shard_uri

    uri = "memory://archives/a.tar"
    assert samples(body, transform=look) == [
        ((b"line\n", "d/0.jpg", f"{uri}#d/0.jpg", 9), b"7", ["jpg", "cls"], True, 10, f"{uri}#d/0", uri)
    ]


GOOD = archive(("0.a", b"x" * 600), ("1.a", b"y" * 600), ("2.a", b"z" * 600))


@pytest.mark.parametrize("fetch", ["whole", "lazy"])
@pytest.mark.parametrize("length", [0, 1, 511, 512, 600, 1535, 1536, 1537, 3071, 3072, 4600, 4608, 4700])
def test_a_cut_archive_is_found_out_wherever_it_is_cut(length, fetch):
    seen = []
    with pytest.raises(ArchiveError, match=rf"memory://archives/a\.tar is cut: it has {length} bytes") as caught:
        samples(GOOD[:length], transform=lambda sample: seen.append(sample.key), fetch=fetch)
    # A sample is known to be whole when the header after it is there.
    assert seen == [str(number) for number in range(3) if 1536 * (number + 1) + 512 <= length]
    assert caught.value.uri == "memory://archives/a.tar"
    assert caught.value.offset <= length + 511
    error = pickle.loads(pickle.dumps(caught.value))
    assert (str(error), error.uri, error.offset) == (str(caught.value), caught.value.uri, caught.value.offset)


@pytest.mark.parametrize("fetch", ["whole", "lazy"])
def test_a_damaged_header_is_found_out(fetch):
    damaged = bytearray(GOOD)
    damaged[1536 + 3] ^= 1
    with pytest.raises(ArchiveError, match="is damaged; the header expected at byte 1536") as caught:
        samples(bytes(damaged), fetch=fetch)
    assert caught.value.offset == 1536
    # tarfile takes it for the end of the archive, which is why it is not used.
    with tarfile.open(fileobj=io.BytesIO(damaged)) as reader:
        assert reader.getnames() == ["0.a"]


REFUSED = {
    "gzip": (gzip.compress(random.Random(1).randbytes(3000)), "compressed with gzip"),
    "another file": (b"\x89PNG" + bytes(2000), "is no tar archive"),
    "two archives": (GOOD + GOOD, f"after it: .*at byte {len(GOOD)}"),
    "sparse, GNU": (entry(b"s.bin", kind=b"S") + TAIL, "sparse"),
    "sparse, pax": (entry(b"x", b"22 GNU.sparse.major=1\n", kind=b"x") + entry(b"s.bin") + TAIL, "sparse"),
    "a part of a file": (entry(b"m.bin", kind=b"M") + TAIL, "unknown type b'M'"),
    "a size that is no number": (entry(b"a.bin", size=b"00000000008\0") + TAIL, "which is no number"),
    "a negative size": (entry(b"a.bin", size=b"\xff" * 12) + TAIL, "which is no number"),
    "a size in words": (entry(b"x", b"11 size=xy\n", kind=b"x") + entry(b"a.bin") + TAIL, "b'xy' for a size"),
    "a malformed record": (entry(b"x", b"99 path=a\n", kind=b"x") + entry(b"a.bin") + TAIL, "malformed record"),
    "a record without an end": (entry(b"x", b"9 path=a\0", kind=b"x") + entry(b"a.bin") + TAIL, "malformed record"),
    "an endless header": (entry(b"L", b"", kind=b"L", size=b"77777777777\0") + TAIL, "an extended header ends at"),
    "a huge header": (entry(b"L", bytes(2 << 20), kind=b"L") + TAIL, "extended header of 2097152 bytes"),
    "a header for nothing": (entry(b"L", b"name\0", kind=b"L") + TAIL, "without the member that it describes"),
    "one name for all": (entry(b"g", b"10 path=a\n", kind=b"g") + entry(b"a.b") + TAIL, "global extended header"),
    "the same field twice": (entry(b"a.b", b"1") + entry(b"a.b", b"2") + TAIL, "named 'a.b'"),
}


@pytest.mark.parametrize("fetch", ["whole", "lazy"])
@pytest.mark.parametrize(("body", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_read_is_refused(body, message, fetch):
    with pytest.raises(ArchiveError, match=rf"(?s)^memory://archives/a\.tar\b.*{message}"):
        samples(body, fetch=fetch)


@pytest.mark.parametrize("names", [["0.tar", "1.tar.gz"], ["0.tgz", "1.tar"], ["0.tar.zst", "1.tar", "index.json"]])
def test_compressed_shards_beside_plain_ones_are_not_left_out_silently(names):
    store = open_store(f"memory://compressed-beside-{names[0]}")
    for name in names:
        store.write(name, archive())
    with pytest.raises(ConfigError, match=r"is a compressed shard beside '\d\.tar', and would be left out.*select"):
        TarDataset.from_prefix(f"{store.uri}/", allow_empty=True)
    Manifest.from_prefix(f"{store.uri}/").write("memory://compressed-manifests/m.parquet")
    with pytest.raises(ConfigError, match="is a compressed shard beside"):
        TarDataset.from_manifest("memory://compressed-manifests/m.parquet")
    plain = TarDataset.from_prefix(f"{store.uri}/", select=lambda info: info.key.endswith(".tar"))
    assert len(plain.keys) == 1


def test_a_prefix_of_compressed_shards_alone_says_what_to_do():
    store = open_store("memory://compressed-only")
    for number in range(2):
        store.write(f"train/{number}.tar.gz", gzip.compress(b"anything"))
    with pytest.raises(NotFoundError, match=r"none of the 2 objects under it .* ends with \.tar\. .*decompress them"):
        TarDataset.from_prefix("memory://compressed-only/train/")
    with pytest.raises(NotFoundError, match="select kept none of the 2 objects"):
        TarDataset.from_prefix("memory://compressed-only/train/", select=lambda info: False)
