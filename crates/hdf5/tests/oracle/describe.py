"""What h5py says about files: one line for each thing, beside each file.

The same lines are made by describe.rs.
"""

import os
import struct
import sys

import h5py
import numpy as np
from h5py import h5d, h5o, h5p, h5r, h5s, h5t


def text(name):
    return (name if isinstance(name, bytes) else name.encode("utf-8", "surrogateescape")).hex()


ORDERS = {h5t.ORDER_LE: "little", h5t.ORDER_BE: "big", h5t.ORDER_VAX: "vax", h5t.ORDER_NONE: "none"}
PADDINGS = {h5t.STR_NULLTERM: "term", h5t.STR_NULLPAD: "pad", h5t.STR_SPACEPAD: "space"}


def kind(t):
    """A type in words."""
    of, size = t.get_class(), t.get_size()
    order = lambda: ORDERS[t.get_order()]
    charset = lambda: "utf8" if t.get_cset() == h5t.CSET_UTF8 else "ascii"
    if of == h5t.INTEGER:
        sign = "signed" if t.get_sign() == h5t.SGN_2 else "unsigned"
        said = f"integer {order()} {sign} {t.get_offset()} {t.get_precision()}"
    elif of == h5t.FLOAT:
        fields = " ".join(map(str, t.get_fields()))
        said = f"float {order()} {t.get_offset()} {t.get_precision()} {fields} {t.get_ebias()}"
    elif of == h5t.TIME:
        said = "time"
    elif of == h5t.BITFIELD:
        said = f"bitfield {order()}"
    elif of == h5t.STRING and t.is_variable_str():
        said, size = f"text {PADDINGS[t.get_strpad()]} {charset()}", "variable"
    elif of == h5t.STRING:
        said = f"string {PADDINGS[t.get_strpad()]} {charset()}"
    elif of == h5t.OPAQUE:
        said = f"opaque {text(t.get_tag())}"
    elif of == h5t.COMPOUND:
        members = range(t.get_nmembers())
        said = "compound " + " ".join(f"{text(t.get_member_name(i))}@{t.get_member_offset(i)}={kind(t.get_member_type(i))}" for i in members)
    elif of == h5t.REFERENCE:
        # The library gives the size in memory.
        said, size = "region" if t.equal(h5t.STD_REF_DSETREG) else "object", "reference"
    elif of == h5t.ENUM:
        members = range(t.get_nmembers())
        said = f"enum {kind(t.get_super())} " + " ".join(f"{text(t.get_member_name(i))}={t.get_member_value(i)}" for i in members)
    elif of == h5t.VLEN:
        said, size = f"sequence {kind(t.get_super())}", "variable"
    elif of == h5t.ARRAY:
        said = f"array {kind(t.get_super())} {','.join(map(str, t.get_array_dims()))}"
    elif of == h5t.COMPLEX:
        said = f"complex {kind(t.get_super())}"
    else:
        said = f"class {of}"
    # The library gives the size in memory of what has such parts.
    size = "variable" if " variable)" in said or " reference)" in said else size
    committed = " committed" if t.committed() else ""
    return f"({said} {size}{committed})"


def readable(t):
    """Whether numpy has the type."""
    if t.get_class() == h5t.TIME:
        return False
    # numpy has no bits within elements.
    return not (t.get_class() == h5t.INTEGER and t.get_precision() != 8 * t.get_size())


def number(x):
    x = float(x)
    return "nan" if x != x else struct.pack(">d", x).hex()


def value(x, t, fid):
    """An element in words."""
    of = t.get_class()
    if of in (h5t.INTEGER, h5t.BITFIELD, h5t.ENUM):
        return str(int(x))
    if of == h5t.FLOAT:
        return number(x)
    if of == h5t.COMPLEX:
        return f"{number(x.real)}+{number(x.imag)}"
    if of == h5t.STRING:
        x = x or b""
        x = x if isinstance(x, bytes) else x.encode("utf-8", "surrogateescape")
        x = x.rstrip(b" ") if t.get_strpad() == h5t.STR_SPACEPAD else x
        return "'" + x.hex() + "'"
    if of == h5t.OPAQUE:
        return bytes(x).hex()
    if of == h5t.COMPOUND:
        if isinstance(x, (complex, np.complexfloating)):
            return f"{{{number(x.real)},{number(x.imag)}}}"
        return "{" + ",".join(value(x[i], t.get_member_type(i), fid) for i in range(t.get_nmembers())) + "}"
    if of == h5t.ARRAY:
        return "[" + ",".join(value(one, t.get_super(), fid) for one in np.asarray(x).reshape(-1)) + "]"
    if of == h5t.VLEN:
        return "<" + ",".join(value(one, t.get_super(), fid) for one in (x if x is not None else [])) + ">"
    if of == h5t.REFERENCE:
        return str(h5o.get_info(h5r.dereference(x, fid)).addr) if x else "null"
    raise TypeError(of)


