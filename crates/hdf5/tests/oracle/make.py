"""Files over everything that the HDF5 library writes, into a directory.

What h5py has no function for is asked of the library that it brings, by its own names.
"""

import ctypes
import glob
import os
import sys

import h5py
import numpy as np
from h5py import h5a, h5d, h5g, h5p, h5r, h5s, h5t

libraries = os.path.join(os.path.dirname(h5py.__file__), "..", "h5py.libs", "libhdf5-*.so*")
hdf5 = ctypes.CDLL(glob.glob(libraries)[0])
hid = ctypes.c_int64
out = sys.argv[1]


def call(name, *arguments):
    function = getattr(hdf5, name)
    function.restype = ctypes.c_int
    if function(*arguments) < 0:
        raise OSError(name)


def path(name):
    return os.path.join(out, name + ".h5")


def numbers(shape, kind="<i4"):
    count = int(np.prod(shape))
    return (np.arange(count) * 7 % 251).astype(kind).reshape(shape)


UNLIMITED = None


def layouts(f):
    """Every layout, every chunk index that the version of the format has, with and without filters."""
    f.create_dataset("contiguous", data=numbers((7, 5)))
    f.create_dataset("contiguous_unwritten", (7, 5), "<f4", fillvalue=2.5)
    f.create_dataset("scalar", data=np.float64(1.5))
    f.create_dataset("null", data=h5py.Empty("<i2"))
    f.create_dataset("empty", (0, 3), "<i2")
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_layout(h5d.COMPACT)
    compact = h5d.create(f.id, b"compact", h5t.STD_I16BE, h5s.create_simple((3, 4)), plist)
    compact.write(h5s.ALL, h5s.ALL, numbers((3, 4), "<i2"))
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_chunk((4, 3))
    plist.set_alloc_time(h5d.ALLOC_TIME_EARLY)
    implicit = h5d.create(f.id, b"implicit", h5t.STD_I32LE, h5s.create_simple((9, 7), (12, 7)), plist)
    implicit.write(h5s.ALL, h5s.ALL, numbers((9, 7)))

    filters = {
        "plain": {},
        "deflate": {"compression": 4, "shuffle": True},
        "fletcher": {"fletcher32": True},
        "lzf": {"compression": "lzf"},
        "all": {"compression": 9, "shuffle": True, "fletcher32": True},
        "scale": {"scaleoffset": 0},
    }
    shapes = {
        # Single chunk, fixed array, with pages.
        "single": ((6, 5), (6, 5), (6, 5)),
        "fixed": ((20, 11), (20, 11), (3, 4)),
        "growing": ((20, 11), (31, 40), (3, 4)),
        "paged": ((3000,), (3000,), (2,)),
        # Extensible array: index block, data blocks, secondary blocks; pages.
        "extensible": ((5,), (UNLIMITED,), (2,)),
        "extensible_rows": ((61, 7), (UNLIMITED, 7), (2, 3)),
        "extensible_columns": ((7, 5, 31), (9, 8, UNLIMITED), (2, 3, 2)),
        # Version-2 B-tree, of several levels.
        "two_unlimited": ((9, 8), (UNLIMITED, UNLIMITED), (2, 3)),
        "two_unlimited_many": ((80, 60), (UNLIMITED, UNLIMITED), (1, 3)),
    }
    for of, options in filters.items():
        for name, (shape, maximum, chunk) in shapes.items():
            f.create_dataset(f"{name}_{of}", data=numbers(shape), maxshape=maximum, chunks=chunk, **options)
    sparse = f.create_dataset("sparse", (100, 100), "<i4", maxshape=(None, 200), chunks=(5, 7), fillvalue=-3)
    sparse[3:9, 50:52] = 5
    sparse[91, 3] = 6
    sparse = f.create_dataset("sparse_fixed", (5000,), "<i4", chunks=(2,), fillvalue=9)
    sparse[4321] = 5
    sparse = f.create_dataset("sparse_deflate", (60, 60), ">i4", maxshape=(None, None), chunks=(5, 7), compression=1)
    sparse[31, 3] = 6
    shrunk = f.create_dataset("shrunk", data=numbers((40, 9)), maxshape=(None, 20), chunks=(3, 4))
    shrunk.resize((13, 5))
    f.create_dataset("no_chunks", (4, 4), "<i4", maxshape=(None, 4), chunks=(2, 2))
    if f.libver[1] != "v108":
        plist = h5p.create(h5p.DATASET_CREATE)
        plist.set_chunk((4, 3))
        plist.set_deflate(5)
        call("H5Pset_chunk_opts", hid(plist.id), ctypes.c_uint(2))
        plain = h5d.create(f.id, b"partial_plain", h5t.STD_I32LE, h5s.create_simple((9, 7)), plist)
        plain.write(h5s.ALL, h5s.ALL, numbers((9, 7)))
    # A filter that one chunk did not pass.
    direct = f.create_dataset("masked", (4,), "<u2", chunks=(2,), compression=1)
    direct[:] = [1, 2, 3, 4]
    direct.id.write_direct_chunk((2,), np.array([8, 9], "<u2").tobytes(), filter_mask=1)


