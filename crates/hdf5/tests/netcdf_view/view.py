"""Files of other libraries, and what netCDF4 says about files.

view.py make DIRECTORY        makes files with netCDF4, h5netcdf and h5py
view.py view DIRECTORY        for every NAME.nc, NAME.view: what netCDF4 says about it
view.py compare OLD NEW       every NAME.nc of NEW has all of that of OLD, and what was added
"""
import json
import pathlib
import sys
import warnings

import numpy as np

warnings.filterwarnings("ignore")


def numbers(*shape, kind="i4"):
    return (np.arange(int(np.prod(shape))) * 7 % 251).astype(kind).reshape(shape)


# ---------------------------------------------------------------- netCDF4


def strings(root):
    root.setncattr_string("one string", "ä string")
    root.setncattr_string("strings", ["a", "", "grün", "x" * 5000])
    root.text, root.empty = "some text", ""
    root.setncattr("numbers", np.arange(5, dtype="u8"))
    root.setncattr("nan", np.array([np.nan, 1.5], "f4"))
    root.createDimension("t", None)
    root.createDimension("n", 3)
    free = root.createVariable("free", str, ["t", "n"], chunksizes=[2, 2])
    free[:] = np.array([["a", "bb", ""], ["c", "ü", "d" * 700]], object)
    root.createVariable("fixed", str, ["n"])[:] = np.array(["x", "", "yz"], object)
    root.createVariable("scalar", str, [])[...] = "alone"
    chars = root.createVariable("chars", "S1", ["t", "n"])
    chars[:] = np.array([[b"a", b"b", b"c"], [b"d", b"e", b"f"]], "S1")
    chars.setncattr_string("of a variable", ["p", "q"])


def types(root):
    group = root.createGroup("inner")
    root.createDimension("n", 4)
    cloud = root.createEnumType("u1", "cloud", {"clear": 0, "stratus": 2, "missing": 255})
    point = root.createCompoundType(np.dtype([("x", "f4"), ("y", "f8"), ("id", "i2", (2,))], align=True), "point")
    pair = root.createCompoundType(np.dtype([("from", point.dtype), ("to", point.dtype)], align=True), "pair")
    ragged = group.createVLType("i4", "ragged")
    root.createVariable("sky", cloud, ["n"], fill_value=255)[:] = [0, 2, 255, 0]
    points = root.createVariable("points", point, ["n"])
    data = np.zeros(4, point.dtype)
    data["x"], data["id"] = [1, 2, 3, 4], [[1, 2], [3, 4], [5, 6], [7, 8]]
    points[:] = data
    root.createVariable("pairs", pair, ["n"])[:] = np.zeros(4, pair.dtype)
    rows = group.createVariable("rows", ragged, ["n"])
    for at in range(4):
        rows[at] = np.arange(at, dtype="i4")
    group.origin = data[:1]


def groups(root):
    root.createDimension("x", 3)
    root.createDimension("t", None)
    root.createVariable("x", "f8", ["x"])[:] = [1, 2, 3]
    deep = root.createGroup("a/b/c")
    for number, group in enumerate([root["a"], root["a/b"], deep, root.createGroup("z")]):
        group.note = "group %d" % number
        group.createVariable("v", "i2", ["t", "x"])[:] = numbers(2 + number, 3, kind="i2")
    # The same name again, with another length.
    other = root.createGroup("a/other")
    other.createDimension("x", 5)
    other.createVariable("x", "i8", ["x"])[:] = numbers(5, kind="i8")
    other.createGroup("below").createVariable("w", "u4", ["x"])[:] = numbers(5, kind="u4")
    root.createDimension("late", 2)
    root["z"].createVariable("late", "f4", ["late"])[:] = [1, 2]


def short(root):
    root.createDimension("t", None)
    root.createDimension("s", None)
    root.createDimension("x", 2)
    for name, kind in [("long", "i4"), ("short", "f4"), ("none", "i2")]:
        variable = root.createVariable(name, kind, ["t", "x"], chunksizes=[2, 2])
        variable[: {"long": 9, "short": 4, "none": 0}[name]] = 5
    root.createVariable("packed", "i4", ["t", "x"], compression="zlib", chunksizes=[3, 2])[:2] = 6
    root.createVariable("unused", "f8", ["s", "t"])