def values(array, t, fid):
    if isinstance(array, h5py.Empty):
        return ""
    if t.get_class() == h5t.ARRAY:
        # numpy makes the dimensions of an array type those of the whole array.
        array = np.asarray(array)
        array = array.reshape(-1, *t.get_array_dims())
        return " ".join(value(one, t, fid) for one in array)
    flat = np.asarray(array).reshape(-1)
    return " ".join(value(one, t, fid) for one in flat)


# Lengths of 4 bytes are not widened by the library.
UNLIMITED = (h5s.UNLIMITED, 0xFFFFFFFF)


def shape(space):
    of = space.get_simple_extent_type()
    if of == h5s.NULL:
        return "null"
    if of == h5s.SCALAR:
        return "scalar"
    sizes, most = space.get_simple_extent_dims(), space.get_simple_extent_dims(True)
    return ",".join(f"{size}/{'*' if maximum in UNLIMITED else maximum}" for size, maximum in zip(sizes, most))


def attributes(path, obj, say):
    order = obj.id.get_create_plist().get_attr_creation_order() if not isinstance(obj, h5py.File) and hasattr(obj.id, "get_create_plist") else 0
    names = []
    for name in obj.attrs:
        a = h5py.h5a.open(obj.id, name.encode("utf-8", "surrogateescape"))
        t = a.get_type()
        found = values(obj.attrs[name] if not t.get_class() in (h5t.STRING, h5t.OPAQUE, h5t.VLEN) else raw(obj, name, a), t, obj.file.id) if readable(t) else "?"
        names.append(f"attribute {path} {text(name)} {kind(t)} {shape(a.get_space())} {found}")
    for line in sorted(names):
        say(line)
    if order:
        by_order = []
        h5py.h5a.iterate(obj.id, lambda name: by_order.append(text(name)), index_type=h5py.h5.INDEX_CRT_ORDER)
        say(f"attribute order {path} {' '.join(by_order)}")


def raw(obj, name, a):
    """An attribute without the conversion to text."""
    if a.get_space().get_simple_extent_type() == h5s.NULL:
        return h5py.Empty("i1")
    if a.get_type().get_class() == h5t.OPAQUE:
        array = np.empty(a.shape, f"V{a.get_type().get_size()}")
        a.read(array, a.get_type())
        return array
    array = np.empty(a.shape, a.dtype)
    a.read(array)
    return array


CHUNKS = 2000


def chunks_of(d):
    """The chunks, unless the library names wrong ones: those of extensible arrays whose first dimension does not grow
    are elsewhere, as reading them shows."""
    growing = [index for index, size in enumerate(d.get_space().get_simple_extent_dims(True)) if size == h5s.UNLIMITED]
    if len(growing) == 1 and growing[0] > 0:
        return None
    found = []
    d.chunk_iter(lambda one: found.append((one.chunk_offset, one.byte_offset, one.size, one.filter_mask)))
    return found


