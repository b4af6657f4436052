// Writes to a file on servers, whatever the calls return, until a file "stop" appears in the directory argv[2]. The
// connection is lost meanwhile: that is an error of a call, or nothing at all, but never a signal. argv[3] says
// whether the servers are there at the end.
#include "check.h"
#include <signal.h>
#include <unistd.h>

static const char *directory;
static int rank;

static int exists(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return access(path, F_OK) == 0;
}

// Tells the test something, as a file of this rank that is there as a whole.
static void tell(const char *what) {
    char path[4096], unfinished[4100];
    snprintf(path, sizeof path, "%s/%s.%d", directory, what, rank);
    snprintf(unfinished, sizeof unfinished, "%s~", path);
    FILE *file = fopen(unfinished, "w");
    fprintf(file, "%d", (int)getpid());
    fclose(file);
    rename(unfinished, path);
}

int main(int argc, char **argv) {
    // What a program that does nothing about it has; a launcher may leave something else.
    signal(SIGPIPE, SIG_DFL);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    directory = argv[2];
    const int len = 4 << 20;
    char *data = malloc(len), *back = malloc(len);
    memset(data, 'a' + rank, len);
    MPI_Offset place = (MPI_Offset)rank * len;
    MPI_File file;
    MPI_Status status;
    CHECK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    CHECK(MPI_File_write_at(file, place, data, len, MPI_BYTE, &status));
    tell("ready");
    int written = 0, lost = 0;
    while (!exists("stop")) {
        if (MPI_File_write_at(file, place, data, len, MPI_BYTE, &status) == MPI_SUCCESS) written++;
        else if (lost++ == 0) tell("lost");
    }
    if (strcmp(argv[3], "back") == 0) {
        CHECK(MPI_File_write_at(file, place, data, len, MPI_BYTE, &status));
        CHECK(MPI_File_read_at(file, place, back, len, MPI_BYTE, &status));
        EXPECT(memcmp(data, back, len) == 0);
        CHECK(MPI_File_close(&file));
    } else {
        EXPECT(lost > 0);
        MPI_File_close(&file);
    }
    printf("rank %d: %d written, %d lost\n", rank, written, lost);
    free(data);
    free(back);
    return passed();
}
