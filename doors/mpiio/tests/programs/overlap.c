// Filetypes and etypes that overlap themselves are for files that are only read.
#include "check.h"

enum { WORDS = 64 };

// What the view shows: words 0 1 2 1 of every 3, and so on for other copies.
static int shown(int n) {
    static const int words[] = {0, 1, 2, 1};
    return n / 4 * 3 + words[n % 4];
}

static void check_words(const int *words, int first, int count) {
    for (int n = 0; n < count; n++) EXPECT(words[n] == shown(first + n));
}

int main(int argc, char **argv) {
    int rank, ranks, words[WORDS];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);

    MPI_Datatype overlapping, descending;
    MPI_Type_indexed(2, (int[]){3, 1}, (int[]){0, 1}, MPI_INT, &overlapping);
    MPI_Type_commit(&overlapping);
    MPI_Type_indexed(2, (int[]){1, 1}, (int[]){3, 0}, MPI_INT, &descending);
    MPI_Type_commit(&descending);

    MPI_File file;
    MPI_Status status;
    CHECK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    for (int n = 0; n < WORDS; n++) words[n] = n;
    if (rank == 0) CHECK(MPI_File_write_at(file, 0, words, WORDS, MPI_INT, &status));
    FAILS(MPI_ERR_IO, MPI_File_set_view(file, 0, MPI_INT, overlapping, "native", MPI_INFO_NULL));
    FAILS(MPI_ERR_IO, MPI_File_set_view(file, 0, overlapping, overlapping, "native", MPI_INFO_NULL));
    CHECK(MPI_File_close(&file));

    CHECK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    FAILS(MPI_ERR_IO, MPI_File_set_view(file, 0, MPI_INT, descending, "native", MPI_INFO_NULL));
    CHECK(MPI_File_set_view(file, 0, MPI_INT, overlapping, "native", MPI_INFO_NULL));
    int first = rank + 1, read[20];
    CHECK(MPI_File_read_at(file, first, read, 20, MPI_INT, &status));
    EXPECT(count_of(&status, MPI_INT) == 20);
    check_words(read, first, 20);
    memset(read, 0xff, sizeof(read));
    CHECK(MPI_File_read_at_all(file, first, read, 20, MPI_INT, &status));
    check_words(read, first, 20);
    MPI_Request request;
    memset(read, 0xff, sizeof(read));
    CHECK(MPI_File_iread_at(file, first, read, 20, MPI_INT, &request));
    CHECK(MPI_Wait(&request, &status));
    EXPECT(count_of(&status, MPI_INT) == 20);
    check_words(read, first, 20);
    MPI_Offset byte;
    CHECK(MPI_File_get_byte_offset(file, 7, &byte));
    EXPECT(byte == 4 * shown(7));

    // Etypes that do the same, and the end of the file: word 64, the 86th that is shown, is not there.
    CHECK(MPI_File_set_view(file, 0, overlapping, overlapping, "native", MPI_INFO_NULL));
    memset(read, 0xff, sizeof(read));
    CHECK(MPI_File_read_at(file, 20, read, 8, MPI_INT, &status));
    EXPECT(count_of(&status, MPI_INT) == 5);
    check_words(read, 80, 5);
    EXPECT(read[5] == -1 && read[6] == -1 && read[7] == -1);
    CHECK(MPI_File_close(&file));

    MPI_Type_free(&overlapping);
    MPI_Type_free(&descending);
    return passed();
}
