/* Two ranks: a file each, one file together by plain calls, and one by MPI-IO. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT 20000

static int data[COUNT], all[2 * COUNT];

static unsigned sum(const int *numbers, int count) {
    unsigned value = 17;
    for (int i = 0; i < count; i++)
        value = value * 31 + (unsigned)numbers[i];
    return value;
}

int main(int argc, char **argv) {
    int rank, size;
    char name[64];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2)
        MPI_Abort(MPI_COMM_WORLD, 3);
    for (int i = 0; i < COUNT; i++)
        data[i] = i * 2 + rank;

    snprintf(name, sizeof name, "rank%d", rank);
    FILE *own = fopen(name, "w");
    for (int i = 0; i < COUNT; i++)
        fprintf(own, "%d\n", data[i]);
    fclose(own);

    /* Blocks in turn; others see them after the close. */
    int fd = open("together", O_RDWR | O_CREAT, 0644);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int block = 0; block < COUNT / 100; block++)
        if (pwrite(fd, data + block * 100, 400, (off_t)(block * 2 + rank) * 400) != 400)
            MPI_Abort(MPI_COMM_WORLD, 4);
    close(fd);
    MPI_Barrier(MPI_COMM_WORLD);
    fd = open("together", O_RDONLY);
    if (read(fd, all, sizeof all) != sizeof all)
        MPI_Abort(MPI_COMM_WORLD, 5);
    close(fd);
    unsigned plain = sum(all, 2 * COUNT);

    MPI_File file;
    MPI_Datatype blocks;
    MPI_Type_vector(COUNT / 100, 100, 200, MPI_INT, &blocks);
    MPI_Type_commit(&blocks);
    if (MPI_File_open(MPI_COMM_WORLD, "by-mpi-together", MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file))
        MPI_Abort(MPI_COMM_WORLD, 6);
    MPI_File_set_view(file, (MPI_Offset)rank * 400, MPI_INT, blocks, "native", MPI_INFO_NULL);
    MPI_File_write_all(file, data, COUNT, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    memset(all, 0, sizeof all);
    MPI_File_open(MPI_COMM_WORLD, "by-mpi-together", MPI_MODE_RDONLY, MPI_INFO_NULL, &file);
    MPI_File_read_at_all(file, 0, all, 2 * COUNT, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_close(&file);
    unsigned sums[2] = {plain, sum(all, 2 * COUNT)}, both[4];
    MPI_Gather(sums, 2, MPI_UNSIGNED, both, 2, MPI_UNSIGNED, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%u %u %u %u\n", both[0], both[1], both[2], both[3]);
    MPI_Finalize();
    return 0;
}
