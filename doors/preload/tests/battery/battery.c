/* The battery: one case for each family of POSIX and Linux calls on files. Every case works in a directory of its own, and
 * prints every answer: what a call returns, and errno if it fails. What is printed and what is left must not depend on
 * whether stages are there.
 *
 * Without an argument all cases are run, with arguments those that they name. Nothing is printed that differs from run to
 * run by itself: descriptors, inodes, processes, times. */
#include "../programs/say.h"
#include <dirent.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>

extern char **environ;

static const char *self;

/* Opens a file and says whether that worked, not which number it got. */
static int opened(const char *what, int file)
{
    printf("%s: %s\n", what, file >= 0 ? "open" : strerror(errno));
    return file;
}
#define OPEN(...) opened("open(" #__VA_ARGS__ ")", open(__VA_ARGS__))
#define OPENAT(...) opened("openat(" #__VA_ARGS__ ")", openat(__VA_ARGS__))

static void told(const char *name)
{
    struct stat st;
    errno = 0;
    if (stat(name, &st) < 0)
        printf("stat %s: %s\n", name, strerror(errno));
    else
        printf("stat %s: %lld bytes, mode %o, %d links\n", name, (long long)st.st_size,
               (unsigned)st.st_mode, (int)st.st_nlink);
}

static void told_open(int file)
{
    struct stat st;
    errno = 0;
    if (fstat(file, &st) < 0)
        printf("fstat: %s\n", strerror(errno));
    else
        printf("fstat: %lld bytes, mode %o, %d links, at %lld\n", (long long)st.st_size,
               (unsigned)st.st_mode, (int)st.st_nlink, (long long)lseek(file, 0, SEEK_CUR));
}

static void fill(char *bytes, size_t count, char first)
{
    for (size_t place = 0; place < count; place++)
        bytes[place] = (char)(first + place % 23);
}

static uint64_t sum(const char *bytes, size_t count)
{
    uint64_t sum = 14695981039346656037u;
    for (size_t place = 0; place < count; place++)
        sum = (sum ^ (unsigned char)bytes[place]) * 1099511628211u;
    return sum;
}

static void told_sum(const char *name)
{
    static char bytes[1 << 20];
    int file = open(name, O_RDONLY);
    ssize_t count = file < 0 ? -1 : read(file, bytes, sizeof bytes);
    printf("%s: %zd bytes, sum %llx\n", name, count,
           count < 0 ? 0 : (unsigned long long)sum(bytes, (size_t)count));
    if (file >= 0)
        close(file);
}

static void ended(int child)
{
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status))
        printf("child: signal %d\n", WTERMSIG(status));
    else
        printf("child: status %d\n", WEXITSTATUS(status));
    fflush(stdout);
}

