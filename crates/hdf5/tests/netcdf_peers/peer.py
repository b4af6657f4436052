"""Reads files and compares them with what they should be, with everybody else's libraries.

peer.py COMMAND DIRECTORY: for every NAME.json in the directory there is a NAME.nc. Commands:
  netcdf4, h5py, h5netcdf, xarray   read and compare
  append                            opens each file for writing, adds to it, and reads all of it again
  reference                         makes NAME.nc with netCDF4, if that can
Without JSON, for every NAME.nc:
  counting                          all variables are 0, 1, 2, ...
  attach                            adds a variable with the dimensions of another
  nested                            the values of types within types
  long                              reads, adds, replaces and removes attributes in heaps
"""
import json
import pathlib
import sys
import warnings

import numpy as np

warnings.filterwarnings("ignore")


def dtype_of(kind, native=False):
    """The numpy type of the elements of a type; object for what has no fixed size."""
    if isinstance(kind, str):
        if kind == "str":
            return np.dtype(object)
        dtype = np.dtype(kind.lstrip("<>") if "S" in kind else kind)
        return dtype.newbyteorder("=") if native else dtype
    if "enum" in kind:
        return dtype_of(kind["enum"])
    if "opaque" in kind:
        return np.dtype("V%d" % kind["opaque"])
    if "vlen" in kind:
        return np.dtype(object)
    return np.dtype([(n, dtype_of(k), tuple(s)) for n, k, s in kind["compound"]])


def element(kind, value):
    """An element in numpy's terms."""
    if isinstance(kind, str):
        return value.encode() if "S" in kind else value
    if "opaque" in kind:
        return bytes(value)
    if "vlen" in kind:
        return np.array([element(kind["vlen"], one) for one in value], dtype_of(kind["vlen"]))
    if "compound" in kind:
        row = []
        for (_, member, shape), one in zip(kind["compound"], value):
            if shape:
                one = np.array([element(member, e) for e in one], dtype_of(member)).reshape(shape)
            else:
                one = element(member, one)
            row.append(one)
        return tuple(row)
    return value


def array(kind, values, shape):
    """Values as an array of a shape."""
    dtype = dtype_of(kind)
    out = np.empty(len(values), dtype)
    for at, value in enumerate(values):
        one = element(kind, value)
        out[at] = np.void(one) if dtype.kind == "V" and dtype.names is None else one
    return out.reshape(shape)


def text(value):
    return value.decode() if isinstance(value, bytes) else value


def same(kind, expected, found):
    """Whether two arrays have the same values."""
    if isinstance(kind, dict) and "vlen" in kind and not expected.shape:
        expected = expected[()]
        found = found[()] if getattr(found, "dtype", None) == object else found
        return np.array_equal(expected, np.asarray(found, expected.dtype).reshape(expected.shape))
    expected, found = np.asarray(expected), np.asarray(found)
    if expected.shape != found.shape:
        return False
    if kind == "str":
        return [text(e) for e in expected.ravel()] == [text(f) if f is not None else "" for f in found.ravel()]
    if isinstance(kind, dict) and "vlen" in kind:
        pairs = zip(expected.ravel(), found.ravel())
        return all(np.array_equal(e, np.asarray(f, e.dtype)) for e, f in pairs)
    if isinstance(kind, dict) and "compound" in kind:
        return all(np.array_equal(expected[n], found[n]) for n, _, _ in kind["compound"])
    if isinstance(kind, dict) and "opaque" in kind:
        return expected.tobytes() == found.tobytes()
    return np.array_equal(expected, found)


