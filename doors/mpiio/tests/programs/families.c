// Every family of functions once: what is written one way is read another way.
#include "check.h"

enum { N = 100 };

static int rank, size;
static int values[N], back[N];

static void fill(int seed) {
    for (int i = 0; i < N; i++) values[i] = (seed * 64 + rank) * 1000 + i;
}

static int is_filled(int seed, int whose) {
    for (int i = 0; i < N; i++)
        if (back[i] != (seed * 64 + whose) * 1000 + i) return 0;
    return 1;
}

static void individual(MPI_File file) {
    MPI_Status status;
    MPI_Offset position, end;
    fill(1);
    CHECK(MPI_File_seek(file, rank * N, MPI_SEEK_SET));
    CHECK(MPI_File_write(file, values, N, MPI_INT, &status));
    EXPECT(count_of(&status, MPI_INT) == N);
    CHECK(MPI_File_get_position(file, &position));
    EXPECT(position == (rank + 1) * N);
    CHECK(MPI_File_seek(file, -N, MPI_SEEK_CUR));
    CHECK(MPI_File_read_all(file, back, N, MPI_INT, &status));
    EXPECT(is_filled(1, rank));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_seek(file, 0, MPI_SEEK_END));
    CHECK(MPI_File_get_position(file, &end));
    EXPECT(end == (MPI_Offset)size * N);
    // Halfway over the end: half of it is there.
    CHECK(MPI_File_seek(file, -N / 2, MPI_SEEK_END));
    CHECK(MPI_File_read(file, back, N, MPI_INT, &status));
    EXPECT(count_of(&status, MPI_INT) == N / 2);
    int elements = -1;
    MPI_Get_elements(&status, MPI_INT, &elements);
    EXPECT(elements == N / 2);
    CHECK(MPI_File_read_at(file, end + 7, back, N, MPI_INT, &status));
    EXPECT(count_of(&status, MPI_INT) == 0);
    CHECK(MPI_File_write_at(file, rank * N, values, 0, MPI_INT, MPI_STATUS_IGNORE));
}

static void split(MPI_File file) {
    MPI_Status status;
    fill(2);
    CHECK(MPI_File_write_at_all_begin(file, rank * N, values, N, MPI_INT));
    CHECK(MPI_File_write_at_all_end(file, values, &status));
    EXPECT(count_of(&status, MPI_INT) == N);
    CHECK(MPI_File_seek(file, rank * N, MPI_SEEK_SET));
    CHECK(MPI_File_read_all_begin(file, back, N, MPI_INT));
    CHECK(MPI_File_read_all_end(file, back, &status));
    EXPECT(is_filled(2, rank) && count_of(&status, MPI_INT) == N);
    fill(3);
    CHECK(MPI_File_seek(file, rank * N, MPI_SEEK_SET));
    CHECK(MPI_File_write_all_begin(file, values, N, MPI_INT));
    CHECK(MPI_File_write_all_end(file, values, &status));
    CHECK(MPI_File_read_at_all_begin(file, rank * N, back, N, MPI_INT));
    CHECK(MPI_File_read_at_all_end(file, back, &status));
    EXPECT(is_filled(3, rank));
}

static void nonblocking(MPI_File file) {
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int done = 0, large = 1 << 20;
    fill(4);
    CHECK(MPI_File_iwrite_at(file, rank * N, values, N, MPI_INT, &requests[0]));
    CHECK(MPI_Wait(&requests[0], &statuses[0]));
    EXPECT(requests[0] == MPI_REQUEST_NULL && count_of(&statuses[0], MPI_INT) == N);
    CHECK(MPI_File_seek(file, rank * N, MPI_SEEK_SET));
    CHECK(MPI_File_iread(file, back, N, MPI_INT, &requests[0]));
    while (!done) CHECK(MPI_Test(&requests[0], &done, &statuses[0]));
    EXPECT(is_filled(4, rank) && count_of(&statuses[0], MPI_INT) == N);
    // Large ones, which a thread works on.
    char *from = malloc(large), *to = malloc(large);
    memset(from, 'a' + rank, large);
    MPI_Offset start = (MPI_Offset)N * size + rank * (large / 4);
    CHECK(MPI_File_iwrite_at(file, start, from, large, MPI_BYTE, &requests[0]));
    fill(5);
    CHECK(MPI_File_iwrite_at(file, rank * N, values, N, MPI_INT, &requests[1]));
    CHECK(MPI_Waitall(2, requests, statuses));
    EXPECT(count_of(&statuses[0], MPI_BYTE) == large && count_of(&statuses[1], MPI_INT) == N);
    CHECK(MPI_File_iread_at(file, start, to, large, MPI_BYTE, &requests[0]));
    CHECK(MPI_File_iread_at(file, rank * N, back, N, MPI_INT, &requests[1]));
    for (int left = 2; left > 0; left--) {
        int index;
        CHECK(MPI_Waitany(2, requests, &index, &statuses[0]));
        EXPECT(count_of(&statuses[0], MPI_BYTE) == (index == 0 ? large : (int)sizeof back));
    }
    EXPECT(memcmp(from, to, large) == 0 && is_filled(5, rank));
    // Together: begun in the same order, waited for in any.
    memset(to, 0, large);
    memset(from, 'A' + rank, large);
    fill(6);
    CHECK(MPI_File_iwrite_at_all(file, start, from, large, MPI_BYTE, &requests[0]));
    CHECK(MPI_File_iwrite_at_all(file, rank * N, values, N, MPI_INT, &requests[1]));
    if (rank % 2) {
        CHECK(MPI_Wait(&requests[0], &statuses[0]));
        CHECK(MPI_Wait(&requests[1], &statuses[1]));
    } else {
        CHECK(MPI_Wait(&requests[1], &statuses[1]));
        CHECK(MPI_Wait(&requests[0], &statuses[0]));
    }
    EXPECT(count_of(&statuses[0], MPI_BYTE) == large && count_of(&statuses[1], MPI_INT) == N);
    CHECK(MPI_File_iread_at_all(file, start, to, large, MPI_BYTE, &requests[0]));
    CHECK(MPI_File_seek(file, rank * N, MPI_SEEK_SET));
    CHECK(MPI_File_iread_all(file, back, N, MPI_INT, &requests[1]));
    CHECK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    EXPECT(memcmp(from, to, large) == 0 && is_filled(6, rank));
    CHECK(MPI_File_seek(file, rank * N, MPI_SEEK_SET));
    CHECK(MPI_File_iwrite_all(file, values, N, MPI_INT, &requests[0]));
    CHECK(MPI_File_iwrite(file, values, 0, MPI_INT, &requests[1]));
    CHECK(MPI_Waitall(2, requests, statuses));
    free(from);
    free(to);
}

