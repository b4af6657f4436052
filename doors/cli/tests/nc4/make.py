"""Files of h5py and netCDF4-python, into a directory: with conventions of netCDF and without."""

import os
import sys

import h5py
import netCDF4
import numpy as np
from h5py import h5d, h5p, h5s, h5t

out = sys.argv[1]


def hdf5(name, **options):
    return h5py.File(os.path.join(out, name), "w", **options)


def netcdf(name, **options):
    return netCDF4.Dataset(os.path.join(out, name), "w", **options)


# Without conventions: dimensions have made-up names.
with hdf5("plain.h5") as f:
    for kind in ["i1", "u1", "<i2", ">i2", "<u4", ">i8", "<u8", "<f4", ">f8"]:
        f.create_dataset(kind.replace("<", "l").replace(">", "b"), data=np.arange(6).reshape(2, 3).astype(kind))
    f.create_dataset("scalar", data=np.float64(1.5))
    f.attrs["fixed"] = np.bytes_("fixed")
    f.attrs["list"] = [1.5, 2.5]
    f.attrs["number"] = 5
    f.attrs["text"] = "variable"
    f.attrs["texts"] = ["one", "two"]
    f.create_group("g/h").create_dataset("v", data=[1, 2, 3])
with hdf5("tracked.h5", track_order=True) as f:
    f.create_dataset("z", data=np.arange(4.0))
    f.create_dataset("a", data=np.arange(4, dtype="<i2"))
    f["z"].attrs["units"] = "m"
with hdf5("layouts.h5") as f:
    data = np.arange(200).reshape(20, 10)
    f.create_dataset("chunked", data=data, chunks=(6, 4))
    f.create_dataset("deflate", data=data, chunks=(6, 4), compression=5, shuffle=True)
    f.create_dataset("checked", data=data, chunks=(6, 4), fletcher32=True)
    f.create_dataset("growing", data=data, maxshape=(None, 10), chunks=(6, 4))
    f.create_dataset("filled", (20, 10), "<i4", fillvalue=7)
    sparse = f.create_dataset("sparse", (40, 10), "<f4", chunks=(7, 3), fillvalue=np.nan)
    sparse[10:20, 2] = 1
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_layout(h5d.COMPACT)
    compact = h5d.create(f.id, b"compact", h5t.STD_I16BE, h5s.create_simple((3, 4)), plist)
    compact.write(h5s.ALL, h5s.ALL, np.arange(12, dtype="<i2").reshape(3, 4))
for version in ["v108", "v110"]:
    with hdf5(f"indexes_{version}.h5", libver=("earliest" if version == "v108" else version, version)) as f:
        data = np.arange(200, dtype="<i4").reshape(20, 10)
        f.create_dataset("fixed", data=data, chunks=(3, 4), compression=1)
        f.create_dataset("single", data=data, chunks=(20, 10))
        f.create_dataset("one", data=data, chunks=(3, 4), maxshape=(None, 10))
        f.create_dataset("two", data=data, chunks=(3, 4), maxshape=(None, None))
with hdf5("strings.h5") as f:
    f.create_dataset("variable", data=["a", "", "long one"], dtype=h5py.string_dtype())
    f.create_dataset("characters", data=np.array([b"a", b"b", b"c"], "S1"))
with hdf5("unwritten_strings.h5") as f:
    f.create_dataset("unwritten", (3,), h5py.string_dtype())
with hdf5("scales.h5") as f:
    x = f.create_dataset("x", data=np.arange(3.0))
    x.make_scale("x")
    f.create_dataset("y", data=np.arange(2.0)).make_scale("y")
    v = f.create_dataset("v", data=np.ones((2, 3)))
    v.dims[0].attach_scale(f["y"])
    v.dims[1].attach_scale(f["x"])
with hdf5("committed.h5") as f:
    kind = h5py.enum_dtype({"RED": 0, "GREEN": 1}, "i1")
    # Netcdf-C knows types only after it has met them, in the order of names.
    f["colour"] = kind
    f.create_dataset("hues", data=np.array([0, 1, 0], "i1"), dtype=f["colour"])
    f["point"] = np.dtype([("x", "<f4"), ("y", "<i4")])
    f.create_dataset("where", data=np.array([(1, 2), (3, 4)], f["point"].dtype), dtype=f["point"])
