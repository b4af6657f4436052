/* Writes until it is killed, and tells before and after each step what is done. What it tells goes to its
 * standard output by one call, so it is there if the call was made.
 *
 *   writer bytes SEED FILE       "w G OFFSET LENGTH": about to write; "s G": all up to G is synced or closed
 *   writer append SEED FILE      the same, at the end
 *   writer files SEED DIRECTORY  "b G NAME LENGTH": about to make a file; "c G NAME": it is closed;
 *                                "m G FROM TO": about to rename; "n G FROM TO": renamed
 *
 * The byte at `i` of what step G wrote is `value(G, i)`; of a file in "bytes", `i` is the place in the file.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SPAN (1 << 18)
#define LONGEST 20000
#define NAMES 40

static uint64_t state;
static unsigned char buffer[LONGEST];

static uint64_t mixed(uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static unsigned below(unsigned limit) {
    state += 0x9e3779b97f4a7c15u;
    return (unsigned)((mixed(state) >> 32) * limit >> 32);
}

static unsigned char value(uint64_t generation, uint64_t i) { return (unsigned char)mixed(generation << 32 | i); }

static void tell(const char *line) {
    if (write(1, line, strlen(line)) != (ssize_t)strlen(line))
        _exit(9);
}

static void fill(uint64_t generation, uint64_t first, size_t length) {
    for (size_t i = 0; i < length; i++)
        buffer[i] = value(generation, first + i);
}

static void write_bytes(const char *path, int append) {
    int flags = O_RDWR | O_CREAT | (append ? O_APPEND : 0);
    int fd = open(path, flags, 0644);
    uint64_t end = 0;
    char line[128];
    for (uint64_t generation = 1;; generation++) {
        size_t length = 1 + (below(4) ? below(900) : below(LONGEST - 1));
        uint64_t offset = append ? end : below(SPAN - LONGEST);
        fill(generation, offset, length);
        snprintf(line, sizeof line, "w %lu %lu %zu\n", generation, offset, length);
        tell(line);
        ssize_t done = append ? write(fd, buffer, length) : pwrite(fd, buffer, length, (off_t)offset);
        if (done != (ssize_t)length)
            _exit(8);
        end += length;
        int how = (int)below(24);
        if (how < 3) {
            if (how == 0 ? fsync(fd) : how == 1 ? fdatasync(fd) : close(fd))
                _exit(7);
            if (how == 2)
                fd = open(path, flags, 0644);
            snprintf(line, sizeof line, "s %lu\n", generation);
            tell(line);
        }
    }
}

static void write_files(const char *directory) {
    char line[256], path[512], other[512];
    for (uint64_t generation = 1;; generation++) {
        unsigned name = below(NAMES);
        size_t length = below(4) ? below(900) : below(LONGEST);
        fill(generation, 0, length);
        snprintf(path, sizeof path, "%s/f%u", directory, name);
        snprintf(line, sizeof line, "b %lu f%u %zu\n", generation, name, length);
        tell(line);
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        size_t first = length ? below((unsigned)length) : 0;
        if (fd < 0 || write(fd, buffer, first) != (ssize_t)first ||
            write(fd, buffer + first, length - first) != (ssize_t)(length - first) || close(fd))
            _exit(6);
        snprintf(line, sizeof line, "c %lu f%u\n", generation, name);
        tell(line);
        if (below(8) == 0) {
            unsigned to = below(NAMES);
            snprintf(other, sizeof other, "%s/g%u", directory, to);
            snprintf(line, sizeof line, "m %lu f%u g%u\n", generation, name, to);
            tell(line);
            if (rename(path, other))
                _exit(5);
            line[0] = 'n';
            tell(line);
        }
    }
}

int main(int count, char **words) {
    if (count != 4)
        return 2;
    state = strtoull(words[2], NULL, 10);
    if (!strcmp(words[1], "files"))
        write_files(words[3]);
    else
        write_bytes(words[3], !strcmp(words[1], "append"));
}
