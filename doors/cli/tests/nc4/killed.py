"""An HDF5 file whose writer ends without closing it, marked as open for writing; or opens one."""

import os
import sys

import h5py

action, path = sys.argv[1:]
if action == "kill":
    f = h5py.File(path, "w", libver="latest")
    v = f.create_dataset("v", shape=(0,), maxshape=(None,), chunks=(10,), dtype="i4")
    f.swmr_mode = True
    v.resize((25,))
    v[:] = range(25)
    v.flush()
    os._exit(0)
if action == "refused":
    try:
        h5py.File(path, "r+")
    except OSError:
        sys.exit(0)
    sys.exit("it opens")
with h5py.File(path, "r+") as f:
    assert list(f["v"]) == list(range(25))
    f["v"].attrs["added"] = 1