static void maps(void)
{
    char bytes[8192];
    fill(bytes, sizeof bytes, 'a');
    int file = OPEN("m", O_RDWR | O_CREAT | O_TRUNC, 0644);
    SAY(write(file, bytes, sizeof bytes));
    char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    printf("map: %d %.5s\n", map != MAP_FAILED, map);
    memcpy(map + 100, "MAPPED", 6);
    char back[16] = "";
    SAY(pread(file, back, 6, 100));
    printf("%s\n", back);
    SAY(pwrite(file, "written", 7, 200));
    printf("%.7s\n", map + 200);
    SAY(msync(map, 8192, MS_SYNC));
    SAY(ftruncate(file, 16384));
    map = mremap(map, 8192, 16384, MREMAP_MAYMOVE);
    map[12000] = 'Z';
    SAY(close(file));
    map[12001] = 'Y';
    told("m");
    file = OPEN("m", O_RDONLY);
    SAY(pread(file, back, 2, 12000));
    printf("%.2s\n", back);
    SAY((long)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    char *own = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    own[0] = '!';
    SAY(pread(file, back, 1, 0));
    printf("%c %c\n", back[0], own[0]);
    SAY(close(file));
    map[0] = 'M';
    SAY(munmap(map, 16384));
    SAY((long)mmap(NULL, 0, PROT_READ, MAP_PRIVATE, 99, 0));
    file = OPEN("small", O_RDWR | O_CREAT | O_EXCL, 0600);
    SAY(write(file, "tiny", 4));
    map = mmap(NULL, 4, PROT_READ, MAP_SHARED, file, 0);
    printf("%.4s\n", map);
    SAY(pwrite(file, "TINY", 4, 0));
    printf("%.4s\n", map);
    SAY(close(file));
    told_sum("m");
    show("small");
}

static void splices(void)
{
    int ends[2];
    SAY(pipe(ends));
    int from = OPEN("from", O_RDWR | O_CREAT | O_TRUNC, 0644);
    SAY(write(from, "0123456789abcdef", 16));
    SAY(lseek(from, 4, SEEK_SET));
    SAY(splice(from, NULL, ends[1], NULL, 6, 0));
    told_open(from);
    off_t at = 12;
    SAY(splice(from, &at, ends[1], NULL, 100, 0));
    printf("at %lld\n", (long long)at);
    int to = OPEN("to", O_RDWR | O_CREAT | O_TRUNC, 0644);
    SAY(write(to, "head ", 5));
    SAY(splice(ends[0], NULL, to, NULL, 8, 0));
    SAY(write(to, " mid ", 5));
    at = 50;
    SAY(splice(ends[0], NULL, to, &at, 8, 0));
    told_open(to);
    SAY(splice(from, NULL, to, NULL, 4, 0));
    int appended = OPEN("to", O_WRONLY | O_APPEND);
    SAY(write(ends[1], "x", 1));
    SAY(splice(ends[0], NULL, appended, NULL, 1, 0));
    struct iovec part = {(void *)"vm", 2};
    SAY(vmsplice(ends[1], &part, 1, 0));
    SAY(splice(ends[0], NULL, to, NULL, 2, 0));
    show("to");
    close(from), close(to), close(appended), close(ends[0]), close(ends[1]);
}

static void sends(void)
{
    char bytes[5000];
    fill(bytes, sizeof bytes, 'A');
    int from = OPEN("from", O_RDWR | O_CREAT | O_TRUNC, 0644);
    int to = OPEN("to", O_RDWR | O_CREAT | O_TRUNC, 0644);
    SAY(write(from, bytes, sizeof bytes));
    SAY(sendfile(to, from, NULL, 100));
    SAY(lseek(from, 1000, SEEK_SET));
    SAY(sendfile(to, from, NULL, 100));
    off_t at = 3000;
    SAY(sendfile(to, from, &at, 5000));
    printf("at %lld\n", (long long)at);
    told_open(from), told_open(to);
    int reader = OPEN("from", O_RDONLY);
    SAY(sendfile(reader, to, NULL, 5));
    int appended = OPEN("to", O_WRONLY | O_APPEND);
    at = 0;
    SAY(sendfile(appended, from, &at, 5));
    int ends[2];
    SAY(pipe(ends));
    at = 10;
    SAY(sendfile(ends[1], from, &at, 20));
    char back[32] = "";
    SAY(read(ends[0], back, 32));
    printf("%s\n", back);
    SAY(sendfile(99, from, NULL, 1));
    close(from), close(to), close(appended), close(reader), close(ends[0]), close(ends[1]);
    told_sum("to");
}

static void copies(void)
{
    char bytes[9000];
    fill(bytes, sizeof bytes, 'a');
    int from = OPEN("from", O_RDWR | O_CREAT | O_TRUNC, 0644);
    int to = OPEN("to", O_RDWR | O_CREAT | O_TRUNC, 0644);
    SAY(write(from, bytes, sizeof bytes));
    off64_t in = 100, out = 7000;
    SAY(copy_file_range(from, &in, to, &out, 2000, 0));
    printf("%lld %lld\n", (long long)in, (long long)out);
    SAY(lseek(from, 0, SEEK_SET));
    SAY(copy_file_range(from, NULL, to, NULL, 10, 0));
    told_open(from), told_open(to);
    in = 0, out = 50;
    SAY(copy_file_range(from, &in, from, &out, 100, 0));
    out = 8900;
    SAY(copy_file_range(from, &in, from, &out, 200, 0));
    SAY(copy_file_range(from, &in, to, &out, 10, 1));
    int appended = OPEN("to", O_WRONLY | O_APPEND);
    SAY(copy_file_range(from, NULL, appended, NULL, 10, 0));
    int reader = OPEN("to", O_RDONLY);
    SAY(copy_file_range(from, NULL, reader, NULL, 10, 0));
    in = 100000;
    SAY(copy_file_range(from, &in, to, NULL, 10, 0));
    close(from), close(to), close(appended), close(reader);
    told_sum("from"), told_sum("to");
}

static void resolved(void)
{
    SAY(mkdir("d", 0755));
    SAY(symlink("f", "d/link"));
    int directory = OPEN("d", O_RDONLY | O_DIRECTORY);
    struct open_how how = {.flags = O_RDWR | O_CREAT, .mode = 0640, .resolve = RESOLVE_BENEATH};
    int file = opened("openat2 beneath", (int)syscall(SYS_openat2, directory, "f", &how, sizeof how));
    SAY(write(file, "beneath", 7));
    how.flags = O_RDONLY, how.mode = 0, how.resolve = RESOLVE_NO_SYMLINKS;
    int other = opened("openat2 link", (int)syscall(SYS_openat2, directory, "link", &how, sizeof how));
    how.resolve = RESOLVE_BENEATH;
    opened("openat2 above", (int)syscall(SYS_openat2, directory, "../d/f", &how, sizeof how));
    how.resolve = 0;
    other = opened("openat2 again", (int)syscall(SYS_openat2, directory, "f", &how, sizeof how));
    char back[8] = "";
    SAY(read(other, back, 7));
    printf("%s\n", back);
    how.flags = O_RDONLY | (1ull << 40);
    opened("openat2 flags", (int)syscall(SYS_openat2, directory, "f", &how, sizeof how));
    SAY(write(file, " more", 5));
    SAY(close(file));
    told("d/f");
    close(directory), close(other);
    show("d/f");
}

static void unnamed(void)
{
    char path[64];
    int file = OPEN(".", O_TMPFILE | O_RDWR, 0644);
    SAY(write(file, "unnamed", 7));
    told_open(file);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    SAY(linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
    told_open(file);
    SAY(write(file, " then named", 11));
    show("named");
    SAY(close(file));
    show("named");
    file = OPEN(".", O_TMPFILE | O_RDWR | O_EXCL, 0600);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    SAY(write(file, "x", 1));
    SAY(linkat(AT_FDCWD, path, AT_FDCWD, "excluded", AT_SYMLINK_FOLLOW));
    SAY(close(file));
    file = OPEN(".", O_TMPFILE | O_WRONLY, 0600);
    SAY(write(file, "empty path", 10));
    SAY(linkat(file, "", AT_FDCWD, "by empty path", AT_EMPTY_PATH));
    SAY(close(file));
    OPEN(".", O_TMPFILE | O_RDONLY, 0600);
    told("by empty path");
}

static void paths(void)
{
    int file = OPEN("f", O_RDWR | O_CREAT | O_EXCL, 0644);
    SAY(write(file, "before", 6));
    int path = OPEN("f", O_PATH);
    char back[16] = "", name[64];
    SAY(read(path, back, 6));
    SAY(write(path, back, 6));
    told_open(path);
    SAY(lseek(path, 0, SEEK_SET));
    SAY(fchmod(path, 0600));
    SAY(ftruncate(path, 1));
    struct stat st;
    SAY(fstatat(path, "", &st, AT_EMPTY_PATH));
    printf("%lld\n", (long long)st.st_size);
    SAY(write(file, " after", 6));
    SAY(fstatat(path, "", &st, AT_EMPTY_PATH));
    printf("%lld\n", (long long)st.st_size);
    snprintf(name, sizeof name, "/proc/self/fd/%d", path);
    int again = opened("open by O_PATH", open(name, O_RDWR));
    SAY(pread(again, back, 12, 0));
    printf("%s\n", back);
    SAY(write(again, "AGAIN", 5));
    SAY(close(again)); SAY(close(path)); SAY(close(file));
    SAY(mkdir("d", 0700));
    path = OPEN("d", O_PATH | O_DIRECTORY);
    file = OPENAT(path, "inside", O_WRONLY | O_CREAT, 0600);
    SAY(write(file, "inside", 6));
    SAY(close(file));
    SAY(fchdir(path));
    show("inside");
    SAY(chdir(".."));
    SAY(close(path));
    show("f");
}

static void ranges(void)
{
    int files[5];
    char name[8];
    for (int n = 0; n < 5; n++) {
        snprintf(name, sizeof name, "r%d", n);
        files[n] = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
        write(files[n], name, 2);
    }
    SAY(close_range(files[1], files[2], 0));
    SAY(write(files[1], "x", 1));
    SAY(write(files[3], "x", 1));
    SAY(close_range(files[3], files[3], CLOSE_RANGE_CLOEXEC));
    SAY(fcntl(files[3], F_GETFD));
    SAY(write(files[3], "y", 1));
    SAY(close_range(files[4], files[3], 0));
    SAY(close_range(files[0], files[0], 77));
    SAY(close_range(files[3], ~0u, 0));
    SAY(fcntl(files[4], F_GETFD));
    SAY(write(files[0], "z", 1));
    SAY(close(files[0]));
    for (int n = 0; n < 5; n++)
        snprintf(name, sizeof name, "r%d", n), show(name);
    /* What does not know which descriptors there are closes all numbers. */
    int closed = 0;
    for (int n = 3; n < 2000; n++)
        closed += close(n) == 0;
    printf("closed %d\n", closed);
    int file = OPEN("after", O_RDWR | O_CREAT | O_TRUNC, 0644);
    SAY(write(file, "after all", 9));
    closefrom(3);
    SAY(write(file, "x", 1));
    show("after");
}

static void duplicates(void)
{
    int file = OPEN("f", O_RDWR | O_CREAT | O_TRUNC, 0644);
    int other = OPEN("g", O_RDWR | O_CREAT | O_TRUNC, 0644);
    SAY(write(file, "one ", 4));
    SAY(write(other, "lost?", 5));
    SAY(dup3(file, file, 0));
    SAY(dup3(file, other, O_APPEND));
    printf("%d\n", dup3(file, other, O_CLOEXEC) == other);
    SAY(fcntl(other, F_GETFD));
    SAY(write(other, "two ", 4));
    told_open(file);
    SAY(lseek(other, 0, SEEK_SET));
    SAY(write(file, "ONE", 3));
    int third = dup(file), fourth = fcntl(file, F_DUPFD_CLOEXEC, 500);
    printf("%d %d\n", third >= 0, fourth >= 500);
    SAY(close(file));
    SAY(write(third, "-", 1));
    SAY(write(fourth, "+", 1));
    SAY(fcntl(third, F_SETFL, O_APPEND));
    SAY(fcntl(fourth, F_GETFL) & (O_APPEND | O_ACCMODE));
    SAY(write(fourth, "end", 3));
    SAY(dup2(99, third));
    SAY(close(other)); SAY(close(third)); SAY(close(fourth)); SAY(close(fourth));
    show("f"), show("g");
}

static void vectors(void)
{
    char one[10] = "", two[10] = "";
    int file = OPEN("f", O_RDWR | O_CREAT | O_TRUNC, 0644);
    struct iovec out[3] = {{(void *)"abc", 3}, {(void *)"", 0}, {(void *)"defgh", 5}};
    struct iovec in[2] = {{one, 4}, {two, 9}};
    SAY(writev(file, out, 3));
    SAY(pwritev2(file, out, 3, 4, 0));
    SAY(pwritev2(file, out, 3, -1, 0));
    told_open(file);
    SAY(pwritev2(file, out, 1, 0, RWF_APPEND));
    told_open(file);
    SAY(pwritev2(file, out, 1, 2, RWF_DSYNC));
    SAY(pwritev2(file, out, 1, 2, RWF_SYNC));
    SAY(pwritev2(file, out, 1, 2, 0x40000000));
    SAY(preadv2(file, in, 2, 0, 0));
    printf("%.4s|%.9s\n", one, two);
    SAY(preadv2(file, in, 2, -1, 0));
    SAY(preadv2(file, in, 2, 3, RWF_HIPRI));
    SAY(preadv2(file, in, 2, -2, 0));
    SAY(preadv2(file, in, 2, 3, 0x40000000));
    SAY(readv(file, in, -1));
    SAY(readv(file, in, 0));
    SAY(writev(file, out, IOV_MAX + 1));
    SAY(pread(file, one, 3, -1));
    SAY(pwrite(file, one, 0, 1000));
    SAY(write(file, NULL, 0));
    SAY(write(file, NULL, 4));
    SAY(read(file, NULL, 4));
    SAY(pwrite(file, "far", 3, 60000));
    told_open(file);
    int reader = OPEN("f", O_RDONLY), writer = OPEN("f", O_WRONLY);
    SAY(write(reader, "x", 1));
    SAY(read(writer, one, 1));
    SAY(read(99, one, 1));
    close(file), close(reader), close(writer);
    told_sum("f");
}

static void memories(void)
{
    int memory = opened("memfd_create", memfd_create("m", MFD_ALLOW_SEALING | MFD_CLOEXEC));
    SAY(write(memory, "in memory", 9));
    SAY(ftruncate(memory, 4096));
    char *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, memory, 0);
    printf("%s\n", map);
    SAY(munmap(map, 4096));
    SAY(fcntl(memory, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_WRITE));
    SAY(write(memory, "x", 1));
    SAY(fcntl(memory, F_GET_SEALS));
    int file = OPEN("f", O_RDWR | O_CREAT | O_TRUNC, 0644);
    off_t at = 3;
    SAY(sendfile(file, memory, &at, 6));
    SAY(write(file, "!", 1));
    show("f");
    close(memory), close(file);
}

/* The limit of file sizes: of files that are small and large, old and new, and of a program that is ended by it. */
static void sizes(void)
{
    static char bytes[20000];
    char name[16];
    fill(bytes, sizeof bytes, 's');
    fflush(stdout);
    int child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        int before = OPEN("before", O_RDWR | O_CREAT | O_TRUNC, 0644);
        SAY(write(before, bytes, 15000));
        struct rlimit limit;
        getrlimit(RLIMIT_FSIZE, &limit);
        rlim_t most = limit.rlim_max;
        limit.rlim_cur = 10000;
        SAY(setrlimit(RLIMIT_FSIZE, &limit));
        SAY(write(before, bytes, 10));
        SAY(pwrite(before, bytes, 10, 5));
        SAY(close(before));
        told("before");
        int file = OPEN("file", O_RDWR | O_CREAT | O_TRUNC, 0644);
        SAY(write(file, bytes, 8000));
        SAY(write(file, bytes, 8000));
        SAY(write(file, bytes, 8000));
        told_open(file);
        SAY(pwrite(file, bytes, 10, 9995));
        SAY(pwrite(file, bytes, 10, 20000));
        SAY(ftruncate(file, 20000));
        SAY(ftruncate(file, 10000));
        SAY(ftruncate(file, 500));
        SAY(fallocate(file, 0, 0, 20000));
        SAY(posix_fallocate(file, 9000, 2000));
        told_open(file);
        SAY(close(file));
        int appended = OPEN("appended", O_WRONLY | O_CREAT | O_APPEND, 0644);
        SAY(write(appended, bytes, 9999));
        SAY(write(appended, bytes, 9999));
        SAY(write(appended, bytes, 1));
        SAY(close(appended));
        int good = 0;
        for (int n = 0; n < 60; n++) {
            snprintf(name, sizeof name, "s%d", n);
            int small = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
            good += write(small, bytes, 5000) == 5000 && close(small) == 0;
        }
        printf("small files %d\n", good);
        FILE *stream = fopen("stream", "w");
        SAY(fwrite(bytes, 1, 9000, stream));
        SAY(fflush(stream));
        SAY(fwrite(bytes, 1, 9000, stream));
        SAY(fclose(stream));
        limit.rlim_cur = most;
        SAY(setrlimit(RLIMIT_FSIZE, &limit));
        file = OPEN("file", O_WRONLY | O_APPEND);
        SAY(write(file, bytes, 20000));
        SAY(close(file));
        limit.rlim_cur = 100;
        SAY(prlimit(0, RLIMIT_FSIZE, &limit, NULL));
        file = OPEN("prlimit", O_WRONLY | O_CREAT, 0644);
        SAY(write(file, bytes, 200));
        SAY(syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, &(struct rlimit){300, most}, NULL));
        SAY(write(file, bytes, 400));
        SAY(close(file));
        exit(0);
    }
    ended(child);
    child = fork();
    if (child == 0) {
        int file = OPEN("larger", O_WRONLY | O_CREAT, 0644);
        SAY(write(file, bytes, 5000));
        SAY(close(file));
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){1000, RLIM_INFINITY});
        file = OPEN("larger", O_RDWR);
        SAY(pwrite(file, "within", 6, 10));
        SAY(close(file));
        file = OPEN("killed", O_WRONLY | O_CREAT, 0644);
        fflush(stdout);
        write(file, bytes, 600);
        write(file, bytes, 600);
        write(file, bytes, 600);
        exit(0);
    }
    ended(child);
    for (int n = 0; n < 60; n += 59)
        snprintf(name, sizeof name, "s%d", n), told_sum(name);
    told_sum("before"), told_sum("file"), told_sum("appended"), told_sum("stream");
    told_sum("prlimit"), told_sum("killed"), told_sum("larger");
}

