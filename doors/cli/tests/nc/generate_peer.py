"""Compares pairs of files, one pair a line on standard input, by netCDF4."""

import sys
import warnings

import netCDF4
import numpy as np

warnings.simplefilter("ignore")


def same(one, other):
    """Whether values are the same, a NaN and itself too."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        one, other = np.asarray(one), np.asarray(other)
        if one.dtype != other.dtype or one.shape != other.shape:
            return False
        if one.dtype == object:
            return all(same(a, b) for a, b in zip(one.ravel(), other.ravel()))
        if one.dtype.names:
            return all(same(one[name], other[name]) for name in one.dtype.names)
        return one.tobytes() == other.tobytes()
    if isinstance(one, np.void) and isinstance(other, np.void) and one.dtype.names:
        # Bytes between members have no meaning.
        return one.dtype == other.dtype and all(same(one[it], other[it]) for it in one.dtype.names)
    if isinstance(one, np.generic):
        return type(one) is type(other) and one.tobytes() == other.tobytes()
    return type(one) is type(other) and one == other


def attributes(owner):
    found = {}
    for name in owner.ncattrs():
        try:
            found[name] = owner.getncattr(name)
        except KeyError:
            found[name] = "of a type that netCDF4 does not read"
    return found


def differences(one, other, where):
    if list(one.dimensions) != list(other.dimensions):
        yield f"{where}: dimensions"
    for name, dimension in one.dimensions.items():
        there = other.dimensions[name]
        if (len(dimension), dimension.isunlimited()) != (len(there), there.isunlimited()):
            yield f"{where}{name}: dimension"
    pairs = [(where, one, other)]
    if list(one.variables) != list(other.variables):
        yield f"{where}: variables"
    for name, variable in one.variables.items():
        there = other.variables[name]
        pairs.append((where + name, variable, there))
        if variable.dimensions != there.dimensions:
            yield f"{where}{name}: shape"
        if str(variable.dtype) != str(there.dtype):
            yield f"{where}{name}: type {variable.dtype} {there.dtype}"
        for single in (variable, there):
            single.set_auto_maskandscale(False)
            if hasattr(single, "set_auto_chartostring"):
                single.set_auto_chartostring(False)
        if not same(variable[...], there[...]):
            yield f"{where}{name}: values {variable[...]} {there[...]}"
    for name, a, b in pairs:
        a, b = attributes(a), attributes(b)
        if list(a) != list(b) or not all(same(a[key], b[key]) for key in a):
            yield f"{name}: attributes {a} {b}"
    if list(one.groups) != list(other.groups):
        yield f"{where}: groups"
    for name, group in one.groups.items():
        yield from differences(group, other.groups[name], f"{where}{name}/")


def main():
    pairs = found = 0
    for line in sys.stdin:
        ours, theirs = line.rstrip("\n").split("\t")
        pairs += 1
        with netCDF4.Dataset(ours) as one, netCDF4.Dataset(theirs) as other:
            if one.data_model != other.data_model:
                found += 1
                print(ours, one.data_model, other.data_model)
            for difference in differences(one, other, "/"):
                found += 1
                print(ours, difference)
    print(f"{pairs} pairs, {found} differences")


main()
