"""Accesses to known datasets of an HDF5 file and of a classic netCDF file."""

import sys

import h5py
import netCDF4
import numpy as np

hdf5, classic, gone = sys.argv[1:]
with h5py.File(hdf5, "w") as f:
    f.create_dataset("whole", data=np.arange(1 << 17, dtype="f8"))
    chunks = f.create_dataset("group/chunks", shape=(64, 1000), chunks=(8, 1000), dtype="i4")
    for row in range(0, 64, 8):
        chunks[row : row + 8] = row
    f.create_dataset("untouched", shape=(1 << 16,), dtype="i2")
with h5py.File(hdf5, "r") as f:
    assert f["whole"][-1] == (1 << 17) - 1
    assert f["group/chunks"][63, 999] == 56
with netCDF4.Dataset(classic, "w", format="NETCDF3_CLASSIC") as f:
    f.createDimension("t", None)
    f.createDimension("x", 10000)
    fixed = f.createVariable("fixed", "f8", ("x",))
    one = f.createVariable("one", "f4", ("t", "x"))
    other = f.createVariable("other", "i2", ("t", "x"))
    fixed[:] = 1.5
    for t in range(5):
        one[t] = t
    other[3] = 7
with h5py.File(gone, "w") as f:
    f.create_dataset("v", data=[1, 2, 3])
