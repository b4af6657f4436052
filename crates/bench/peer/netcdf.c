/* netCDF's calls, for `striate_bench::array`: the serial library, as one process uses it, or with
 * STRIATE_PARALLEL the parallel one, in which all processes of the job call. */

#include "dataset_calls.h"

#ifdef STRIATE_PARALLEL
#include <mpi.h>
#endif
#include <netcdf.h>
#include <netcdf_meta.h>
#ifdef STRIATE_PARALLEL
#include <netcdf_par.h>
#endif
#include <stddef.h>
#include <stdio.h>

_Static_assert(sizeof(size_t) == sizeof(uint64_t), "starts and counts are passed as uint64_t");

static void error_string(int code, char *text, int room) {
    snprintf(text, (size_t)room, "%s", nc_strerror(code));
}

static const char *version(void) {
    return nc_inq_libvers();
}

/* --- Files ---------------------------------------------------------------------------- */

#ifdef STRIATE_PARALLEL

/* Of the file that is open, as there is never more than one. */
static int access_mode = NC_COLLECTIVE;

static int make_info(const struct striate_open *how, MPI_Info *info) {
    *info = MPI_INFO_NULL;
    if (how->hint_count == 0)
        return NC_NOERR;
    int code = MPI_Info_create(info);
    for (int i = 0; i < how->hint_count && code == MPI_SUCCESS; i++)
        code = MPI_Info_set(*info, how->hints[2 * i], how->hints[2 * i + 1]);
    return code == MPI_SUCCESS ? NC_NOERR : NC_EINVAL;
}

static int set_alignment(uint64_t alignment) {
#if NC_VERSION_MAJOR > 4 || (NC_VERSION_MAJOR == 4 && NC_VERSION_MINOR >= 9)
    /* As of HDF5: 1 is none. */
    int size = alignment ? (int)alignment : 1;
    return nc_set_alignment(size, size);
#else
    return alignment ? NC_EINVAL : NC_NOERR;
#endif
}

static int open_file(const char *path, const struct striate_open *how, int *file) {
    MPI_Info info;
    int before, code = make_info(how, &info);
    access_mode = how->collective ? NC_COLLECTIVE : NC_INDEPENDENT;
    if (code == NC_NOERR && how->format) {
        code = set_alignment(how->alignment);
        if (code == NC_NOERR)
            code = nc_create_par(path, NC_CLOBBER | NC_NETCDF4, MPI_COMM_WORLD, info, file);
        if (code == NC_NOERR)
            code = nc_set_fill(*file, NC_NOFILL, &before);
    } else if (code == NC_NOERR) {
        code = nc_open_par(path, NC_NOWRITE, MPI_COMM_WORLD, info, file);
    }
    if (info != MPI_INFO_NULL)
        MPI_Info_free(&info);
    return code;
}

static int set_access(int file, int variable) {
    return nc_var_par_access(file, variable, access_mode);
}

#else

static int open_file(const char *path, const struct striate_open *how, int *file) {
    int format = how->format;
    if (!format)
        return nc_open(path, NC_NOWRITE, file);
    int mode = format == 5 ? NC_64BIT_DATA : format == 4 ? NC_NETCDF4 : format == 2 ? NC_64BIT_OFFSET : 0;
    int before, code = nc_create(path, NC_CLOBBER | mode, file);
    return code == NC_NOERR ? nc_set_fill(*file, NC_NOFILL, &before) : code;
}

static int set_access(int file, int variable) {
    (void)file, (void)variable;
    return NC_NOERR;
}

#endif

static int open_by(const char *path, const struct striate_open *how, intptr_t *file) {
    int id = -1, code = open_file(path, how, &id);
    *file = id;
    return code;
}

static int sync_file(intptr_t file) {
    return nc_sync((int)file);
}

static int close_file(intptr_t file) {
    return nc_close((int)file);
}

/* --- Definitions ---------------------------------------------------------------------- */

static int dimension(intptr_t file, const char *name, uint64_t length, int unlimited, int *id) {
    return nc_def_dim((int)file, name, unlimited ? NC_UNLIMITED : length, id);
}