class File:
    """A file, and what it should be."""

    def __init__(self, path):
        self.path = str(path.with_suffix(".nc"))
        self.spec = json.loads(path.read_text())
        for one in self.spec["variables"]:
            one["names"] = [self.spec["dimensions"][d]["name"] for d in one["dimensions"]]
            one["shape"] = [self.spec["dimensions"][d]["length"] for d in one["dimensions"]]
            one["array"] = array(one["type"], one["values"], one["shape"])
        used = {d for one in self.spec["variables"] for d in one["dimensions"]}
        for number, one in enumerate(self.spec["dimensions"]):
            one["used"] = number in used

    def check(self, what, right):
        if not right:
            raise AssertionError("%s: %s" % (self.path, what))

    def in_group(self, list_name, path):
        return [one for one in self.spec[list_name] if one["group"] == path]

    def attributes(self, where, expected, found, plain):
        """Compares attributes. `plain` lists the names that are there beside them."""
        names = [name for name in found.keys() if name not in plain]
        self.check("%s: attributes %s" % (where, names), names == [name for name, _, _ in expected])
        for name, kind, values in expected:
            value = found[name]
            if isinstance(kind, str) and "S" in kind:
                if hasattr(value, "tobytes"):
                    value = value.tobytes()
                # NetCDF4 writes empty text as a zero.
                if type(value).__name__ == "Empty" or (value == b"\0" and not values[0]):
                    value = ""
                self.check("%s: %s: %r" % (where, name, value), text(value) == values[0])
            elif kind == "str":
                value = [value] if isinstance(value, (str, bytes)) else list(value)
                self.check("%s: %s" % (where, name), [text(one) for one in value] == values)
            else:
                expected_values = array(kind, values, [len(values)])
                found_values = np.atleast_1d(np.asarray(value))
                right = np.array_equal(expected_values, found_values)
                right = right and found_values.dtype == expected_values.dtype
                self.check("%s: %s: %r" % (where, name, value), right)


def with_netcdf4(file):
    import netCDF4

    with netCDF4.Dataset(file.path) as root:
        root.set_auto_maskandscale(False)
        root.set_auto_chartostring(False)
        model = "NETCDF4_CLASSIC" if file.spec["classic"] else "NETCDF4"
        file.check(root.data_model, root.data_model == model)
        for group in file.spec["groups"]:
            path = group["path"]
            here = root if path == "/" else root[path]
            found = {name: here.getncattr(name) for name in here.ncattrs()}
            file.attributes(path, group["attributes"], found, [])
            dimensions = file.in_group("dimensions", path)
            file.check(path, list(here.dimensions) == [one["name"] for one in dimensions])
            for one in dimensions:
                dimension = here.dimensions[one["name"]]
                length = one["length"] if one["used"] or not one["unlimited"] else 0
                right = len(dimension) == length and dimension.isunlimited() == one["unlimited"]
                file.check("%s %s %s" % (path, one, dimension), right)
            variables = file.in_group("variables", path)
            # netCDF4 knows no opaque types.
            variables = [one for one in variables if not is_opaque(one["type"])]
            names = [one["name"] for one in variables]
            file.check("%s: %s" % (path, list(here.variables)), list(here.variables) == names)
            for one in variables:
                variable = here.variables[one["name"]]
                where = path + " " + one["name"]
                file.check(where, list(variable.dimensions) == one["names"])
                file.check(where, same(one["type"], one["array"], variable[...]))
                found = {name: variable.getncattr(name) for name in variable.ncattrs()}
                file.attributes(where, one["attributes"], found, [])
                storage = variable.chunking()
                expected = one["storage"]
                if expected != "compact":
                    file.check("%s: %s" % (where, storage), storage == expected)
                if isinstance(one["type"], str) and one["type"] != "str" and np.dtype(one["type"]).itemsize > 1:
                    endian = {"<": "little", ">": "big"}[one["type"][0]]
                    file.check(where, variable.endian() == endian)
                filters = variable.filters() or {}
                numbers = dict(map(tuple, ((a, tuple(b)) for a, b in one["filters"])))
                file.check(where, bool(filters.get("shuffle")) == (2 in numbers))
                file.check(where, bool(filters.get("fletcher32")) == (3 in numbers))
                file.check(where, bool(filters.get("zlib")) == (1 in numbers))
                if numbers.get(1):
                    file.check(where, filters["complevel"] == numbers[1][0])


def is_opaque(kind):
    return isinstance(kind, dict) and "opaque" in kind


HIDDEN = [
    "CLASS", "NAME", "REFERENCE_LIST", "DIMENSION_LIST", "_Netcdf4Dimid", "_Netcdf4Coordinates",
    "_NCProperties", "_nc3_strict",
]


