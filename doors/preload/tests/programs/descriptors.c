/* Several descriptors of one file, several files, flags. */
#include "say.h"
#include <stdint.h>

int main(void)
{
    char bytes[64] = {0};
    int a = open("a", O_RDWR | O_CREAT | O_TRUNC, 0644);
    SAY(a);
    SAY(write(a, "0123456789", 10));
    int b = dup(a);
    SAY(b);
    SAY(lseek(b, 0, SEEK_CUR));
    SAY(lseek(b, 2, SEEK_SET));
    SAY(write(a, "ab", 2));
    SAY(lseek(a, 0, SEEK_CUR));
    SAY(read(b, bytes, 3));
    printf("%s\n", bytes);
    SAY(close(a));
    SAY(write(a, "x", 1));
    SAY(write(b, "X", 1));
    SAY(lseek(b, 0, SEEK_CUR));
    int c = open("a", O_RDONLY);
    SAY(c == a);
    SAY(read(c, bytes, 20));
    SAY(write(c, "x", 1));
    SAY(lseek(c, 5, SEEK_END));
    SAY(read(c, bytes, 20));
    SAY(lseek(c, -100, SEEK_CUR));
    SAY(lseek(c, 0, 99));

    /* In the place of another. */
    int d = open("d", O_WRONLY | O_CREAT, 0644);
    SAY(write(d, "into d", 6));
    SAY(dup2(b, d) == d);
    SAY(write(d, "!", 1));
    SAY(dup2(d, d) == d);
    SAY(dup2(99, d));
    SAY(dup2(d, -1));
    SAY(dup3(d, d, 0));
    SAY(dup3(d, 40, O_CLOEXEC));
    SAY(fcntl(40, F_GETFD));
    SAY(write(40, "forty", 5));
    SAY(dup3(d, 41, 0x7777));
    SAY(fcntl(40, F_DUPFD, 50));
    SAY(fcntl(40, F_DUPFD_CLOEXEC, 50));
    SAY(fcntl(51, F_GETFD));
    SAY(write(51, "51", 2));
    SAY(lseek(b, 0, SEEK_CUR));
    SAY(dup2(c, 40));
    SAY(read(40, bytes, 5));
    SAY(close(40));
    SAY(close(d));
    SAY(close(b));
    SAY(write(50, "last", 4));
    SAY(close(51));
    SAY(write(50, "of all", 6));
    SAY(close(50));
    SAY(close(50));
    show("a");
    show("d");

    /* Flags. */
    int e = open("e", O_RDWR | O_CREAT | O_APPEND, 0644);
    SAY(write(e, "one", 3));
    SAY(lseek(e, 0, SEEK_SET));
    SAY(write(e, "two", 3));
    SAY(lseek(e, 0, SEEK_CUR));
    SAY(fcntl(e, F_GETFL) & O_APPEND);
    SAY(fcntl(e, F_SETFL, 0));
    SAY(lseek(e, 1, SEEK_SET));
    SAY(write(e, "N", 1));
    SAY(fcntl(e, F_SETFL, O_APPEND));
    SAY(write(e, "!", 1));
    SAY(pread(e, bytes, 10, 0));
    SAY(fcntl(e, F_SETFD, FD_CLOEXEC));
    SAY(fcntl(e, F_GETFD));
    SAY(lseek(e, 0, SEEK_SET));
    SAY(read(e, bytes, 4));
    printf("%.7s\n", bytes);
    show("e");

    /* Two opens of one file have two positions. */
    int f = open("e", O_RDWR), g = open("e", O_RDWR);
    SAY(write(f, "FF", 2));
    SAY(read(g, bytes, 3));
    printf("%.3s\n", bytes);
    SAY(pwrite(g, "gg", 2, 20));
    SAY(lseek(f, 0, SEEK_END));
    SAY(ftruncate(f, 4));
    SAY(lseek(g, 0, SEEK_END));
    SAY(ftruncate(g, -1));
    SAY(lseek(g, 0, SEEK_DATA));
    SAY(lseek(g, 0, SEEK_HOLE));

    /* Locks. */
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_CUR, .l_len = 1};
    SAY(lseek(f, 2, SEEK_SET));
    SAY(fcntl(f, F_SETLK, &lock));
    SAY(write(f, "locked", 6));
    SAY(lockf(g, F_TEST, 1));
    SAY(write(g, "g", 1));
    show("e");

    /* Many at once. */
    int many[20];
    for (int n = 0; n < 20; n++) {
        char name[8];
        snprintf(name, sizeof name, "m%d", n);
        many[n] = open(name, O_WRONLY | O_CREAT, 0600);
        if (write(many[n], name, strlen(name)) < 0)
            return 1;
    }
    SAY(close_range((unsigned)many[0], (unsigned)many[9], 0));
    SAY(write(many[9], "x", 1));
    SAY(write(many[10], "x", 1));
    closefrom(many[10]);
    SAY(write(many[19], "x", 1));
    show("m9");
    show("m10");
    int again = open("m9", O_RDWR);
    SAY(again);
    SAY(write(again, "again", 5));
    show("m9");

    /* The standard streams in a file. */
    fflush(stdout);
    int out = dup(1), into = open("out", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    write(into, "by descriptor\n", 14);
    dup2(into, 1);
    close(into);
    printf("by stream\n");
    fflush(stdout);
    write(1, "by number\n", 10);
    printf("by stream again\n");
    fflush(stdout);
    dup2(out, 1);
    show("out");

    /* Names that the program did not choose. */
    char name[] = "tmp-XXXXXX", suffixed[] = "tmp-XXXXXX.txt", wrong[] = "tmp-XXXX";
    int t = mkstemp(name), u = mkstemps(suffixed, 4);
    SAY(t > 0);
    SAY(u > 0);
    SAY(mkstemp(wrong));
    SAY(write(t, "temporary", 9));
    SAY(strlen(name));
    SAY(access(name, R_OK | W_OK));
    SAY(unlink(name));
    SAY(unlink(suffixed));
    SAY(pread(t, bytes, 9, 0));
    printf("%.9s\n", bytes);

    /* Memory that is not mapped. */
    void *nowhere[] = {NULL, (void *)1, (void *)4095, (void *)(intptr_t)-4096};
    for (int n = 0; n < 4; n++) {
        struct iovec vector = {nowhere[n], 4};
        SAY(write(t, nowhere[n], 4));
        SAY(pwrite(t, nowhere[n], 4, 2));
        SAY(read(t, nowhere[n], 4));
        SAY(pread(t, nowhere[n], 4, 0));
        SAY(writev(t, &vector, 1));
        SAY(readv(t, nowhere[n], 1));
        SAY(open(nowhere[n], O_RDONLY));
        SAY(unlink(nowhere[n]));
    }
    SAY(lseek(t, 0, SEEK_CUR));
    SAY(write(t, bytes, 4));
    return 0;
}
