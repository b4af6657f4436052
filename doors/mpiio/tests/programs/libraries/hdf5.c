// Datasets of parallel HDF5: contiguous, chunked, compressed and extended ones, written and read by all ranks together
// and by each alone.
//
//   hdf5 write FILE    hdf5 together FILE    hdf5 read FILE
//
// The value of an element follows from its position, so that any rank can verify what another rank
// wrote. No times are stored: the same calls leave the same bytes. `together` writes metadata
// collectively, too; ROMIO then leaves bytes of its buffer in the gaps of the file, so that only
// what the file means can be compared.
#include "ranks.h"

#include <hdf5.h>

#define H(call) succeeds((long long)(call), __LINE__, #call)

static long long succeeds(long long value, int line, const char *what) {
    if (value < 0) give_up("hdf5.c", line, what, "HDF5 says no");
    return value;
}

enum { ROWS = 96, COLUMNS = 61, CHUNK_ROWS = 10, CHUNK_COLUMNS = 17, STEPS = 5, POINTS = 23 };

static hid_t together, alone;

static int element(int which, int row, int column) { return which * 1000000 + row * 1000 + column; }

// Rows that belong to this rank: the last rank has what is left over.
static void share(hsize_t rows, hsize_t *first, hsize_t *count) {
    hsize_t each = rows / (hsize_t)size;
    *first = each * (hsize_t)rank;
    *count = rank == size - 1 ? rows - *first : each;
}

static hid_t plain_creation(void) {
    hid_t list = H(H5Pcreate(H5P_DATASET_CREATE));
    H(H5Pset_obj_track_times(list, 0));
    return list;
}

static hid_t dataset(hid_t file, const char *name, int chunked, int level) {
    hsize_t whole[2] = {ROWS, COLUMNS}, chunk[2] = {CHUNK_ROWS, CHUNK_COLUMNS};
    hid_t list = plain_creation(), space = H(H5Screate_simple(2, whole, NULL));
    if (chunked) H(H5Pset_chunk(list, 2, chunk));
    if (level) H(H5Pset_deflate(list, (unsigned)level));
    hid_t made = H(H5Dcreate2(file, name, H5T_STD_I32LE, space, H5P_DEFAULT, list, H5P_DEFAULT));
    H(H5Pclose(list));
    H(H5Sclose(space));
    return made;
}

// One hyperslab, from memory that has a border around it, or to such memory.
static void slab(hid_t set, int which, hid_t transfer, int writes, const hsize_t *first, const hsize_t *stride,
                 const hsize_t *count) {
    hsize_t around[2] = {count[0] + 2, count[1] + 3}, inside[2] = {1, 2};
    int *memory = malloc(around[0] * around[1] * sizeof *memory + 1);
    memset(memory, 0x55, around[0] * around[1] * sizeof *memory);
    hid_t file_space = H(H5Dget_space(set)), space = H(H5Screate_simple(2, around, NULL));
    if (count[0] && count[1]) {
        H(H5Sselect_hyperslab(file_space, H5S_SELECT_SET, first, stride, count, NULL));
        H(H5Sselect_hyperslab(space, H5S_SELECT_SET, inside, NULL, count, NULL));
    } else {
        H(H5Sselect_none(file_space));
        H(H5Sselect_none(space));
    }
    for (hsize_t i = 0; writes && i < count[0]; i++)
        for (hsize_t j = 0; j < count[1]; j++)
            memory[(i + 1) * around[1] + j + 2] =
                element(which, (int)(first[0] + i * stride[0]), (int)(first[1] + j * stride[1]));
    if (writes) {
        H(H5Dwrite(set, H5T_NATIVE_INT, space, file_space, transfer, memory));
    } else {
        H(H5Dread(set, H5T_NATIVE_INT, space, file_space, transfer, memory));
        for (hsize_t i = 0; i < around[0]; i++)
            for (hsize_t j = 0; j < around[1]; j++) {
                int in = i >= 1 && i < count[0] + 1 && j >= 2 && j < count[1] + 2;
                int want = in ? element(which, (int)(first[0] + (i - 1) * stride[0]),
                                        (int)(first[1] + (j - 2) * stride[1]))
                              : 0x55555555;
                EXPECT(memory[i * around[1] + j] == want);
            }
    }
    H(H5Sclose(space));
    H(H5Sclose(file_space));
    free(memory);
}

