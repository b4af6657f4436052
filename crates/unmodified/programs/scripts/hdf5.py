"""HDF5 files: contiguous, chunked, compressed, grown, reopened and changed."""
import h5py
import numpy

h5py.get_config().track_order = False
with h5py.File("a.h5", "w") as file:
    file.create_dataset("plain", data=numpy.arange(50000.0), track_times=False)
    file.create_dataset("chunked", data=numpy.arange(60000).reshape(300, 200), chunks=(50, 20), compression="gzip", track_times=False)
    grown = file.create_dataset("grown", (0,), maxshape=(None,), chunks=(100,), dtype="i4", track_times=False)
    for step in range(50):
        grown.resize((100 * (step + 1),))
        grown[100 * step :] = numpy.arange(100) + step
    file["group/text"] = "words"
    file["plain"].attrs["unit"] = "m"
# Opened again while it is open: HDF5 knows by device and inode that it is the same.
with h5py.File("b.h5", "w") as one:
    one.create_dataset("small", data=numpy.arange(10), track_times=False)
    one.flush()
    with h5py.File("b.h5", "r+") as two:
        two["small"][3] = 33
        print(one["small"][3], two["small"][4], one.id.get_filesize() == two.id.get_filesize())
with h5py.File("a.h5", "r+") as file:
    file["plain"][1000:2000:3] = -1
    del file["group/text"]
    file.flush()
    print(file["plain"][:].sum(), file["chunked"][17, 33], file["grown"][:].sum(), list(file), list(file["group"]))
with h5py.File("a.h5", "r") as file:
    print(file["plain"].attrs["unit"], file["chunked"][:, 5].sum(), file["grown"].shape)