def with_h5py(file):
    import h5py

    with h5py.File(file.path) as root:
        for group in file.spec["groups"]:
            path = group["path"]
            here = root[path]
            file.attributes(path, group["attributes"], here.attrs, HIDDEN)
            dimensions = {one["name"]: one for one in file.in_group("dimensions", path)}
            for one in file.in_group("variables", path):
                name = hdf5_name(file, one)
                dataset = here[name]
                where = path + " " + name
                values = dataset[...] if dataset.shape else dataset[()]
                file.check(where, same(one["type"], one["array"], values))
                file.attributes(where, one["attributes"], dataset.attrs, HIDDEN)
                chunks = one["storage"] if isinstance(one["storage"], list) else None
                file.check(where, dataset.chunks == (tuple(chunks) if chunks else None))
                scale = name in dimensions
                file.check(where, scale == h5py.h5ds.is_scale(dataset.id))
                for at, dimension in enumerate(one["dimensions"]):
                    if not scale:
                        spec = file.spec["dimensions"][dimension]
                        attached = dataset.dims[at][0]
                        target = spec["group"].rstrip("/") + "/" + spec["name"]
                        file.check(where, attached.name == target)
                        file.check(where, h5py.h5ds.is_attached(dataset.id, attached.id, at))


def with_h5netcdf(file):
    import h5netcdf

    # h5netcdf opens no file with a type that it does not know.
    if any(is_opaque(one["type"]) for one in file.spec["types"]):
        return
    with h5netcdf.File(file.path, "r") as root:
        for group in file.spec["groups"]:
            path = group["path"]
            here = root if path == "/" else root[path]
            file.attributes(path, group["attributes"], here.attrs, HIDDEN)
            dimensions = file.in_group("dimensions", path)
            file.check(path, set(here.dimensions) == {one["name"] for one in dimensions})
            ranks = {one["name"]: len(one["names"]) for one in file.in_group("variables", path)}
            for one in dimensions:
                dimension = here.dimensions[one["name"]]
                # It does not see that the scale of several dimensions can grow.
                if ranks.get(one["name"], 1) == 1:
                    right = dimension.isunlimited() == one["unlimited"]
                    file.check("%s %s" % (path, one), right)
                if one["used"] or not one["unlimited"]:
                    file.check("%s %s" % (path, one), len(dimension) == one["length"])
            variables = file.in_group("variables", path)
            file.check(path, set(here.variables) == {one["name"] for one in variables})
            for one in variables:
                variable = here.variables[one["name"]]
                where = path + " " + one["name"]
                file.check(where, list(variable.dimensions) == one["names"])
                values = variable[...]
                file.check(where, same(one["type"], one["array"], values))
                file.attributes(where, one["attributes"], variable.attrs, HIDDEN)


def with_xarray(file):
    import xarray

    # Dimensions that occur twice, scalars with the name of a dimension, and types of users are not
    # in xarray's model.
    root = file.in_group("variables", "/")
    names = {one["name"] for one in file.in_group("dimensions", "/")}
    if any(one["name"] in names and one["name"] not in one["names"] for one in root):
        return
    if any(is_opaque(one["type"]) for one in file.spec["types"]):
        return
    if any(len(set(one["names"])) < len(one["names"]) for one in root):
        return
    if not all(isinstance(one["type"], str) for one in root):
        return
    for engine in ["netcdf4", "h5netcdf"]:
        options = {"decode_cf": False, "engine": engine}
        with xarray.open_dataset(file.path, **options) as dataset:
            for one in root:
                values = dataset[one["name"]].values
                where = "%s with %s" % (one["name"], engine)
                file.check(where, same(one["type"], one["array"], values))


