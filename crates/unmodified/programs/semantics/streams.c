/* Steps on streams. Each has its own file, which no other step opens while it exists: how much a stream
 * reads or buffers at once is not compared. */
#include "actor.h"

#define STREAMS 3
static FILE *streams[STREAMS];
/* What was done last: between reading and writing there is a seek. */
static enum { NOTHING, READ, WRITTEN } last[STREAMS];
/* Names of its own for every process that may be there at the same time. */
static char files[STREAMS][32];
static int named_for = -1;

static void name_files(void) {
    static const char *const forms[STREAMS] = {"s%d", "t%d", "d/u%d"};
    if (named_for == depth)
        return;
    for (int which = 0; which < STREAMS; which++) {
        snprintf(files[which], sizeof files[which], forms[which], depth);
        /* Streams of the parent are left to it. */
        streams[which] = NULL;
    }
    named_for = depth;
}

static void open_stream(int which) {
    static const char *const modes[] = {"r", "r+", "w", "w+", "a", "a+", "wx", "we", "r+b", "w+e", "a+"};
    const char *mode = modes[below(sizeof modes / sizeof *modes)];
    tell("fopen %d %s", which, mode);
    before_call();
    streams[which] = fopen(files[which], mode);
    tell(streams[which] ? " = 0\n" : " = %s\n", strerrorname_np(errno));
    last[which] = NOTHING;
    if (streams[which] && seldom(6))
        tell("  setvbuf = %d\n", setvbuf(streams[which], NULL, seldom(2) ? _IONBF : _IOFBF, 1 + below(3000)));
}

static void seek_stream(int which) {
    static const int whences[] = {SEEK_SET, SEEK_CUR, SEEK_END};
    int whence = (int)below(3);
    long offset = (long)some_offset() - (whence == 0 ? 0 : whence == 1 ? 2000 : 30000);
    tell("fseek %d, %ld %d = %d", which, offset, whence, fseek(streams[which], offset, whences[whence]));
    tell(" at %ld\n", ftell(streams[which]));
    last[which] = NOTHING;
}

static void write_stream(int which) {
    FILE *stream = streams[which];
    size_t length = some_length();
    if (last[which] == READ)
        seek_stream(which);
    last[which] = WRITTEN;
    fill_out(length);
    switch (below(5)) {
    case 0: case 1: tell("fwrite %d, %zu = %zu\n", which, length, fwrite(bytes_out, 1, length, stream)); break;
    case 2: tell("fprintf %d = %d\n", which, fprintf(stream, "%u and %s\n", below(1000), "some text")); break;
    case 3: tell("fputs %d = %d\n", which, fputs("a line\n", stream) >= 0); break;
    default: tell("fputc %d = %d\n", which, fputc((int)below(256), stream)); break;
    }
}

static void read_stream(int which) {
    FILE *stream = streams[which];
    size_t length = some_length(), got;
    if (last[which] == WRITTEN)
        seek_stream(which);
    last[which] = READ;
    fill_in();
    switch (below(5)) {
    case 0: case 1:
        got = fread(bytes_in, 1, length, stream);
        tell("fread %d, %zu = %zu %016llx\n", which, length, got, (unsigned long long)hash(bytes_in, got));
        break;
    case 2: {
        char *line = NULL;
        size_t room = 0;
        ssize_t length = getline(&line, &room, stream);
        tell("getline %d = %zd %016llx\n", which, length,
             (unsigned long long)hash(line, length > 0 ? (size_t)length : 0));
        free(line);
        break;
    }
    case 3: {
        int byte = fgetc(stream);
        tell("fgetc %d = %d", which, byte);
        if (byte >= 0 && seldom(2))
            tell(" back %d again %d", ungetc(byte, stream) == byte, fgetc(stream) == byte);
        tell("\n");
        break;
    }
    default: {
        int a = -1, b = -1, count = fscanf(stream, "%d and %d", &a, &b);
        tell("fscanf %d = %d %d %d\n", which, count, a, b);
        break;
    }
    }
}

/* What others would see of it, once it is written out. */
static void look(int which) {
    struct stat stat = {0};
    tell("fflush %d = %d", which, fflush(streams[which]));
    before_call();
    int fd = fileno(streams[which]);
    int result = fstat(fd, &stat);
    told(result);
    tell(" size %lld", (long long)stat.st_size);
    before_call();
    told(fsync(fd));
    int other = open(files[which], O_RDONLY);
    fill_in();
    ssize_t got = other < 0 ? -2 : pread(other, bytes_in, ROOM, 0);
    tell(" read %zd %016llx\n", got, (unsigned long long)hash(bytes_in, ROOM));
    if (other >= 0)
        close(other);
}

static void close_stream(int which) {
    tell("fclose %d", which);
    before_call();
    tell(" = %d\n", fclose(streams[which]));
    streams[which] = NULL;
}

void stream_step(void) {
    int which = (int)below(STREAMS);
    name_files();
    if (!streams[which])
        return open_stream(which);
    switch (below(14)) {
    case 0: close_stream(which); break;
    case 1: look(which); break;
    case 2: case 3: seek_stream(which); break;
    case 4:
        tell("feof %d = %d, ferror = %d, ftell = %ld\n", which, !!feof(streams[which]),
             !!ferror(streams[which]), ftell(streams[which]));
        clearerr(streams[which]);
        break;
    case 5:
        rewind(streams[which]);
        last[which] = NOTHING;
        tell("rewind %d\n", which);
        break;
    case 6: {
        static const char *const modes[] = {"r", "w+", "a+", "r+"};
        const char *mode = modes[below(4)];
        tell("freopen %d %s", which, mode);
        streams[which] = freopen(files[which], mode, streams[which]);
        tell(streams[which] ? " = 0\n" : " = -1\n");
        last[which] = NOTHING;
        break;
    }
    case 7: {
        /* A stream of a descriptor that is there. */
        int slot = some_slot(), fd = slots[slot] < 0 ? -1 : dup(slots[slot]);
        FILE *stream = fd < 0 ? NULL : fdopen(fd, "r");
        size_t got = 0;
        fill_in();
        if (stream) {
            got = fread(bytes_in, 1, 1000, stream);
            fclose(stream);
        } else if (fd >= 0) {
            close(fd);
        }
        tell("fdopen %d: %d, %zu %016llx\n", slot, stream != NULL, got,
             (unsigned long long)hash(bytes_in, got));
        break;
    }
    case 8: case 9: case 10: read_stream(which); break;
    default: write_stream(which); break;
    }
}

void close_streams(void) {
    name_files();
    for (int which = 0; which < STREAMS; which++)
        if (streams[which])
            close_stream(which);
}

/* Before the process is copied: what a stream keeps would be written twice. */
void flush_streams(void) {
    name_files();
    for (int which = 0; which < STREAMS; which++)
        if (streams[which]) {
            fflush(streams[which]);
            if (last[which] == READ)
                fseek(streams[which], 0, SEEK_CUR);
            last[which] = NOTHING;
        }
}
