/* Calls of parallel HDF5, for `striate_bench::array`, with what its documentation recommends: collective
 * metadata, no fill values, one property list for all transfers. All processes of the job call. */

#include "dataset_calls.h"

#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef H5_HAVE_PARALLEL
#error "this HDF5 is serial"
#endif

_Static_assert(sizeof(hsize_t) == sizeof(uint64_t), "starts and counts are passed as uint64_t");

enum { MOST_DIMENSIONS = 8, FAILED = -1, INVALID = -2, NO_MEMORY = -3 };
/* The numbers of netCDF's types. */
enum { INT = 4, FLOAT = 5, DOUBLE = 6 };

struct extent {
    hsize_t length;
    int unlimited;
};

struct dataset {
    hid_t id;
    int dimensions;
    hsize_t length[MOST_DIMENSIONS];
    /* Whether the first dimension grows when data is written. */
    int grows;
};

struct file {
    hid_t id, transfer;
    int collective;
    struct extent *dimensions;
    struct dataset *datasets;
    int dimension_count, dataset_count;
};

/* --- Errors ---------------------------------------------------------------------------- */

struct message {
    char *text;
    size_t room;
};

static herr_t take_message(unsigned depth, const H5E_error2_t *error, void *into) {
    struct message *message = into;
    if (depth < 3 && error->desc) {
        int written = snprintf(message->text, message->room, "%s%s", depth ? ": " : "", error->desc);
        size_t used = written < 0 ? 0 : (size_t)written < message->room ? (size_t)written : message->room - 1;
        message->text += used;
        message->room -= used;
    }
    return 0;
}

static void error_string(int code, char *text, int room) {
    snprintf(text, (size_t)room, "%s", code == INVALID ? "invalid argument" : code == NO_MEMORY ? "no memory" : "");
    struct message message = {text, (size_t)room};
    if (code == FAILED)
        H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_message, &message);
}

static const char *version(void) {
    static char text[64];
    unsigned major = 0, minor = 0, release = 0;
    H5get_libversion(&major, &minor, &release);
    snprintf(text, sizeof text, "%u.%u.%u", major, minor, release);
    return text;
}

/* Room for one more in an array whose length doubles. */
static void *enlarged(void *array, int count, size_t size) {
    if (count & (count - 1))
        return array;
    return realloc(array, (count ? 2 * (size_t)count : 1) * size);
}

/* --- Files ---------------------------------------------------------------------------- */

static hid_t file_properties(const struct striate_open *how) {
    MPI_Info info = MPI_INFO_NULL;
    int set = how->hint_count == 0 || MPI_Info_create(&info) == MPI_SUCCESS;
    for (int i = 0; i < how->hint_count && set; i++)
        set = MPI_Info_set(info, how->hints[2 * i], how->hints[2 * i + 1]) == MPI_SUCCESS;
    hid_t properties = H5Pcreate(H5P_FILE_ACCESS);
    set = set && properties >= 0 && H5Pset_fapl_mpio(properties, MPI_COMM_WORLD, info) >= 0 &&
          H5Pset_all_coll_metadata_ops(properties, 1) >= 0 && H5Pset_coll_metadata_write(properties, 1) >= 0 &&
          (!how->alignment || H5Pset_alignment(properties, how->alignment, how->alignment) >= 0);
    if (info != MPI_INFO_NULL)
        MPI_Info_free(&info);
    if (!set && properties >= 0) {
        H5Pclose(properties);
        properties = FAILED;
    }
    return properties;
}

static int close_file(intptr_t handle) {
    struct file *file = (struct file *)handle;
    int failed = 0;
    for (int i = 0; i < file->dataset_count; i++)
        failed |= H5Dclose(file->datasets[i].id) < 0;
    failed |= file->transfer >= 0 && H5Pclose(file->transfer) < 0;
    failed |= file->id >= 0 && H5Fclose(file->id) < 0;
    free(file->dimensions);
    free(file->datasets);
    free(file);
    return failed ? FAILED : 0;
}

static int open_file(const char *path, const struct striate_open *how, intptr_t *handle) {
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    struct file *file = calloc(1, sizeof *file);
    if (!file)
        return NO_MEMORY;
    hid_t properties = file_properties(how);
    file->collective = how->collective;
    file->id = file->transfer = FAILED;
    if (properties >= 0) {
        file->id = how->format ? H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, properties)
                               : H5Fopen(path, H5F_ACC_RDONLY, properties);
        H5Pclose(properties);
    }
    if (file->id >= 0)
        file->transfer = H5Pcreate(H5P_DATASET_XFER);
    H5FD_mpio_xfer_t mode = how->collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT;
    if (file->transfer < 0 || H5Pset_dxpl_mpio(file->transfer, mode) < 0) {
        /* The error is that of the first call that failed. */
        hid_t errors = H5Eget_current_stack();
        close_file((intptr_t)file);
        H5Eset_current_stack(errors);
        return FAILED;
    }
    *handle = (intptr_t)file;
    return 0;
}