/* The limit of descriptors: as many files can be opened as without stages. */
static void numbers(void)
{
    fflush(stdout);
    int child = fork();
    if (child == 0) {
        char name[16];
        int used = 0, count = 0;
        for (int n = 0; n < 5; n++) {
            snprintf(name, sizeof name, "n%d", n);
            int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
            write(file, name, strlen(name));
            close(file);
        }
        for (int n = 0; n < 1000; n++)
            used = fcntl(n, F_GETFD) >= 0 && n < 100 ? n : used;
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)used + 20, 1024});
        int file;
        while (snprintf(name, sizeof name, "o%d", count),
               (file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644)) >= 0 && count < 200)
            write(file, name, strlen(name)), count++;
        /* A stage may need a few of them while a file is opened. */
        printf("opened %s, then %s\n", count >= 15 ? "15 or more" : "less than 15", strerror(errno));
        for (int n = 14; n < count; n++)
            snprintf(name, sizeof name, "o%d", n), unlink(name);
        fflush(stdout);
        _exit(0);
    }
    ended(child);
}

struct share {
    int file, number;
};

static void *append(void *argument)
{
    struct share *share = argument;
    char record[16];
    for (int n = 0; n < 200; n++) {
        int length = snprintf(record, sizeof record, "%d:%03d\n", share->number, n);
        write(share->file, record, (size_t)length);
        pwrite(share->file + 0, "", 0, 0);
    }
    return NULL;
}

