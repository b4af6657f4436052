// Hints that come when a file is open: they count from then on, but for those that only count at an open.
#include "check.h"

static MPI_File file;

static void expect(const char *key, const char *wanted) {
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int found;
    MPI_Info used;
    CHECK(MPI_File_get_info(file, &used));
    MPI_Info_get(used, key, MPI_MAX_INFO_VAL, value, &found);
    if (!found || strcmp(value, wanted) != 0) {
        fprintf(stderr, "%s is '%s', and not %s\n", key, value, wanted);
        failures++;
    }
    MPI_Info_free(&used);
}

static MPI_Info one(const char *key, const char *value) {
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, key, value);
    return info;
}

int main(int argc, char **argv) {
    int rank, words[100], back[100];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Datatype every_other;
    MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &every_other);
    MPI_Type_commit(&every_other);
    MPI_Offset start = (rank / 2 * 200 + rank % 2) * sizeof(int);
    for (int n = 0; n < 100; n++) words[n] = 1000 * rank + n;

    MPI_Info info = one("striate_method", "posix");
    CHECK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    MPI_Info_free(&info);
    expect("striate_method", "posix");
    CHECK(MPI_File_set_view(file, start, MPI_INT, every_other, "native", MPI_INFO_NULL));
    CHECK(MPI_File_write_at_all(file, 0, words, 100, MPI_INT, MPI_STATUS_IGNORE));

    // Only the first rank has something to say.
    info = rank == 0 ? one("striate_method", "two-phase") : MPI_INFO_NULL;
    CHECK(MPI_File_set_view(file, start, MPI_INT, every_other, "native", info));
    if (rank == 0) MPI_Info_free(&info);
    expect("striate_method", "two-phase");
    CHECK(MPI_File_read_at_all(file, 0, back, 100, MPI_INT, MPI_STATUS_IGNORE));
    EXPECT(memcmp(words, back, sizeof(words)) == 0);

    // Windows of another size.
    info = one("cb_buffer_size", "64");
    CHECK(MPI_File_set_info(file, info));
    MPI_Info_free(&info);
    expect("cb_buffer_size", "64");
    expect("striate_method", "two-phase");
    CHECK(MPI_File_write_at_all(file, 0, words, 100, MPI_INT, MPI_STATUS_IGNORE));

    info = one("striate_method", "sieve");
    MPI_Info_set(info, "striping_factor", "7");
    MPI_Info_set(info, "ind_rd_buffer_size", "not a number");
    CHECK(MPI_File_set_info(file, info));
    MPI_Info_free(&info);
    expect("striate_method", "sieve");
    expect("ind_rd_buffer_size", "4194304");
    MPI_Info used;
    int found;
    char value[MPI_MAX_INFO_VAL + 1];
    CHECK(MPI_File_get_info(file, &used));
    MPI_Info_get(used, "striping_factor", MPI_MAX_INFO_VAL, value, &found);
    EXPECT(!found);
    MPI_Info_free(&used);
    memset(back, 0, sizeof(back));
    CHECK(MPI_File_read_at(file, 0, back, 100, MPI_INT, MPI_STATUS_IGNORE));
    EXPECT(memcmp(words, back, sizeof(words)) == 0);
    CHECK(MPI_File_set_info(file, MPI_INFO_NULL));
    CHECK(MPI_File_close(&file));
    MPI_Type_free(&every_other);
    return passed();
}
