/* Conversions of netCDF-C, one value at a time, for a test that compares them with ours.
 *
 * Standard input is a sequence of requests: five native 32-bit integers
 *
 *     direction (0 put, 1 get), version of the format (1, 2, 5), external type, type in memory, count
 *
 * (types by their nc_type numbers), then `count` values in native byte order: of the type in memory for a
 * put, of the external type for a get. The answer, on standard output, is one byte per value, which is 1 if
 * netCDF said NC_ERANGE, and then the values: as the file holds them after a put, in native byte order;
 * as memory does after a get. Each request is a file of its own, which never reaches a disk. */

#include <netcdf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int ncid, varid;

static void check(int status, const char *what)
{
    if (status != NC_NOERR) {
        fprintf(stderr, "%s: %s\n", what, nc_strerror(status));
        exit(1);
    }
}

static size_t size_of(nc_type type)
{
    switch (type) {
    case NC_BYTE: case NC_UBYTE: case NC_CHAR: return 1;
    case NC_SHORT: case NC_USHORT: return 2;
    case NC_INT: case NC_UINT: case NC_FLOAT: return 4;
    default: return 8;
    }
}

static int put(nc_type type, size_t at, const void *value)
{
    switch (type) {
    case NC_BYTE: return nc_put_var1_schar(ncid, varid, &at, value);
    case NC_CHAR: return nc_put_var1_text(ncid, varid, &at, value);
    case NC_SHORT: return nc_put_var1_short(ncid, varid, &at, value);
    case NC_INT: return nc_put_var1_int(ncid, varid, &at, value);
    case NC_FLOAT: return nc_put_var1_float(ncid, varid, &at, value);
    case NC_DOUBLE: return nc_put_var1_double(ncid, varid, &at, value);
    case NC_UBYTE: return nc_put_var1_uchar(ncid, varid, &at, value);
    case NC_USHORT: return nc_put_var1_ushort(ncid, varid, &at, value);
    case NC_UINT: return nc_put_var1_uint(ncid, varid, &at, value);
    case NC_INT64: return nc_put_var1_longlong(ncid, varid, &at, value);
    case NC_UINT64: return nc_put_var1_ulonglong(ncid, varid, &at, value);
    default: return NC_EBADTYPE;
    }
}

static int get(nc_type type, size_t at, void *value)
{
    switch (type) {
    case NC_BYTE: return nc_get_var1_schar(ncid, varid, &at, value);
    case NC_CHAR: return nc_get_var1_text(ncid, varid, &at, value);
    case NC_SHORT: return nc_get_var1_short(ncid, varid, &at, value);
    case NC_INT: return nc_get_var1_int(ncid, varid, &at, value);
    case NC_FLOAT: return nc_get_var1_float(ncid, varid, &at, value);
    case NC_DOUBLE: return nc_get_var1_double(ncid, varid, &at, value);
    case NC_UBYTE: return nc_get_var1_uchar(ncid, varid, &at, value);
    case NC_USHORT: return nc_get_var1_ushort(ncid, varid, &at, value);
    case NC_UINT: return nc_get_var1_uint(ncid, varid, &at, value);
    case NC_INT64: return nc_get_var1_longlong(ncid, varid, &at, value);
    case NC_UINT64: return nc_get_var1_ulonglong(ncid, varid, &at, value);
    default: return NC_EBADTYPE;
    }
}

static void create(int32_t version, nc_type external, size_t count)
{
    int mode = version == 5 ? NC_64BIT_DATA : version == 2 ? NC_64BIT_OFFSET : 0;
    int dimid, old;
    check(nc_create("convert.nc", NC_CLOBBER | NC_DISKLESS | mode, &ncid), "nc_create");
    check(nc_set_fill(ncid, NC_NOFILL, &old), "nc_set_fill");
    check(nc_def_dim(ncid, "n", count, &dimid), "nc_def_dim");
    check(nc_def_var(ncid, "v", external, 1, &dimid, &varid), "nc_def_var");
    check(nc_enddef(ncid), "nc_enddef");
}

int main(void)
{
    int32_t request[5];
    while (fread(request, sizeof request, 1, stdin) == 1) {
        int is_get = request[0];
        nc_type external = request[2], memory = request[3];
        size_t count = (size_t)request[4];
        /* Values go in as one type and come out as the other; only one of the two ways converts. */
        nc_type in = is_get ? external : memory, out = is_get ? memory : external;
        char *from = malloc(count * size_of(in)), *to = calloc(count, size_of(out));
        char *out_of_range = calloc(count, 1);
        if (!from || !to || !out_of_range || fread(from, size_of(in), count, stdin) != count) {
            fprintf(stderr, "a request ends early\n");
            return 1;
        }
        create(request[1], external, count);
        for (size_t i = 0; i < count; i++) {
            int status = put(in, i, from + i * size_of(in));
            if (!is_get && status == NC_ERANGE)
                out_of_range[i] = 1;
            else
                check(status, "put");
            status = get(out, i, to + i * size_of(out));
            if (is_get && status == NC_ERANGE)
                out_of_range[i] = 1;
            else
                check(status, "get");
        }
        check(nc_close(ncid), "nc_close");
        if (fwrite(out_of_range, 1, count, stdout) != count ||
            fwrite(to, size_of(out), count, stdout) != count || fflush(stdout) != 0)
            return 1;
        free(from);
        free(to);
        free(out_of_range);
    }
    return 0;
}