static void *scatter(void *argument)
{
    struct share *share = argument;
    char byte = (char)('a' + share->number);
    for (int n = 0; n < 500; n++)
        pwrite(share->file, &byte, 1, n * 4 + share->number);
    return NULL;
}

static void threads(void)
{
    pthread_t threads[4];
    struct share shares[4];
    int appended = OPEN("appended", O_RDWR | O_CREAT | O_APPEND, 0644);
    int scattered = OPEN("scattered", O_RDWR | O_CREAT | O_TRUNC, 0644);
    for (int n = 0; n < 4; n++) {
        shares[n] = (struct share){appended, n};
        pthread_create(&threads[n], NULL, append, &shares[n]);
    }
    for (int n = 0; n < 4; n++)
        pthread_join(threads[n], NULL);
    for (int n = 0; n < 4; n++) {
        shares[n].file = scattered;
        pthread_create(&threads[n], NULL, scatter, &shares[n]);
    }
    for (int n = 0; n < 4; n++)
        pthread_join(threads[n], NULL);
    told_open(scattered);
    /* Each record is whole, and those of a thread are in order. What the file has in the end may differ. */
    char record[8];
    int next[4] = {0}, good = 0;
    lseek(appended, 0, SEEK_SET);
    while (read(appended, record, 6) == 6) {
        int number = record[0] - '0';
        good += number >= 0 && number < 4 && atoi(record + 2) == next[number]++ && record[5] == '\n';
    }
    printf("good %d\n", good);
    SAY(ftruncate(appended, 0));
    close(appended), close(scattered);
    told_sum("scattered");
}

static void forks(void)
{
    int file = OPEN("f", O_RDWR | O_CREAT | O_TRUNC, 0644);
    SAY(write(file, "parent ", 7));
    fflush(stdout);
    int child = fork();
    if (child == 0) {
        write(file, "child ", 6);
        close(file);
        int own = open("own", O_WRONLY | O_CREAT, 0600);
        write(own, "of the child", 12);
        _exit(3);
    }
    ended(child);
    told_open(file);
    SAY(write(file, "parent", 6));
    show("f"), show("own");
    child = vfork();
    if (child == 0)
        _exit(4);
    ended(child);
    SAY(write(file, " again", 6));
    SAY(close(file));
    show("f");
}

static void appends(void)
{
    fflush(stdout);
    int children[4];
    for (int n = 0; n < 4; n++) {
        children[n] = fork();
        if (children[n] == 0) {
            char record[64];
            int file = open("log", O_WRONLY | O_CREAT | O_APPEND, 0644);
            for (int line = 0; line < 100; line++) {
                memset(record, 'a' + n, 63);
                record[63] = '\n';
                if (write(file, record, 64) != 64)
                    _exit(1);
            }
            _exit(close(file) != 0);
        }
    }
    for (int n = 0; n < 4; n++)
        ended(children[n]);
    told("log");
    int file = OPEN("log", O_RDWR), counts[4] = {0};
    char record[64];
    while (read(file, record, 64) == 64) {
        int same = 1;
        for (int place = 1; place < 63; place++)
            same &= record[place] == record[0];
        if (same && record[63] == '\n' && record[0] >= 'a' && record[0] <= 'd')
            counts[record[0] - 'a']++;
    }
    printf("%d %d %d %d\n", counts[0], counts[1], counts[2], counts[3]);
    SAY(ftruncate(file, 64 * 100 * 4 - 25600));
    SAY(close(file));
}

