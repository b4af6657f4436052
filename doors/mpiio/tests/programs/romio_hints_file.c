// Hints of the site, which ROMIO_HINTS names, count more than those of the program.
#include "check.h"

static void expect(MPI_Info info, const char *key, const char *wanted) {
    char value[MPI_MAX_INFO_VAL + 1] = "";
    int found;
    MPI_Info_get(info, key, MPI_MAX_INFO_VAL, value, &found);
    if (!found || strcmp(value, wanted) != 0) {
        fprintf(stderr, "%s is '%s', and not %s\n", key, value, wanted);
        failures++;
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Info info, used;
    MPI_File file;
    MPI_Info_create(&info);
    MPI_Info_set(info, "ind_rd_buffer_size", "1000");
    MPI_Info_set(info, "ind_wr_buffer_size", "2000");
    CHECK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    CHECK(MPI_File_get_info(file, &used));
    expect(used, "ind_rd_buffer_size", "49");
    expect(used, "ind_wr_buffer_size", "2000");
    expect(used, "romio_cb_read", "enable");
    expect(used, "romio_no_indep_rw", "true");
    MPI_Info_free(&info);
    MPI_Info_free(&used);
    CHECK(MPI_File_close(&file));
    return passed();
}