def unwritten(root):
    root.createDimension("x", 40)
    root.createDimension("y", 30)
    root.createVariable("flat", "f8", ["x"], contiguous=True)
    root.createVariable("filled", "i4", ["x"], contiguous=True, fill_value=-5)
    root.createVariable("not_filled", "i4", ["x", "y"], fill_value=False, chunksizes=[7, 7])[:] = 4
    sparse = root.createVariable("sparse", "f4", ["x", "y"], chunksizes=[4, 3], fill_value=1.25)
    sparse[17, 20:25] = 3
    sparse = root.createVariable("sparse_packed", ">i2", ["x", "y"], chunksizes=[4, 3], compression="zlib")
    sparse[9:12, :] = 3
    root.createVariable("nothing", "i1", ["x", "y"], chunksizes=[4, 3])


def classic(root):
    root.title = "classic"
    root.createDimension("t", None)
    root.createDimension("x", 5)
    root.createVariable("x", "f4", ["x"])[:] = numbers(5)
    root.createVariable("v", "f8", ["t", "x"], fill_value=-1.5)[:] = numbers(3, 5)
    root.createVariable("c", "S1", ["x"])[:] = np.array(list("hello"), "S1")


def names(root):
    root.createDimension("x", 3)
    root.createDimension("y", 4)
    root.createDimension("z", 2)
    root.createVariable("x", "f4", ["x", "y"])[:] = numbers(3, 4)
    # Not a coordinate variable: a dimension has its name.
    root.createVariable("y", "f4", ["x"])[:] = numbers(3)
    root.createVariable("v", "i4", ["z", "y", "x"])[:] = numbers(2, 4, 3)
    root.createVariable("same", "i4", ["x", "x"])[:] = numbers(3, 3)
    root.createVariable("größe", "i4", ["z"])[:] = [1, 2]
    root.createVariable("Z", "i4", ["z"])[:] = [3, 4]


def renamed(root):
    names(root)
    root.sync()
    root.renameDimension("z", "depth")
    root.renameVariable("v", "volume")
    root.createVariable("depth", "f8", ["depth"])[:] = [1, 2]


def filters(root):
    root.createDimension("t", None)
    root.createDimension("x", 50)
    for name, options in {
        "deflate": {"compression": "zlib", "complevel": 5, "shuffle": False},
        "shuffle": {"compression": "zlib", "shuffle": True},
        "sum": {"fletcher32": True},
        "all": {"compression": "zlib", "fletcher32": True, "endian": "big"},
    }.items():
        root.createVariable(name, "i4", ["t", "x"], chunksizes=[3, 20], **options)[:] = numbers(8, 50)


def many(root):
    root.createDimension("x", 2)
    for number in range(60):
        variable = root.createVariable("v%d" % (number * 37 % 60), "i4", ["x"])
        variable[:] = [number, -number]
        for at in range(number % 20):
            variable.setncattr("a%d" % (at * 7 % 20), "text %d" % at)
    for at in range(40):
        root.setncattr("g%d" % (at * 11 % 40), np.arange(at, dtype="i2"))
    root.setncattr("long", "0123456789" * 10000)


def later(root):
    """Definitions in several sessions."""
    root.createDimension("b", 2)
    root.createVariable("v", "i4", ["b"])[:] = [1, 2]
    root.sync()
    root.createDimension("a", 3)
    root.createGroup("g").createDimension("c", None)
    root["g"].createVariable("w", "i4", ["c", "a", "b"])[:] = numbers(2, 3, 2)
    root.sync()
    root.createVariable("a", "i4", ["a"])[:] = [1, 2, 3]
    root.createDimension("d", 4)
    root.createVariable("u", "i4", ["d", "a"])[:] = numbers(4, 3)


def with_netcdf4(out):
    import netCDF4

    for fill in [strings, types, groups, short, unwritten, classic, names, renamed, filters, many, later]:
        model = "NETCDF4_CLASSIC" if fill is classic else "NETCDF4"
        with netCDF4.Dataset(out / ("netcdf4_%s.nc" % fill.__name__), "w", format=model) as root:
            fill(root)


# ---------------------------------------------------------------- h5netcdf


def with_h5netcdf(out):
    import h5netcdf

    with h5netcdf.File(out / "h5netcdf.nc", "w") as root:
        root.dimensions = {"t": None, "x": 4, "y": 3}
        root.attrs["text"], root.attrs["numbers"] = "ä text", np.arange(3, dtype="<i2")
        root.create_variable("x", ["x"], "<f8", data=np.arange(4.0))
        record = root.create_variable("record", ["t", "x"], "<i4", chunks=(2, 4))
        root.resize_dimension("t", 3)
        record[...] = numbers(3, 4)
        packed = root.create_variable("packed", ["x", "y"], ">f4", chunks=(3, 2), compression="gzip", shuffle=True, fillvalue=-2)
        packed[...] = numbers(4, 3)
        packed.attrs["units"] = "m"
        group = root.create_group("inner")
        group.dimensions["x"] = 2
        group.create_variable("v", ["x", "y"], "<u2", data=numbers(2, 3, kind="<u2"))
        group.create_variable("scalar", [], "<f8", data=np.float64(2.5))
        group.attrs["strings"] = ["a", "b"]