static void execs(void)
{
    char number[16];
    int file = OPEN("f", O_RDWR | O_CREAT | O_TRUNC, 0644);
    SAY(write(file, "a", 1));
    snprintf(number, sizeof number, "%d", file);
    fflush(stdout);
    int child = fork();
    if (child == 0)
        execl(self, self, "--write", number, "b", (char *)NULL);
    ended(child);
    SAY(write(file, "c", 1));
    show("f");
    child = fork();
    if (child == 0) {
        int own = open("left open", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        write(own, "before exec", 11);
        execl("/bin/true", "true", (char *)NULL);
    }
    ended(child);
    show("left open");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "spawned", O_WRONLY | O_CREAT, 0644);
    char *arguments[] = {"cat", "f", NULL};
    SAY(posix_spawnp(&child, "cat", &actions, NULL, arguments, environ));
    ended(child);
    show("spawned");
    SAY(system("cat f > by-system"));
    FILE *pipe = popen("cat > by-popen", "w");
    fputs("popen", pipe);
    SAY(pclose(pipe));
    show("by-system"), show("by-popen");
    SAY(execl("/no/such/program", "x", (char *)NULL));
    SAY(write(file, "d", 1));
    SAY(close(file));
    show("f");
}

static void truncates(void)
{
    int file = OPEN("f", O_RDWR | O_CREAT | O_TRUNC, 0644), reader = OPEN("f", O_RDONLY);
    SAY(write(file, "0123456789", 10));
    SAY(ftruncate(file, 4));
    told_open(file);
    SAY(write(file, "x", 1));
    SAY(ftruncate(file, 20));
    SAY(ftruncate(file, -1));
    SAY(ftruncate(reader, 1));
    SAY(truncate("f", 15));
    SAY(truncate("f", -1));
    SAY(truncate("none", 1));
    SAY(truncate(".", 1));
    told_open(reader);
    SAY(close(file)); SAY(close(reader));
    file = OPEN("f", O_RDONLY | O_TRUNC);
    told_open(file);
    SAY(close(file));
    file = OPEN("g", O_WRONLY | O_CREAT | O_EXCL, 0644);
    SAY(ftruncate(file, 100000));
    SAY(pwrite(file, "end", 3, 99997));
    SAY(close(file));
    show("f"), told_sum("g");
}

static void allocations(void)
{
    char bytes[12288];
    fill(bytes, sizeof bytes, 'k');
    int file = OPEN("f", O_RDWR | O_CREAT | O_TRUNC, 0644), reader = OPEN("f", O_RDONLY);
    SAY(write(file, bytes, sizeof bytes));
    SAY(fallocate(file, 0, 10000, 10000));
    told_open(file);
    SAY(fallocate(file, FALLOC_FL_KEEP_SIZE, 0, 50000));
    told_open(file);
    SAY(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, 4096));
    SAY(fallocate(file, FALLOC_FL_PUNCH_HOLE, 0, 10));
    SAY(fallocate(file, FALLOC_FL_ZERO_RANGE, 100, 10));
    SAY(fallocate(file, FALLOC_FL_COLLAPSE_RANGE, 0, 4096));
    SAY(fallocate(file, 0, 0, 0));
    SAY(fallocate(file, 0, -1, 5));
    SAY(fallocate(reader, 0, 0, 5));
    SAY(posix_fallocate(file, 0, 30000));
    SAY(posix_fallocate(file, 0, 0));
    SAY(posix_fallocate(reader, 0, 5));
    told_open(file);
    SAY(close(file)); SAY(close(reader));
    file = OPEN("small", O_RDWR | O_CREAT | O_EXCL, 0644);
    SAY(fallocate(file, 0, 0, 100));
    SAY(fallocate(file, FALLOC_FL_KEEP_SIZE, 0, 9000));
    told_open(file);
    SAY(close(file));
    told_sum("f"), told_sum("small");
}

static void seeks(void)
{
    int file = OPEN("f", O_RDWR | O_CREAT | O_TRUNC, 0644);
    SAY(write(file, "data", 4));
    SAY(pwrite(file, "more", 4, 1 << 20));
    SAY(lseek(file, 0, SEEK_DATA));
    SAY(lseek(file, 0, SEEK_HOLE));
    SAY(lseek(file, 8192, SEEK_DATA));
    SAY(lseek(file, 1 << 20, SEEK_HOLE));
    SAY(lseek(file, 2 << 20, SEEK_DATA));
    SAY(lseek(file, -1, SEEK_SET));
    SAY(lseek(file, -4, SEEK_END));
    SAY(lseek(file, -5, SEEK_CUR));
    SAY(lseek(file, LLONG_MAX, SEEK_CUR));
    SAY(lseek(file, 0, 99));
    SAY(lseek(file, 3 << 20, SEEK_SET));
    char byte;
    SAY(read(file, &byte, 1));
    SAY(write(file, "", 0));
    told_open(file);
    SAY(close(file));
    SAY(lseek(file, 0, SEEK_SET));
    file = OPEN("small", O_RDWR | O_CREAT | O_EXCL, 0644);
    SAY(write(file, "abc", 3));
    SAY(lseek(file, 1, SEEK_DATA));
    SAY(lseek(file, 1, SEEK_HOLE));
    SAY(lseek(file, 10, SEEK_SET));
    SAY(write(file, "d", 1));
    SAY(lseek(file, -100, SEEK_CUR));
    SAY(close(file));
    show("small");
}

static void make(const char *name, const char *text)
{
    int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    write(file, text, strlen(text));
    close(file);
}