def reference(file):
    import netCDF4

    spec = file.spec
    if not spec["reproducible"]:
        return
    model = "NETCDF4_CLASSIC" if spec["classic"] else "NETCDF4"
    with netCDF4.Dataset(file.path, "w", format=model) as root:
        groups = {"/": root}
        for group in spec["groups"][1:]:
            groups[group["path"]] = root.createGroup(group["path"])
        for group in spec["groups"]:
            attributes_of(groups[group["path"]], group["attributes"])
        for one in spec["dimensions"]:
            groups[one["group"]].createDimension(one["name"], None if one["unlimited"] else one["length"])
        types = {}
        for one in spec["types"]:
            here, kind = groups[one["group"]], one["type"]
            if "enum" in kind:
                made = here.createEnumType(dtype_of(kind), one["name"], dict(kind["members"]))
            elif "vlen" in kind:
                made = here.createVLType(dtype_of(kind["vlen"]), one["name"])
            else:
                made = here.createCompoundType(dtype_of(kind), one["name"])
            types[json.dumps(kind), one["group"]] = made
        made = []
        for one in spec["variables"]:
            kind = one["type"]
            if kind == "str":
                datatype = str
            elif isinstance(kind, str):
                datatype = dtype_of(kind)
            else:
                path = one["group"]
                while (json.dumps(kind), path) not in types:
                    path = path.rpartition("/")[0] or "/"
                datatype = types[json.dumps(kind), path]
            options = {}
            if isinstance(kind, str) and kind != "str" and "S" not in kind:
                options["endian"] = {"<": "little", ">": "big"}[kind[0]]
            if isinstance(one["storage"], list):
                options["chunksizes"] = one["storage"]
            elif one["dimensions"]:
                options["contiguous"] = True
            numbers = dict((a, b) for a, b in one["filters"])
            options["shuffle"] = 2 in numbers
            options["fletcher32"] = 3 in numbers
            if 1 in numbers:
                options.update(compression="zlib", complevel=numbers[1][0])
            fill = [values[0] for name, _, values in one["attributes"] if name == "_FillValue"]
            if fill:
                options["fill_value"] = element(kind, fill[0])
            elif not one["fill"]:
                options["fill_value"] = False
            variable = groups[one["group"]].createVariable(one["name"], datatype, one["names"], **options)
            variable.set_auto_maskandscale(False)
            attributes_of(variable, [a for a in one["attributes"] if a[0] != "_FillValue"])
            made.append((variable, one))
        for variable, one in made:
            if one["array"].size:
                variable[...] = one["array"]


def attributes_of(owner, attributes):
    for name, kind, values in attributes:
        if kind == "str":
            owner.setncattr_string(name, values)
        elif "S" in kind:
            # As bytes: text that is not ASCII would become a string.
            owner.setncattr(name, values[0].encode())
        else:
            owner.setncattr(name, array(kind, values, [len(values)]))


def append(file):
    """NetCDF-C adds to a file: an attribute, a group, a variable, records; then h5py does."""
    import h5py
    import netCDF4

    spec = file.spec
    with netCDF4.Dataset(file.path, "r+") as root:
        root.set_auto_maskandscale(False)
        root.set_auto_chartostring(False)
        root.setncattr("appended", np.arange(5, dtype="i4"))
        root.createDimension("appended_length", 3)
        variable = root.createVariable("appended_values", "f8", ["appended_length"], chunksizes=[2])
        variable[:] = [1, 2, 3]
        if not spec["classic"]:
            group = root.createGroup("appended_group")
            group.createVariable("text", str, ["appended_length"])[0] = "appended"
        for one in spec["variables"]:
            if is_opaque(one["type"]):
                continue
            here = root if one["group"] == "/" else root[one["group"]]
            variable = here.variables[one["name"]]
            variable.setncattr("appended", "text")
            grows = spec["dimensions"][one["dimensions"][0]]["unlimited"] if one["dimensions"] else False
            # One more record, of all that has the same value.
            if grows and isinstance(one["type"], str) and one["type"] != "str" and min(one["shape"][1:], default=1) > 0:
                twice = one["dimensions"].count(one["dimensions"][0]) > 1
                if not twice:
                    variable[one["shape"][0], ...] = element(one["type"], record(one["type"]))
                    one["grown"] = True
    with h5py.File(file.path, "r+") as root:
        root.attrs["appended by h5py"] = [1.0, 2.0]
        root.create_dataset("h5py_values", data=np.arange(10), chunks=(3,), compression="gzip")
        for one in spec["variables"]:
            name = hdf5_name(file, one)
            root[one["group"]][name].attrs["appended by h5py"] = "text"
    with netCDF4.Dataset(file.path) as root:
        root.set_auto_maskandscale(False)
        root.set_auto_chartostring(False)
        file.check("attribute", list(root.getncattr("appended")) == [0, 1, 2, 3, 4])
        file.check("variable", list(root["appended_values"][:]) == [1, 2, 3])
        if not spec["classic"]:
            file.check("group", root["appended_group/text"][0] == "appended")
        for one in spec["variables"]:
            if is_opaque(one["type"]):
                continue
            here = root if one["group"] == "/" else root[one["group"]]
            variable = here.variables[one["name"]]
            file.check(one["name"], variable.getncattr("appended") == "text")
            file.check(one["name"], variable.getncattr("appended by h5py") == "text")
            # A dimension may have grown because of another variable. What is beyond this one, netCDF-C
            # does not read right if it is not the first dimension: not in its own files either.
            where = tuple(slice(0, length) for length in one["shape"])
            values = variable[where] if where else variable[...]
            file.check("%s after appending" % one["name"], same(one["type"], one["array"], values))
            if one.get("grown"):
                where = tuple(slice(0, length) for length in one["shape"][1:])
                added = np.asarray(variable[(one["shape"][0],) + where])
                expected = np.full(one["shape"][1:], element(one["type"], record(one["type"])), dtype_of(one["type"]))
                file.check("record of %s" % one["name"], same(one["type"], expected, added))