# ---------------------------------------------------------------- h5py


def scales(root):
    """Dimensions by the conventions of HDF5 alone, and all kinds of chunk indexes."""
    import h5py

    for name, length, most in [("t", 20, None), ("x", 11, 11), ("s", 7, None)]:
        root.create_dataset(name, data=numbers(length, kind="<f8"), maxshape=(most,), chunks=(4,) if most is None else None)
        root[name].make_scale(name)
    shapes = {
        "fixed": (["x"], (2,)),
        "extensible": (["t", "x"], (3, 4)),
        "extensible_second": (["x", "t"], (3, 4)),
        "tree": (["t", "s"], (2, 3)),
        "flat": (["x"], None),
    }
    filters = {"plain": {}, "deflate": {"compression": 4, "shuffle": True}, "sum": {"fletcher32": True}}
    for kind, options in filters.items():
        for name, (dims, chunk) in shapes.items():
            if chunk is None and options:
                continue
            shape = tuple(len(root[dim]) for dim in dims)
            most = tuple(root[dim].maxshape[0] for dim in dims)
            data = root.create_dataset(name + "_" + kind, data=numbers(*shape), maxshape=most, chunks=chunk, **options)
            for at, dim in enumerate(dims):
                data.dims[at].attach_scale(root[dim])
    sparse = root.create_dataset("sparse", (20, 7), "<i4", maxshape=(None, None), chunks=(3, 2))
    sparse[13, 3] = 5
    sparse.dims[0].attach_scale(root["t"])
    sparse.dims[1].attach_scale(root["s"])
    names = root.create_dataset("names", (11,), "S5")
    names[:] = [b"n%d" % at for at in range(11)]
    names.dims[0].attach_scale(root["x"])
    free = root.create_dataset("free", (11,), h5py.string_dtype(), chunks=(4,))
    free[:] = ["free %d" % at for at in range(11)]
    free.dims[0].attach_scale(root["x"])
    root.attrs["fixed strings"] = np.array([b"ab", b"cde"], "S3")
    root.attrs["one"] = np.bytes_(b"fixed")
    root.attrs["free"] = "of any length"
    root.attrs["scalar"] = np.float32(1.5)


def phony(root):
    """No dimensions at all."""
    root.create_dataset("a", data=numbers(3, 4))
    root.create_dataset("b", data=numbers(4, 4))
    root.create_dataset("c", data=numbers(3), maxshape=(None,), chunks=(2,))
    root.create_dataset("scalar", data=np.int64(5))
    group = root.create_group("g")
    group.create_dataset("d", data=numbers(4, 3, 3))
    group.create_group("h").create_dataset("e", data=numbers(4, 9))
    root.attrs["note"] = "without dimensions"


def unseen(root):
    """What netCDF cannot see."""
    import h5py
    from h5py import h5d, h5s, h5t

    data = root.create_dataset("seen", data=numbers(3))
    data.attrs["reference"] = data.ref
    data.attrs["two dimensions"] = numbers(2, 2)
    data.attrs["CLASS"] = "IMAGE"
    root.create_dataset("references", data=np.array([data.ref], h5py.ref_dtype), dtype=h5py.ref_dtype)
    root.create_dataset("null", data=h5py.Empty("<i2"))
    root.create_dataset("half", data=np.zeros(2, "<f2"))
    root.create_dataset("array", (2,), np.dtype(("<i2", (3,))))
    h5d.create(root.id, b"time", h5t.UNIX_D32LE, h5s.create_simple((2,)))
    h5d.create(root.id, b"bits", h5t.STD_B16BE, h5s.create_simple((2,)))
    root["soft"] = h5py.SoftLink("/seen")
    root["dangling"] = h5py.SoftLink("/nowhere")
    root["external"] = h5py.ExternalLink("other.h5", "/x")
    root["hard"] = root["seen"]
    root["number"] = np.dtype("<i4")


