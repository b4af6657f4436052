/* The peer process of Striate's datatype benchmark and differential test.
 *
 * A parent starts this program as a singleton (without mpiexec) and talks to it in lines of
 * text: one request a line on stdin, one answer a line on stdout, till stdin ends.
 *
 *   type TOKENS...          build and commit a type     ok SIZE LB EXTENT TRUE_LB TRUE_EXTENT
 *   buffers COUNT           memory and packed buffer    ok MEMORY_BYTES ORIGIN PACKED_BYTES
 *   time pack|unpack REPS   run MPI_Pack or MPI_Unpack  ok NANOSECONDS
 *   hash memory|packed      64-bit FNV-1a of a buffer   ok HEX
 *   fill memory|packed      write a buffer's pattern    ok
 *   zero memory|packed      clear a buffer              ok
 *   version                 the library's own words     ok TEXT
 *
 * What cannot be done is answered by "error MESSAGE". The tokens of a type are a postfix
 * program over a stack of types; see build_step().
 *
 * Build: mpicc -std=gnu11 -O3 -Wall -Wextra -o mpi_peer mpi_peer.c
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <mpi.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static FILE *answers;         /* a private copy of the original stdout; see main() */
static jmp_buf request_start; /* where fail() returns to */

/* The current type (MPI_DATATYPE_NULL: none), and what MPI says of it. */
static MPI_Datatype current = MPI_DATATYPE_NULL;
static MPI_Count size;
static MPI_Aint lb, extent, true_lb, true_extent;

/* The current type's buffers, and the factors of their patterns. */
static struct buffer {
    unsigned char *bytes; /* NULL: none */
    size_t length, low, high, shift;
} memory = {NULL, 0, 131, 29, 7}, packed = {NULL, 0, 167, 41, 3};
static size_t origin; /* the index in memory of displacement 0 of the first copy */
static int copies;

/* The postfix program's stack. What is on it when a request ends is freed. */
static MPI_Datatype *stack;
static size_t depth, stack_room;

/* A constructor's lists of arguments. Their memory is kept for the next constructor. */
static int *lists[4];
static MPI_Aint *addresses;
static size_t list_room;

/* Answers an error and abandons the request. */
static _Noreturn __attribute__((format(printf, 1, 2))) void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("error ", answers);
    vfprintf(answers, format, arguments);
    fputc('\n', answers);
    va_end(arguments);
    longjmp(request_start, 1);
}

/* Abandons the request if an MPI call has failed. */
static void check(int code) {
    if (code == MPI_SUCCESS)
        return;
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
        fail("MPI error %d", code);
    for (char *c = text; *c; c++) /* MPICH's text is an error stack of several lines */
        *c = *c == '\n' ? ' ' : *c;
    fail("%s", text);
}

static void *reallocate(void *old, size_t count, size_t each) {
    void *grown = reallocarray(old, count, each);
    if (!grown)
        fail("out of memory");
    return grown;
}

/* --- Tokens --------------------------------------------------------------------------- */

/* What is left of the request line. Tokens are read where they stand. */
static const char *cursor, *line_end;

struct token {
    const char *text;
    size_t length; /* 0: the line is over */
};

static struct token next_token(void) {
    cursor += strspn(cursor, " \t");
    struct token token = {cursor, strcspn(cursor, " \t")};
    cursor += token.length;
    return token;
}

static bool is(struct token token, const char *word) {
    return strncmp(token.text, word, token.length) == 0 && word[token.length] == '\0';
}

static _Noreturn void bad_token(struct token token, const char *expected) {
    if (token.length == 0)
        fail("the request ends where %s is expected", expected);
    int shown = token.length < 40 ? (int)token.length : 40;
    fail("bad token '%.*s' where %s is expected", shown, token.text, expected);
}

static int64_t to_integer(struct token token, int64_t least, int64_t most) {
    char *end = NULL;
    errno = 0;
    long long value = token.length ? strtoll(token.text, &end, 10) : 0;
    if (end != token.text + token.length)
        bad_token(token, "an integer");
    if (errno || value < least || value > most)
        bad_token(token, "an integer within range");
    return value;
}

static int read_int(void) {
    return (int)to_integer(next_token(), INT_MIN, INT_MAX);
}

static MPI_Aint read_address(void) {
    return (MPI_Aint)to_integer(next_token(), INT64_MIN, INT64_MAX);
}

static void read_end(void) {
    struct token token = next_token();
    if (token.length)
        bad_token(token, "the end of the request");
}

/* Reads the length of the lists that follow and makes room for them. An entry takes two
 * characters or more, so that a length beyond the line's is refused before it is allocated.
 * There is room for one entry more, since some MPIs refuse NULL even for empty lists. */
