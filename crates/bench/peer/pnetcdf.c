/* PnetCDF's calls, for `striate_bench::array`: the peer of our datasets in the same process.
 *
 * Elements in memory are of the types with the numbers that netCDF gives to int, float and double in
 * files. Functions return PnetCDF's error code. This is compiled by the compiler wrapper of the MPI that
 * the process uses; PnetCDF must have been built for the same. */

#include <mpi.h>
#include <pnetcdf.h>
#include <stdint.h>
#include <stdio.h>

_Static_assert(sizeof(MPI_Offset) == sizeof(int64_t), "starts and counts are passed as int64_t");

/* Of mpiio.c: asks for OMPIO (0) or ROMIO (1) in the next open of a file, and takes that back. */
int striate_mpiio_prefer(int romio, int saved[2]);
void striate_mpiio_restore(const int saved[2]);

/* The message of a code; `text` has room for `room` bytes. */
void striate_pnetcdf_error_string(int code, char *text, int room) {
    snprintf(text, (size_t)room, "%s", ncmpi_strerror(code));
}

/* The library's own words. */
const char *striate_pnetcdf_version(void) {
    return ncmpi_inq_libvers();
}

/* --- Files ---------------------------------------------------------------------------- */

static int make_info(const char *const *hints, int count, MPI_Info *info) {
    *info = MPI_INFO_NULL;
    if (count == 0)
        return NC_NOERR;
    int code = MPI_Info_create(info);
    for (int i = 0; i < count && code == MPI_SUCCESS; i++)
        code = MPI_Info_set(*info, hints[2 * i], hints[2 * i + 1]);
    return code == MPI_SUCCESS ? NC_NOERR : NC_EFILE;
}

/* Creates a file of CDF-`format`, or opens one for reading if that is 0. `component` is the MPI-IO to
 * use: 0 OMPIO, 1 ROMIO, -1 whichever MPI takes. `hints` are `count` names, each followed by its value.
 * `*found` is 0, and nothing was done, if there is no such component. Collective. */
int striate_pnetcdf_open(const char *path, int format, int component, const char *const *hints,
                         int count, int *file, int *found) {
    int saved[2] = {0, 0};
    *found = component < 0 || striate_mpiio_prefer(component, saved);
    if (!*found)
        return NC_NOERR;
    MPI_Info info;
    int code = make_info(hints, count, &info);
    if (code == NC_NOERR && format) {
        int mode = NC_CLOBBER | (format == 5 ? NC_64BIT_DATA : format == 2 ? NC_64BIT_OFFSET : 0);
        code = ncmpi_create(MPI_COMM_WORLD, path, mode, info, file);
    } else if (code == NC_NOERR) {
        code = ncmpi_open(MPI_COMM_WORLD, path, NC_NOWRITE, info, file);
    }
    if (info != MPI_INFO_NULL)
        MPI_Info_free(&info);
    if (component >= 0)
        striate_mpiio_restore(saved);
    return code;
}

/* Data calls that are not collective follow. Collective. */
int striate_pnetcdf_independent(int file) {
    return ncmpi_begin_indep_data(file);
}

int striate_pnetcdf_sync(int file) {
    return ncmpi_sync(file);
}

int striate_pnetcdf_close(int file) {
    return ncmpi_close(file);
}

/* --- Definitions ---------------------------------------------------------------------- */

/* A length of 0 is the unlimited one. */
int striate_pnetcdf_dimension(int file, const char *name, int64_t length, int *dimension) {
    return ncmpi_def_dim(file, name, length ? length : NC_UNLIMITED, dimension);
}

int striate_pnetcdf_variable(int file, const char *name, int type, int count, const int *dimensions,
                             int *variable) {
    return ncmpi_def_var(file, name, type, count, dimensions, variable);
}

int striate_pnetcdf_text(int file, int variable, const char *name, int64_t length,
                         const char *text) {
    return ncmpi_put_att_text(file, variable, name, length, text);
}

int striate_pnetcdf_number(int file, int variable, const char *name, double number) {
    return ncmpi_put_att_double(file, variable, name, NC_DOUBLE, 1, &number);
}

int striate_pnetcdf_end(int file) {
    return ncmpi_enddef(file);
}

/* --- What a file says about itself ---------------------------------------------------- */

int striate_pnetcdf_find(int file, const char *name, int *variable) {
    return ncmpi_inq_varid(file, name, variable);
}

int striate_pnetcdf_variables(int file, int *count) {
    return ncmpi_inq_nvars(file, count);
}

