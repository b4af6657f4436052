"""Compares NcML with what netCDF4-python finds in the file: groups, dimensions, enumerations, variables and the
names of attributes. Arguments: pairs of a file and its NcML."""

import sys
import xml.etree.ElementTree

import netCDF4

NAMESPACE = "{https://www.unidata.ucar.edu/namespaces/netcdf/ncml-2.2}"


def named(element, kind):
    return {one.get("name"): one for one in element.findall(NAMESPACE + kind)}


def compare(group, element):
    dimensions = named(element, "dimension")
    assert dimensions.keys() == group.dimensions.keys(), (dimensions, group.dimensions)
    for name, dimension in group.dimensions.items():
        assert int(dimensions[name].get("length")) == len(dimension), name
        assert (dimensions[name].get("isUnlimited") == "true") == dimension.isunlimited(), name
    enumerations = named(element, "enumTypedef")
    for name, of in group.enumtypes.items():
        values = {one.text: int(one.get("key")) for one in enumerations[name]}
        assert values == {key: int(value) for key, value in of.enum_dict.items()}, (name, values)
    assert list(named(element, "attribute")) == group.ncattrs()
    variables = named(element, "variable")
    # netCDF4 leaves out some types.
    for name, variable in group.variables.items():
        found = variables[name]
        shape = (found.get("shape") or "").split(" ") if variable.ndim else []
        assert [one.replace(" ", "") for one in shape][: variable.ndim] == [one.replace(" ", "") for one in variable.dimensions] or " " in "".join(variable.dimensions), (name, shape)
        assert list(named(found, "attribute")) == variable.ncattrs(), name
        if isinstance(variable.datatype, netCDF4.CompoundType):
            assert found.get("type") == "Structure", name
            assert list(named(found, "variable")) == list(variable.datatype.dtype.names), name
        if isinstance(variable.datatype, netCDF4.EnumType):
            assert found.get("typedef") == variable.datatype.name, name
    groups = named(element, "group")
    assert groups.keys() == group.groups.keys()
    for name, inner in group.groups.items():
        compare(inner, groups[name])


compared = 0
for path, text in zip(sys.argv[1::2], sys.argv[2::2]):
    root = xml.etree.ElementTree.parse(text).getroot()
    try:
        dataset = netCDF4.Dataset(path)
    except TypeError as error:
        # numpy does not have every compound.
        assert "nested structured" in str(error), (path, error)
        continue
    compare(dataset, root)
    dataset.close()
    compared += 1
assert compared >= 10, compared