static int read_list_length(void) {
    int count = read_int();
    if (count < 0 || count > (line_end - cursor) / 2)
        fail("the list of %d entries is not there", count);
    if ((size_t)count >= list_room) {
        size_t room = (size_t)count + 1;
        for (int i = 0; i < 4; i++)
            lists[i] = reallocate(lists[i], room, sizeof *lists[i]);
        addresses = reallocate(addresses, room, sizeof *addresses);
        list_room = room;
    }
    return count;
}

static void read_list(int *list, int count) {
    for (int i = 0; i < count; i++)
        list[i] = read_int();
}

/* Reads N, and N displacements into lists[1] or (bytes) into addresses; with a length before
 * each, into lists[0], or (one_length) only one before them all. Returns N. */
static int read_blocks(bool one_length, bool bytes) {
    int count = read_list_length();
    if (one_length)
        lists[0][0] = read_int();
    for (int i = 0; i < count; i++) {
        if (!one_length)
            lists[0][i] = read_int();
        if (bytes)
            addresses[i] = read_address();
        else
            lists[1][i] = read_int();
    }
    return count;
}

/* Reads a darray's (dist darg) pairs into lists[1] and lists[2]. */
static void read_distributions(int count) {
    for (int i = 0; i < count; i++) {
        struct token kind = next_token();
        if (!is(kind, "block") && !is(kind, "cyclic") && !is(kind, "none"))
            bad_token(kind, "block, cyclic or none");
        lists[1][i] = is(kind, "block")    ? MPI_DISTRIBUTE_BLOCK
                      : is(kind, "cyclic") ? MPI_DISTRIBUTE_CYCLIC
                                           : MPI_DISTRIBUTE_NONE;
        struct token argument = next_token();
        lists[2][i] = is(argument, "-") ? MPI_DISTRIBUTE_DFLT_DARG
                                        : (int)to_integer(argument, INT_MIN, INT_MAX);
    }
}

static int read_order(void) {
    struct token order = next_token();
    if (!is(order, "c") && !is(order, "fortran"))
        bad_token(order, "c or fortran");
    return is(order, "c") ? MPI_ORDER_C : MPI_ORDER_FORTRAN;
}

/* --- Types ---------------------------------------------------------------------------- */

/* Frees a type, unless it is none or one of MPI's own. */
static void free_type(MPI_Datatype type) {
    int integers, bytes, types, combiner;
    if (type != MPI_DATATYPE_NULL &&
        MPI_Type_get_envelope(type, &integers, &bytes, &types, &combiner) == MPI_SUCCESS &&
        combiner != MPI_COMBINER_NAMED)
        MPI_Type_free(&type);
}

static void pop(size_t count) {
    while (count-- > 0)
        free_type(stack[--depth]);
}

/* The first of the topmost types that a constructor takes. */
static MPI_Datatype *children(struct token token, size_t count) {
    if (depth < count)
        fail("%.*s takes %zu types, but the stack has %zu", (int)token.length, token.text, count,
             depth);
    return stack + depth - count;
}

static bool is_element(struct token token, MPI_Datatype *type) {
    const struct {
        const char *name;
        MPI_Datatype type;
    } elements[] = {
        {"i8", MPI_INT8_T},    {"i16", MPI_INT16_T},  {"i32", MPI_INT32_T}, {"i64", MPI_INT64_T},
        {"u8", MPI_UINT8_T},   {"u16", MPI_UINT16_T}, {"u32", MPI_UINT32_T},
        {"u64", MPI_UINT64_T}, {"f32", MPI_FLOAT},    {"f64", MPI_DOUBLE},  {"char", MPI_CHAR},
        {"byte", MPI_BYTE},
    };
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++)
        if (is(token, elements[i].name)) {
            *type = elements[i].type;
            return true;
        }
    return false;
}

/* One token of the postfix program: an element, or a constructor, whose arguments are the
 * tokens after it and whose child (struct: whose N children, the first pushed first) it takes
 * from the stack. */
