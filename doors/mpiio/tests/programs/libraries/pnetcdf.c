// Variables of PnetCDF: blocking, nonblocking and flexible accesses, of fixed size and in records, by all ranks together
// and by each alone.
//
//   pnetcdf write FILE FORMAT    pnetcdf read FILE FORMAT      FORMAT is 1, 2 or 5
//
// The value of an element follows from its position, so that any rank can verify what another rank
// wrote.
#include "ranks.h"

#include <pnetcdf.h>

#define NC(call) succeeds((call), __LINE__, #call)

static void succeeds(int status, int line, const char *what) {
    if (status != NC_NOERR) give_up("pnetcdf.c", line, what, ncmpi_strerror(status));
}

enum { ROWS = 48, COLUMNS = 37, RECORDS = 4, WIDTH = 11, PENDING = 6 };
enum { BLOCKS, STRIDED, MAPPED, FLEXIBLE, TYPED, ALONE, MANY, SHORTS, FIRST_RECORDS, SECOND_RECORDS, VARIABLES };
static const char *const NAMES[VARIABLES] = {"blocks", "strided", "mapped", "flexible",      "typed",
                                             "alone",  "many",    "shorts", "first records", "second records"};

static int element(int which, MPI_Offset row, MPI_Offset column) {
    return (which * 100 + (int)row) * 100 + (int)column;
}

static void define(int file, int *variables) {
    int record, rows, columns, width;
    NC(ncmpi_def_dim(file, "record", NC_UNLIMITED, &record));
    NC(ncmpi_def_dim(file, "row", ROWS, &rows));
    NC(ncmpi_def_dim(file, "column", COLUMNS, &columns));
    NC(ncmpi_def_dim(file, "width", (MPI_Offset)size * WIDTH, &width));
    for (int i = 0; i < VARIABLES; i++) {
        int records = i == FIRST_RECORDS || i == SECOND_RECORDS;
        int dimensions[2] = {records ? record : rows, records ? width : columns};
        // What is not a multiple of four bytes is padded; doubles beside it are not where they would be in memory.
        nc_type type = i == SHORTS ? NC_SHORT : i == SECOND_RECORDS ? NC_DOUBLE : NC_INT;
        NC(ncmpi_def_var(file, NAMES[i], type, 2, dimensions, &variables[i]));
        NC(ncmpi_put_att_text(file, variables[i], "units", 2, "no"));
    }
    NC(ncmpi_def_var_fill(file, variables[ALONE], 0, NULL));
    NC(ncmpi_put_att_int(file, NC_GLOBAL, "ranks", NC_INT, 1, &size));
    NC(ncmpi_enddef(file));
}

static void find(int file, int *variables) {
    for (int i = 0; i < VARIABLES; i++) NC(ncmpi_inq_varid(file, NAMES[i], &variables[i]));
    int ranks = 0;
    NC(ncmpi_get_att_int(file, NC_GLOBAL, "ranks", &ranks));
    EXPECT(ranks == size);
}

// The rows of this rank, or of the one beside it, as a block in memory.
static void block(int of, MPI_Offset *start, MPI_Offset *count) {
    start[0] = ROWS / size * of;
    start[1] = 0;
    count[0] = of == size - 1 ? ROWS - start[0] : ROWS / size;
    count[1] = COLUMNS;
}

static void fill(int *memory, int which, const MPI_Offset *start, const MPI_Offset *count, const MPI_Offset *stride) {
    for (MPI_Offset i = 0; i < count[0]; i++)
        for (MPI_Offset j = 0; j < count[1]; j++)
            memory[i * count[1] + j] = element(which, start[0] + i * stride[0], start[1] + j * stride[1]);
}

static void verify(const int *memory, int which, const MPI_Offset *start, const MPI_Offset *count,
                   const MPI_Offset *stride) {
    for (MPI_Offset i = 0; i < count[0]; i++)
        for (MPI_Offset j = 0; j < count[1]; j++)
            EXPECT(memory[i * count[1] + j] == element(which, start[0] + i * stride[0], start[1] + j * stride[1]));
}

static const MPI_Offset ONES[2] = {1, 1};

