/* Each rank writes every other block of a file, by a view and together with the others; then it reads some of them
   alone. With another argument it tells the libraries that it was started with. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK 1024
#define COUNT 64

static void check(int code, const char *what)
{
    if (code != MPI_SUCCESS) {
        fprintf(stderr, "%s: %d\n", what, code);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int count, char **words)
{
    int rank, size;
    static char data[BLOCK * COUNT], again[BLOCK];
    MPI_File file;
    MPI_Datatype blocks;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (count > 2)
        printf("%s\n", getenv("LD_PRELOAD"));
    memset(data, 'a' + rank, sizeof data);
    check(MPI_File_open(MPI_COMM_WORLD, words[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file), "open");
    MPI_Type_vector(COUNT, BLOCK, BLOCK * size, MPI_BYTE, &blocks);
    MPI_Type_commit(&blocks);
    check(MPI_File_set_view(file, (MPI_Offset)rank * BLOCK, MPI_BYTE, blocks, "native", MPI_INFO_NULL), "set_view");
    check(MPI_File_write_all(file, data, BLOCK * COUNT, MPI_BYTE, MPI_STATUS_IGNORE), "write_all");
    check(MPI_File_read_at(file, BLOCK * (COUNT - 1), again, BLOCK, MPI_BYTE, MPI_STATUS_IGNORE), "read_at");
    check(memcmp(data, again, BLOCK) == 0 ? MPI_SUCCESS : MPI_ERR_OTHER, "compare");
    check(MPI_File_close(&file), "close");
    MPI_Type_free(&blocks);
    MPI_Finalize();
    return 0;
}
