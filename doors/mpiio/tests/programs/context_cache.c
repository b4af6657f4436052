// One file after the other, and several at a time, with one communicator and with others of the same processes: what an
// open leaves for the next must not show, but in what it costs.
#include "check.h"
#include <pthread.h>
#include <unistd.h>

enum { N = 64, SEVERAL = 6, ROUNDS = 40 };

static int rank, size, duplicates;
static const char *prefix;
static char name[4096];

// What the door makes is counted here: a program's functions come before those of the MPI.
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *copy) {
    duplicates++;
    return PMPI_Comm_dup(comm, copy);
}

int MPI_Comm_create(MPI_Comm comm, MPI_Group group, MPI_Comm *copy) {
    duplicates++;
    return PMPI_Comm_create(comm, group, copy);
}

static const char *named(int number) {
    snprintf(name, sizeof name, "%s.%d", prefix, number);
    return name;
}

static MPI_File opened(MPI_Comm comm, int number, int amode) {
    MPI_File file;
    CHECK(MPI_File_open(comm, named(number), amode, MPI_INFO_NULL, &file));
    return file;
}

enum { NEW = MPI_MODE_CREATE | MPI_MODE_RDWR };

// A new file, whatever the last one was.
static void is_fresh(MPI_File file) {
    MPI_Offset offset = -1;
    int atomic = -1;
    CHECK(MPI_File_get_position_shared(file, &offset));
    EXPECT(offset == 0);
    CHECK(MPI_File_get_position(file, &offset));
    EXPECT(offset == 0);
    CHECK(MPI_File_get_atomicity(file, &atomic));
    EXPECT(atomic == 0);
}

// Each rank writes a record in its place, and all read each other's.
static void exchange(MPI_Comm comm, MPI_File file, int seed) {
    int its_rank, its_size;
    char record[N], back[N], expected[N];
    MPI_Status status;
    MPI_Comm_rank(comm, &its_rank);
    MPI_Comm_size(comm, &its_size);
    memset(record, seed * 16 + its_rank, N);
    CHECK(MPI_File_write_at_all(file, its_rank * N, record, N, MPI_BYTE, &status));
    CHECK(MPI_File_sync(file));
    MPI_Barrier(comm);
    for (int of = 0; of < its_size; of++) {
        memset(expected, seed * 16 + of, N);
        CHECK(MPI_File_read_at_all(file, of * N, back, N, MPI_BYTE, &status));
        EXPECT(count_of(&status, MPI_BYTE) == N && memcmp(back, expected, N) == 0);
    }
}