def record(kind):
    return "r" if "S" in kind else 7


def hdf5_name(file, one):
    names = {d["name"] for d in file.in_group("dimensions", one["group"])}
    return one["name"] if one["name"] not in names or one["names"][:1] == [one["name"]] else "_nc4_non_coord_" + one["name"]


def counting(path):
    import h5py
    import netCDF4

    with netCDF4.Dataset(path) as root:
        assert len(root.variables) > 0
        for name, variable in root.variables.items():
            right = np.arange(variable.size).reshape(variable.shape)
            assert np.array_equal(variable[...], right), name
    with h5py.File(path) as root:
        for name, dataset in root.items():
            if not dataset.attrs.get("NAME", b"").startswith(b"This is a netCDF dimension but not"):
                assert np.array_equal(dataset[...].ravel(), np.arange(dataset.size)), name


def attach(path):
    import h5py
    import netCDF4

    with netCDF4.Dataset(path, "r+") as root:
        other = root["v1"]
        added = root.createVariable("added", "i4", other.dimensions)
        added[...] = np.arange(other.size).reshape(other.shape)
    with h5py.File(path) as root:
        for name in ["x", "scale"]:
            references = root[name].attrs["REFERENCE_LIST"]
            assert len(references) == 5001
            # h5py would search for the name of each.
            assert root[references[-1][0]] == root["added"]
            assert root[references[-2][0]] == root["v4999"]


def long(path):
    import h5py
    import netCDF4

    with netCDF4.Dataset(path, "r+") as root:
        for owner in [root, root["v"]]:
            assert owner.getncattr("long") == "0123456789" * 20000
            for number in range(300):
                assert owner.getncattr("number %d" % number) == "value %d" % number
            owner.setncattr("more", "x" * 70000)
            owner.setncattr("number 5", "replaced")
            owner.delncattr("number 6")
            owner.setncattr("few", np.arange(3))
    with h5py.File(path) as root:
        for owner in [root, root["v"]]:
            assert owner.attrs["more"] == b"x" * 70000
            assert owner.attrs["number 5"] == b"replaced"
            assert "number 6" not in owner.attrs
            assert owner.attrs["number 299"] == b"value 299"
            assert list(owner.attrs["few"]) == [0, 1, 2]
        assert list(root["v"].attrs["texts"]) == ["a", "", "ü"]


def nested(path):
    import h5py

    with h5py.File(path) as root:
        first, second = root["v"][...]
        for one in [first, root["v"].attrs["like"][0]]:
            assert one["c"] == 1 and one["i"].tolist() == [(1, 2.5), (3, 4.5)]
            assert one["r"].tolist() == [(5, 6.5), (7, 8.5), (9, 10.5)]
            assert one["o"].tobytes() == bytes([1, 2, 3]) and one["s"] == b"text"
        assert second["c"] == 2 and second["i"].tolist() == [(10, 20.5), (30, 40.5)]
        assert second["r"].tolist() == [] and second["s"] == b""
        assert second["o"].tobytes() == bytes([4, 5, 6])


PLAIN = {"nested": nested, "counting": counting, "attach": attach, "long": long}

COMMANDS = {
    "append": append,
    "netcdf4": with_netcdf4,
    "h5py": with_h5py,
    "h5netcdf": with_h5netcdf,
    "xarray": with_xarray,
    "reference": reference,
}


def main():
    command, directory = sys.argv[1:]
    failures = []
    kind = "*.nc" if command in PLAIN else "*.json"
    for path in sorted(pathlib.Path(directory).glob(kind)):
        try:
            if command in PLAIN:
                PLAIN[command](str(path))
            else:
                COMMANDS[command](File(path))
        except Exception as error:
            failures.append("%s: %s: %s" % (path.name, type(error).__name__, error))
    print(len(failures), "failures")
    print("\n".join(failures[:20]))


main()