static void renames(void)
{
    make("a", "file a"), make("b", "file b"), make("c", "file c");
    SAY(renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_NOREPLACE));
    SAY(renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_EXCHANGE));
    show("a"), show("b");
    SAY(renameat2(AT_FDCWD, "a", AT_FDCWD, "none", RENAME_EXCHANGE));
    SAY(renameat2(AT_FDCWD, "a", AT_FDCWD, "new", RENAME_NOREPLACE));
    SAY(renameat2(AT_FDCWD, "new", AT_FDCWD, "x", RENAME_NOREPLACE | RENAME_EXCHANGE));
    SAY(renameat2(AT_FDCWD, "new", AT_FDCWD, "x", 64));
    int file = OPEN("c", O_RDWR);
    SAY(rename("new", "c"));
    SAY(write(file, "FILE", 4));
    told_open(file);
    show("c");
    SAY(close(file));
    SAY(rename("c", "c"));
    SAY(rename("none", "d"));
    SAY(mkdir("dir", 0755));
    SAY(rename("c", "dir"));
    SAY(rename("dir", "b"));
    file = OPEN("dir/inside", O_RDWR | O_CREAT, 0644);
    SAY(write(file, "in", 2));
    SAY(rename("dir", "moved"));
    SAY(write(file, "side", 4));
    SAY(close(file));
    show("moved/inside");
    SAY(rename("moved", "moved/below"));
    SAY(rename("b", "moved/b"));
    SAY(rename("b/", "x"));
    file = OPEN("t.tmp", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    SAY(write(file, "replaced", 8));
    SAY(rename("t.tmp", "c"));
    SAY(write(file, " later", 6));
    SAY(close(file));
    show("c");
}

static void links(void)
{
    int file = OPEN("f", O_RDWR | O_CREAT | O_EXCL, 0644);
    SAY(write(file, "linked", 6));
    SAY(link("f", "g"));
    told_open(file);
    SAY(write(file, " twice", 6));
    int other = OPEN("g", O_RDWR);
    SAY(pwrite(other, "LINK", 4, 0));
    char back[16] = "";
    SAY(pread(file, back, 12, 0));
    printf("%s\n", back);
    SAY(unlink("f"));
    told_open(file);
    SAY(close(file)); SAY(close(other));
    show("g"), told("g");
    SAY(link("g", "g")); SAY(link("none", "h")); SAY(link(".", "h"));
    SAY(symlink("g", "s"));
    SAY(linkat(AT_FDCWD, "s", AT_FDCWD, "h", 0));
    SAY(linkat(AT_FDCWD, "s", AT_FDCWD, "i", AT_SYMLINK_FOLLOW));
    told("g");
    file = OPEN("g", O_RDONLY);
    SAY(linkat(file, "", AT_FDCWD, "j", AT_EMPTY_PATH));
    SAY(close(file));
    told("g");
    SAY(readlink("s", back, sizeof back));
    SAY(readlink("g", back, sizeof back));
    file = OPEN("s", O_RDONLY | O_NOFOLLOW);
    file = OPEN("s", O_WRONLY | O_APPEND);
    SAY(write(file, "!", 1));
    SAY(close(file));
    SAY(symlink("dangling", "t"));
    file = OPEN("t", O_WRONLY | O_CREAT, 0644);
    SAY(write(file, "through", 7));
    SAY(close(file));
    file = OPEN("t", O_WRONLY | O_CREAT | O_EXCL, 0644);
    show("g"), show("dangling");
}

static void statuses(void)
{
    struct statx st;
    int file = OPEN("f", O_RDWR | O_CREAT | O_EXCL, 0640);
    SAY(write(file, "0123456", 7));
    SAY(statx(AT_FDCWD, "f", 0, STATX_BASIC_STATS, &st));
    printf("%llu %o %u %u\n", (unsigned long long)st.stx_size, st.stx_mode, st.stx_nlink, st.stx_uid);
    SAY(write(file, "89", 2));
    SAY(statx(file, "", AT_EMPTY_PATH, STATX_SIZE, &st));
    printf("%llu\n", (unsigned long long)st.stx_size);
    SAY(statx(file, "", 0, STATX_SIZE, &st));
    SAY(statx(AT_FDCWD, "none", 0, STATX_SIZE, &st));
    SAY(statx(AT_FDCWD, "f", 0x40000000, STATX_SIZE, &st));
    SAY(statx(AT_FDCWD, "f/x", 0, STATX_SIZE, &st));
    struct stat one, two;
    SAY(fstat(file, &one)); SAY(stat("f", &two));
    printf("same %d\n", one.st_ino == two.st_ino && one.st_dev == two.st_dev);
    SAY(close(file));
    SAY(stat("f", &two));
    printf("same after close %d\n", one.st_ino == two.st_ino && one.st_dev == two.st_dev);
    SAY(lstat("f", &two)); SAY(fstatat(AT_FDCWD, "f", &two, AT_SYMLINK_NOFOLLOW));
    SAY(access("f", R_OK | W_OK)); SAY(access("f", X_OK)); SAY(access("none", F_OK));
    SAY(faccessat(AT_FDCWD, "f", W_OK, AT_EACCESS));
    SAY(euidaccess("f", R_OK));
}