static void write_blocking(int file, const int *variables) {
    static int memory[ROWS * COLUMNS];
    MPI_Offset start[2], count[2];
    block(rank, start, count);
    fill(memory, BLOCKS, start, count, ONES);
    NC(ncmpi_put_vara_int_all(file, variables[BLOCKS], start, count, memory));

    fill(memory, SHORTS, start, count, ONES);
    for (MPI_Offset i = 0; i < count[0] * count[1]; i++) memory[i] %= 30000;
    NC(ncmpi_put_vara_int_all(file, variables[SHORTS], start, count, memory));

    // Every rank has columns of its own: regions of one element.
    MPI_Offset columns[2] = {0, rank}, stride[2] = {1, size}, many[2] = {ROWS, (COLUMNS - rank + size - 1) / size};
    fill(memory, STRIDED, columns, many, stride);
    NC(ncmpi_put_vars_int_all(file, variables[STRIDED], columns, many, stride, memory));

    // In memory the rows are columns.
    MPI_Offset map[2] = {1, count[0]};
    for (MPI_Offset i = 0; i < count[0]; i++)
        for (MPI_Offset j = 0; j < count[1]; j++) memory[j * count[0] + i] = element(MAPPED, start[0] + i, j);
    NC(ncmpi_put_varm_int_all(file, variables[MAPPED], start, count, ONES, map, memory));

    // Memory with a border around the block, as an MPI datatype.
    int whole[2] = {(int)count[0] + 2, COLUMNS + 4}, part[2] = {(int)count[0], COLUMNS}, from[2] = {1, 2};
    int *around = calloc((size_t)whole[0] * (size_t)whole[1], sizeof *around);
    for (int i = 0; i < part[0]; i++)
        for (int j = 0; j < part[1]; j++)
            around[(i + 1) * whole[1] + j + 2] = element(FLEXIBLE, start[0] + i, j);
    MPI_Datatype inside;
    MPI_Type_create_subarray(2, whole, part, from, MPI_ORDER_C, MPI_INT, &inside);
    MPI_Type_commit(&inside);
    NC(ncmpi_put_vara_all(file, variables[FLEXIBLE], start, count, around, 1, inside));

    // Where the elements are in the file is an MPI datatype, too.
    int rows[2] = {ROWS, COLUMNS}, mine[2] = {(int)count[0], COLUMNS}, first[2] = {(int)start[0], 0};
    MPI_Datatype there;
    MPI_Type_create_subarray(2, rows, mine, first, MPI_ORDER_C, MPI_INT, &there);
    MPI_Type_commit(&there);
    fill(memory, TYPED, start, count, ONES);
    NC(ncmpi_put_vard_all(file, variables[TYPED], there, memory, count[0] * count[1], MPI_INT));
    MPI_Type_free(&there);
    MPI_Type_free(&inside);
    free(around);

    NC(ncmpi_begin_indep_data(file));
    fill(memory, ALONE, start, count, ONES);
    for (MPI_Offset row = 0; row < count[0]; row++) {
        MPI_Offset at[2] = {start[0] + row, 0}, one[2] = {1, COLUMNS};
        NC(ncmpi_put_vara_int(file, variables[ALONE], at, one, memory + row * COLUMNS));
    }
    NC(ncmpi_end_indep_data(file));
}

static void write_pending(int file, const int *variables) {
    static int memory[ROWS][COLUMNS];
    static double doubles[RECORDS][WIDTH];
    static int integers[RECORDS][WIDTH];
    int requests[ROWS + 2 * RECORDS], statuses[ROWS + 2 * RECORDS], begun = 0;
    for (MPI_Offset row = rank; row < ROWS; row += size) {
        MPI_Offset start[2] = {row, 0}, count[2] = {1, COLUMNS};
        fill(memory[row], MANY, start, count, ONES);
        NC(ncmpi_iput_vara_int(file, variables[MANY], start, count, memory[row], &requests[begun++]));
    }
    for (MPI_Offset record = 0; record < RECORDS; record++) {
        MPI_Offset start[2] = {record, rank * WIDTH}, count[2] = {1, WIDTH};
        fill(integers[record], FIRST_RECORDS, start, count, ONES);
        for (int j = 0; j < WIDTH; j++) doubles[record][j] = element(SECOND_RECORDS, record, rank * WIDTH + j) + 0.5;
        NC(ncmpi_iput_vara_int(file, variables[FIRST_RECORDS], start, count, integers[record], &requests[begun++]));
        NC(ncmpi_iput_vara_double(file, variables[SECOND_RECORDS], start, count, doubles[record], &requests[begun++]));
    }
    NC(ncmpi_wait_all(file, begun, requests, statuses));
    for (int i = 0; i < begun; i++) NC(statuses[i]);

    // One more record, buffered, and one that only the last rank writes.
    MPI_Offset start[2] = {RECORDS, rank * WIDTH}, count[2] = {1, WIDTH};
    int last[WIDTH], status;
    NC(ncmpi_buffer_attach(file, sizeof last));
    fill(last, FIRST_RECORDS, start, count, ONES);
    NC(ncmpi_bput_vara_int(file, variables[FIRST_RECORDS], start, count, last, requests));
    memset(last, 0, sizeof last);
    NC(ncmpi_wait_all(file, 1, requests, &status));
    NC(ncmpi_buffer_detach(file));
    start[0]++;
    if (rank != size - 1) count[0] = 0;
    fill(last, FIRST_RECORDS, start, count, ONES);
    NC(ncmpi_put_vara_int_all(file, variables[FIRST_RECORDS], start, count, last));
    // The last bytes of the file are written: OMPIO counts bytes behind the end of a file when PnetCDF moves it.
    MPI_Offset rest[2] = {RECORDS, rank * WIDTH}, two[2] = {2, WIDTH};
    double ones[2 * WIDTH];
    for (int i = 0; i < 2 * WIDTH; i++) ones[i] = 1;
    NC(ncmpi_put_vara_double_all(file, variables[SECOND_RECORDS], rest, two, ones));
}