static void shared(MPI_File file) {
    MPI_Status status;
    MPI_Request request;
    MPI_Offset position;
    CHECK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    fill(7);
    CHECK(MPI_File_write_ordered(file, values, N, MPI_INT, &status));
    EXPECT(count_of(&status, MPI_INT) == N);
    CHECK(MPI_File_get_position_shared(file, &position));
    EXPECT(position == (MPI_Offset)size * N);
    for (int whose = 0; whose < size; whose++) {
        CHECK(MPI_File_read_at(file, whose * N, back, N, MPI_INT, &status));
        EXPECT(is_filled(7, whose));
    }
    MPI_Barrier(MPI_COMM_WORLD);
    // In any order, but each at a place of its own.
    CHECK(MPI_File_write_shared(file, values, N, MPI_INT, &status));
    CHECK(MPI_File_iwrite_shared(file, values, N, MPI_INT, &request));
    CHECK(MPI_Wait(&request, &status));
    EXPECT(count_of(&status, MPI_INT) == N);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_get_position_shared(file, &position));
    EXPECT(position == (MPI_Offset)3 * size * N);
    CHECK(MPI_File_seek_shared(file, (MPI_Offset)size * N, MPI_SEEK_SET));
    int found[2];
    CHECK(MPI_File_read_shared(file, back, N, MPI_INT, &status));
    found[0] = back[0] / 1000 % 64;
    CHECK(MPI_File_iread_shared(file, back, N, MPI_INT, &request));
    CHECK(MPI_Wait(&request, &status));
    found[1] = back[0] / 1000 % 64;
    int sum = found[0] + found[1], all;
    MPI_Allreduce(&sum, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    EXPECT(all == size * (size - 1));
    CHECK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    CHECK(MPI_File_read_ordered_begin(file, back, N, MPI_INT));
    CHECK(MPI_File_read_ordered_end(file, back, &status));
    EXPECT(is_filled(7, rank) && count_of(&status, MPI_INT) == N);
    CHECK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    fill(8);
    CHECK(MPI_File_write_ordered_begin(file, values, N, MPI_INT));
    CHECK(MPI_File_write_ordered_end(file, values, &status));
    CHECK(MPI_File_seek_shared(file, 0, MPI_SEEK_SET));
    CHECK(MPI_File_read_ordered(file, back, N, MPI_INT, &status));
    EXPECT(is_filled(8, rank));
}

