"""The other side of the filter tests: chunks that the HDF5 library and its plug-ins wrote, and chunks
that they shall read.

    peer.py write DIRECTORY   writes index, stored and chunks: many datasets' chunks, as stored and decoded
    peer.py read DIRECTORY    reads the same three files, and prints a line per chunk that reads back right

A line of the index: name, type, filter mask, length as stored, length of the chunk, filters. A filter:
number, 1 if it is optional, parameters.
"""

import ctypes
import glob
import itertools
import os
import sys
import tempfile

import h5py
import hdf5plugin
import numpy as np

LIBRARY = ctypes.CDLL(glob.glob(os.path.join(os.path.dirname(h5py.__file__), "../h5py.libs/libhdf5-*"))[0])


def filters_of(dcpl):
    """All parameters; h5py gives the first sixteen."""
    for index in range(dcpl.get_nfilters()):
        flags, config = ctypes.c_uint(), ctypes.c_uint()
        count = ctypes.c_size_t(256)
        values = (ctypes.c_uint * 256)()
        name = ctypes.create_string_buffer(100)
        code = LIBRARY.H5Pget_filter2(
            ctypes.c_int64(dcpl.id), ctypes.c_uint(index), ctypes.byref(flags), ctypes.byref(count), values,
            ctypes.c_size_t(100), name, ctypes.byref(config))
        assert code > 0 and count.value <= 256
        yield [code, flags.value & 1, *values[:count.value]]


class Output:
    def __init__(self, directory):
        self.files = [open(os.path.join(directory, name), "wb") for name in ("index", "stored", "chunks")]

    def add(self, name, dtype, dataset, decoded):
        """Every chunk of a dataset whose shape is a multiple of the chunk's. `decoded` has its bytes."""
        dcpl = dataset.get_create_plist()
        filters = list(filters_of(dcpl))
        chunk = dcpl.get_chunk()
        for at in itertools.product(*(range(0, n, c) for n, c in zip(dataset.shape, chunk))):
            mask, stored = dataset.read_direct_chunk(at)
            raw = np.ascontiguousarray(decoded[tuple(slice(a, a + c) for a, c in zip(at, chunk))]).tobytes()
            text = ";".join(",".join(map(str, f)) for f in filters)
            line = f"{name} {at}\t{dtype}\t{mask}\t{len(stored)}\t{len(raw)}\t{text}\n"
            for file, data in zip(self.files, (line.encode(), stored, raw)):
                file.write(data)


