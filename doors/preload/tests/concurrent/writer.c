/* One of several processes that use files together. `obey` does what it is told, line by line, and answers; `free`
 * writes on its own, beside others. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOTS 6
#define ROOM 20000

static int slots[SLOTS];
static unsigned char bytes[ROOM];

static void fill(unsigned seed, size_t length) {
    for (size_t i = 0; i < length; i++)
        bytes[i] = (unsigned char)((seed = seed * 1103515245u + 12345u) >> 16);
}

static unsigned hash(size_t length) {
    unsigned value = 2166136261u;
    for (size_t i = 0; i < length; i++)
        value = (value ^ bytes[i]) * 16777619u;
    return value;
}

static const int flags[] = {
    O_RDWR | O_CREAT,
    O_RDWR | O_CREAT | O_TRUNC,
    O_WRONLY | O_CREAT | O_APPEND,
    O_RDONLY,
    O_RDWR,
    O_RDWR | O_CREAT | O_EXCL,
    O_WRONLY | O_TRUNC,
};

static void say(long long value) {
    if (value < 0)
        printf("%lld %s", value, strerrorname_np(errno));
    else
        printf("%lld", value);
}

static void tell_stat(int result, const struct stat *found) {
    say(result);
    if (result)
        return;
    printf(" size %lld links %u mode %o is", (long long)found->st_size, (unsigned)found->st_nlink, found->st_mode);
    for (int slot = 0; slot < SLOTS; slot++) {
        struct stat own;
        if (slots[slot] >= 0 && fstat(slots[slot], &own) == 0 && own.st_ino == found->st_ino && own.st_dev == found->st_dev)
            printf(" %d", slot);
    }
}

static ssize_t put(int fd, long long at, size_t length, unsigned seed) {
    fill(seed, length);
    return at < 0 ? write(fd, bytes, length) : pwrite(fd, bytes, length, at);
}

static void map(int fd, long long at, unsigned seed) {
    struct stat found;
    if (fstat(fd, &found) || at >= found.st_size) {
        printf("no");
        return;
    }
    unsigned char *memory = mmap(NULL, (size_t)found.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        say(-1);
        return;
    }
    memory[at] = (unsigned char)seed;
    say(munmap(memory, (size_t)found.st_size));
}

static void in_child(int fd, long long at, size_t length, unsigned seed) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        ssize_t done = put(fd, at, length, seed);
        struct stat found;
        _exit((int)(done < 0 ? 200 : fstat(fd, &found) ? 201 : found.st_size % 199));
    }
    int status = -1;
    waitpid(child, &status, 0);
    say(WEXITSTATUS(status));
}

static void one(const char *line) {
    char what = line[0], name[64] = "", other[64] = "";
    int slot = 0, number = 0;
    long long at = 0;
    unsigned length = 0, seed = 0;
    struct stat found;
    struct statx more;
    if (strchr("oswrtcfykMFea", what) && sscanf(line + 1, "%d %lld %u %u %63s", &slot, &at, &length, &seed, name) < 1)
        _exit(90);
    int fd = slots[slot];
    length %= ROOM;
    switch (what) {
    case 'o':
        if (fd >= 0)
            close(fd);
        slots[slot] = open(name, flags[length % 7], 0644);
        say(slots[slot] < 0 ? -1 : 0);
        break;
    case 'w': say(put(fd, at, length, seed)); break;
    case 'r': {
        memset(bytes, 0, sizeof bytes);
        ssize_t count = pread(fd, bytes, length, at);
        say(count);
        printf(" %u", hash(count < 0 ? 0 : (size_t)count));
        break;
    }
    case 't': say(ftruncate(fd, at)); break;
    case 'c': say(fd < 0 ? -2 : close(fd)); slots[slot] = -1; break;
    case 'f': tell_stat(fstat(fd, &found), &found); break;
    case 'y': say(fsync(fd)); break;
    case 'k': say(flock(fd, (seed % 3 == 0 ? LOCK_EX : seed % 3 == 1 ? LOCK_SH : LOCK_UN) | LOCK_NB)); break;
    case 'e': say(lseek(fd, at % 3 ? 0 : at, at % 3 == 1 ? SEEK_END : SEEK_CUR)); break;
    case 'M': map(fd, at, seed); break;
    case 'F': in_child(fd, at, length, seed); break;
    case 'a': {
        struct flock wanted = {.l_type = seed % 2 ? F_WRLCK : F_UNLCK, .l_whence = SEEK_SET, .l_start = at % 4, .l_len = at % 2 ? 0 : 1};
        say(fcntl(fd, F_SETLK, &wanted));
        break;
    }
    case 'S': sscanf(line + 1, "%d %63s", &number, name);
        if (number % 2)
            tell_stat(number % 4 == 1 ? stat(name, &found) : lstat(name, &found), &found);
        else {
            int result = statx(AT_FDCWD, name, 0, STATX_BASIC_STATS, &more);
            say(result);
            if (result == 0)
                printf(" size %lld links %u", (long long)more.stx_size, more.stx_nlink);
        }
        break;
    case 'T': sscanf(line + 1, "%lld %63s", &at, name); say(truncate(name, at)); break;
    case 'u': sscanf(line + 1, "%63s", name); say(unlink(name)); break;
    case 'n': sscanf(line + 1, "%63s %63s", name, other); say(rename(name, other)); break;
    case 'l': sscanf(line + 1, "%63s %63s", name, other); say(link(name, other)); break;
    case 'm': sscanf(line + 1, "%d %63s", &number, name); say(chmod(name, number % 2 ? 0600 : 0644)); break;
    default: _exit(91);
    }
    printf("\n");
    fflush(stdout);
}

/* Blocks of common files, records at the end of one, and a counter that a file guards. */
#define BLOCK 1000