static void management(MPI_File file, const char *name) {
    MPI_Offset length, byte;
    MPI_Group group, world;
    MPI_Aint extent;
    int amode, atomic, result;
    CHECK(MPI_File_set_size(file, 12345));
    CHECK(MPI_File_get_size(file, &length));
    EXPECT(length == 12345);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_preallocate(file, 20000));
    CHECK(MPI_File_get_size(file, &length));
    EXPECT(length == 20000);
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK(MPI_File_preallocate(file, 100));
    CHECK(MPI_File_get_size(file, &length));
    EXPECT(length == 20000);
    CHECK(MPI_File_get_amode(file, &amode));
    EXPECT(amode == (MPI_MODE_CREATE | MPI_MODE_RDWR));
    CHECK(MPI_File_get_group(file, &group));
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_compare(group, world, &result);
    EXPECT(result == MPI_IDENT);
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    CHECK(MPI_File_get_atomicity(file, &atomic));
    EXPECT(!atomic);
    CHECK(MPI_File_set_atomicity(file, 1));
    CHECK(MPI_File_get_atomicity(file, &atomic));
    EXPECT(atomic);
    fill(9);
    CHECK(MPI_File_write_at(file, rank * N, values, N, MPI_INT, MPI_STATUS_IGNORE));
    CHECK(MPI_File_set_atomicity(file, 0));
    CHECK(MPI_File_sync(file));
    CHECK(MPI_File_get_type_extent(file, MPI_DOUBLE, &extent));
    EXPECT(extent == sizeof(double));

    // Views come back as they were given.
    MPI_Datatype vector, etype, filetype;
    MPI_Offset displacement;
    char representation[MPI_MAX_DATAREP_STRING];
    MPI_Type_vector(4, 2, 5, MPI_INT, &vector);
    MPI_Type_commit(&vector);
    CHECK(MPI_File_set_view(file, 24, MPI_INT, vector, "native", MPI_INFO_NULL));
    MPI_Type_free(&vector);
    CHECK(MPI_File_get_view(file, &displacement, &etype, &filetype, representation));
    EXPECT(displacement == 24 && etype == MPI_INT && strcmp(representation, "native") == 0);
    int integers, addresses, types, combiner;
    MPI_Type_get_envelope(filetype, &integers, &addresses, &types, &combiner);
    EXPECT(combiner != MPI_COMBINER_NAMED);
    int bytes;
    MPI_Type_size(filetype, &bytes);
    EXPECT(bytes == 8 * (int)sizeof(int));
    MPI_Type_free(&filetype);
    CHECK(MPI_File_get_byte_offset(file, 0, &byte));
    EXPECT(byte == 24);
    CHECK(MPI_File_get_byte_offset(file, 3, &byte));
    EXPECT(byte == 24 + 6 * (MPI_Offset)sizeof(int));
    CHECK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));

    // Hints come back with what is in effect.
    MPI_Info info;
    char value[MPI_MAX_INFO_VAL];
    int flag;
    CHECK(MPI_File_get_info(file, &info));
    MPI_Info_get(info, "cb_buffer_size", MPI_MAX_INFO_VAL - 1, value, &flag);
    EXPECT(flag && atoi(value) == 1 << 20);
    MPI_Info_free(&info);
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_nodes", "1");
    MPI_Info_set(info, "a_hint_nobody_knows", "7");
    CHECK(MPI_File_set_info(file, info));
    MPI_Info_free(&info);

    MPI_Fint number = MPI_File_c2f(file);
    EXPECT(MPI_File_f2c(number) == file);
    EXPECT(MPI_File_f2c(MPI_File_c2f(MPI_FILE_NULL)) == MPI_FILE_NULL);
    (void)name;
}

int main(int argc, char **argv) {
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "cb_buffer_size", "1048576");
    MPI_File file;
    CHECK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, info, &file));
    MPI_Info_free(&info);
    CHECK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    individual(file);
    split(file);
    CHECK(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    CHECK(MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL));
    nonblocking(file);
    shared(file);
    management(file, argv[1]);
    CHECK(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);

    // Modes: at the end, alone, gone afterwards.
    char name[4096];
    snprintf(name, sizeof name, "%s.more", argv[1]);
    CHECK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    CHECK(MPI_File_write_at_all(file, rank * 4, "1234", 4, MPI_BYTE, MPI_STATUS_IGNORE));
    CHECK(MPI_File_close(&file));
    FAILS(MPI_ERR_FILE_EXISTS,
          MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY, MPI_INFO_NULL, &file));
    MPI_Offset position;
    CHECK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_APPEND | MPI_MODE_RDWR, MPI_INFO_NULL, &file));
    CHECK(MPI_File_get_position(file, &position));
    EXPECT(position == 4 * size);
    CHECK(MPI_File_close(&file));
    CHECK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_SEQUENTIAL | MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    char four[4];
    CHECK(MPI_File_read_ordered(file, four, 4, MPI_BYTE, MPI_STATUS_IGNORE));
    EXPECT(memcmp(four, "1234", 4) == 0);
    FAILS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_read_at(file, 0, four, 4, MPI_BYTE, MPI_STATUS_IGNORE));
    FAILS(MPI_ERR_UNSUPPORTED_OPERATION, MPI_File_seek(file, 0, MPI_SEEK_SET));
    CHECK(MPI_File_close(&file));
    CHECK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_DELETE_ON_CLOSE | MPI_MODE_UNIQUE_OPEN | MPI_MODE_RDWR,
                        MPI_INFO_NULL, &file));
    CHECK(MPI_File_close(&file));
    MPI_Barrier(MPI_COMM_WORLD);
    FAILS(MPI_ERR_NO_SUCH_FILE, MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file));
    FAILS(MPI_ERR_NO_SUCH_FILE, MPI_File_delete(name, MPI_INFO_NULL));
    return passed();
}
