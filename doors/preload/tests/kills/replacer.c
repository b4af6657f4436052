/* Replaces files as careful programs do: a new one is written under another name, closed, and renamed. It says what it
 * has done. New files of several sizes are made as well, and one grows in place beyond what it was. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char bytes[40000];

/* Content of a length, which tells the file. */
static void make(const char *name, int seed, size_t length)
{
    for (size_t place = 0; place < length; place++)
        bytes[place] = (char)('a' + (seed * 7 + place) % 23);
    int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (file < 0)
        exit(1);
    for (size_t at = 0; at < length; at += 3000) {
        size_t part = length - at < 3000 ? length - at : 3000;
        if (write(file, bytes + at, part) != (ssize_t)part)
            exit(2);
    }
    if (close(file) != 0)
        exit(3);
}

static void say(const char *what, int number)
{
    char line[32];
    int length = snprintf(line, sizeof line, "%s %d\n", what, number);
    if (write(1, line, (size_t)length) != length)
        exit(4);
}

int main(void)
{
    char name[32];
    for (int n = 0; n < 3; n++) {
        make("new.tmp", 100 + n, 5000 + 9000 * (size_t)n);
        snprintf(name, sizeof name, "old%d", n);
        if (rename("new.tmp", name) != 0)
            return 5;
        say("replaced", n);
        snprintf(name, sizeof name, "made%d", n);
        make(name, 200 + n, 100 + 12000 * (size_t)n);
        say("made", n);
    }
    int file = open("grown", O_WRONLY | O_APPEND);
    if (file < 0 || write(file, "MORE", 4) != 4 || fsync(file) != 0 || close(file) != 0)
        return 6;
    say("grown", 0);
    if (unlink("gone") != 0)
        return 7;
    say("gone", 0);
    return 0;
}