int striate_pnetcdf_get_number(int file, int variable, const char *name, double *number) {
    MPI_Offset length = 0;
    int code = ncmpi_inq_attlen(file, variable, name, &length);
    if (code == NC_NOERR && length != 1)
        code = NC_EINVAL;
    return code == NC_NOERR ? ncmpi_get_att_double(file, variable, name, number) : code;
}

/* --- Data ------------------------------------------------------------------------------ */

/* Starts and counts must be as many as the variable has dimensions. */
static int check_dimensions(int file, int variable, int dimensions) {
    int count = 0, code = ncmpi_inq_varndims(file, variable, &count);
    return code == NC_NOERR && count != dimensions ? NC_EINVALCOORDS : code;
}

/* Collective, if it is said to be. The elements are as they were when this returns; in between they may be swapped. */
int striate_pnetcdf_put(int file, int variable, int dimensions, const int64_t *start,
                        const int64_t *count, int type, void *elements, int collective) {
    const MPI_Offset *from = (const MPI_Offset *)start, *of = (const MPI_Offset *)count;
    int code = check_dimensions(file, variable, dimensions);
    if (code != NC_NOERR)
        return code;
    switch (type) {
    case NC_INT:
        return (collective ? ncmpi_put_vara_int_all : ncmpi_put_vara_int)(file, variable, from, of, elements);
    case NC_FLOAT:
        return (collective ? ncmpi_put_vara_float_all : ncmpi_put_vara_float)(file, variable, from, of, elements);
    case NC_DOUBLE:
        return (collective ? ncmpi_put_vara_double_all : ncmpi_put_vara_double)(file, variable, from, of, elements);
    default:
        return NC_EBADTYPE;
    }
}

/* Collective, if it is said to be. */
int striate_pnetcdf_get(int file, int variable, int dimensions, const int64_t *start,
                        const int64_t *count, int type, void *elements, int collective) {
    const MPI_Offset *from = (const MPI_Offset *)start, *of = (const MPI_Offset *)count;
    int code = check_dimensions(file, variable, dimensions);
    if (code != NC_NOERR)
        return code;
    switch (type) {
    case NC_INT:
        return (collective ? ncmpi_get_vara_int_all : ncmpi_get_vara_int)(file, variable, from, of, elements);
    case NC_FLOAT:
        return (collective ? ncmpi_get_vara_float_all : ncmpi_get_vara_float)(file, variable, from, of, elements);
    case NC_DOUBLE:
        return (collective ? ncmpi_get_vara_double_all : ncmpi_get_vara_double)(file, variable, from, of, elements);
    default:
        return NC_EBADTYPE;
    }
}

/* The elements belong to the request until it was waited for; they may be swapped in between. */
int striate_pnetcdf_begin_put(int file, int variable, int dimensions, const int64_t *start,
                              const int64_t *count, int type, void *elements, int *request) {
    const MPI_Offset *from = (const MPI_Offset *)start, *of = (const MPI_Offset *)count;
    int code = check_dimensions(file, variable, dimensions);
    if (code != NC_NOERR)
        return code;
    switch (type) {
    case NC_INT:
        return ncmpi_iput_vara_int(file, variable, from, of, elements, request);
    case NC_FLOAT:
        return ncmpi_iput_vara_float(file, variable, from, of, elements, request);
    case NC_DOUBLE:
        return ncmpi_iput_vara_double(file, variable, from, of, elements, request);
    default:
        return NC_EBADTYPE;
    }
}

/* The elements belong to the request until it was waited for. */
int striate_pnetcdf_begin_get(int file, int variable, int dimensions, const int64_t *start,
                              const int64_t *count, int type, void *elements, int *request) {
    const MPI_Offset *from = (const MPI_Offset *)start, *of = (const MPI_Offset *)count;
    int code = check_dimensions(file, variable, dimensions);
    if (code != NC_NOERR)
        return code;
    switch (type) {
    case NC_INT:
        return ncmpi_iget_vara_int(file, variable, from, of, elements, request);
    case NC_FLOAT:
        return ncmpi_iget_vara_float(file, variable, from, of, elements, request);
    case NC_DOUBLE:
        return ncmpi_iget_vara_double(file, variable, from, of, elements, request);
    default:
        return NC_EBADTYPE;
    }
}

/* Carries out requests; the first that failed, if any did, is the result. Collective. */
int striate_pnetcdf_wait_all(int file, int count, int *requests, int *statuses) {
    int code = ncmpi_wait_all(file, count, requests, statuses);
    for (int i = 0; i < count && code == NC_NOERR; i++)
        code = statuses[i];
    return code;
}