def large(f):
    """Data blocks of an extensible array with pages, B-trees of several levels."""
    many = f.create_dataset("extensible", (90000,), "u1", maxshape=(None,), chunks=(1,))
    many[:] = numbers((90000,), "u1")
    some = f.create_dataset("extensible_sparse", (300000,), "u1", maxshape=(None,), chunks=(1,), fillvalue=7)
    some[5:9] = 1
    some[200000:200003] = 2
    some[299999] = 3
    rows = f.create_dataset("rows", (9000, 2), "<i2", maxshape=(None, None), chunks=(1, 2))
    rows[:] = numbers((9000, 2), "<i2")
    fixed = f.create_dataset("fixed", (9000,), "<i2", chunks=(1,), compression=1)
    fixed[:] = numbers((9000,), "<i2")


def types(f):
    """All classes of types, as datasets and attributes."""

    def raw(name, kind, count, data):
        space = h5s.create_simple((count,))
        dataset = h5d.create(f.id, name.encode(), kind, space)
        dataset.write(h5s.ALL, h5s.ALL, data, kind)
        attribute = h5a.create(f.id, name.encode(), kind, space)
        attribute.write(data, kind)

    for kind in ["i1", "u1", "<i2", ">i2", "<u2", ">u2", "<i4", ">i4", "<u4", ">u4", "<i8", ">i8", "<u8", ">u8"]:
        info = np.iinfo(kind)
        data = np.array([0, 1, info.min, info.max, 77], kind)
        f.create_dataset(f"int {kind}", data=data)
        f.attrs.create(f"int {kind}", data)
    for kind in ["<f2", ">f2", "<f4", ">f4", "<f8", ">f8"]:
        info = np.finfo(kind)
        some = [0, -0.0, 1.1, -2.5, info.max, info.tiny, info.smallest_subnormal, np.inf, -np.inf, np.nan]
        f.create_dataset(f"float {kind}", data=np.array(some, kind))
        f.attrs.create(f"float {kind}", np.array(some, kind))
    f.create_dataset("float long", data=np.array([1.1, -2.5, 1e300, 1e-300, 0, np.inf], np.longdouble))
    for name, kind in [("bool", np.array([True, False])), ("complex64", np.array([1 + 2j, 3], "c8"))]:
        f.create_dataset(name, data=kind)
        f.attrs.create(name, kind)
    if f.libver[1] not in ["v108", "v110", "v112", "v114"]:
        raw("complex", h5t.COMPLEX_IEEE_F64BE, 2, np.array([1 + 2j, -3.5], ">c16"))

    narrow = h5t.STD_I32LE.copy()
    narrow.set_precision(21)
    narrow.set_offset(3)
    raw("narrow", narrow, 3, np.array([5, -7, 1000], "<i4") << 3)
    bits = h5t.STD_B16BE.copy()
    raw("bitfield", bits, 2, np.array([0x1234, 0xFEDC], ">u2"))
    opaque = h5t.create(h5t.OPAQUE, 5)
    opaque.set_tag(b"five bytes")
    raw("opaque", opaque, 2, np.frombuffer(b"abcde\x00\x01\x02\x03\xff", "V5"))
    h5d.create(f.id, b"time", h5t.UNIX_D32LE, h5s.create_simple((2,)))

    for padding, name in [(h5t.STR_NULLTERM, "term"), (h5t.STR_NULLPAD, "pad"), (h5t.STR_SPACEPAD, "space")]:
        for charset in [h5t.CSET_ASCII, h5t.CSET_UTF8]:
            string = h5t.C_S1.copy()
            string.set_size(6)
            string.set_strpad(padding)
            string.set_cset(charset)
            text = [b"abc", b"", b"hello"]
            filled = [one.ljust(6, b" " if padding == h5t.STR_SPACEPAD else b"\0") for one in text]
            raw(f"string {name} {charset}", string, 3, np.array([np.bytes_(one) for one in filled], "S6"))
    for kind, name in [(h5py.string_dtype("ascii"), "ascii"), (h5py.string_dtype(), "utf8")]:
        values = ["plain", "", "longer " * 30] + (["äöü€"] if name == "utf8" else [])
        f.create_dataset(f"variable {name}", data=values, dtype=kind)
        f.attrs.create(f"variable {name}", values, dtype=kind)
        f.attrs.create(f"one {name}", values[0], dtype=kind)
    f.create_dataset("variable unwritten", (3,), h5py.string_dtype())
    f.create_dataset("variable chunked", data=[f"text {i}" * (i % 5) for i in range(400)], chunks=(17,), compression=1)

    # Not big-endian: h5py then reads the bytes in the wrong order.
    sequence = f.create_dataset("sequence", (4,), h5py.vlen_dtype("<i2"))
    sequence[0], sequence[1], sequence[3] = [1, 2, 3], [], np.arange(1000)
    nested = h5t.vlen_create(h5t.vlen_create(h5t.STD_U8LE))
    h5d.create(f.id, b"sequence of sequences", nested, h5s.create_simple((2,)))

    kind = h5py.enum_dtype({"RED": 0, "GREEN": 1, "BLUE": -42}, "<i2")
    f.create_dataset("enum", data=np.array([0, 1, -42, 5], "<i2"), dtype=kind)
    array = f.create_dataset("array", (2,), np.dtype(("<i2", (3, 4))))
    array[...] = np.arange(24, dtype="<i2").reshape(2, 3, 4)
    inner = np.dtype([("x", ">f4"), ("name", "S3"), ("grid", "<i2", (2, 2))])
    aligned = np.dtype([("a", "i1"), ("b", "<f8"), ("inner", inner), ("flag", kind)], align=True)
    compound = np.zeros(3, aligned)
    compound["a"], compound["b"] = [1, 2, 3], [0.5, 1.5, -2.5]
    compound["inner"]["x"], compound["inner"]["name"] = [1, 2, 4], [b"a", b"bcd", b""]
    compound["inner"]["grid"][1] = [[1, 2], [3, 4]]
    f.create_dataset("compound", data=compound)
    f.attrs.create("compound", compound)
    text = np.dtype([("number", "<i4"), ("text", h5py.string_dtype())])
    f.create_dataset("compound with text", data=np.array([(1, "one"), (2, ""), (3, "three")], text))

    group = f.create_group("referenced")
    target = group.create_dataset("target", data=numbers((10, 10)))
    f.create_dataset("references", data=np.array([group.ref, target.ref, f.ref], h5py.ref_dtype), dtype=h5py.ref_dtype)
    regions = f.create_dataset("regions", (3,), h5py.regionref_dtype)
    regions[0], regions[1] = target.regionref[2:5, 3:4], target.regionref[0:10:3, 1]
    f.attrs.create("reference", target.ref, dtype=h5py.ref_dtype)
    f.attrs.create("empty", h5py.Empty("<f4"))
    f.attrs.create("two dimensions", numbers((3, 4), "<u2"))

    f["committed"] = np.dtype([("a", "<i4"), ("b", ">f8")])
    f["committed"].attrs["of a type"] = 5
    f.create_dataset("of committed", (2,), f["committed"])
    f["of committed"][1] = (3, 4.5)
    f.attrs.create("of committed", np.array([(7, 8.5)], f["committed"].dtype), dtype=f["committed"])


