// Memory by absolute addresses in a file of external32.
#include "check.h"

int main(int argc, char **argv) {
    int rank, numbers[4] = {1, 2, 0x01020304, -1}, back[4] = {0};
    long far[2] = {5, -6}, far_back[2] = {0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Datatype from, to;
    MPI_Aint places[2];
    MPI_Get_address(numbers, &places[0]);
    MPI_Get_address(far, &places[1]);
    MPI_Type_create_struct(2, (int[]){4, 2}, places, (MPI_Datatype[]){MPI_INT, MPI_LONG}, &from);
    MPI_Type_commit(&from);
    MPI_Get_address(back, &places[0]);
    MPI_Get_address(far_back, &places[1]);
    MPI_Type_create_struct(2, (int[]){4, 2}, places, (MPI_Datatype[]){MPI_INT, MPI_LONG}, &to);
    MPI_Type_commit(&to);

    MPI_File file;
    MPI_Status status;
    CHECK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    CHECK(MPI_File_set_view(file, 24 * rank, MPI_BYTE, MPI_BYTE, "external32", MPI_INFO_NULL));
    CHECK(MPI_File_write_at_all(file, 0, MPI_BOTTOM, 1, from, &status));
    CHECK(MPI_File_read_at(file, 0, MPI_BOTTOM, 1, to, &status));
    EXPECT(memcmp(numbers, back, sizeof(back)) == 0);
    EXPECT(memcmp(far, far_back, sizeof(far_back)) == 0);
    unsigned char bytes[24];
    CHECK(MPI_File_set_view(file, 24 * rank, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    CHECK(MPI_File_read_at(file, 8, bytes, 16, MPI_BYTE, &status));
    static const unsigned char wanted[16] = {1, 2, 3, 4, 255, 255, 255, 255, 0, 0, 0, 5, 255, 255, 255, 250};
    EXPECT(memcmp(bytes, wanted, 16) == 0);
    CHECK(MPI_File_close(&file));
    MPI_Type_free(&from);
    MPI_Type_free(&to);
    return passed();
}