static void must(int is_so, const char *what) {
    if (!is_so) {
        fprintf(stderr, "%s: %s\n", what, strerror(errno));
        _exit(80);
    }
}

static void count_one(void) {
    char text[32] = "";
    int guard;
    while ((guard = open("guard", O_WRONLY | O_CREAT | O_EXCL, 0644)) < 0) {
        must(errno == EEXIST, "guard");
        usleep(100);
    }
    close(guard);
    int fd = open("counter", O_RDWR | O_CREAT, 0644);
    must(fd >= 0 && read(fd, text, sizeof text - 1) >= 0, "counter");
    snprintf(text, sizeof text, "%d", atoi(text) + 1);
    must(ftruncate(fd, 0) == 0 && pwrite(fd, text, strlen(text), 0) == (ssize_t)strlen(text), "count");
    must(close(fd) == 0 && unlink("guard") == 0, "unguard");
}

static void go(int own, int all, int rounds, int counts) {
    char name[64], final[64];
    for (int round = 0; round < rounds; round++) {
        unsigned seed = (unsigned)(own * 7919 + round);
        snprintf(name, sizeof name, "common%d", round % 3);
        int fd = open(name, O_RDWR | O_CREAT, 0644);
        must(fd >= 0, name);
        fill(seed, BLOCK);
        must(pwrite(fd, bytes, BLOCK, (off_t)(round / 3 * all + own) * BLOCK) == BLOCK, "block");
        must(close(fd) == 0, "close");
        fd = open("records", O_WRONLY | O_CREAT | O_APPEND, 0644);
        must(fd >= 0 && dprintf(fd, "%04d %08d\n", own, round) == 14 && close(fd) == 0, "record");
        snprintf(name, sizeof name, "new%d", own);
        snprintf(final, sizeof final, "last%d", round % 2);
        fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
        fill(seed, BLOCK);
        must(fd >= 0 && write(fd, bytes, BLOCK) == BLOCK && close(fd) == 0 && rename(name, final) == 0, "new");
        if (counts)
            count_one();
        printf("%d\n", round);
        fflush(stdout);
    }
}

/* Changes files that are there, in ways that bring them back differently. */
static void change(void) {
    int fd = open("large", O_RDWR);
    fill(1, BLOCK);
    must(fd >= 0 && pwrite(fd, bytes, BLOCK, 100000) == BLOCK && close(fd) == 0, "large");
    fd = open("grows", O_WRONLY | O_APPEND);
    must(fd >= 0 && write(fd, bytes, BLOCK) == BLOCK && close(fd) == 0, "grows");
    /* Two names: the inode stays. */
    fd = open("twice", O_RDWR);
    must(fd >= 0 && pwrite(fd, bytes, BLOCK, 100000) == BLOCK && close(fd) == 0, "twice");
    /* Goes back while it is open. */
    fd = open("locked", O_RDWR);
    struct flock wanted = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    must(fd >= 0 && pwrite(fd, bytes, BLOCK, 100000) == BLOCK && fcntl(fd, F_SETLK, &wanted) == 0, "locked");
    must(close(fd) == 0, "close");
    printf("done\n");
}

int main(int count, char **words) {
    static char line[512];
    for (int slot = 0; slot < SLOTS; slot++)
        slots[slot] = -1;
    if (count == 6 && !strcmp(words[1], "free")) {
        go(atoi(words[2]), atoi(words[3]), atoi(words[4]), atoi(words[5]));
        return 0;
    }
    if (count == 2 && !strcmp(words[1], "change")) {
        change();
        return 0;
    }
    while (fgets(line, sizeof line, stdin))
        one(line);
    return 0;
}