def anonymous(root):
    """Types that are not committed."""
    import h5py

    root.create_dataset("x", data=numbers(2))
    root["x"].make_scale("x")
    # Its type is that of variables.
    root["x"].attrs["flags"] = np.array([True, False, True])
    for name, data in {
        "flag": np.array([True, False]),
        "pair": np.zeros(2, np.dtype([("a", "<i4"), ("b", "<f8")])),
        "flag again": np.array([False, True]),
    }.items():
        root.create_dataset(name, data=data).dims[0].attach_scale(root["x"])


def with_h5py(out):
    import h5py

    for version in ["earliest", "latest"]:
        for order in [True, False]:
            for fill in [scales, phony, unseen, anonymous]:
                name = "h5py_%s_%s%s.nc" % (fill.__name__, version, "_ordered" if order else "")
                # NetCDF-C does not open files with links that lead nowhere.
                place = out / "unseen" if fill is unseen else out
                with h5py.File(place / name, "w", libver=version, track_order=order) as root:
                    fill(root)


def with_losses(out):
    """Files of which a commit would lose something: NAME.nc has what the function of that name makes."""
    import h5py

    def fill(root):
        return root.create_dataset("v", (2,), "<i4", fillvalue=7)

    def comment(root):
        data = root.create_dataset("v", (2,), "<i4")
        h5py.h5o.set_comment(data.id, b"a comment")
        return data

    def growing(root):
        return root.create_dataset("v", (2,), "<i4", maxshape=(5,), chunks=(2,))

    def shorter(root):
        return root.create_dataset("v", (1,), "<i4")

    def external(root):
        return root.create_dataset("v", (2,), "<i4", external=[("one.bin", 0, 8)])

    def virtual(root):
        layout = h5py.VirtualLayout(shape=(2,), dtype="<i4")
        layout[:] = h5py.VirtualSource("other.h5", "data", shape=(2,))
        return root.create_virtual_dataset("v", layout)

    def dimension_attribute(root):
        root.create_dataset("y", (3,), "<i4").make_scale("This is a netCDF dimension but not a netCDF variable.          3")
        root["y"].attrs["units"] = "m"

    def type_attribute(root):
        root["point"] = np.dtype([("a", "<i4"), ("b", "<f8")])
        root["point"].attrs["units"] = "m"

    def two_links(root):
        root["again"] = root["x"]

    def user_block(root):
        pass

    for make in [fill, comment, growing, shorter, external, virtual, dimension_attribute, type_attribute, two_links, user_block]:
        options = {"userblock_size": 512} if make is user_block else {}
        with h5py.File(out / (make.__name__ + ".nc"), "w", libver="latest", track_order=True, **options) as root:
            root.create_dataset("x", data=numbers(2)).make_scale("x")
            data = make(root)
            if data is not None:
                data.dims[0].attach_scale(root["x"])


# ---------------------------------------------------------------- what netCDF4 says


def attributes(owner):
    out = {}
    for name in owner.ncattrs():
        try:
            value = owner.getncattr(name)
        except Exception:
            out[name] = ["user"]
            continue
        if isinstance(value, str) or (isinstance(value, list) and all(isinstance(one, str) for one in value)):
            out[name] = ["text", [value] if isinstance(value, str) else value]
            continue
        if isinstance(value, bytes):
            # The fill value of characters.
            out[name] = ["text", [value.decode()]]
            continue
        value = np.atleast_1d(np.asarray(value))
        if value.dtype.names or value.dtype.kind not in "iuf":
            out[name] = ["user"]
        else:
            little = value.astype(value.dtype.newbyteorder("<"))
            out[name] = [little.dtype.str.lstrip("<|"), little.tobytes().hex()]
    return out


def kind_of(variable):
    import netCDF4

    kind = variable.datatype
    for one, name in [(netCDF4.CompoundType, "compound"), (netCDF4.VLType, "vlen"), (netCDF4.EnumType, "enum")]:
        if isinstance(kind, one) and kind.dtype is not str:
            return [name, kind.name]
    if variable.dtype is str:
        return "str"
    return variable.dtype.str.lstrip("|").replace("=", "<")


def view(path):
    import netCDF4

    with netCDF4.Dataset(path) as root:
        out = {"classic": root.data_model == "NETCDF4_CLASSIC", "groups": {}, "variables": {}}
        dimensions = []

        def group(here):
            where = here.path
            out["groups"][where] = {
                "attributes": attributes(here),
                "variables": list(here.variables),
                "groups": list(here.groups),
                "types": sorted([*here.cmptypes, *here.vltypes, *here.enumtypes]),
            }
            for name, one in here.dimensions.items():
                dimensions.append([one._dimid, where, name, len(one), one.isunlimited()])
            for name, one in here.variables.items():
                chunks = one.chunking()
                out["variables"][where.rstrip("/") + "/" + name] = {
                    "type": kind_of(one),
                    "dimensions": [[dim.group().path, dim.name] for dim in one.get_dims()],
                    "chunks": chunks if isinstance(chunks, list) else None,
                    "attributes": attributes(one),
                }
            for child in here.groups.values():
                group(child)

        group(root)
        out["dimensions"] = [one[1:] for one in sorted(dimensions)]
        return out