def dataset(path, obj, say):
    d, t = obj.id, obj.id.get_type()
    plist, space = d.get_create_plist(), d.get_space()
    layout = plist.get_layout()
    said = {h5d.COMPACT: "compact", h5d.CONTIGUOUS: "contiguous", h5d.CHUNKED: "chunked", h5d.VIRTUAL: "virtual"}[layout]
    if layout == h5d.CHUNKED:
        said += " " + ",".join(map(str, plist.get_chunk()))
    if layout == h5d.CONTIGUOUS and plist.get_external_count():
        files = [plist.get_external(i) for i in range(plist.get_external_count())]
        said = "external " + " ".join(f"{text(name)}+{offset}:{'*' if size == h5py.h5f.UNLIMITED else size}" for name, offset, size in files)
    elif layout == h5d.CONTIGUOUS:
        # The library adds the length of the user block to the address that stands for none.
        user_block = obj.file.userblock_size
        said += f" {d.get_offset() if d.get_offset() != user_block - 1 else None}"
    say(f"dataset {path} {kind(t)} {shape(space)} {said}")
    for i in range(plist.get_nfilters()):
        number, flags, parameters, name = plist.get_filter(i)
        say(f"filter {path} {i} {number} {flags & 1} {' '.join(map(str, parameters))}")
    defined = plist.fill_value_defined()
    fill = {h5d.FILL_VALUE_UNDEFINED: "undefined", h5d.FILL_VALUE_DEFAULT: "default", h5d.FILL_VALUE_USER_DEFINED: "value"}[defined]
    # h5py does not get values of other types.
    is_fixed = t.get_class() not in (h5t.VLEN, h5t.OPAQUE) and not (t.get_class() == h5t.STRING and t.is_variable_str())
    if fill == "value" and readable(t) and is_fixed:
        array = np.zeros((), obj.dtype)
        plist.get_fill_value(array)
        fill += " " + values(array, t, obj.file.id)
    say(f"fill {path} {plist.get_alloc_time()} {plist.get_fill_time()} {fill}")
    if layout == h5d.CHUNKED:
        chunks = chunks_of(d)
        say(f"chunks {path} {'?' if chunks is None else len(chunks)}")
        for offset, at, size, mask in sorted(chunks or [])[:CHUNKS]:
            say(f"chunk {path} {','.join(map(str, offset))} {at} {size} {mask}")
    if layout == h5d.VIRTUAL or plist.get_external_count() or not readable(t):
        return
    if d.get_space_status() == h5d.SPACE_STATUS_NOT_ALLOCATED and t.get_class() == h5t.VLEN:
        return
    if plist.get_fill_time() == h5d.FILL_TIME_NEVER and layout == h5d.CHUNKED and chunks == []:
        return
    if t.get_class() == h5t.OPAQUE:
        array = np.empty(d.shape, f"V{t.get_size()}")
        d.read(h5s.ALL, h5s.ALL, array, t)
        say(f"values {path} {values(array, t, obj.file.id)}")
        return
    array = obj[()] if not t.get_class() == h5t.STRING or isinstance(obj[()], h5py.Empty) else np.asarray(obj[()])
    say(f"values {path} {values(array, t, obj.file.id)}")


def group(path, obj, say, seen):
    names, ordered = [], obj.id.get_create_plist().get_link_creation_order()
    obj.id.links.iterate(lambda name: names.append(name))
    for name in sorted(names):
        info = obj.id.links.get_info(name)
        if info.type == h5py.h5l.TYPE_HARD:
            say(f"link {path} {text(name)} hard {info.u}")
        elif info.type == h5py.h5l.TYPE_SOFT:
            say(f"link {path} {text(name)} soft {text(obj.id.links.get_val(name))}")
        else:
            file, inside = obj.id.links.get_val(name)
            say(f"link {path} {text(name)} external {text(file)} {text(inside)}")
    if ordered and names:
        by_order = []
        obj.id.links.iterate(lambda name: by_order.append(text(name)), idx_type=h5py.h5.INDEX_CRT_ORDER)
        say(f"link order {path} {' '.join(by_order)}")
    for name in sorted(names):
        if obj.id.links.get_info(name).type == h5py.h5l.TYPE_HARD:
            visit((path if path != "/" else "") + "/" + text(name), obj[name], say, seen)


def visit(path, obj, say, seen):
    address = h5o.get_info(obj.id).addr
    if address in seen:
        return
    seen.add(address)
    info = h5o.get_info(obj.id)
    say(f"object {path} {type(obj).__name__.replace('File', 'Group')} {address} {info.rc}")
    attributes(path, obj, say)
    if isinstance(obj, h5py.Dataset):
        dataset(path, obj, say)
    elif isinstance(obj, h5py.Datatype):
        say(f"datatype {path} {kind(obj.id)}")
    else:
        group(path, obj, say, seen)


for name in sys.argv[1:]:
    with h5py.File(name, "r") as f, open(name + ".txt", "w") as out:
        root = f["/"]
        visit("/", root, lambda line: print(line, file=out), set())
