// A data representation of the program's own: integers have 3 digits and a colon in the file, everything else is
// as it is in memory.
#include "check.h"

enum { COUNT = 40 };

static int state = 7, read_calls, write_calls;

static int extent_of(MPI_Datatype datatype, MPI_Aint *extent, void *extra) {
    MPI_Aint lower;
    if (extra != &state) return MPI_ERR_OTHER;
    if (datatype == MPI_INT) {
        *extent = 4;
        return MPI_SUCCESS;
    }
    if (datatype == MPI_SHORT) {
        *extent = 4;
        return MPI_SUCCESS;
    }
    return MPI_Type_get_extent(datatype, &lower, extent);
}

// Item `position` of a type that is either shorts, or a struct of a short at 0 and an int at 4.
static int width_of(MPI_Datatype datatype) {
    MPI_Aint lower, extent;
    MPI_Type_get_extent(datatype, &lower, &extent);
    return (int)extent;
}

static int get(char *user, MPI_Datatype datatype, MPI_Offset item) {
    if (width_of(datatype) == sizeof(short)) return ((short *)user)[item];
    char *one = user + item / 2 * 8;
    return item % 2 ? *(int *)(one + 4) : *(short *)one;
}

static void put(char *user, MPI_Datatype datatype, MPI_Offset item, int value) {
    if (width_of(datatype) == sizeof(short)) {
        ((short *)user)[item] = (short)value;
        return;
    }
    char *one = user + item / 2 * 8;
    if (item % 2) *(int *)(one + 4) = value;
    else *(short *)one = (short)value;
}

static int write_items(void *user, MPI_Datatype datatype, int count, void *file, MPI_Offset position, void *extra) {
    write_calls++;
    if (extra != &state) return MPI_ERR_OTHER;
    for (int n = 0; n < count; n++) {
        char text[16];
        int value = get(user, datatype, position + n);
        if (value < 0) return MPI_ERR_OTHER;
        snprintf(text, sizeof(text), "%03d:", value);
        memcpy((char *)file + 4 * n, text, 4);
    }
    return MPI_SUCCESS;
}

static int read_items(void *user, MPI_Datatype datatype, int count, void *file, MPI_Offset position, void *extra) {
    read_calls++;
    if (extra != &state) return MPI_ERR_OTHER;
    for (int n = 0; n < count; n++) put(user, datatype, position + n, atoi((char *)file + 4 * n));
    return MPI_SUCCESS;
}

static void check_shorts(const short *back, int first, int count) {
    for (int n = 0; n < count; n++) EXPECT(back[n] == first + n);
}

int main(int argc, char **argv) {
    int rank, ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    CHECK(MPI_Register_datarep("digits", read_items, write_items, extent_of, &state));
    FAILS(MPI_ERR_DUP_DATAREP, MPI_Register_datarep("digits", read_items, write_items, extent_of, &state));
    FAILS(MPI_ERR_DUP_DATAREP, MPI_Register_datarep("native", read_items, write_items, extent_of, &state));
    FAILS(MPI_ERR_ARG, MPI_Register_datarep("no extents", read_items, write_items, NULL, &state));

    MPI_File file;
    MPI_Status status;
    CHECK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    FAILS(MPI_ERR_UNSUPPORTED_DATAREP,
          MPI_File_set_view(file, 0, MPI_SHORT, MPI_SHORT, "letters", MPI_INFO_NULL));

    // Ranks take turns, short by short; in the file a short has 4 bytes.
    MPI_Datatype turns;
    MPI_Type_vector(COUNT, 1, ranks, MPI_SHORT, &turns);
    MPI_Type_commit(&turns);
    MPI_Offset start = 4 * rank;
    CHECK(MPI_File_set_view(file, start, MPI_SHORT, turns, "digits", MPI_INFO_NULL));
    MPI_Aint extent;
    CHECK(MPI_File_get_type_extent(file, MPI_SHORT, &extent));
    EXPECT(extent == 4);
    char name[MPI_MAX_DATAREP_STRING];
    MPI_Datatype etype, filetype;
    MPI_Offset displacement;
    CHECK(MPI_File_get_view(file, &displacement, &etype, &filetype, name));
    EXPECT(strcmp(name, "digits") == 0);
    MPI_Type_free(&filetype);

    short values[COUNT], back[COUNT];
    for (int n = 0; n < COUNT; n++) values[n] = (short)(100 * rank + n);
    CHECK(MPI_File_write_at_all(file, 0, values, COUNT, MPI_SHORT, &status));
    EXPECT(count_of(&status, MPI_SHORT) == COUNT);
    EXPECT(write_calls == 1);
    memset(back, 0, sizeof(back));
    CHECK(MPI_File_read_at_all(file, 0, back, COUNT, MPI_SHORT, &status));
    EXPECT(count_of(&status, MPI_SHORT) == COUNT);
    check_shorts(back, 100 * rank, COUNT);
    EXPECT(read_calls == 1);
    memset(back, 0, sizeof(back));
    CHECK(MPI_File_read_at(file, 3, back, 5, MPI_SHORT, &status));
    check_shorts(back, 100 * rank + 3, 5);

    // Nonblocking, alone and together; the type may be freed before.
    MPI_Request requests[2];
    MPI_Datatype two;
    short more[COUNT];
    memset(back, 0, sizeof(back));
    memset(more, 0, sizeof(more));
    MPI_Type_contiguous(1, MPI_SHORT, &two);
    MPI_Type_commit(&two);
    CHECK(MPI_File_iread_at(file, 0, back, COUNT, two, &requests[0]));
    MPI_Type_free(&two);
    CHECK(MPI_File_iread_at_all(file, 0, more, COUNT, MPI_SHORT, &requests[1]));
    CHECK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    check_shorts(back, 100 * rank, COUNT);
    check_shorts(more, 100 * rank, COUNT);

    // The bytes of the file.
    char text[9] = "";
    CHECK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    CHECK(MPI_File_read_at_all(file, 4 * ranks, text, 4, MPI_BYTE, &status));
    EXPECT(strcmp(text, "001:") == 0);

    // Structs with gaps; a file that ends in the middle of one.
    struct { short first; int second; } pairs[4] = {{1, 2}, {3, 4}, {5, 6}, {7, 8}}, again[4];
    MPI_Datatype pair;
    MPI_Type_create_struct(2, (int[]){1, 1}, (MPI_Aint[]){0, 4}, (MPI_Datatype[]){MPI_SHORT, MPI_INT}, &pair);
    MPI_Type_commit(&pair);
    CHECK(MPI_File_set_size(file, 0));
    CHECK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "digits", MPI_INFO_NULL));
    if (rank == 0) CHECK(MPI_File_write_at(file, 0, pairs, 4, pair, &status));
    CHECK(MPI_File_sync(file));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_set_size(file, 22));
    memset(again, 0xff, sizeof(again));
    CHECK(MPI_File_read_at(file, 0, again, 4, pair, &status));
    EXPECT(again[0].first == 1 && again[1].second == 4 && again[2].first == 5);
    EXPECT(again[2].second == -1 && again[3].first == -1);

    // What cannot be converted fails, together on all ranks.
    MPI_Barrier(MPI_COMM_WORLD);
    pairs[1].second = rank == 0 ? -1 : 1;
    int code = MPI_File_write_at_all(file, 0, pairs, 4, pair, &status);
    int class = MPI_SUCCESS;
    MPI_Error_class(code, &class);
    EXPECT(class == MPI_ERR_CONVERSION);
    CHECK(MPI_File_close(&file));
    MPI_Type_free(&pair);
    MPI_Type_free(&turns);
    return passed();
}
