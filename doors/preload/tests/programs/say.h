/* What the programs here share: they print every answer, and the test compares what they print with and
   without the library. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* Prints an expression, its value, and the error it leaves. */
#define SAY(call)                                                                                  \
    do {                                                                                           \
        errno = 0;                                                                                 \
        long long said = (long long)(call);                                                        \
        printf("%s = %lld %s\n", #call, said, errno ? strerror(errno) : "");                       \
    } while (0)

/* Prints the bytes of a file, by its name. */
static inline void show(const char *name)
{
    char bytes[65536];
    int file = open(name, O_RDONLY);
    ssize_t count = file < 0 ? -1 : read(file, bytes, sizeof bytes);
    printf("%s: %zd bytes: ", name, count);
    for (ssize_t place = 0; place < count && place < 400; place++) {
        unsigned char byte = (unsigned char)bytes[place];
        if (byte >= 32 && byte < 127)
            putchar(byte);
        else
            printf("\\%02x", byte);
    }
    putchar('\n');
    if (file >= 0)
        close(file);
}