static void times(void)
{
    struct timespec set[2] = {{1000000000, 5}, {1100000000, 7}};
    struct stat st;
    int file = OPEN("f", O_RDWR | O_CREAT | O_EXCL, 0644);
    SAY(write(file, "abc", 3));
    SAY(futimens(file, set));
    SAY(fstat(file, &st));
    printf("%lld.%ld %lld.%ld\n", (long long)st.st_atime, st.st_atim.tv_nsec, (long long)st.st_mtime,
           st.st_mtim.tv_nsec);
    SAY(close(file));
    SAY(stat("f", &st));
    printf("%lld.%ld\n", (long long)st.st_mtime, st.st_mtim.tv_nsec);
    set[0].tv_nsec = UTIME_OMIT, set[1].tv_sec = 1200000000, set[1].tv_nsec = 9;
    SAY(utimensat(AT_FDCWD, "f", set, 0));
    file = OPEN("f", O_WRONLY | O_APPEND);
    SAY(fstat(file, &st));
    printf("times at open %lld %lld\n", (long long)st.st_atime, (long long)st.st_mtime);
    SAY(write(file, "d", 1));
    SAY(fstat(file, &st));
    printf("later %d\n", st.st_mtime > 1200000000);
    SAY(close(file));
    SAY(stat("f", &st));
    printf("later %d, not in the future %d\n", st.st_mtime > 1200000000, st.st_mtime <= time(NULL) + 5);
    file = OPEN("g", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    SAY(write(file, "held", 4));
    set[0].tv_sec = 1300000000, set[0].tv_nsec = 1;
    SAY(futimens(file, set));
    SAY(close(file));
    SAY(stat("g", &st));
    printf("%lld %lld\n", (long long)st.st_atime, (long long)st.st_mtime);
}

static int by_name(const void *one, const void *other)
{
    return strcmp(*(char *const *)one, *(char *const *)other);
}

static void list(DIR *directory)
{
    char *names[100];
    int count = 0;
    for (struct dirent *entry; count < 100 && (entry = readdir(directory));) {
        names[count] = malloc(300);
        snprintf(names[count++], 300, "%s(%d)", entry->d_name, entry->d_type);
    }
    qsort(names, (size_t)count, sizeof *names, by_name);
    for (int n = 0; n < count; n++)
        printf(" %s", names[n]), free(names[n]);
    printf("\n");
}

static void directories(void)
{
    char name[16];
    SAY(mkdir("d", 0755)); SAY(mkdir("d", 0755));
    for (int n = 0; n < 10; n++)
        snprintf(name, sizeof name, "d/%d", n), make(name, name);
    int file = OPEN("d/open", O_WRONLY | O_CREAT, 0600);
    SAY(write(file, "x", 1));
    DIR *directory = opendir("d");
    readdir(directory);
    for (int n = 10; n < 15; n++)
        snprintf(name, sizeof name, "d/%d", n), make(name, name);
    SAY(unlink("d/3"));
    rewinddir(directory);
    list(directory);
    SAY(closedir(directory));
    make("d/more", "more");
    struct dirent **found;
    SAY(scandir("d", &found, NULL, alphasort));
    SAY(rmdir("d"));
    SAY(unlink("d"));
    SAY(rmdir("d/0"));
    SAY(write(file, "y", 1));
    SAY(close(file));
    OPEN("d/0/x", O_RDONLY);
    OPEN("d", O_WRONLY);
    OPEN("d/0", O_RDONLY | O_DIRECTORY);
    OPEN("none/x", O_WRONLY | O_CREAT, 0644);
    make("e", "e");
    SAY(remove("e")); SAY(remove("e"));
    SAY(mkdir("empty", 0700)); SAY(rmdir("empty")); SAY(rmdir("empty"));
    SAY(mkfifo("fifo", 0600));
    int fifo = OPEN("fifo", O_RDWR | O_NONBLOCK);
    SAY(write(fifo, "p", 1));
    SAY(read(fifo, name, 5));
    SAY(lseek(fifo, 0, SEEK_SET));
    SAY(close(fifo));
    char longest[300];
    memset(longest, 'n', 299), longest[299] = 0;
    SAY(open(longest, O_WRONLY | O_CREAT, 0600));
    SAY(open("", O_RDONLY));
    SAY(open(NULL, O_RDONLY));
}

static void locks(void)
{
    int file = OPEN("f", O_RDWR | O_CREAT | O_EXCL, 0644), other = OPEN("f", O_RDWR);
    SAY(write(file, "locked", 6));
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 10};
    SAY(fcntl(file, F_SETLK, &lock));
    fflush(stdout);
    int child = fork();
    if (child == 0) {
        int own = OPEN("f", O_RDWR);
        struct flock asked = lock;
        SAY(fcntl(own, F_SETLK, &asked));
        SAY(fcntl(own, F_GETLK, &asked));
        printf("%d %lld %lld\n", asked.l_type, (long long)asked.l_start, (long long)asked.l_len);
        show("f");
        fflush(stdout);
        _exit(0);
    }
    ended(child);
    SAY(write(file, " twice", 6));
    SAY(flock(file, LOCK_EX | LOCK_NB));
    SAY(flock(other, LOCK_EX | LOCK_NB));
    SAY(flock(file, LOCK_UN));
    SAY(flock(other, LOCK_SH | LOCK_NB));
    lock.l_pid = 0;
    SAY(fcntl(other, F_OFD_SETLK, &lock));
    SAY(lockf(file, F_TEST, 0));
    SAY(close(file));
    SAY(write(other, "L", 1));
    SAY(close(other));
    show("f");
}

static void changes(void)
{
    char cwd[PATH_MAX];
    SAY(mkdir("d", 0755)); SAY(mkdir("d/e", 0755));
    int above = OPEN(".", O_RDONLY | O_DIRECTORY);
    SAY(chdir("d/e"));
    make("f", "below");
    show("../e/f");
    int file = OPENAT(above, "at", O_WRONLY | O_CREAT, 0644);
    SAY(write(file, "at", 2));
    SAY(fchdir(above));
    SAY(close(file));
    show("at"), show("d/e/f");
    SAY(chdir("d"));
    SAY(renameat(above, "d", above, "renamed"));
    make("g", "after");
    SAY(strcmp(strrchr(getcwd(cwd, sizeof cwd), '/'), "/renamed"));
    SAY(mkdirat(above, "made", 0700));
    SAY(unlinkat(above, "made", 0)); SAY(unlinkat(above, "made", AT_REMOVEDIR));
    SAY(unlinkat(above, "at", 0));
    SAY(fchdir(above));
    SAY(close(above));
    show("renamed/g"), show("renamed/e/f");
    OPENAT(99, "x", O_RDONLY);
}

static void masks(void)
{
    mode_t before = umask(077);
    make("private", "p");
    told("private");
    SAY(umask(0));
    int file = OPEN("all", O_WRONLY | O_CREAT, 0666);
    told_open(file);
    SAY(fchmod(file, 0604));
    SAY(write(file, "w", 1));
    SAY(close(file));
    file = OPEN("read only", O_WRONLY | O_CREAT | O_EXCL, 0444);
    SAY(write(file, "once", 4));
    SAY(close(file));
    file = OPEN("nobody", O_RDWR | O_CREAT | O_EXCL, 0);
    SAY(write(file, "n", 1));
    SAY(close(file));
    file = OPEN("special", O_RDWR | O_CREAT | O_EXCL, 07755);
    SAY(write(file, "n", 1));
    SAY(close(file));
    SAY(chmod("all", 0711)); SAY(chmod("none", 0711));
    umask(before);
    SAY(fchmodat(AT_FDCWD, "private", 0640, 0));
    SAY(chown("all", -1, -1));
    told("all"), told("read only"), told("nobody"), told("private"), told("special");
}

static void removed(void)
{
    char back[32] = "";
    int file = OPEN("f", O_RDWR | O_CREAT | O_EXCL, 0644);
    SAY(write(file, "removed", 7));
    SAY(unlink("f"));
    told_open(file);
    told("f");
    SAY(write(file, " while open", 11));
    SAY(pread(file, back, 18, 0));
    printf("%s\n", back);
    int new = OPEN("f", O_RDWR | O_CREAT | O_EXCL, 0644);
    SAY(write(new, "another", 7));
    SAY(ftruncate(file, 3));
    told_open(file);
    show("f");
    SAY(close(file));
    fflush(stdout);
    int child = fork();
    if (child == 0) {
        unlink("f");
        _exit(0);
    }
    ended(child);
    SAY(write(new, "!", 1));
    told_open(new);
    SAY(fsync(new));
    SAY(close(new));
    told("f");
    SAY(unlink("f"));
}