static int variable(intptr_t file, const char *name, int type, int count, const int *dimensions,
                    const struct striate_storage *storage, int *id) {
    int format = NC_FORMAT_CLASSIC;
    int code = nc_def_var((int)file, name, type, count, dimensions, id);
    if (code == NC_NOERR)
        code = nc_inq_format((int)file, &format);
    /* Classic files have no chunks. */
    int has_storage = format == NC_FORMAT_NETCDF4 || format == NC_FORMAT_NETCDF4_CLASSIC;
    if (code == NC_NOERR && has_storage && storage->chunk)
        code = nc_def_var_chunking((int)file, *id, NC_CHUNKED, (const size_t *)storage->chunk);
    if (code == NC_NOERR && has_storage && storage->deflate_level >= 0)
        code = nc_def_var_deflate((int)file, *id, NC_SHUFFLE, 1, storage->deflate_level);
    return code;
}

static int text(intptr_t file, int id, const char *name, uint64_t length, const char *words) {
    return nc_put_att_text((int)file, id, name, length, words);
}

static int number(intptr_t file, int id, const char *name, double value) {
    return nc_put_att_double((int)file, id, name, NC_DOUBLE, 1, &value);
}

static int end(intptr_t file) {
    int count = 0, code = nc_enddef((int)file);
    if (code == NC_NOERR)
        code = nc_inq_nvars((int)file, &count);
    for (int id = 0; id < count && code == NC_NOERR; id++)
        code = set_access((int)file, id);
    return code;
}

/* --- What a file says about itself ---------------------------------------------------- */

static int find(intptr_t file, const char *name, int *id) {
    int code = nc_inq_varid((int)file, name, id);
    return code == NC_NOERR ? set_access((int)file, *id) : code;
}

static int variables(intptr_t file, int *count) {
    return nc_inq_nvars((int)file, count);
}

static int get_number(intptr_t file, int id, const char *name, double *value) {
    size_t length = 0;
    int code = nc_inq_attlen((int)file, id, name, &length);
    if (code == NC_NOERR && length != 1)
        code = NC_EINVAL;
    return code == NC_NOERR ? nc_get_att_double((int)file, id, name, value) : code;
}

/* --- Data ------------------------------------------------------------------------------ */

/* Starts and counts must be as many as the variable has dimensions. */
static int check_dimensions(int file, int id, int dimensions) {
    int count = 0, code = nc_inq_varndims(file, id, &count);
    return code == NC_NOERR && count != dimensions ? NC_EINVALCOORDS : code;
}

static int put(intptr_t file, int id, int dimensions, const uint64_t *start, const uint64_t *count, int type,
               const void *elements) {
    const size_t *from = (const size_t *)start, *of = (const size_t *)count;
    int code = check_dimensions((int)file, id, dimensions);
    if (code != NC_NOERR)
        return code;
    switch (type) {
    case NC_INT:
        return nc_put_vara_int((int)file, id, from, of, elements);
    case NC_FLOAT:
        return nc_put_vara_float((int)file, id, from, of, elements);
    case NC_DOUBLE:
        return nc_put_vara_double((int)file, id, from, of, elements);
    default:
        return NC_EBADTYPE;
    }
}

static int get(intptr_t file, int id, int dimensions, const uint64_t *start, const uint64_t *count, int type,
               void *elements) {
    const size_t *from = (const size_t *)start, *of = (const size_t *)count;
    int code = check_dimensions((int)file, id, dimensions);
    if (code != NC_NOERR)
        return code;
    switch (type) {
    case NC_INT:
        return nc_get_vara_int((int)file, id, from, of, elements);
    case NC_FLOAT:
        return nc_get_vara_float((int)file, id, from, of, elements);
    case NC_DOUBLE:
        return nc_get_vara_double((int)file, id, from, of, elements);
    default:
        return NC_EBADTYPE;
    }
}

const struct striate_dataset_calls striate_dataset_calls = {
    version, error_string, open_by, sync_file, close_file, dimension, variable, text,
    number,  end,          find,    variables, get_number, put,       get,
};