def fills(f):
    """Fill values and times."""
    for alloc in [h5d.ALLOC_TIME_DEFAULT, h5d.ALLOC_TIME_EARLY, h5d.ALLOC_TIME_LATE, h5d.ALLOC_TIME_INCR]:
        for time in [h5d.FILL_TIME_ALLOC, h5d.FILL_TIME_NEVER, h5d.FILL_TIME_IFSET]:
            for value in [None, 0, -17]:
                plist = h5p.create(h5p.DATASET_CREATE)
                plist.set_chunk((3,))
                plist.set_alloc_time(alloc)
                plist.set_fill_time(time)
                if value is not None:
                    plist.set_fill_value(np.array(value, "<i2"))
                h5d.create(f.id, f"{alloc} {time} {value}".encode(), h5t.STD_I16BE, h5s.create_simple((5,)), plist)
    kind = np.dtype([("a", "<i4"), ("b", "<f8")])
    f.create_dataset("compound", (4,), kind, fillvalue=np.array((5, 1.5), kind), chunks=(2,))
    f.create_dataset("text", (3,), "S4", fillvalue=b"none")


def groups(f):
    """Links of all kinds, few and many."""
    f.create_group("a/b/c/d/e")
    for count in [1, 7, 8, 9, 40, 3000]:
        group = f.create_group(f"many {count}")
        order = f.create_group(f"ordered {count}", track_order=True)
        for number in range(count):
            name = f"link {number * 7919 % count} of a name that is long enough" + "x" * (number % 37)
            group[name] = h5py.SoftLink("/a/b")
            order[name] = f["a/b/c"]
    f["a/hard"] = f["a/b"]
    f["a/b/up"] = f["a"]
    f["soft"] = h5py.SoftLink("/a/b/c/d")
    f["relative"] = h5py.SoftLink("a/b")
    f["dangling"] = h5py.SoftLink("/nowhere/to/be")
    f["loop"] = h5py.SoftLink("/loop")
    f["external"] = h5py.ExternalLink("other file.h5", "/its/path")
    f["täxt €"] = h5py.SoftLink("a")
    f["long " + "n" * 300] = h5py.SoftLink("a")
    removed = f.create_group("removed", track_order=True)
    for number in range(50):
        removed[f"x{number}"] = h5py.SoftLink("y")
    for number in range(0, 50, 3):
        del removed[f"x{number}"]


