"""A file over types, storage and filters ("make"), and the comparison of what readers of Zarr find
behind the references with what netCDF4-python reads ("check"). "check" of other references takes their name, and
how many variables they have at least."""

import json
import os
import sys

import netCDF4
import numpy as np

task, directory = sys.argv[1:3]
path = os.path.join(directory, "indexed.nc")


def make():
    with netCDF4.Dataset(path, "w") as d:
        d.title = "indexed"
        d.createDimension("t", None)
        d.createDimension("y", 30)
        d.createDimension("x", 41)
        numbers = np.arange(7 * 30 * 41).reshape(7, 30, 41)
        for kind in ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]:
            for order in ["little", "big"]:
                chunked = {"chunksizes": (7, 11), "zlib": True, "shuffle": True}
                v = d.createVariable(f"{kind}_{order}", kind, ("y", "x"), endian=order, **chunked)
                v[:] = numbers[0] % 100
        v = d.createVariable("records", "f4", ("t", "y", "x"), zlib=True, complevel=9, shuffle=False, fill_value=-1)
        v[:] = numbers
        v.units = "K"
        v.valid_range = np.array([0, 1e6], "f4")
        d.createVariable("checked", "i4", ("y", "x"), chunksizes=(30, 10), fletcher32=True)[:] = numbers[0]
        d.createVariable("flat", "f8", ("y", "x"), contiguous=True)[:] = numbers[1] / 3
        d.createVariable("sparse", "i4", ("y", "x"), chunksizes=(10, 10), fill_value=7)[12:14, 15] = 3
        d.createVariable("zstd", "f8", ("y", "x"), compression="zstd", chunksizes=(8, 41))[:] = numbers[2]
        d.createVariable("letters", "S1", ("x",))[:] = np.array([b"a"] * 41, "S1")
        d.createVariable("words", str, ("y",))[:] = np.array(["w"] * 30, object)
        d.createVariable("single", "f8", ())[:] = 2.5
        d.createVariable("x", "f4", ("x",))[:] = np.arange(41)
        point = d.createCompoundType(np.dtype([("a", "i4"), ("b", "f4")]), "point")
        d.createVariable("points", point, ("y",))[:] = np.array([(i, i / 2) for i in range(30)], point.dtype)
        g = d.createGroup("inner/deeper")
        g.createVariable("v", "i2", ("x",), zlib=True)[:] = np.arange(41)
        g.note = "in a group"


def check(name="indexed.json", least="30"):
    import fsspec
    import xarray
    import zarr

    refs = os.path.join(directory, name)
    with open(refs) as f:
        assert json.load(f)["version"] == 1
    options = {"fo": refs, "remote_protocol": "file"}
    if int(zarr.__version__.split(".")[0]) >= 3:
        options["asynchronous"] = True
        options["remote_options"] = {"asynchronous": True}
        fs = fsspec.filesystem("reference", **options)
        store = zarr.storage.FsspecStore(fs)
        root = zarr.open_group(store, mode="r", zarr_format=2)
    else:
        fs = fsspec.filesystem("reference", **options)
        root = zarr.open_group(fs.get_mapper(""), mode="r")
    compared = 0
    with netCDF4.Dataset(path) as d:
        d.set_auto_maskandscale(False)
        d.set_auto_chartostring(False)
        assert dict(root.attrs) == {"title": "indexed"}, dict(root.attrs)
        for prefix, group in [("", d), ("inner/deeper/", d["inner/deeper"])]:
            for name, variable in group.variables.items():
                if name == "words" or (least != "30" and prefix + name not in root):
                    continue
                array = root[prefix + name]
                expected = variable[...]
                found = np.asarray(array[...])
                assert found.dtype == expected.dtype.newbyteorder("=") or found.dtype == variable.dtype, (name, found.dtype)
                assert found.shape == expected.shape, (name, found.shape)
                assert found.tobytes() == expected.astype(found.dtype).tobytes(), name
                assert list(array.attrs["_ARRAY_DIMENSIONS"]) == list(variable.dimensions), name
                compared += 1
        if least == "30" or "records" in root:
            assert root["records"].attrs["units"] == "K"
            assert list(root["records"].attrs["valid_range"]) == [0, 1e6]
        assert root["inner/deeper"].attrs["note"] == "in a group"
    assert compared >= int(least), compared
    backend = {"consolidated": False, "storage_options": {"fo": refs, "remote_protocol": "file"}}
    with xarray.open_dataset("reference://", engine="zarr", backend_kwargs=backend, chunks=None) as by_index:
        with xarray.open_dataset(path, engine="netcdf4") as direct:
            for name in ["records", "flat", "checked", "x", "f4_big", "single"]:
                if name not in by_index:
                    assert least != "30", name
                    continue
                np.testing.assert_array_equal(by_index[name].values, direct[name].values)


{"make": make, "check": check}[task](*sys.argv[3:])