# ---------------------------------------------------------------- files that were written further


def same(old, new):
    old, new = np.asarray(old), np.asarray(new)
    if old.dtype.names:
        # Not the gaps between members.
        return old.dtype == new.dtype and all(same(old[name], new[name]) for name in old.dtype.names)
    if old.dtype != object:
        return old.dtype == new.dtype and old.shape == new.shape and old.tobytes() == new.tobytes()
    pairs = zip(old.ravel(), new.ravel())
    return old.shape == new.shape and all(np.array_equal(one, other) for one, other in pairs)


def compare(old_path, new_path):
    import h5py
    import netCDF4

    shapes, arbitrary = {}, set()
    with h5py.File(old_path) as old, h5py.File(new_path) as new:

        def visit(name, one):
            if not isinstance(one, h5py.Dataset):
                return
            shapes["/" + name] = one.shape
            # Anything, and each time something else.
            if one.id.get_storage_size() == 0 and one.id.get_create_plist().get_fill_time() == h5py.h5d.FILL_TIME_NEVER:
                arbitrary.add("/" + name)
                return
            where = tuple(slice(0, length) for length in one.shape) or ()
            assert same(one[where], new[name][where]), "h5py: " + name
            assert one.compression == new[name].compression, name
            for attribute in set(one.attrs) - {"_Netcdf4Dimid"}:
                assert attribute in new[name].attrs, name + " " + attribute

        old.visititems(visit)
    with netCDF4.Dataset(old_path) as old, netCDF4.Dataset(new_path) as new:
        grown = new.getncattr("grown")
        for root in [old, new]:
            root.set_auto_maskandscale(False)
            root.set_auto_chartostring(False)
        assert new.getncattr("added") == "text" and list(new["added"][:]) == [1.5, 2.5, 3.5]

        def group(here, there):
            before, after = attributes(here), attributes(there)
            for name in ["added", "grown"]:
                if here is old:
                    after.pop(name)
            assert before == after, (here.path, before, after)
            names = [name for name in there.variables if here is not old or name != "added"]
            assert list(here.variables) == names, names
            for name, one in here.variables.items():
                other, where = there[name], here.path.rstrip("/") + "/" + name
                after = attributes(other)
                assert after.pop("added") == ["i4", "010000000200000003000000"], where
                assert attributes(one) == after, (where, after)
                assert kind_of(one) == kind_of(other), where
                shape = shapes.get(where, shapes.get(here.path.rstrip("/") + "/_nc4_non_coord_" + name))
                if where in arbitrary:
                    continue
                region = tuple(slice(0, length) for length in shape)
                values = other[...] if not region else other[region]
                assert same(one[...] if not region else one[region], values), where
                if not grown:
                    assert one.shape == other.shape and same(one[...], other[...]), where
                elif other.shape != one.shape and other.dtype is not str and other.dtype.kind in "iuf":
                    rest = np.ones(other.shape, bool)
                    rest[tuple(slice(0, length) for length in one.shape)] = False
                    assert (other[...][rest] == 7).all(), where
            for name, one in here.dimensions.items():
                longer = grown and one.isunlimited()
                assert len(there.dimensions[name]) == len(one) + longer or not len(one), name
                assert one.isunlimited() == there.dimensions[name].isunlimited()
            assert list(here.groups) == list(there.groups)
            for name, one in here.groups.items():
                group(one, there[name])

        group(old, new)


def main():
    command, directory = sys.argv[1], pathlib.Path(sys.argv[2])
    failures = []
    if command == "make":
        with_netcdf4(directory)
        with_h5netcdf(directory)
        with_h5py(directory)
        with_losses(directory / "losses")
    for path in sorted((pathlib.Path(sys.argv[3]) if command == "compare" else directory).glob("*.nc")):
        try:
            if command == "view":
                path.with_suffix(".view").write_text(json.dumps(view(path)))
            if command == "compare":
                compare(directory / path.name, path)
        except Exception as error:
            failures.append("%s: %s: %s" % (path.name, type(error).__name__, error))
    print(len(failures), "failures")
    print("\n".join(failures[:20]))


main()