static void in_sequence(void) {
    int before = duplicates;
    for (int n = 0; n < ROUNDS; n++) {
        MPI_File file = opened(MPI_COMM_WORLD, n % 3, NEW);
        is_fresh(file);
        exchange(MPI_COMM_WORLD, file, n);
        char byte = n;
        CHECK(MPI_File_write_shared(file, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK(MPI_File_write_ordered(file, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE));
        if (n % 4 == 1) CHECK(MPI_File_set_view(file, n, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
        if (n % 4 == 2) CHECK(MPI_File_set_atomicity(file, 1));
        CHECK(MPI_File_close(&file));
    }
    EXPECT(duplicates - before == 1);
}

static void at_a_time(void) {
    MPI_File files[SEVERAL];
    for (int round = 0; round < 3; round++) {
        for (int n = 0; n < SEVERAL; n++) {
            files[n] = opened(MPI_COMM_WORLD, n, NEW);
            is_fresh(files[n]);
        }
        for (int n = 0; n < SEVERAL; n++) exchange(MPI_COMM_WORLD, files[n], n + round);
        for (int n = 0; n < SEVERAL; n++) CHECK(MPI_File_close(&files[(n * 5 + round) % SEVERAL]));
    }
    // Those that were kept are used again.
    int before = duplicates;
    for (int n = 0; n < 4; n++) files[n] = opened(MPI_COMM_WORLD, n, NEW);
    EXPECT(duplicates == before);
    for (int n = 0; n < 4; n++) CHECK(MPI_File_close(&files[n]));
}

static void other_communicators(void) {
    MPI_File file;
    MPI_Comm comm, half;
    int before = duplicates;
    for (int n = 0; n < 10; n++) {
        PMPI_Comm_dup(MPI_COMM_WORLD, &comm);
        for (int again = 0; again < 3; again++) {
            file = opened(comm, 0, NEW);
            is_fresh(file);
            exchange(comm, file, n + again);
            CHECK(MPI_File_close(&file));
        }
        // A file goes on without the communicator it was opened with.
        file = opened(comm, 1, NEW);
        MPI_Comm_free(&comm);
        exchange(MPI_COMM_WORLD, file, n);
        CHECK(MPI_File_close(&file));
    }
    // The processes are the same, in the same order.
    EXPECT(duplicates == before);
    // Windows of two halves of a node have one name in Open MPI 4.1, which makes them where nodes are pretended.
    if (getenv("STRIATE_RANKS_PER_NODE")) return;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    for (int n = 0; n < 5; n++) {
        file = opened(half, 100 + rank % 2, NEW);
        exchange(half, file, n);
        CHECK(MPI_File_close(&file));
        file = opened(MPI_COMM_SELF, 200 + rank, NEW);
        exchange(MPI_COMM_SELF, file, n);
        CHECK(MPI_File_close(&file));
    }
    // It is not freed before MPI ends.
}

// The same processes in many orders: more groups than are remembered, which some ranks forget before others do.
static void many_groups(void) {
    for (int n = 0; n < 60; n++) {
        MPI_Comm comm;
        MPI_File file;
        int order = rank * 7919 % 31 * (n % 29 + 1) % 31;
        MPI_Comm_split(MPI_COMM_WORLD, 0, order, &comm);
        file = opened(comm, 20, NEW);
        is_fresh(file);
        exchange(comm, file, n);
        CHECK(MPI_File_close(&file));
        MPI_Comm_free(&comm);
        if (rank % 2) {
            // Only these ranks are in more groups.
            file = opened(MPI_COMM_SELF, 200 + rank, NEW);
            exchange(MPI_COMM_SELF, file, n);
            CHECK(MPI_File_close(&file));
            MPI_Group world, alone;
            MPI_Comm_group(MPI_COMM_WORLD, &world);
            MPI_Group_incl(world, 1, &rank, &alone);
            MPI_Comm_create_group(MPI_COMM_WORLD, alone, n, &comm);
            file = opened(comm, 300 + rank, NEW);
            exchange(comm, file, n);
            CHECK(MPI_File_close(&file));
            MPI_Comm_free(&comm);
            MPI_Group_free(&alone);
            MPI_Group_free(&world);
        }
    }
}

static void that_fail(void) {
    MPI_File file;
    MPI_Offset length = -1;
    int before = duplicates;
    for (int n = 0; n < 10; n++) {
        FAILS(MPI_ERR_NO_SUCH_FILE,
              MPI_File_open(MPI_COMM_WORLD, named(99), MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
        EXPECT(file == MPI_FILE_NULL);
        FAILS(MPI_ERR_BAD_FILE,
              MPI_File_open(MPI_COMM_WORLD, rank == 0 ? "" : named(0), MPI_MODE_RDWR, MPI_INFO_NULL, &file));
        FAILS(MPI_ERR_AMODE,
              MPI_File_open(MPI_COMM_WORLD, named(0), rank == 0 ? 0 : MPI_MODE_RDWR, MPI_INFO_NULL, &file));
        if (size > 1)
            FAILS(MPI_ERR_NOT_SAME, MPI_File_open(MPI_COMM_WORLD, named(0), rank == 0 ? MPI_MODE_RDONLY : MPI_MODE_RDWR,
                                                  MPI_INFO_NULL, &file));
        file = opened(MPI_COMM_WORLD, 0, NEW);
        exchange(MPI_COMM_WORLD, file, n);
        CHECK(MPI_File_close(&file));
        file = opened(MPI_COMM_WORLD, 0, MPI_MODE_RDONLY | MPI_MODE_DELETE_ON_CLOSE);
        CHECK(MPI_File_close(&file));
        MPI_Barrier(MPI_COMM_WORLD);
        FAILS(MPI_ERR_NO_SUCH_FILE,
              MPI_File_open(MPI_COMM_WORLD, named(0), MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    }
    EXPECT(duplicates == before);
    // A call that failed, and a call that one rank could not make.
    for (int n = 0; n < 10; n++) {
        char byte = n;
        file = opened(MPI_COMM_WORLD, 1, MPI_MODE_RDONLY);
        EXPECT(MPI_File_write_at_all(file, 0, &byte, 1, MPI_BYTE, MPI_STATUS_IGNORE) != MPI_SUCCESS);
        CHECK(MPI_File_close(&file));
        file = opened(MPI_COMM_WORLD, 1, NEW);
        is_fresh(file);
        EXPECT(MPI_File_write_at_all(file, 0, &byte, rank == 0 ? -1 : 1, MPI_BYTE, MPI_STATUS_IGNORE) != MPI_SUCCESS);
        exchange(MPI_COMM_WORLD, file, n);
        CHECK(MPI_File_close(&file));
    }
    file = opened(MPI_COMM_WORLD, 1, MPI_MODE_RDWR | MPI_MODE_APPEND);
    CHECK(MPI_File_get_size(file, &length));
    MPI_Offset end = -1;
    CHECK(MPI_File_get_position_shared(file, &end));
    EXPECT(end == length && length > 0);
    CHECK(MPI_File_close(&file));
}

// A file whose gaps were read and written back, and after it one without.
static void sieved(void) {
    MPI_Info info;
    MPI_Datatype every_other;
    char record[N], back[2 * N];
    MPI_Info_create(&info);
    MPI_Info_set(info, "striate_method", "sieve");
    MPI_Type_vector(N, 1, 2, MPI_BYTE, &every_other);
    MPI_Type_commit(&every_other);
    for (int n = 0; n < 5; n++) {
        MPI_File file;
        memset(record, n + rank, N);
        CHECK(MPI_File_open(MPI_COMM_WORLD, named(7), NEW, info, &file));
        CHECK(MPI_File_set_view(file, rank * 2 * N, MPI_BYTE, every_other, "native", MPI_INFO_NULL));
        CHECK(MPI_File_write(file, record, N, MPI_BYTE, MPI_STATUS_IGNORE));
        CHECK(MPI_File_close(&file));
        file = opened(MPI_COMM_WORLD, 7, MPI_MODE_RDWR);
        is_fresh(file);
        CHECK(MPI_File_read_at(file, rank * 2 * N, back, 2 * N - 1, MPI_BYTE, MPI_STATUS_IGNORE));
        for (int i = 0; i < N; i++) EXPECT(back[2 * i] == record[i]);
        CHECK(MPI_File_write_at(file, (size * 2 + rank) * N, record, N, MPI_BYTE, MPI_STATUS_IGNORE));
        // All have read what is written now.
        MPI_Barrier(MPI_COMM_WORLD);
        exchange(MPI_COMM_WORLD, file, n);
        CHECK(MPI_File_close(&file));
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank == 0) CHECK(MPI_File_delete(named(7), MPI_INFO_NULL));
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Type_free(&every_other);
    MPI_Info_free(&info);
}

static void begun(void) {
    enum { LARGE = 1 << 17 };
    char *from = malloc(LARGE), *to = malloc(LARGE);
    for (int n = 0; n < 5; n++) {
        MPI_Request requests[2];
        MPI_Status statuses[2];
        MPI_File file = opened(MPI_COMM_WORLD, 8, NEW), other = opened(MPI_COMM_WORLD, 9, NEW);
        memset(from, n + rank, LARGE);
        CHECK(MPI_File_iwrite_at_all(file, (MPI_Offset)rank * LARGE, from, LARGE, MPI_BYTE, &requests[0]));
        CHECK(MPI_File_iwrite_at_all(other, (MPI_Offset)rank * LARGE, from, LARGE, MPI_BYTE, &requests[1]));
        CHECK(MPI_Waitall(2, requests, statuses));
        CHECK(MPI_File_close(&file));
        file = opened(MPI_COMM_WORLD, 8, NEW);
        CHECK(MPI_File_iread_at_all(file, (MPI_Offset)rank * LARGE, to, LARGE, MPI_BYTE, &requests[0]));
        // It is under way while another is opened.
        MPI_File third = opened(MPI_COMM_WORLD, 10, NEW);
        is_fresh(third);
        CHECK(MPI_Wait(&requests[0], MPI_STATUS_IGNORE));
        EXPECT(memcmp(from, to, LARGE) == 0);
        CHECK(MPI_File_close(&third));
        CHECK(MPI_File_close(&other));
        CHECK(MPI_File_close(&file));
    }
    free(from);
    free(to);
}

static void *close_later(void *argument) {
    MPI_File file = *(MPI_File *)argument;
    usleep(rank * 50);
    CHECK(MPI_File_close(&file));
    return NULL;
}

// Ranks whose files are closed while others are opened, earlier on some than on others.
static void by_threads(void) {
    MPI_File file = opened(MPI_COMM_WORLD, 11, NEW), next;
    for (int n = 0; n < ROUNDS; n++) {
        pthread_t thread;
        pthread_create(&thread, NULL, close_later, &file);
        usleep((size - rank) * 50 * (n % 3));
        next = opened(MPI_COMM_WORLD, 11 + (n + 1) % 2, NEW);
        is_fresh(next);
        exchange(MPI_COMM_WORLD, next, n);
        pthread_join(thread, NULL);
        file = next;
    }
    CHECK(MPI_File_close(&file));
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    prefix = argv[1];
    in_sequence();
    at_a_time();
    other_communicators();
    many_groups();
    that_fail();
    sieved();
    begun();
    if (provided == MPI_THREAD_MULTIPLE) by_threads();
    // One file that is never closed: MPI ends all the same.
    if (argc > 2) exchange(MPI_COMM_WORLD, opened(MPI_COMM_WORLD, 13, NEW), 1);
    return passed();
}
