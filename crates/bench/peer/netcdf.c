/* netCDF's calls, for `striate_bench::array`: the serial library, as one process uses it.
 *
 * Elements in memory are of the types with the numbers that netCDF gives to int, float and double in
 * files. Functions return netCDF's error code. */

#include <netcdf.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

_Static_assert(sizeof(size_t) == sizeof(uint64_t), "starts and counts are passed as uint64_t");

/* The message of a code; `text` has room for `room` bytes. */
void striate_netcdf_error_string(int code, char *text, int room) {
    snprintf(text, (size_t)room, "%s", nc_strerror(code));
}

/* The library's own words. */
const char *striate_netcdf_version(void) {
    return nc_inq_libvers();
}

/* --- Files ---------------------------------------------------------------------------- */

/* Creates a file of CDF-`format`, without fill values, or opens one for reading if that is 0. */
int striate_netcdf_open(const char *path, int format, int *file) {
    if (!format)
        return nc_open(path, NC_NOWRITE, file);
    int mode = NC_CLOBBER | (format == 5 ? NC_64BIT_DATA : format == 2 ? NC_64BIT_OFFSET : 0);
    int before, code = nc_create(path, mode, file);
    return code == NC_NOERR ? nc_set_fill(*file, NC_NOFILL, &before) : code;
}

int striate_netcdf_sync(int file) {
    return nc_sync(file);
}

int striate_netcdf_close(int file) {
    return nc_close(file);
}

/* --- Definitions ---------------------------------------------------------------------- */

/* A length of 0 is the unlimited one. */
int striate_netcdf_dimension(int file, const char *name, uint64_t length, int *dimension) {
    return nc_def_dim(file, name, length ? length : NC_UNLIMITED, dimension);
}

int striate_netcdf_variable(int file, const char *name, int type, int count, const int *dimensions,
                            int *variable) {
    return nc_def_var(file, name, type, count, dimensions, variable);
}

int striate_netcdf_text(int file, int variable, const char *name, uint64_t length,
                        const char *text) {
    return nc_put_att_text(file, variable, name, length, text);
}

int striate_netcdf_number(int file, int variable, const char *name, double number) {
    return nc_put_att_double(file, variable, name, NC_DOUBLE, 1, &number);
}

int striate_netcdf_end(int file) {
    return nc_enddef(file);
}

/* --- What a file says about itself ---------------------------------------------------- */

int striate_netcdf_find(int file, const char *name, int *variable) {
    return nc_inq_varid(file, name, variable);
}

int striate_netcdf_variables(int file, int *count) {
    return nc_inq_nvars(file, count);
}

int striate_netcdf_get_number(int file, int variable, const char *name, double *number) {
    size_t length = 0;
    int code = nc_inq_attlen(file, variable, name, &length);
    if (code == NC_NOERR && length != 1)
        code = NC_EINVAL;
    return code == NC_NOERR ? nc_get_att_double(file, variable, name, number) : code;
}

/* --- Data ------------------------------------------------------------------------------ */

/* Starts and counts must be as many as the variable has dimensions. */
static int check_dimensions(int file, int variable, int dimensions) {
    int count = 0, code = nc_inq_varndims(file, variable, &count);
    return code == NC_NOERR && count != dimensions ? NC_EINVALCOORDS : code;
}

int striate_netcdf_put(int file, int variable, int dimensions, const uint64_t *start,
                       const uint64_t *count, int type, const void *elements) {
    const size_t *from = (const size_t *)start, *of = (const size_t *)count;
    int code = check_dimensions(file, variable, dimensions);
    if (code != NC_NOERR)
        return code;
    switch (type) {
    case NC_INT:
        return nc_put_vara_int(file, variable, from, of, elements);
    case NC_FLOAT:
        return nc_put_vara_float(file, variable, from, of, elements);
    case NC_DOUBLE:
        return nc_put_vara_double(file, variable, from, of, elements);
    default:
        return NC_EBADTYPE;
    }
}

int striate_netcdf_get(int file, int variable, int dimensions, const uint64_t *start,
                       const uint64_t *count, int type, void *elements) {
    const size_t *from = (const size_t *)start, *of = (const size_t *)count;
    int code = check_dimensions(file, variable, dimensions);
    if (code != NC_NOERR)
        return code;
    switch (type) {
    case NC_INT:
        return nc_get_vara_int(file, variable, from, of, elements);
    case NC_FLOAT:
        return nc_get_vara_float(file, variable, from, of, elements);
    case NC_DOUBLE:
        return nc_get_vara_double(file, variable, from, of, elements);
    default:
        return NC_EBADTYPE;
    }
}