static void build_step(struct token token) {
    if (depth == stack_room) {
        size_t room = stack_room ? 2 * stack_room : 16;
        stack = reallocate(stack, room, sizeof *stack);
        stack_room = room;
    }
    MPI_Datatype made;
    if (is_element(token, &made)) {
        stack[depth++] = made;
        return;
    }

    int code, taken = 1;
    if (is(token, "struct")) { /* N (LEN DISPL)*N */
        taken = read_blocks(false, true);
        const MPI_Datatype *fields = children(token, (size_t)taken);
        code = MPI_Type_create_struct(taken, lists[0], addresses, fields, &made);
    } else if (is(token, "contiguous")) { /* COUNT */
        int count = read_int();
        code = MPI_Type_contiguous(count, *children(token, 1), &made);
    } else if (is(token, "vector")) { /* COUNT BLOCKLEN STRIDE */
        int count = read_int(), length = read_int(), stride = read_int();
        code = MPI_Type_vector(count, length, stride, *children(token, 1), &made);
    } else if (is(token, "hvector")) { /* COUNT BLOCKLEN STRIDEBYTES */
        int count = read_int(), length = read_int();
        MPI_Aint stride = read_address();
        code = MPI_Type_create_hvector(count, length, stride, *children(token, 1), &made);
    } else if (is(token, "indexed")) { /* N (LEN DISPL)*N */
        int n = read_blocks(false, false);
        code = MPI_Type_indexed(n, lists[0], lists[1], *children(token, 1), &made);
    } else if (is(token, "hindexed")) { /* N (LEN DISPL)*N */
        int n = read_blocks(false, true);
        code = MPI_Type_create_hindexed(n, lists[0], addresses, *children(token, 1), &made);
    } else if (is(token, "indexed_block")) { /* N LEN DISPL*N */
        int n = read_blocks(true, false), length = lists[0][0];
        code = MPI_Type_create_indexed_block(n, length, lists[1], *children(token, 1), &made);
    } else if (is(token, "hindexed_block")) { /* N LEN DISPL*N */
        int n = read_blocks(true, true), length = lists[0][0];
        code = MPI_Type_create_hindexed_block(n, length, addresses, *children(token, 1), &made);
    } else if (is(token, "subarray")) { /* NDIMS sizes... subsizes... starts... ORDER */
        int n = read_list_length();
        for (int i = 0; i < 3; i++)
            read_list(lists[i], n);
        int order = read_order();
        code = MPI_Type_create_subarray(n, lists[0], lists[1], lists[2], order,
                                        *children(token, 1), &made);
    } else if (is(token, "darray")) { /* SIZE RANK NDIMS gsizes... (dist darg)... psizes... ORDER */
        int processes = read_int(), rank = read_int(), n = read_list_length();
        read_list(lists[0], n);
        read_distributions(n);
        read_list(lists[3], n);
        int order = read_order();
        code = MPI_Type_create_darray(processes, rank, n, lists[0], lists[1], lists[2], lists[3],
                                      order, *children(token, 1), &made);
    } else if (is(token, "resized")) { /* LB EXTENT */
        MPI_Aint low = read_address(), bytes = read_address();
        code = MPI_Type_create_resized(*children(token, 1), low, bytes, &made);
    } else if (is(token, "dup")) {
        code = MPI_Type_dup(*children(token, 1), &made);
    } else {
        bad_token(token, "an element or a constructor");
    }
    check(code);
    pop((size_t)taken); /* what was made of them outlives them */
    stack[depth++] = made;
}

/* --- Requests ------------------------------------------------------------------------- */

static void free_buffers(void) {
    free(memory.bytes);
    free(packed.bytes);
    memory.bytes = packed.bytes = NULL;
}

static void free_current(void) {
    free_buffers(); /* they fit this type only */
    free_type(current);
    current = MPI_DATATYPE_NULL;
}

static void request_type(void) {
    free_current();
    for (struct token token = next_token(); token.length; token = next_token())
        build_step(token);
    if (depth != 1)
        fail("the program leaves %zu types on the stack", depth);
    check(MPI_Type_commit(&stack[0]));
    check(MPI_Type_size_x(stack[0], &size));
    check(MPI_Type_get_extent(stack[0], &lb, &extent));
    check(MPI_Type_get_true_extent(stack[0], &true_lb, &true_extent));
    current = stack[--depth];
    fprintf(answers, "ok %lld %lld %lld %lld %lld\n", (long long)size, (long long)lb,
            (long long)extent, (long long)true_lb, (long long)true_extent);
}

static void fill(struct buffer *buffer) {
    for (size_t i = 0; i < buffer->length; i++)
        buffer->bytes[i] =
            (unsigned char)(i * buffer->low + (i >> 8) * buffer->high + buffer->shift);
}

/* Allocates a buffer of huge pages, where the system has them, and writes it, so that its pages
 * are there. With small pages a copy depends more on which ones it was given than on its engine. */
static void allocate(struct buffer *buffer, size_t length) {
    const size_t huge_page = (size_t)2 << 20;
    const size_t rounded = (length / huge_page + 1) * huge_page;
    void *bytes;
    if (posix_memalign(&bytes, huge_page, rounded))
        fail("out of memory");
    madvise(bytes, rounded, MADV_HUGEPAGE);
    buffer->bytes = bytes;
    buffer->length = length;
    fill(buffer);
}

/* The memory spans the true extents of all copies and displacement 0, so that the origin is
 * within it (or at its end) whatever the displacements. No data take no memory. */