def arrays(dtype, shape, random):
    """Values of several kinds: they compress well, badly and not at all."""
    count = int(np.prod(shape))
    ramp = np.arange(count).reshape(shape)
    if dtype.kind == "f":
        yield "smooth", (280 + 15 * np.sin(ramp * 0.01) + 0.01 * (ramp % 7)).astype(dtype)
        yield "rounded", np.round(random.normal(0, 50, shape), 2).astype(dtype)
        yield "noise", random.random(shape).astype(dtype)
    elif dtype.kind in "iu":
        yield "ramp", (ramp // 3).astype(dtype)
        yield "small", random.integers(0, 20, shape).astype(dtype)
        whole = random.integers(0, 256, count * dtype.itemsize, dtype=np.uint8)
        yield "noise", whole.view(dtype).reshape(shape)
        if dtype.kind == "i":
            yield "signed", (random.integers(-50, 50, shape) - ramp // 5).astype(dtype)
    else:
        whole = random.integers(0, 3, count * dtype.itemsize, dtype=np.uint8)
        yield "bytes", whole.view(dtype).reshape(shape)
    yield "zeros", np.zeros(shape, dtype)


def variants():
    """Names and arguments of create_dataset."""
    for level in (0, 1, 4, 9):
        yield f"deflate{level}", dict(compression="gzip", compression_opts=level)
    yield "shuffle", dict(shuffle=True)
    yield "fletcher", dict(fletcher32=True)
    yield "all", dict(compression="gzip", compression_opts=4, shuffle=True, fletcher32=True)
    yield "lzf", dict(compression="lzf")
    yield "lzf+shuffle", dict(compression="lzf", shuffle=True, fletcher32=True)
    yield "bzip2", dict(hdf5plugin.BZip2(blocksize=5))
    for nelems in (0, 64, 1000):
        yield f"lz4-{nelems}", dict(hdf5plugin.LZ4(nbytes=nelems))
    for level in (1, 3, 19):
        yield f"zstd{level}", dict(hdf5plugin.Zstd(clevel=level), shuffle=level == 3)
    for cname in ("none", "lz4", "zstd"):
        for nelems in (0, 64):
            yield f"bitshuffle-{cname}-{nelems}", dict(hdf5plugin.Bitshuffle(nelems=nelems, cname=cname))
    names = ["blosclz", "lz4", "lz4hc", "zlib", "zstd", "snappy"]
    for cname in names:
        for shuffle in (0, 1, 2):
            yield f"blosc-{cname}-{shuffle}", dict(hdf5plugin.Blosc(cname=cname, clevel=5, shuffle=shuffle))
    yield "blosc-level0", dict(hdf5plugin.Blosc(cname="lz4", clevel=0))
    yield "blosc-level9", dict(hdf5plugin.Blosc(cname="blosclz", clevel=9))


def plain(output, file, random):
    # Chunks of odd numbers of elements, single elements, and more than a block of every compressor.
    shapes = [((60,), (60,)), ((14, 18), (7, 9)), ((3,), (1,)), ((70000,), (70000,))]
    types = ["<f4", ">f8", "<i2", ">i8", "u1", "V3", "V24"]
    number = itertools.count()
    for (variant, arguments), dtype in itertools.product(variants(), map(np.dtype, types)):
        for shape, chunk in shapes:
            large = np.prod(shape) > 10000
            if large and dtype.str not in ("<f4", "<i2"):
                continue
            for kind, values in arrays(dtype, shape, random):
                if large and kind in ("zeros", "small", "signed", "rounded"):
                    continue
                try:
                    dataset = file.create_dataset(str(next(number)), shape, dtype, chunks=chunk, **arguments)
                except ValueError as error:
                    # A compressor that the plug-in was built without.
                    assert "snappy" in variant or "filter" in str(error).lower(), error
                    continue
                dataset[...] = values
                dataset.flush()
                output.add(f"{variant} {dtype} {shape} {kind}", dtype.str, dataset.id, values)
                del dataset


def scale_offset(output, file, random):
    number = itertools.count()
    for dtype in map(np.dtype, ["i1", "u1", "<i2", ">i2", "<u2", "<i4", ">u4", "<i8", ">i8", "<u8"]):
        for kind, values in arrays(dtype, (8, 30), random):
            for bits, fill in itertools.product((0, 1, 5), (None, 7)):
                if bits and kind != "zeros" and not (kind == "small" and bits == 5):
                    continue
                name = f"so{next(number)}"
                dataset = file.create_dataset(
                    name, values.shape, dtype, chunks=(4, 30), scaleoffset=bits, fillvalue=fill)
                dataset[...] = values
                del dataset
                dataset = file[name]
                decoded = dataset[...]
                assert bits or (decoded == values).all(), (dtype, kind, bits, fill)
                output.add(f"scale-offset {dtype} {kind} {bits} {fill}", dtype.str, dataset.id, decoded)
    for dtype, digits in itertools.product(map(np.dtype, ["<f4", ">f4", "<f8", ">f8"]), (0, 2, 4)):
        for kind, values in arrays(dtype, (8, 30), random):
            for fill in (None, 7):
                values[3, 3:9] = 7
                dataset = file.create_dataset(
                    f"so{next(number)}", values.shape, dtype, chunks=(4, 30), scaleoffset=digits, fillvalue=fill)
                dataset[...] = values
                # What was written stays in the cache, as it was, until the dataset is closed.
                name = dataset.name
                del dataset
                dataset = file[name]
                output.add(f"scale-offset {dtype} {kind} {digits} {fill}", dtype.str, dataset.id, dataset[...])


def low_level(file, name, tid, shape, chunk, setup):
    dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    dcpl.set_chunk(chunk)
    setup(dcpl)
    h5py.h5d.create(file.id, name.encode(), tid, h5py.h5s.create_simple(shape), dcpl=dcpl)
    return name.encode()


def number_type(base, precision, offset):
    tid = base.copy()
    tid.set_precision(precision)
    tid.set_offset(offset)
    return tid


def raw_round_trip(output, name, file, path, tid, values):
    """Bytes in the type of the file, without conversion."""
    size = tid.get_size()
    dataset = h5py.h5d.open(file.id, path)
    raw = np.ascontiguousarray(values).view(f"V{size}").reshape(dataset.shape)
    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, raw, mtype=tid)
    # What was written stays in the cache, as it was, until the dataset is closed.
    del dataset
    dataset = h5py.h5d.open(file.id, path)
    decoded = np.zeros(dataset.shape, f"V{size}")
    dataset.read(h5py.h5s.ALL, h5py.h5s.ALL, decoded, mtype=tid)
    output.add(name, f"V{size}", dataset, decoded)


def nbit(output, file, random):
    number = itertools.count()
    le, be = h5py.h5t.STD_I32LE, h5py.h5t.STD_U16BE
    types = {}
    for base, bits in [
            (h5py.h5t.STD_I32LE, 32), (h5py.h5t.STD_I32BE, 32), (h5py.h5t.STD_U8LE, 8), (h5py.h5t.STD_U64LE, 64),
            (h5py.h5t.STD_I16BE, 16)]:
        for precision in (1, 3, 8, 9, 12, 17, 31, 33, bits - 1, bits):
            for offset in (0, 3, 8, 5):
                if precision + offset <= bits:
                    order = "be" if base.get_order() else "le"
                    types[f"{bits}{order} {precision} bits from {offset}"] = number_type(base, precision, offset)
    types["array"] = h5py.h5t.array_create(number_type(le, 11, 2), (3, 2))
    types["array of arrays"] = h5py.h5t.array_create(types["array"], (2,))
    compound = h5py.h5t.create(h5py.h5t.COMPOUND, 24)
    compound.insert(b"a", 1, number_type(le, 13, 4))
    compound.insert(b"b", 6, number_type(be, 5, 7))
    string = h5py.h5t.C_S1.copy()
    string.set_size(5)
    compound.insert(b"c", 9, string)
    compound.insert(b"d", 16, h5py.h5t.array_create(number_type(be, 9, 1), (3,)))
    types["compound"] = compound
    types["array of compounds"] = h5py.h5t.array_create(compound, (2,))
    outer = h5py.h5t.create(h5py.h5t.COMPOUND, 60)
    outer.insert(b"x", 2, compound)
    outer.insert(b"y", 30, h5py.h5t.IEEE_F64LE)
    types["compound of compounds"] = outer
    types["string"] = string
    for name, tid in types.items():
        for fletcher in (False, True):
            def setup(dcpl):
                dcpl.set_filter(h5py.h5z.FILTER_NBIT, h5py.h5z.FLAG_OPTIONAL, ())
                if fletcher:
                    dcpl.set_fletcher32()
            path = low_level(file, f"nbit{next(number)}", tid, (4, 15), (2, 15), setup)
            values = random.integers(0, 256, 60 * tid.get_size(), dtype=np.uint8)
            raw_round_trip(output, f"n-bit {name}", file, path, tid, values)


def szip(output, file, random):
    number = itertools.count()
    options = {"nn": h5py.h5z.SZIP_NN_OPTION_MASK, "ec": h5py.h5z.SZIP_EC_OPTION_MASK}
    types = ["u1", "<i2", ">i2", "<i4", ">f4", "<i8", ">f8"]
    shapes = [((6, 40), (3, 40)), ((90,), (90,)), ((7000,), (7000,)), ((32, 64), (32, 64))]
    for dtype, (option, mask), block, (shape, chunk) in itertools.product(
            map(np.dtype, types), options.items(), (2, 8, 32), shapes):
        for kind, values in arrays(dtype, shape, random):
            if chunk[-1] < block:
                continue
            name = f"szip{next(number)}"
            path = low_level(
                file, name, h5py.h5t.py_create(dtype), shape, chunk, lambda dcpl: dcpl.set_szip(mask, block))
            raw_round_trip(output, f"szip {dtype} {option} {block} {shape} {kind}", file, path, h5py.h5t.py_create(dtype), values)
    # Numbers of fewer bits than their bytes.
    for bits, (option, mask) in itertools.product((3, 5, 11, 13, 20, 24), options.items()):
        for base in (h5py.h5t.STD_U8LE, h5py.h5t.STD_U16LE, h5py.h5t.STD_U16BE, h5py.h5t.STD_U32LE):
            size = base.get_size()
            if bits > 8 * size:
                continue
            tid = number_type(base, bits, 0)
            path = low_level(
                file, f"szip{next(number)}", tid, (60, 40), (60, 40), lambda dcpl: dcpl.set_szip(mask, 8))
            values = np.cumsum(random.integers(0, 4, 2400)) % (1 << bits)
            values[1200:1600] = 0
            order = ">" if base.get_order() else "<"
            raw_round_trip(output, f"szip {bits} bits {option}", file, path, tid, values.astype(f"{order}u{size}"))


def write(directory):
    random = np.random.default_rng(23)
    output = Output(directory)
    with tempfile.TemporaryDirectory() as scratch:
        fapl = h5py.h5p.create(h5py.h5p.FILE_ACCESS)
        # Numbers with many unused bits are what the n-bit filter is for; newer libraries ask whether they are meant.
        LIBRARY.H5Pset_relax_file_integrity_checks(ctypes.c_int64(fapl.id), ctypes.c_uint64(1))
        path = os.path.join(scratch, "peer.h5").encode()
        with h5py.File(h5py.h5f.create(path, fapl=fapl)) as file:
            for part in (plain, scale_offset, nbit, szip):
                part(output, file, random)


def read(directory):
    index, stored, chunks = (open(os.path.join(directory, name), "rb") for name in ("index", "stored", "chunks"))
    with tempfile.TemporaryDirectory() as scratch:
        with h5py.File(os.path.join(scratch, "ours.h5"), "w") as file:
            for number, line in enumerate(index.read().decode().splitlines()):
                name, dtype, mask, stored_len, chunk_len, filters = line.split("\t")
                data, chunk = stored.read(int(stored_len)), chunks.read(int(chunk_len))
                dtype = np.dtype(dtype)
                count = len(chunk) // dtype.itemsize

                def setup(dcpl):
                    for text in filters.split(";"):
                        code, optional, *values = map(int, text.split(","))
                        flags = h5py.h5z.FLAG_OPTIONAL if optional else h5py.h5z.FLAG_MANDATORY
                        dcpl.set_filter(code, flags, tuple(values))
                path = low_level(
                    file, str(number), h5py.h5t.py_create(dtype, logical=True), (count,), (count,), setup)
                dataset = h5py.h5d.open(file.id, path)
                dataset.write_direct_chunk((0,), data, filter_mask=int(mask))
                # Until the dataset is closed, the library goes on with the filter mask of before.
                del dataset
                dataset = h5py.h5d.open(file.id, path)
                try:
                    assert h5py.Dataset(dataset)[...].tobytes() == chunk
                except Exception as error:
                    error.add_note(f"{name}: {filters}, mask {mask}, {len(data)} bytes for {len(chunk)}")
                    raise
                print(name)


{"write": write, "read": read}[sys.argv[1]](sys.argv[2])