static void read_all(int file, const int *variables) {
    static int memory[ROWS * COLUMNS];
    MPI_Offset start[2], count[2];
    block((rank + 1) % size, start, count);
    for (int which = BLOCKS; which <= MANY; which++) {
        memset(memory, 0, sizeof memory);
        NC(ncmpi_get_vara_int_all(file, variables[which], start, count, memory));
        verify(memory, which, start, count, ONES);
        MPI_Offset columns[2] = {rank % 3, rank}, stride[2] = {3, size};
        MPI_Offset many[2] = {(ROWS - rank % 3 + 2) / 3, (COLUMNS - rank + size - 1) / size};
        NC(ncmpi_get_vars_int_all(file, variables[which], columns, many, stride, memory));
        verify(memory, which, columns, many, stride);
    }
    NC(ncmpi_get_vara_int_all(file, variables[SHORTS], start, count, memory));
    for (MPI_Offset i = 0; i < count[0]; i++)
        for (MPI_Offset j = 0; j < COLUMNS; j++)
            EXPECT(memory[i * COLUMNS + j] == element(SHORTS, start[0] + i, j) % 30000);

    NC(ncmpi_begin_indep_data(file));
    MPI_Offset row[2] = {(rank * 7) % ROWS, 0}, one[2] = {1, COLUMNS};
    for (int which = BLOCKS; which <= MANY; which++) {
        NC(ncmpi_get_vara_int(file, variables[which], row, one, memory));
        verify(memory, which, row, one, ONES);
    }
    NC(ncmpi_end_indep_data(file));
}

static void read_pending(int file, const int *variables) {
    static int integers[RECORDS + 2][WIDTH], parts[PENDING][COLUMNS];
    static double doubles[RECORDS][WIDTH];
    int requests[2 + PENDING], statuses[2 + PENDING], next = (rank + 1) % size;
    MPI_Offset start[2] = {0, next * WIDTH}, count[2] = {RECORDS + 1, WIDTH}, fewer[2] = {RECORDS, WIDTH};
    NC(ncmpi_iget_vara_int(file, variables[FIRST_RECORDS], start, count, integers[0], &requests[0]));
    NC(ncmpi_iget_vara_double(file, variables[SECOND_RECORDS], start, fewer, doubles[0], &requests[1]));
    // Ranks ask for different numbers of parts.
    int more = rank % 2 ? PENDING : 1;
    for (int i = 0; i < more; i++) {
        MPI_Offset row[2] = {(rank + i * 5) % ROWS, 0}, one[2] = {1, COLUMNS};
        NC(ncmpi_iget_vara_int(file, variables[MANY], row, one, parts[i], &requests[2 + i]));
    }
    NC(ncmpi_wait_all(file, 2 + more, requests, statuses));
    for (int i = 0; i < 2 + more; i++) NC(statuses[i]);
    verify(integers[0], FIRST_RECORDS, start, count, ONES);
    for (int i = 0; i < RECORDS; i++)
        for (int j = 0; j < WIDTH; j++)
            EXPECT(doubles[i][j] == element(SECOND_RECORDS, i, next * WIDTH + j) + 0.5);
    for (int i = 0; i < more; i++) {
        MPI_Offset row[2] = {(rank + i * 5) % ROWS, 0}, one[2] = {1, COLUMNS};
        verify(parts[i], MANY, row, one, ONES);
    }
    MPI_Offset last[2] = {RECORDS + 1, (size - 1) * WIDTH}, one[2] = {1, WIDTH};
    NC(ncmpi_get_vara_int_all(file, variables[FIRST_RECORDS], last, one, integers[0]));
    verify(integers[0], FIRST_RECORDS, last, one, ONES);
}

int main(int argc, char **argv) {
    start(&argc, &argv);
    EXPECT(argc == 4);
    int file, variables[VARIABLES], version = atoi(argv[3]);
    if (strcmp(argv[1], "write") == 0) {
        int format = version == 5 ? NC_64BIT_DATA : version == 2 ? NC_64BIT_OFFSET : 0;
        NC(ncmpi_create(MPI_COMM_WORLD, argv[2], NC_CLOBBER | format, MPI_INFO_NULL, &file));
        define(file, variables);
        write_blocking(file, variables);
        write_pending(file, variables);
        NC(ncmpi_sync(file));
        // The header grows, and what is behind it moves.
        NC(ncmpi_redef(file));
        char text[2000];
        memset(text, 'x', sizeof text);
        NC(ncmpi_put_att_text(file, NC_GLOBAL, "history", sizeof text, text));
        NC(ncmpi_enddef(file));
    } else {
        NC(ncmpi_open(MPI_COMM_WORLD, argv[2], NC_NOWRITE, MPI_INFO_NULL, &file));
        find(file, variables);
        read_all(file, variables);
        read_pending(file, variables);
    }
    NC(ncmpi_close(file));
    MPI_Finalize();
    return 0;
}