// Rows in blocks, one block for each rank.
static void blocks(hid_t set, int which, hid_t transfer, int writes) {
    hsize_t first[2] = {0, 0}, stride[2] = {1, 1}, count[2] = {0, COLUMNS};
    share(ROWS, &first[0], &count[0]);
    slab(set, which, transfer, writes, first, stride, count);
}

// Columns in turn, of every second row first: regions of one element.
static void columns(hid_t set, int which, hid_t transfer, int writes) {
    for (hsize_t half = 0; half < 2; half++) {
        hsize_t first[2] = {half, (hsize_t)rank}, stride[2] = {2, (hsize_t)size};
        hsize_t count[2] = {ROWS / 2, (COLUMNS - first[1] + (hsize_t)size - 1) / (hsize_t)size};
        slab(set, which, transfer, writes, first, stride, count);
    }
}

// The first rank has it all, the others take part with nothing.
static void first_only(hid_t set, int which, hid_t transfer, int writes) {
    hsize_t first[2] = {0, 0}, stride[2] = {1, 1}, count[2] = {rank ? 0 : ROWS, rank ? 0 : COLUMNS};
    slab(set, which, transfer, writes, first, stride, count);
}

static const struct {
    const char *name;
    int chunked, level;
    void (*written)(hid_t, int, hid_t, int);
    int write_together;
} SETS[] = {
    {"contiguous in blocks", 0, 0, blocks, 1},      {"contiguous in columns", 0, 0, columns, 1},
    {"contiguous, alone", 0, 0, blocks, 0},         {"columns, alone", 0, 0, columns, 0},
    {"chunked in blocks", 1, 0, blocks, 1},         {"chunked in columns", 1, 0, columns, 1},
    {"chunked, alone", 1, 0, blocks, 0},            {"by the first", 0, 0, first_only, 1},
    {"chunked by the first", 1, 0, first_only, 1},  {"compressed", 1, 4, blocks, 1},
};
enum { KINDS = sizeof SETS / sizeof *SETS };

// A dataset that grows by a row of all ranks with every step.
static void steps(hid_t file, int writes) {
    hsize_t whole[2] = {0, (hsize_t)size * 7}, most[2] = {H5S_UNLIMITED, (hsize_t)size * 7}, chunk[2] = {2, 7};
    hid_t list = plain_creation(), space = H(H5Screate_simple(2, whole, most));
    H(H5Pset_chunk(list, 2, chunk));
    hid_t set = writes ? H(H5Dcreate2(file, "steps", H5T_STD_I32BE, space, H5P_DEFAULT, list, H5P_DEFAULT))
                       : H(H5Dopen2(file, "steps", H5P_DEFAULT));
    hsize_t stride[2] = {1, 1}, count[2] = {1, 7};
    for (hsize_t step = 0; step < STEPS; step++) {
        // A rank reads the part of the next rank.
        hsize_t first[2] = {step, (hsize_t)((rank + !writes) % size) * 7};
        whole[0] = step + 1;
        if (writes) H(H5Dset_extent(set, whole));
        slab(set, KINDS, step % 2 ? alone : together, writes, first, stride, count);
    }
    H(H5Dclose(set));
    H(H5Sclose(space));
    H(H5Pclose(list));
}

