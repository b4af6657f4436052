"""Small files of which a fuzzer makes others, into a directory."""

from make import call, ctypes, h5p, h5py, hid, made_by, make, np, placed_elsewhere, shared, small_sizes


def chunks(f):
    for name, shape, maximum, chunk in [
        ("single", (3, 3), (3, 3), (3, 3)),
        ("fixed", (9,), (9,), (2,)),
        ("extensible", (30,), (None,), (1,)),
        ("tree", (6, 3), (None, None), (2, 2)),
    ]:
        data = np.arange(int(np.prod(shape)), dtype="<i2").reshape(shape)
        f.create_dataset(name, data=data, maxshape=maximum, chunks=chunk)
        f.create_dataset(name + "_filtered", data=data, maxshape=maximum, chunks=chunk, compression=1, fletcher32=True)


def paged(f):
    f.create_dataset("fixed", data=np.arange(1100, dtype="u1"), chunks=(1,))


def long_array(f):
    sparse = f.create_dataset("extensible", (20000,), "u1", maxshape=(None,), chunks=(1,))
    sparse[3] = sparse[19000] = 1


def few_types(f):
    f.create_dataset("text", data=["a", "bc", ""], dtype=h5py.string_dtype())
    f.create_dataset("rows", (2,), h5py.vlen_dtype("<i2"))[0] = [1, 2, 3]
    kind = np.dtype([("a", "<i4"), ("b", ">f8"), ("c", "S3"), ("d", "<u2", (2, 2))])
    f["kind"] = kind
    f.create_dataset("compound", (2,), f["kind"])[0] = (1, 2.5, b"x", [[1, 2], [3, 4]])
    f.create_dataset("enum", (2,), h5py.enum_dtype({"A": 1, "B": 2}, "i1"))
    f.create_dataset("reference", data=np.array([f["kind"].ref]), dtype=h5py.ref_dtype)
    f.create_dataset("region", (1,), h5py.regionref_dtype)[0] = f["compound"].regionref[0:1]
    f.attrs["text"] = "some text"
    f.attrs["numbers"] = np.arange(4)


def links(f):
    for number in range(12):
        f[f"soft {number}"] = h5py.SoftLink("/group" if number % 2 else f"soft {number - 1}")
    group = f.create_group("group")
    group["up"] = f
    f["external"] = h5py.ExternalLink("other", "/path")


def dense(f):
    for number in range(12):
        f.attrs[f"attribute {number}"] = number
    f.attrs["huge"] = np.zeros(9000, "<i8")


def with_messages(f):
    for number in range(2):
        d = f.create_dataset(f"d{number}", (3, 2), "<i4", chunks=(2, 1), compression=3)
        d.attrs["same"] = np.arange(12)


def small_heap(f):
    gcpl = h5p.create(h5p.GROUP_CREATE)
    call("H5Pset_deflate", hid(gcpl.id), ctypes.c_uint(6))
    call("H5Pset_link_phase_change", hid(gcpl.id), ctypes.c_uint(0), ctypes.c_uint(0))
    group = h5py.h5g.create(f.id, b"links", gcpl=gcpl)
    for number in range(60):
        group.links.create_soft(f"link {number}".encode(), b"/target")


for version in ["earliest", "v108", "latest"]:
    bounds = (version, "latest") if version == "earliest" else (version, version)
    for fill in [chunks, few_types, links, dense]:
        if fill is not dense or version != "earliest":
            make(f"{fill.__name__}-{version}", fill, bounds)
for fill in [paged, long_array, placed_elsewhere, small_heap]:
    make(fill.__name__, fill, "latest")
make("user_block", links, "earliest", userblock_size=512)
made_by(small_sizes(4, 4), "sizes-4", (0, 5), chunks)
made_by(small_sizes(2, 2), "sizes-2", (1, 1), links)
made_by(shared([(31, 10)], 1), "shared", (1, 1), with_messages)