static int sync_file(intptr_t handle) {
    return H5Fflush(((struct file *)handle)->id, H5F_SCOPE_GLOBAL) < 0 ? FAILED : 0;
}

/* --- Definitions ---------------------------------------------------------------------- */

static int dimension(intptr_t handle, const char *name, uint64_t length, int unlimited, int *id) {
    (void)name;
    struct file *file = (struct file *)handle;
    struct extent *larger = enlarged(file->dimensions, file->dimension_count, sizeof *larger);
    if (!larger)
        return NO_MEMORY;
    file->dimensions = larger;
    larger[file->dimension_count] = (struct extent){length, unlimited};
    *id = file->dimension_count++;
    return 0;
}

static hid_t native(int type) {
    return type == INT ? H5T_NATIVE_INT : type == FLOAT ? H5T_NATIVE_FLOAT : type == DOUBLE ? H5T_NATIVE_DOUBLE : FAILED;
}

static int keep(struct file *file, const struct dataset *dataset, int *id) {
    struct dataset *larger = enlarged(file->datasets, file->dataset_count, sizeof *larger);
    if (!larger)
        return NO_MEMORY;
    file->datasets = larger;
    larger[file->dataset_count] = *dataset;
    *id = file->dataset_count++;
    return 0;
}

static int variable(intptr_t handle, const char *name, int type, int count, const int *dimensions,
                    const struct striate_storage *storage, int *id) {
    struct file *file = (struct file *)handle;
    if (count < 1 || count > MOST_DIMENSIONS || native(type) < 0)
        return INVALID;
    struct dataset dataset = {.id = FAILED, .dimensions = count};
    hsize_t most[MOST_DIMENSIONS];
    for (int i = 0; i < count; i++) {
        struct extent *extent = &file->dimensions[dimensions[i]];
        most[i] = extent->unlimited ? H5S_UNLIMITED : extent->length;
        dataset.length[i] = extent->length;
    }
    /* A program knows how long its records are; that there is one more is what the benchmark is about. */
    dataset.grows = file->dimensions[dimensions[0]].unlimited;
    if (dataset.grows)
        dataset.length[0] = 0;
    hid_t properties = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(count, dataset.length, most);
    int ready = properties >= 0 && space >= 0 && H5Pset_fill_time(properties, H5D_FILL_TIME_NEVER) >= 0;
    /* HDF5 has no default: what grows has a chunk per record, which is netCDF's default for records of up to 4 MiB. */
    hsize_t record[MOST_DIMENSIONS];
    memcpy(record, dataset.length, sizeof record);
    record[0] = 1;
    const hsize_t *chunk = storage->chunk ? (const hsize_t *)storage->chunk : dataset.grows ? record : NULL;
    if (ready && chunk)
        ready = H5Pset_chunk(properties, count, chunk) >= 0;
    if (ready && storage->deflate_level >= 0)
        ready = H5Pset_shuffle(properties) >= 0 && H5Pset_deflate(properties, (unsigned)storage->deflate_level) >= 0;
    if (ready)
        dataset.id = H5Dcreate2(file->id, name, native(type), space, H5P_DEFAULT, properties, H5P_DEFAULT);
    int code = dataset.id >= 0 ? keep(file, &dataset, id) : FAILED;
    /* Functions that succeed would forget the error. */
    hid_t errors = H5Eget_current_stack();
    if (space >= 0)
        H5Sclose(space);
    if (properties >= 0)
        H5Pclose(properties);
    H5Eset_current_stack(errors);
    return code;
}

static int attribute(hid_t object, const char *name, hid_t type, const void *value) {
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t made = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    int failed = made < 0 || H5Awrite(made, type, value) < 0;
    if (made >= 0)
        failed |= H5Aclose(made) < 0;
    H5Sclose(space);
    return failed ? FAILED : 0;
}

static int text(intptr_t handle, int id, const char *name, uint64_t length, const char *words) {
    struct file *file = (struct file *)handle;
    hid_t type = H5Tcopy(H5T_C_S1);
    int failed = type < 0 || H5Tset_size(type, length ? length : 1) < 0;
    if (!failed)
        failed = attribute(file->datasets[id].id, name, type, words) < 0;
    if (type >= 0)
        H5Tclose(type);
    return failed ? FAILED : 0;
}

static int number(intptr_t handle, int id, const char *name, double value) {
    return attribute(((struct file *)handle)->datasets[id].id, name, H5T_NATIVE_DOUBLE, &value);
}

static int end(intptr_t handle) {
    (void)handle;
    return 0;
}

/* --- What a file says about itself ---------------------------------------------------- */

static int find(intptr_t handle, const char *name, int *id) {
    struct file *file = (struct file *)handle;
    struct dataset dataset = {.id = H5Dopen2(file->id, name, H5P_DEFAULT)};
    if (dataset.id < 0)
        return FAILED;
    hid_t space = H5Dget_space(dataset.id);
    dataset.dimensions = space >= 0 ? H5Sget_simple_extent_ndims(space) : FAILED;
    if (space >= 0)
        H5Sclose(space);
    int code = dataset.dimensions < 1 || dataset.dimensions > MOST_DIMENSIONS ? FAILED : keep(file, &dataset, id);
    if (code < 0)
        H5Dclose(dataset.id);
    return code;
}