def attributes(f):
    """Few and many attributes, small and large."""
    for count in [1, 7, 8, 9, 40, 2000]:
        for order in [False, True]:
            group = f.create_group(f"{count} {order}", track_order=order)
            for number in range(count):
                name = f"attribute {number * 7919 % count}" + "y" * (number % 37)
                group.attrs.create(name, np.arange(number % 11, dtype="<i2"))
    dataset = f.create_dataset("dataset", data=numbers((3,)))
    for number in range(20):
        dataset.attrs[f"text {number}"] = "some text " * number
    for number in range(0, 20, 3):
        del dataset.attrs[f"text {number}"]
    dataset.attrs["täxt"] = "ü"


def huge(f):
    """Attributes of more than 64 KiB, which are huge objects of a heap."""
    for number in range(12):
        f.attrs.create(f"huge {number}", numbers((20000 + number,), "<i4"))
        f.attrs.create(f"small {number}", numbers((number,), "<i4"))


def make(name, fill, libver, **options):
    with h5py.File(path(name), "w", libver=libver, **options) as f:
        fill(f)


def made_by(fcpl, name, libver, fill):
    fapl = h5p.create(h5p.FILE_ACCESS)
    fapl.set_libver_bounds(*libver)
    with h5py.File(h5py.h5f.create(path(name).encode(), h5py.h5f.ACC_TRUNC, fcpl, fapl)) as f:
        fill(f)


def shared(messages, count):
    """A file that shares messages in heaps."""
    fcpl = h5p.create(h5p.FILE_CREATE)
    call("H5Pset_shared_mesg_nindexes", hid(fcpl.id), ctypes.c_uint(count))
    for index, (kinds, smallest) in enumerate(messages):
        call("H5Pset_shared_mesg_index", hid(fcpl.id), ctypes.c_uint(index), ctypes.c_uint(kinds), ctypes.c_uint(smallest))
    return fcpl


