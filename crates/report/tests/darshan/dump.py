"""What PyPI's darshan package reads in logs, as JSON: arguments are the paths of logs.

Times are the bits of their 64-bit numbers: JSON has none for those that are not finite.
"""

import json
import struct
import sys

import darshan.backend.cffi_backend as backend


def plain(value):
    if hasattr(value, "tolist"):
        return value.tolist()
    return value


def bits(seconds):
    return struct.unpack("<Q", struct.pack("<d", seconds))[0]


def records(log, module, dtype):
    while (record := backend.log_get_record(log, module, dtype=dtype)) is not None:
        yield record


def counters(log, module):
    found = []
    for record in records(log, module, "numpy"):
        values = [plain(record[key]) for key in ("id", "rank", "counters")]
        found.append([*values, [bits(seconds) for seconds in record["fcounters"]]])
    return found


def segments(log, module):
    found = []
    for record in records(log, module, "dict"):
        for direction in ("write", "read"):
            for segment in record[direction + "_segments"]:
                place = [plain(segment[key]) for key in ("offset", "length")]
                place += [bits(segment[key]) for key in ("start_time", "end_time")]
                found.append([plain(record["id"]), plain(record["rank"]), record["hostname"], direction, *place])
    return found


def layouts(log):
    found = []
    for record in records(log, "LUSTRE", "numpy"):
        targets = [plain(target) for part in record["components"] for target in part["ost_ids"]]
        stripes = [plain(value) for part in record["components"][:1] for value in part["counters"][:2]]
        found.append([plain(record["id"]), stripes, targets])
    return found


def read(path):
    log = backend.log_open(path)
    job = backend.log_get_job(log)
    modules = backend.log_get_modules(log)
    return {
        "job": job,
        "exe": backend.log_get_exe(log),
        "mounts": backend.log_get_mounts(log),
        "names": {str(key): name for key, name in backend.log_get_name_records(log).items()},
        "modules": {name: plain(module["ver"]) for name, module in modules.items()},
        "records": {name: counters(log, name) for name in ("POSIX", "MPI-IO", "STDIO") if name in modules},
        "segments": {name: segments(log, name) for name in ("DXT_POSIX", "DXT_MPIIO") if name in modules},
        "layouts": layouts(log) if "LUSTRE" in modules else [],
    }


json.dump({path: read(path) for path in sys.argv[1:]}, sys.stdout)