static void request_buffers(void) {
    free_buffers();
    if (current == MPI_DATATYPE_NULL)
        fail("no current type");
    copies = (int)to_integer(next_token(), 0, INT_MAX);
    read_end();
    __int128 low = 0, high = 0, total = (__int128)copies * size;
    if (total > 0) {
        __int128 first = true_lb, last = first + (__int128)(copies - 1) * extent;
        const __int128 bounds[] = {first, first + true_extent, last, last + true_extent};
        for (int i = 0; i < 4; i++) {
            low = bounds[i] < low ? bounds[i] : low;
            high = bounds[i] > high ? bounds[i] : high;
        }
    }
    if (total > PTRDIFF_MAX || high - low > PTRDIFF_MAX)
        fail("the buffers are too large");
    origin = (size_t)-low;
    allocate(&packed, (size_t)total);
    memset(packed.bytes, 0, packed.length);
    allocate(&memory, (size_t)(high - low)); /* the last, since it says that both exist */
    fprintf(answers, "ok %zu %zu %zu\n", memory.length, origin, packed.length);
}

static void request_time(void) {
    struct token way = next_token();
    if (!is(way, "pack") && !is(way, "unpack"))
        bad_token(way, "pack or unpack");
    int64_t repetitions = to_integer(next_token(), 0, INT64_MAX);
    read_end();
    if (!memory.bytes)
        fail("no buffers");
    if (packed.length > INT_MAX)
        fail("%zu packed bytes do not fit int", packed.length);

    void *data = packed.bytes, *first = memory.bytes + origin;
    int bytes = (int)packed.length, position = bytes, code = MPI_SUCCESS;
    bool packing = is(way, "pack");
    struct timespec start, stop;
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int64_t i = 0; i < repetitions && code == MPI_SUCCESS; i++) {
        position = 0;
        code = packing
                   ? MPI_Pack(first, copies, current, data, bytes, &position, MPI_COMM_SELF)
                   : MPI_Unpack(data, bytes, &position, first, copies, current, MPI_COMM_SELF);
    }
    clock_gettime(CLOCK_MONOTONIC, &stop);
    check(code);
    if (position != bytes)
        fail("the position is %d after %d bytes", position, bytes);
    long long seconds = stop.tv_sec - start.tv_sec, rest = stop.tv_nsec - start.tv_nsec;
    fprintf(answers, "ok %lld\n", seconds * 1000000000 + rest);
}

/* The requests hash, fill and zero. */
static void request_buffer(struct token request) {
    struct token which = next_token();
    if (!is(which, "memory") && !is(which, "packed"))
        bad_token(which, "memory or packed");
    read_end();
    if (!memory.bytes)
        fail("no buffers");
    struct buffer *buffer = is(which, "memory") ? &memory : &packed;
    if (is(request, "hash")) {
        uint64_t hash = UINT64_C(0xcbf29ce484222325);
        for (size_t i = 0; i < buffer->length; i++)
            hash = (hash ^ buffer->bytes[i]) * UINT64_C(0x100000001b3);
        fprintf(answers, "ok %016" PRIx64 "\n", hash);
        return;
    }
    if (is(request, "zero"))
        memset(buffer->bytes, 0, buffer->length);
    else
        fill(buffer);
    fputs("ok\n", answers);
}

static void request_version(void) {
    read_end();
    char text[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
    int length;
    check(MPI_Get_library_version(text, &length));
    for (char *tab = text; (tab = strchr(tab, '\t'));) /* MPICH's separator */
        *tab = ' ';
    fprintf(answers, "ok %.*s\n", (int)strcspn(text, "\n"), text);
}

/* Answers the request at the cursor. */
static void serve(void) {
    if (setjmp(request_start) == 0) {
        struct token request = next_token();
        if (is(request, "type"))
            request_type();
        else if (is(request, "buffers"))
            request_buffers();
        else if (is(request, "time"))
            request_time();
        else if (is(request, "hash") || is(request, "fill") || is(request, "zero"))
            request_buffer(request);
        else if (is(request, "version"))
            request_version();
        else
            fail("unknown request");
    }
    pop(depth);
}

int main(int argc, char **argv) {
    /* The protocol moves to descriptors of its own, which no child inherits: what the library
     * prints goes to stderr, and a daemon that it may start neither reads requests nor holds
     * the parent's pipes open. */
    int in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    FILE *requests = fdopen(in, "r");
    answers = fdopen(out, "w");
    if (!requests || !answers || dup2(null, STDIN_FILENO) < 0 ||
        dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        perror("mpi_peer");
        return 1;
    }

    /* Open MPI 4 must not start a daemon for a singleton, which it starts by way of PATH. */
    setenv("OMPI_MCA_ess_singleton_isolated", "1", 0);
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);

    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    while ((length = getline(&line, &room, requests)) >= 0) {
        if (length > 0 && line[length - 1] == '\n')
            line[--length] = '\0';
        cursor = line;
        line_end = line + length;
        serve();
        if (fflush(answers))
            break; /* the parent is gone */
    }
    free_current();
    MPI_Finalize();
    return 0;
}