// Points here and there, and records of several fields in a group.
static void points(hid_t file, int writes) {
    struct record { double where; short which; char name[5]; } records[POINTS];
    hid_t memory = H(H5Tcreate(H5T_COMPOUND, sizeof *records)), text = H(H5Tcopy(H5T_C_S1));
    H(H5Tset_size(text, sizeof records->name));
    H(H5Tinsert(memory, "where", HOFFSET(struct record, where), H5T_NATIVE_DOUBLE));
    H(H5Tinsert(memory, "which", HOFFSET(struct record, which), H5T_NATIVE_SHORT));
    H(H5Tinsert(memory, "name", HOFFSET(struct record, name), text));
    hid_t packed = H(H5Tcopy(memory));
    H(H5Tpack(packed));
    hsize_t whole = (hsize_t)size * POINTS, mine = POINTS, chosen[POINTS];
    hid_t list = plain_creation(), space = H(H5Screate_simple(1, &whole, NULL));
    hid_t here = H(H5Screate_simple(1, &mine, NULL));
    hid_t group = writes ? H(H5Gcreate2(file, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT))
                         : H(H5Gopen2(file, "group", H5P_DEFAULT));
    hid_t set = writes ? H(H5Dcreate2(group, "points", packed, space, H5P_DEFAULT, list, H5P_DEFAULT))
                       : H(H5Dopen2(group, "points", H5P_DEFAULT));
    for (int i = 0; i < POINTS; i++) chosen[i] = (hsize_t)(((POINTS - 1 - i) * size) + rank);
    H(H5Sselect_elements(space, H5S_SELECT_SET, POINTS, chosen));
    memset(records, 0, sizeof records);
    for (int i = 0; writes && i < POINTS; i++) {
        records[i].where = (double)chosen[i] / 3;
        records[i].which = (short)chosen[i];
        snprintf(records[i].name, sizeof records[i].name, "%d", (int)chosen[i]);
    }
    if (writes) {
        H(H5Dwrite(set, memory, here, space, together, records));
    } else {
        H(H5Dread(set, memory, here, space, together, records));
        for (int i = 0; i < POINTS; i++)
            EXPECT(records[i].where == (double)chosen[i] / 3 && records[i].which == (short)chosen[i] &&
                   atoi(records[i].name) == (int)chosen[i]);
    }
    H(H5Dclose(set));
    H(H5Gclose(group));
    H(H5Sclose(here));
    H(H5Sclose(space));
    H(H5Pclose(list));
    H(H5Tclose(packed));
    H(H5Tclose(text));
    H(H5Tclose(memory));
}

// An attribute, which is metadata, and a dataset of each kind.
static void all(hid_t file, int writes) {
    for (int kind = 0; kind < (int)KINDS; kind++) {
        hid_t set = writes ? dataset(file, SETS[kind].name, SETS[kind].chunked, SETS[kind].level)
                           : H(H5Dopen2(file, SETS[kind].name, H5P_DEFAULT));
        hsize_t one = 1;
        hid_t space = H(H5Screate_simple(1, &one, NULL));
        hid_t attribute = writes ? H(H5Acreate2(set, "kind", H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT))
                                 : H(H5Aopen(set, "kind", H5P_DEFAULT));
        int value = kind;
        if (writes) {
            H(H5Awrite(attribute, H5T_NATIVE_INT, &value));
            SETS[kind].written(set, kind, SETS[kind].write_together ? together : alone, 1);
        } else {
            value = -1;
            H(H5Aread(attribute, H5T_NATIVE_INT, &value));
            EXPECT(value == kind);
            // In all ways, whichever way it was written.
            blocks(set, kind, together, 0);
            columns(set, kind, together, 0);
            blocks(set, kind, alone, 0);
            columns(set, kind, alone, 0);
            first_only(set, kind, together, 0);
        }
        H(H5Aclose(attribute));
        H(H5Sclose(space));
        H(H5Dclose(set));
    }
    steps(file, writes);
    points(file, writes);
}

int main(int argc, char **argv) {
    start(&argc, &argv);
    EXPECT(argc == 3);
    int metadata = strcmp(argv[1], "together") == 0, writes = metadata || strcmp(argv[1], "write") == 0;
    hid_t access = H(H5Pcreate(H5P_FILE_ACCESS)), creation = H(H5Pcreate(H5P_FILE_CREATE));
    H(H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL));
    H(H5Pset_all_coll_metadata_ops(access, 1));
    H(H5Pset_coll_metadata_write(access, metadata));
    H(H5Pset_obj_track_times(creation, 0));
    together = H(H5Pcreate(H5P_DATASET_XFER));
    alone = H(H5Pcreate(H5P_DATASET_XFER));
    H(H5Pset_dxpl_mpio(together, H5FD_MPIO_COLLECTIVE));
    H(H5Pset_dxpl_mpio(alone, H5FD_MPIO_INDEPENDENT));
    hid_t file = writes ? H(H5Fcreate(argv[2], H5F_ACC_TRUNC, creation, access))
                        : H(H5Fopen(argv[2], H5F_ACC_RDONLY, access));
    all(file, writes);
    if (writes) H(H5Fflush(file, H5F_SCOPE_GLOBAL));
    H(H5Fclose(file));
    H(H5Pclose(together));
    H(H5Pclose(alone));
    H(H5Pclose(creation));
    H(H5Pclose(access));
    MPI_Finalize();
    return 0;
}