def with_shared(f):
    kind = np.dtype([("a", "<i4"), ("b", ">f8"), ("c", "S9")])
    for number in range(30):
        dataset = f.create_dataset(f"d{number}", (3, number % 3 + 1), kind, chunks=(2, 1), compression=3, fillvalue=np.array((1, 2, b"x"), kind))
        dataset[0, 0] = (number, 1.5, b"text")
        dataset.attrs.create("same", np.zeros(2, kind))
        dataset.attrs["other"] = number
        for many in range(12):
            dataset.attrs.create(f"many {many}", np.arange(12))


def small_sizes(offset, length):
    fcpl = h5p.create(h5p.FILE_CREATE)
    call("H5Pset_sizes", hid(fcpl.id), ctypes.c_size_t(offset), ctypes.c_size_t(length))
    return fcpl


def a_little(f):
    f.create_dataset("chunked", data=numbers((9, 9)), chunks=(2, 2), maxshape=(None, 20), compression=1)
    f.create_dataset("text", data=["one", "two", ""], dtype=h5py.string_dtype())
    f.create_dataset("reference", data=np.array([f["text"].ref]), dtype=h5py.ref_dtype)
    for number in range(30):
        f.create_group(f"group {number}")
        f.attrs[f"attribute {number}"] = number


def filtered_heaps(f):
    """Groups whose heaps of links pass filters."""
    gcpl = h5p.create(h5p.GROUP_CREATE)
    call("H5Pset_deflate", hid(gcpl.id), ctypes.c_uint(6))
    call("H5Pset_link_phase_change", hid(gcpl.id), ctypes.c_uint(0), ctypes.c_uint(0))
    for count in [3, 200, 3000]:
        group = h5g.create(f.id, f"links {count}".encode(), gcpl=gcpl)
        for number in range(count):
            group.links.create_soft(f"link {number}".encode() + b"z" * (number % 60), b"/target")
        # A huge object of the heap.
        group.links.create_soft(b"long", b"/" + b"q" * 6000)


def placed_elsewhere(f):
    f.create_dataset("external", (10,), "<i4", external=[("one.bin", 4, 20), ("two.bin", 0, h5py.h5f.UNLIMITED)])
    layout = h5py.VirtualLayout(shape=(4, 10), dtype="<i4")
    for row in range(4):
        layout[row] = h5py.VirtualSource(f"{row}.h5", "data", shape=(10,))
    f.create_virtual_dataset("virtual", layout, fillvalue=-5)


def everything():
    for version in ["earliest", "v108", "v110", "v112", "v114", "latest"]:
        bounds = (version, "latest") if version == "earliest" else (version, version)
        for fill in [layouts, types, fills, groups, attributes, a_little]:
            make(f"{fill.__name__}-{version}", fill, bounds)
            if fill in [groups, attributes]:
                make(f"{fill.__name__}-{version}-ordered", fill, bounds, track_order=True)
    make("large-earliest", large, "earliest")
    make("large-latest", large, "latest")
    make("huge-latest", huge, "latest")
    make("huge-v108", huge, ("v108", "v108"))
    make("placed_elsewhere", placed_elsewhere, "latest")
    make("filtered_heaps", filtered_heaps, "latest")
    for size in [512, 1024, 8192]:
        for version in ["earliest", "latest"]:
            make(f"user_block-{size}-{version}", a_little, version, userblock_size=size)
    for offset, length in [(4, 4), (8, 4), (4, 8)]:
        # The library does not find unlimited dimensions of 4 bytes in its newest version.
        for version in [(0, 5), (1, 1), (5, 5)][: 2 if length == 4 else 3]:
            made_by(small_sizes(offset, length), f"sizes-{offset}-{length}-{version[0]}", version, a_little)
    # Dataspaces 1, datatypes 2, fill values 4, filter pipelines 8, attributes 16.
    for version in [(0, 5), (1, 1), (5, 5)]:
        made_by(shared([(31, 10)], 1), f"shared-all-{version[0]}", version, with_shared)
        made_by(shared([(2, 10), (16, 40), (1 | 4 | 8, 5)], 3), f"shared-three-{version[0]}", version, with_shared)
    for strategy in ["page", "fsm", "aggregate", "none"]:
        make(f"space-{strategy}", a_little, "latest", fs_strategy=strategy, fs_persist=strategy in ["page", "fsm"])


if __name__ == "__main__":
    everything()
