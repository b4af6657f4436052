// Variables of netCDF's own library in parallel: over HDF5 (netCDF-4) or over PnetCDF (the classic formats).
//
//   netcdf write FILE FORMAT    netcdf read FILE FORMAT      FORMAT is hdf5, classic or cdf5
//
// The value of an element follows from its position, so that any rank can verify what another rank
// wrote.
#include "ranks.h"

#include <netcdf.h>
#include <netcdf_par.h>

#define NC(call) succeeds((call), __LINE__, #call)

static void succeeds(int status, int line, const char *what) {
    if (status != NC_NOERR) give_up("netcdf.c", line, what, nc_strerror(status));
}

enum { ROWS = 40, COLUMNS = 33, RECORDS = 3 };
enum { TOGETHER, ALONE, STRIDED, GROWING, VARIABLES };
static const char *const NAMES[VARIABLES] = {"together", "alone", "strided", "growing"};

static double element(int which, size_t row, size_t column) {
    return (double)(which * 10000 + (int)row * 100 + (int)column) + 0.25;
}

static void define(int file, int *variables) {
    int record, row, column;
    NC(nc_def_dim(file, "record", NC_UNLIMITED, &record));
    NC(nc_def_dim(file, "row", ROWS, &row));
    NC(nc_def_dim(file, "column", COLUMNS, &column));
    for (int i = 0; i < VARIABLES; i++) {
        int dimensions[2] = {i == GROWING ? record : row, i == GROWING ? row : column};
        NC(nc_def_var(file, NAMES[i], i == STRIDED ? NC_FLOAT : NC_DOUBLE, 2, dimensions, &variables[i]));
        NC(nc_put_att_text(file, variables[i], "units", 2, "no"));
    }
    NC(nc_enddef(file));
}

static void blocks(int file, int variable, int which, int writes) {
    static double memory[ROWS * COLUMNS];
    size_t of = (size_t)((rank + !writes) % size), ranks = (size_t)size;
    size_t start[2] = {ROWS / ranks * of, 0}, count[2] = {of == ranks - 1 ? ROWS - start[0] : ROWS / ranks, COLUMNS};
    for (size_t i = 0; writes && i < count[0] * COLUMNS; i++)
        memory[i] = element(which, start[0] + i / COLUMNS, i % COLUMNS);
    if (writes) {
        NC(nc_put_vara_double(file, variable, start, count, memory));
    } else {
        NC(nc_get_vara_double(file, variable, start, count, memory));
        for (size_t i = 0; i < count[0] * COLUMNS; i++)
            EXPECT(memory[i] == element(which, start[0] + i / COLUMNS, i % COLUMNS));
    }
}

// Every rank has columns of its own.
static void strided(int file, int variable, int which, int writes) {
    static double memory[ROWS * COLUMNS];
    size_t start[2] = {0, (size_t)rank}, columns = (COLUMNS - start[1] + (size_t)size - 1) / (size_t)size;
    size_t count[2] = {ROWS, columns};
    ptrdiff_t stride[2] = {1, size};
    for (size_t i = 0; writes && i < ROWS * columns; i++)
        memory[i] = element(which, i / columns, (size_t)rank + i % columns * (size_t)size);
    if (writes) {
        NC(nc_put_vars_double(file, variable, start, count, stride, memory));
    } else {
        NC(nc_get_vars_double(file, variable, start, count, stride, memory));
        for (size_t i = 0; i < ROWS * columns; i++)
            EXPECT(memory[i] == element(which, i / columns, (size_t)rank + i % columns * (size_t)size));
    }
}

// A record of all ranks after the other.
static void growing(int file, int variable, int writes) {
    double memory[ROWS];
    size_t ranks = (size_t)size, each = ROWS / ranks;
    for (size_t record = 0; record < RECORDS; record++) {
        size_t of = (size_t)((rank + !writes) % size), start[2] = {record, each * of}, count[2] = {1, each};
        if (of == ranks - 1) count[1] = ROWS - start[1];
        for (size_t i = 0; writes && i < count[1]; i++) memory[i] = element(GROWING, record, start[1] + i);
        if (writes) {
            NC(nc_put_vara_double(file, variable, start, count, memory));
        } else {
            NC(nc_get_vara_double(file, variable, start, count, memory));
            for (size_t i = 0; i < count[1]; i++) EXPECT(memory[i] == element(GROWING, record, start[1] + i));
        }
    }
}

int main(int argc, char **argv) {
    start(&argc, &argv);
    EXPECT(argc == 4);
    int writes = strcmp(argv[1], "write") == 0, file, variables[VARIABLES], mode = NC_NETCDF4 | NC_MPIIO;
    if (strcmp(argv[3], "classic") == 0) mode = NC_64BIT_OFFSET;
    if (strcmp(argv[3], "cdf5") == 0) mode = NC_64BIT_DATA;
    if (writes) {
        NC(nc_create_par(argv[2], NC_CLOBBER | mode, MPI_COMM_WORLD, MPI_INFO_NULL, &file));
        define(file, variables);
    } else {
        NC(nc_open_par(argv[2], NC_NOWRITE, MPI_COMM_WORLD, MPI_INFO_NULL, &file));
        for (int i = 0; i < VARIABLES; i++) NC(nc_inq_varid(file, NAMES[i], &variables[i]));
    }
    NC(nc_var_par_access(file, variables[TOGETHER], NC_COLLECTIVE));
    NC(nc_var_par_access(file, variables[STRIDED], NC_COLLECTIVE));
    NC(nc_var_par_access(file, variables[GROWING], NC_COLLECTIVE));
    blocks(file, variables[TOGETHER], TOGETHER, writes);
    strided(file, variables[STRIDED], STRIDED, writes);
    growing(file, variables[GROWING], writes);
    // For PnetCDF this is the mode of the whole file, so it comes last.
    NC(nc_var_par_access(file, variables[ALONE], NC_INDEPENDENT));
    blocks(file, variables[ALONE], ALONE, writes);
    NC(nc_close(file));
    MPI_Finalize();
    return 0;
}
