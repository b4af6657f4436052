"""netCDF4-python and xarray, asked by the tests.

Whatever is in a file goes through lines of five fields, separated by tabs: the file, the variable (or
"variable:attribute", or ":attribute" for a global one), the type in CDL, the shape, and the elements'
big-endian bytes in hexadecimal. In answers about masks the last field is a digit per element.
"""

import sys

import netCDF4
import numpy

NAMES = {
    "i1": "byte", "S1": "char", "i2": "short", "i4": "int", "f4": "float", "f8": "double",
    "u1": "ubyte", "u2": "ushort", "u4": "uint", "i8": "int64", "u8": "uint64",
}
FORMATS = {
    "cdf1": "NETCDF3_CLASSIC", "cdf2": "NETCDF3_64BIT_OFFSET", "cdf5": "NETCDF3_64BIT_DATA",
}


def tell(file, what, values):
    if isinstance(values, str):
        values = numpy.frombuffer(values.encode(), dtype="S1")
    values = numpy.asarray(values)
    if values.dtype.kind == "S" and values.dtype.itemsize != 1:
        # What comes back as whole strings has lost its zeros.
        raise ValueError(f"{what}: {values.dtype}")
    name = NAMES[values.dtype.str[1:]]
    shape = ",".join(str(n) for n in values.shape)
    data = values.astype(values.dtype.newbyteorder(">")).tobytes().hex()
    print(file, what, name, shape, data, sep="\t")


def attributes(file, owner, prefix):
    for name in owner.ncattrs():
        value = owner.getncattr(name)
        tell(file, f"{prefix}:{name}", value if isinstance(value, str) else numpy.atleast_1d(value))


def dump(paths):
    for path in paths:
        with netCDF4.Dataset(path) as data:
            data.set_auto_maskandscale(False)
            data.set_auto_chartostring(False)
            attributes(path, data, "")
            for name, variable in data.variables.items():
                tell(path, name, variable[...])
                attributes(path, variable, name)


def masks(paths):
    for path in paths:
        with netCDF4.Dataset(path) as data:
            for name, variable in data.variables.items():
                values = variable[...]
                mask = numpy.ma.getmaskarray(values)
                shape = ",".join(str(n) for n in mask.shape)
                digits = "".join(str(int(m)) for m in mask.ravel())
                print(path, name, NAMES[variable.dtype.str[1:]], shape, digits, sep="\t")


def dump_by_xarray(paths):
    import xarray

    for path in paths:
        with xarray.open_dataset(
            path, engine="netcdf4", decode_cf=False, mask_and_scale=False
        ) as data:
            for name, variable in data.variables.items():
                tell(path, name, variable.values)


def dump_by_h5py(paths):
    import h5py
    import hdf5plugin  # For zstd.

    for path in paths:
        with h5py.File(path) as data:
            for name, variable in data.items():
                # A dimension without a variable is an empty dataset.
                if not variable.attrs.get("NAME", b"").startswith(b"This is a netCDF dimension"):
                    tell(path, name, variable[...])


def nans_by_xarray(paths):
    """With fill values decoded, which elements xarray takes for missing."""
    import xarray

    for path in paths:
        with xarray.open_dataset(path, engine="netcdf4", decode_times=False) as data:
            for name, variable in data.variables.items():
                if variable.dtype.kind == "f":
                    missing = numpy.isnan(variable.values)
                    shape = ",".join(str(n) for n in missing.shape)
                    digits = "".join(str(int(m)) for m in missing.ravel())
                    print(path, name, "double", shape, digits, sep="\t")


def tail(paths):
    """The last elements of variables too long to be dumped."""
    for path in paths:
        with netCDF4.Dataset(path) as data:
            for name, variable in data.variables.items():
                tell(path, name, numpy.ma.getdata(variable[-4:]))


def values_of(dtype, count, seed):
    dice = numpy.random.default_rng(seed)
    if dtype == "S1":
        return dice.integers(32, 127, count, dtype="u1").view("S1")
    if dtype[0] == "f":
        return (dice.standard_normal(count) * 10.0 ** dice.integers(-30, 30, count)).astype(dtype)
    limits = numpy.iinfo(dtype)
    values = dice.integers(limits.min, limits.max, count, dtype=dtype, endpoint=True)
    values[: min(count, 2)] = [limits.min, limits.max][: min(count, 2)]
    return values


def write(arguments):
    """Writes files of every format, and tells what is meant to be in them."""
    (directory,) = arguments
    for short, kind in FORMATS.items():
        types = [dtype for dtype in NAMES if short == "cdf5" or dtype in list(NAMES)[:6]]
        for records in (0, 1, 3):
            for alone in (None, *types) if records == 3 else (None,):
                path = f"{directory}/{short}-{records}-{alone}.nc"
                write_one(path, kind, types if alone is None else [alone], records, alone is None)


def write_one(path, kind, types, records, all_kinds):
    with netCDF4.Dataset(path, "w", format=kind) as data:
        data.set_auto_maskandscale(False)
        data.createDimension("time", None)
        data.createDimension("y", 3)
        data.createDimension("x", 5)
        data.setncattr("title", "grüße")
        tell(path, ":title", "grüße")
        for number, dtype in enumerate(types):
            if all_kinds:
                scalar = data.createVariable(f"scalar_{dtype}", dtype, ())
                fixed = data.createVariable(f"fixed_{dtype}", dtype, ("y", "x"))
                values = values_of(dtype, 16, number)
                scalar[...] = values[15]
                fixed[:] = values[:15].reshape(3, 5)
                tell(path, scalar.name, values[15])
                tell(path, fixed.name, values[:15].reshape(3, 5))
                if dtype != "S1":
                    data.setncattr(f"list_{dtype}", values[:3])
                    fixed.setncattr("first", values[0])
                    tell(path, f":list_{dtype}", values[:3])
                    tell(path, f"{fixed.name}:first", values[:1])
            series = data.createVariable(f"series_{dtype}", dtype, ("time", "x"))
            values = values_of(dtype, records * 5, number + 100).reshape(records, 5)
            if records:
                series[0:records, :] = values
            tell(path, series.name, values)


COMMANDS = {
    "dump": dump, "masks": masks, "tail": tail, "write": write,
    "xarray": dump_by_xarray, "nans": nans_by_xarray, "h5py": dump_by_h5py,
}
# Each group of arguments is a command: all of them in one process.
for group in " ".join(sys.argv[1:]).split(" -- "):
    command, *arguments = group.split(" ")
    COMMANDS[command](arguments)