/* Counts datasets, except those that are netCDF's dimensions and nothing else. */
static herr_t count_variable(hid_t group, const char *name, const H5L_info_t *info, void *into) {
    static const char dimension_only[] = "This is a netCDF dimension but not a netCDF variable";
    (void)info;
    char label[128] = "";
    hid_t dataset = H5Dopen2(group, name, H5P_DEFAULT);
    if (dataset < 0)
        return 0;
    if (H5Aexists(dataset, "NAME") > 0) {
        hid_t said = H5Aopen(dataset, "NAME", H5P_DEFAULT), type = H5Aget_type(said);
        if (said >= 0 && H5Tis_variable_str(type) == 0 && H5Tget_size(type) < sizeof label)
            H5Aread(said, type, label);
        H5Tclose(type);
        H5Aclose(said);
    }
    H5Dclose(dataset);
    *(int *)into += strncmp(label, dimension_only, sizeof dimension_only - 1) != 0;
    return 0;
}

static int variables(intptr_t handle, int *count) {
    *count = 0;
    hid_t file = ((struct file *)handle)->id;
    return H5Literate(file, H5_INDEX_NAME, H5_ITER_NATIVE, NULL, count_variable, count) < 0 ? FAILED : 0;
}

static int get_number(intptr_t handle, int id, const char *name, double *value) {
    hid_t said = H5Aopen(((struct file *)handle)->datasets[id].id, name, H5P_DEFAULT);
    if (said < 0)
        return FAILED;
    hid_t space = H5Aget_space(said);
    int failed = space < 0 || H5Sget_simple_extent_npoints(space) != 1 || H5Aread(said, H5T_NATIVE_DOUBLE, value) < 0;
    H5Sclose(space);
    H5Aclose(said);
    return failed ? FAILED : 0;
}

/* --- Data ------------------------------------------------------------------------------ */

/* The selection of an access in the file, and in memory one piece. */
static int select_part(const struct dataset *dataset, const uint64_t *start, const uint64_t *count, hid_t *in_file,
                       hid_t *in_memory) {
    const hsize_t *from = (const hsize_t *)start, *of = (const hsize_t *)count;
    hsize_t elements = 1;
    for (int i = 0; i < dataset->dimensions; i++)
        elements *= count[i];
    *in_file = H5Dget_space(dataset->id);
    *in_memory = H5Screate_simple(dataset->dimensions, of, NULL);
    if (*in_file < 0 || *in_memory < 0)
        return FAILED;
    if (elements == 0)
        return H5Sselect_none(*in_file) < 0 || H5Sselect_none(*in_memory) < 0 ? FAILED : 0;
    return H5Sselect_hyperslab(*in_file, H5S_SELECT_SET, from, NULL, of, NULL) < 0 ? FAILED : 0;
}

static void close_spaces(hid_t in_file, hid_t in_memory) {
    if (in_file >= 0)
        H5Sclose(in_file);
    if (in_memory >= 0)
        H5Sclose(in_memory);
}

static int check(const struct file *file, int id, int dimensions, int type) {
    return file->datasets[id].dimensions != dimensions || native(type) < 0 ? INVALID : 0;
}

static int put(intptr_t handle, int id, int dimensions, const uint64_t *start, const uint64_t *count, int type,
               const void *elements) {
    struct file *file = (struct file *)handle;
    struct dataset *dataset = &file->datasets[id];
    int code = check(file, id, dimensions, type);
    if (code < 0)
        return code;
    /* All ranks write the same records, so each knows how many there are. */
    if (dataset->grows && start[0] + count[0] > dataset->length[0]) {
        dataset->length[0] = start[0] + count[0];
        if (!file->collective)
            return INVALID;
        if (H5Dset_extent(dataset->id, dataset->length) < 0)
            return FAILED;
    }
    hid_t in_file, in_memory;
    code = select_part(dataset, start, count, &in_file, &in_memory);
    if (code == 0 && H5Dwrite(dataset->id, native(type), in_memory, in_file, file->transfer, elements) < 0)
        code = FAILED;
    close_spaces(in_file, in_memory);
    return code;
}

static int get(intptr_t handle, int id, int dimensions, const uint64_t *start, const uint64_t *count, int type,
               void *elements) {
    struct file *file = (struct file *)handle;
    int code = check(file, id, dimensions, type);
    if (code < 0)
        return code;
    hid_t in_file, in_memory;
    code = select_part(&file->datasets[id], start, count, &in_file, &in_memory);
    if (code == 0 &&
        H5Dread(file->datasets[id].id, native(type), in_memory, in_file, file->transfer, elements) < 0)
        code = FAILED;
    close_spaces(in_file, in_memory);
    return code;
}

const struct striate_dataset_calls striate_dataset_calls = {
    version, error_string, open_file, sync_file, close_file, dimension, variable, text,
    number,  end,          find,      variables, get_number, put,       get,
};