with hdf5("unrepresented.h5") as f:
    f.create_dataset("plain", data=np.array([1, 2, 3], "<i4"))
    f.create_dataset("references", data=np.array([f.ref]), dtype=h5py.ref_dtype)
    h5d.create(f.id, b"bits", h5t.STD_B16LE, h5s.create_simple((3,)))

with netcdf("model.nc") as d:
    d.createDimension("t", None)
    d.createDimension("x", 50)
    v = d.createVariable("v", "f4", ("t", "x"), zlib=True, chunksizes=(3, 20), fill_value=-9)
    v[0:7] = np.arange(350).reshape(7, 50)
    w = d.createVariable("w", "i4", ("x",), contiguous=True, endian="big")
    w[:] = np.arange(50)
    d.createVariable("late", "f8", ("t",))
    v.units = "K"
    v.setncattr("list", np.arange(3, dtype="i2"))
    v.setncattr_string("string", "of variable length")
    d.setncattr_string("strings", ["a", "b"])
with netcdf("short.nc") as d:
    # The second variable is shorter than the dimension.
    d.createDimension("t", None)
    d.createDimension("x", 2)
    d.createVariable("a", "i4", ("t", "x"))[0:5] = 1
    d.createVariable("b", "f8", ("t", "x"))[0:2] = 2
    d.createVariable("c", "i2", ("t",))
    d.createVariable("d", str, ("t",))[0] = "one"
with netcdf("groups.nc") as d:
    for name in ["b", "a"]:
        g = d.createGroup(name)
        g.createDimension("n", 3)
        g.createVariable("v", "u2", ("n",))[:] = [1, 2, 3]
        g.createGroup("inner").createVariable("w", "i8", ("n",))[:] = [4, 5, 6]
with netcdf("types.nc") as d:
    d.createDimension("n", 2)
    point = d.createCompoundType(np.dtype([("x", "f4"), ("n", "i4", (2,))]), "point")
    row = d.createVLType(np.int32, "row")
    colour = d.createEnumType(np.uint8, "colour", {"red": 0, "blue": 7})
    d.createVariable("p", point, ("n",))[:] = np.array([(1, [2, 3]), (4, [5, 6])], point.dtype)
    rows = d.createVariable("r", row, ("n",))
    rows[0], rows[1] = np.array([1, 2, 3], "i4"), np.array([], "i4")
    d.createVariable("c", colour, ("n",), fill_value=0)[:] = np.array([7, 0], "u1")
for model in ["NETCDF4_CLASSIC", "NETCDF4"]:
    with netcdf(f"{model.lower()}.nc", format=model) as d:
        d.createDimension("t", None)
        d.createVariable("t", "f8", ("t",))[:] = [1, 2, 3]
        d.note = "one\ntwo"

# Attributes whose order of creation is not tracked, in headers and in a heap.
NAMES = ["n%02d" % (i * 7 % 40) for i in range(40)]
for name, libver in [("attributes_earliest.h5", ("earliest", "v108")), ("attributes_v18.h5", ("v108", "v108"))]:
    with hdf5(name, libver=libver) as f:
        for few in ["z", "a", "m", "B", "b2"]:
            f.attrs[few] = 1
        d = f.create_dataset("d", data=[1, 2])
        for number, many in enumerate(NAMES):
            d.attrs[many] = number

# Elements that are elsewhere.
with hdf5("elsewhere_source.h5") as f:
    f["x"] = np.arange(10.0)
with hdf5("unrepresented_elsewhere.h5") as f:
    layout = h5py.VirtualLayout((10,), "f8")
    layout[:] = h5py.VirtualSource("elsewhere_source.h5", "x", (10,))
    f.create_virtual_dataset("v", layout)
    f.create_dataset("e", (10,), "f8", external=[(os.path.join(out, "elsewhere.raw"), 0, 80)])
    f["e"][:] = np.arange(10.0)
    f["a"] = [1, 2, 3]
os.remove(os.path.join(out, "elsewhere.raw"))
