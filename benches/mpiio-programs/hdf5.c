// Blocks of three-dimensional datasets of parallel HDF5, written and read by all ranks together, as simulations do.
//
//   hdf5 FILE EDGE DATASETS contiguous|chunked      EDGE is that of the block of a rank
#include "told.h"

#include <hdf5.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size, grid[3] = {0, 0, 0};
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    check(argc == 5, "hdf5 FILE EDGE DATASETS contiguous|chunked");
    MPI_Dims_create(size, 3, grid);
    hsize_t edge = (hsize_t)atoi(argv[2]), block[3] = {edge, edge, edge}, whole[3], first[3];
    int datasets = atoi(argv[3]), chunked = argv[4][1] == 'h';
    int place[3] = {rank / (grid[1] * grid[2]), rank / grid[2] % grid[1], rank % grid[2]};
    for (int i = 0; i < 3; i++) {
        whole[i] = edge * (hsize_t)grid[i];
        first[i] = edge * (hsize_t)place[i];
    }
    size_t elements = edge * edge * edge;
    double *memory = malloc(elements * sizeof *memory);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), transfer = H5Pcreate(H5P_DATASET_XFER), creation = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
    H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE);
    H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER);
    if (chunked) H5Pset_chunk(creation, 3, (hsize_t[3]){edge / 2, edge / 2, edge / 2});
    hid_t there = H5Screate_simple(3, whole, NULL), here = H5Screate_simple(3, block, NULL);
    H5Sselect_hyperslab(there, H5S_SELECT_SET, first, NULL, block, NULL);
    for (int reads = 0; reads < 2; reads++) {
        begin();
        hid_t file = reads ? H5Fopen(argv[1], H5F_ACC_RDONLY, access) : H5Fcreate(argv[1], H5F_ACC_TRUNC, H5P_DEFAULT, access);
        check(file >= 0, "open");
        for (int i = 0; i < datasets; i++) {
            char name[16];
            snprintf(name, sizeof name, "d%d", i);
            hid_t set = reads ? H5Dopen2(file, name, H5P_DEFAULT)
                              : H5Dcreate2(file, name, H5T_NATIVE_DOUBLE, there, H5P_DEFAULT, creation, H5P_DEFAULT);
            if (!reads) {
                for (size_t j = 0; j < elements; j++) memory[j] = (double)(j * 3 + (size_t)(rank + i));
                check(H5Dwrite(set, H5T_NATIVE_DOUBLE, here, there, transfer, memory) >= 0, "write");
            } else {
                check(H5Dread(set, H5T_NATIVE_DOUBLE, here, there, transfer, memory) >= 0, "read");
                check(memory[elements - 1] == (double)((elements - 1) * 3 + (size_t)(rank + i)), "what is read");
            }
            H5Dclose(set);
        }
        H5Fclose(file);
        tell(reads ? "read" : "write", (long long)(elements * sizeof *memory) * size * datasets);
    }
    free(memory);
    H5Sclose(here);
    H5Sclose(there);
    H5Pclose(creation);
    H5Pclose(transfer);
    H5Pclose(access);
    MPI_Finalize();
    return 0;
}
