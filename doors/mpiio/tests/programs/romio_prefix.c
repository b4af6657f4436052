// ROMIO's words for file systems, in front of names and in ROMIO_FSTYPE_FORCE.
#include "check.h"

static int try(const char *word, const char *name) {
    char whole[4096];
    MPI_File file;
    snprintf(whole, sizeof(whole), "%s%s", word, name);
    int code = MPI_File_open(MPI_COMM_WORLD, whole, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    if (code == MPI_SUCCESS) CHECK(MPI_File_close(&file));
    return code;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    CHECK(try("ufs:", argv[1]));
    CHECK(try("NFS:", argv[1]));
    FAILS(MPI_ERR_IO, try("daos:", argv[1]));
    // The tests are on no such file system.
    FAILS(MPI_ERR_IO, try("pvfs2:", argv[1]));
    setenv("ROMIO_FSTYPE_FORCE", "ufs:", 1);
    CHECK(try("", argv[1]));
    // Both have to be true.
    FAILS(MPI_ERR_IO, try("pvfs2:", argv[1]));
    setenv("ROMIO_FSTYPE_FORCE", "pvfs2:", 1);
    FAILS(MPI_ERR_IO, try("", argv[1]));
    unsetenv("ROMIO_FSTYPE_FORCE");
    CHECK(try("", argv[1]));
    return passed();
}
