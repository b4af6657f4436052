/* Writes to a file of I/O servers through a mount until a file `stop` is in PLACE: lost FILE PLACE gone|back.
   `gone`: ends at the first error, which must be EIO. `back`: no call may fail, and the file has all that was written. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BLOCK (1 << 20)
#define BLOCKS 8

static char bytes[BLOCK], expected[BLOCK];

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static void put(const char *place, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", place, name);
    int fd = open(path, O_WRONLY | O_CREAT, 0644);
    if (fd < 0 || close(fd))
        fail(path);
}

int main(int count, char **words)
{
    if (count != 4)
        return 2;
    char stop[4096];
    snprintf(stop, sizeof stop, "%s/stop", words[2]);
    int may_fail = !strcmp(words[3], "gone");
    int fd = open(words[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0)
        fail("open");
    unsigned round = 0;
    for (; access(stop, F_OK); round++) {
        memset(bytes, 'a' + round % 26, BLOCK);
        ssize_t written = pwrite(fd, bytes, BLOCK, (off_t)(round % BLOCKS) * BLOCK);
        /* The connection may be lost between the requests that the kernel makes of a write: the next one fails. */
        if (may_fail && written > 0 && written < BLOCK)
            continue;
        if (written != BLOCK) {
            if (!may_fail || errno != EIO)
                fail("pwrite");
            put(words[2], "failed");
            close(fd);
            return 0;
        }
        if (round == 0)
            put(words[2], "ready");
    }
    if (may_fail)
        return 3;
    for (unsigned back = 1; back <= BLOCKS && back <= round; back++) {
        memset(expected, 'a' + (round - back) % 26, BLOCK);
        if (pread(fd, bytes, BLOCK, (off_t)((round - back) % BLOCKS) * BLOCK) != BLOCK)
            fail("pread");
        if (memcmp(bytes, expected, BLOCK)) {
            fprintf(stderr, "block %u of %u is not what was written\n", round - back, round);
            return 4;
        }
    }
    if (fsync(fd) || close(fd))
        fail("close");
    return 0;
}
