// Writes and reads blocks that ranks take in turn: at offsets, by pointers and through views, alone and together.
#include "check.h"

enum { BLOCK = 1000, BLOCKS = 16 };

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_File file;
    CHECK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    CHECK(MPI_File_set_size(file, 0));

    int values[BLOCK], back[BLOCK];
    MPI_Status status;
    for (int block = 0; block < BLOCKS; block++) {
        MPI_Offset offset = (MPI_Offset)(block * size + rank) * sizeof values;
        for (int i = 0; i < BLOCK; i++) values[i] = (block * size + rank) * BLOCK + i;
        if (block % 2) {
            CHECK(MPI_File_write_at(file, offset, values, BLOCK, MPI_INT, &status));
        } else {
            CHECK(MPI_File_write_at_all(file, offset, values, BLOCK, MPI_INT, &status));
        }
        EXPECT(count_of(&status, MPI_INT) == BLOCK);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_sync(file));

    // The same through a view: blocks of this rank, one after the other.
    MPI_Datatype blocks, mine;
    MPI_Type_contiguous(BLOCK, MPI_INT, &blocks);
    MPI_Type_create_resized(blocks, 0, (MPI_Aint)sizeof values * size, &mine);
    MPI_Type_commit(&mine);
    CHECK(MPI_File_set_view(file, (MPI_Offset)sizeof values * rank, MPI_INT, mine, "native", MPI_INFO_NULL));
    for (int block = 0; block < BLOCKS; block++) {
        if (block % 2) {
            CHECK(MPI_File_read_all(file, back, BLOCK, MPI_INT, &status));
        } else {
            CHECK(MPI_File_read(file, back, BLOCK, MPI_INT, &status));
        }
        EXPECT(count_of(&status, MPI_INT) == BLOCK);
        for (int i = 0; i < BLOCK; i++) EXPECT(back[i] == (block * size + rank) * BLOCK + i);
    }
    MPI_Offset position;
    CHECK(MPI_File_get_position(file, &position));
    EXPECT(position == BLOCK * BLOCKS);
    // Behind the end there is nothing, and the status says so.
    CHECK(MPI_File_read(file, back, BLOCK, MPI_INT, &status));
    EXPECT(count_of(&status, MPI_INT) == 0);
    MPI_Type_free(&mine);
    MPI_Type_free(&blocks);

    CHECK(MPI_File_close(&file));
    EXPECT(file == MPI_FILE_NULL);
    return passed();
}
