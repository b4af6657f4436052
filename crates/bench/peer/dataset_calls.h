/* The calls of libraries for datasets, as a table: each library is a shared object of its own, opened at run
 * time, so that several with the same names of functions can be in one process.
 *
 * Elements in memory are of the types with the numbers that netCDF gives to int, float and double in files.
 * Functions return the library's error code, 0 for success. */

#ifndef STRIATE_DATASET_CALLS_H
#define STRIATE_DATASET_CALLS_H

#include <stdint.h>

/* How to open a file. */
struct striate_open {
    /* CDF-1, 2 or 5, 4 for netCDF-4 (HDF5); 0 opens a file for reading. */
    int format;
    /* Whether data calls are collective. */
    int collective;
    /* What objects in the file begin at multiples of; 0 is the library's default. */
    uint64_t alignment;
    /* `hint_count` names, each followed by its value. */
    const char *const *hints;
    int hint_count;
};

/* How a variable is stored. */
struct striate_storage {
    /* As many as the variable has dimensions, or null: the library's default. */
    const uint64_t *chunk;
    /* Of deflate, after shuffle; below 0 without both. */
    int deflate_level;
};

struct striate_dataset_calls {
    /* The library's own words. */
    const char *(*version)(void);
    /* The message of a code; `text` has room for `room` bytes. */
    void (*error_string)(int code, char *text, int room);
    int (*open)(const char *path, const struct striate_open *how, intptr_t *file);
    int (*sync)(intptr_t file);
    int (*close)(intptr_t file);
    /* `length` is that of an unlimited dimension when all is written. */
    int (*dimension)(intptr_t file, const char *name, uint64_t length, int unlimited, int *dimension);
    int (*variable)(intptr_t file, const char *name, int type, int count, const int *dimensions,
                    const struct striate_storage *storage, int *variable);
    int (*text)(intptr_t file, int variable, const char *name, uint64_t length, const char *text);
    int (*number)(intptr_t file, int variable, const char *name, double number);
    int (*end)(intptr_t file);
    int (*find)(intptr_t file, const char *name, int *variable);
    int (*variables)(intptr_t file, int *count);
    int (*get_number)(intptr_t file, int variable, const char *name, double *number);
    /* An error if the variable has another number of dimensions. */
    int (*put)(intptr_t file, int variable, int dimensions, const uint64_t *start, const uint64_t *count, int type,
               const void *elements);
    int (*get)(intptr_t file, int variable, int dimensions, const uint64_t *start, const uint64_t *count, int type,
               void *elements);
};

/* Exported by each shared object. */
extern const struct striate_dataset_calls striate_dataset_calls;

#endif