static void processes(void)
{
    char path[64], target[PATH_MAX] = "";
    int file = OPEN("f", O_RDWR | O_CREAT | O_EXCL, 0644);
    SAY(write(file, "seen", 4));
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    ssize_t length = readlink(path, target, sizeof target - 1);
    printf("%d %s\n", length > 0, strrchr(target, '/') ? strrchr(target, '/') : target);
    struct stat st;
    SAY(stat(path, &st));
    printf("%lld\n", (long long)st.st_size);
    int again = opened("open /proc/self/fd", open(path, O_RDWR));
    char back[16] = "";
    SAY(read(again, back, 10));
    printf("%s\n", back);
    SAY(write(again, " again", 6));
    told_open(file);
    snprintf(path, sizeof path, "/dev/fd/%d", file);
    int third = opened("open /dev/fd", open(path, O_WRONLY | O_APPEND));
    SAY(write(third, "!", 1));
    SAY(close(third)); SAY(close(again));
    SAY(write(file, "S", 1));
    SAY(close(file));
    show("f");
}

static void passed(void)
{
    int pair[2];
    SAY(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    int file = OPEN("f", O_RDWR | O_CREAT | O_EXCL, 0644);
    SAY(write(file, "sent ", 5));
    char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 'x';
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &file, sizeof file);
    SAY(sendmsg(pair[0], &message, 0));
    fflush(stdout);
    int child = fork();
    if (child == 0) {
        recvmsg(pair[1], &message, 0);
        int got;
        memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof got);
        write(got, "received ", 9);
        _exit(0);
    }
    ended(child);
    SAY(write(file, "back", 4));
    close(pair[0]), close(pair[1]);
    SAY(close(file));
    show("f");
}

static void durable(void)
{
    int file = OPEN("f", O_RDWR | O_CREAT | O_EXCL, 0644);
    SAY(write(file, "durable", 7));
    SAY(fsync(file)); SAY(fdatasync(file)); SAY(syncfs(file));
    SAY(sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE));
    SAY(posix_fadvise(file, 0, 0, POSIX_FADV_SEQUENTIAL));
    SAY(readahead(file, 0, 10));
    SAY(fsync(99));
    SAY(close(file));
    file = OPEN("s", O_WRONLY | O_CREAT | O_SYNC, 0644);
    SAY(write(file, "sync", 4));
    SAY(fcntl(file, F_GETFL) & (O_ACCMODE | O_SYNC | O_APPEND | O_NONBLOCK));
    SAY(close(file));
    file = OPEN("n", O_WRONLY | O_CREAT | O_EXCL | O_NONBLOCK | O_CLOEXEC | O_APPEND, 0644);
    SAY(fcntl(file, F_GETFL) & (O_ACCMODE | O_SYNC | O_APPEND | O_NONBLOCK));
    SAY(fcntl(file, F_GETFD));
    SAY(setxattr("f", "user.a", "b", 1, 0) == 0 || errno == EOPNOTSUPP);
    int ready = 0;
    SAY(ioctl(file, FIONREAD, &ready));
    struct pollfd asked = {file, POLLIN | POLLOUT, 0};
    SAY(poll(&asked, 1, 0));
    printf("%d\n", asked.revents);
    SAY(isatty(file));
    SAY(close(file));
    show("f");
}

static void streams(void)
{
    char back[64] = "";
    FILE *stream = fopen("f", "w+");
    SAY(fprintf(stream, "%d lines\n", 3));
    SAY(fseek(stream, 0, SEEK_SET));
    SAY(fgets(back, sizeof back, stream) != NULL);
    printf("%s", back);
    SAY(ungetc('u', stream)); SAY(fgetc(stream));
    SAY(fputs("second", stream));
    SAY(ftell(stream));
    SAY(fclose(stream));
    stream = fopen("f", "a+");
    SAY(fputs(" appended", stream));
    rewind(stream);
    SAY(fread(back, 1, 40, stream));
    SAY(feof(stream) != 0);
    stream = freopen("g", "wx", stream);
    SAY(fputs("reopened", stream));
    SAY(fileno(stream) > 2);
    SAY(write(fileno(stream), "<", 1));
    SAY(fclose(stream));
    SAY(fopen("g", "wx") == NULL); SAY(fopen("none", "r") == NULL);
    int file = OPEN("h", O_RDWR | O_CREAT, 0644);
    stream = fdopen(file, "r+");
    SAY(setvbuf(stream, NULL, _IONBF, 0));
    SAY(fputc('c', stream));
    SAY(dprintf(file, "%s", "printed"));
    SAY(fclose(stream));
    SAY(close(file));
    char name[] = "tmpXXXXXX";
    file = mkstemp(name);
    SAY(write(file, "temporary", 9));
    SAY(unlink(name)); SAY(close(file));
    show("f"), show("g"), show("h");
}

struct battery {
    const char *name;
    void (*run)(void);
};

#define CASE(name) {#name, name}
static const struct battery cases[] = {
    CASE(maps),      CASE(splices),   CASE(sends),     CASE(copies),      CASE(resolved),
    CASE(unnamed),   CASE(paths),     CASE(ranges),    CASE(duplicates),  CASE(vectors),
    CASE(memories),  CASE(sizes),     CASE(numbers),   CASE(threads),     CASE(forks),
    CASE(appends),   CASE(execs),     CASE(truncates), CASE(allocations), CASE(seeks),
    CASE(renames),   CASE(links),     CASE(statuses),  CASE(times),       CASE(directories),
    CASE(locks),     CASE(changes),   CASE(masks),     CASE(removed),     CASE(processes),
    CASE(passed),    CASE(durable),   CASE(streams),
};

int main(int count, char **arguments)
{
    if (count == 4 && strcmp(arguments[1], "--write") == 0)
        return write(atoi(arguments[2]), arguments[3], strlen(arguments[3])) < 0;
    self = arguments[0];
    setvbuf(stdout, NULL, _IOFBF, 1 << 20);
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        int wanted = count == 1;
        for (int argument = 1; argument < count; argument++)
            wanted |= strcmp(arguments[argument], cases[n].name) == 0;
        if (!wanted)
            continue;
        printf("[%s]\n", cases[n].name);
        if (mkdir(cases[n].name, 0755) != 0 || chdir(cases[n].name) != 0)
            return 1;
        cases[n].run();
        if (chdir("..") != 0)
            return 1;
        fflush(stdout);
    }
    return 0;
}
