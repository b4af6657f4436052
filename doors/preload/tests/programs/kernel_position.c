/* Where the kernel thinks that files are: stages may keep the position, until others see the file. */
#include "say.h"
#include <sys/file.h>

static long position(int descriptor)
{
    char name[64];
    long place = -1;
    snprintf(name, sizeof name, "/proc/self/fdinfo/%d", descriptor);
    FILE *f = fopen(name, "r");
    if (fscanf(f, "pos: %ld", &place) != 1)
        place = -2;
    fclose(f);
    return place;
}

static void say(const char *when, int descriptor)
{
    printf("%s %ld\n", when, position(descriptor));
    fflush(stdout);
}

int main(void)
{
    int a = open("a", O_RDWR | O_CREAT, 0644), b = open("b", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    write(a, "12345", 5);
    write(b, "12345", 5);
    say("written", a);
    flock(a, LOCK_EX);
    say("locked", a);
    write(a, "67890", 5);
    say("written after", a);
    int c = open("c", O_RDWR | O_CREAT, 0644);
    write(c, "12345", 5);
    system("true");
    say("inherited by a command", c);
    say("not inherited", b);
    if (fork() == 0)
        _exit(0);
    wait(NULL);
    say("forked", b);
    int d = open("d", O_RDWR | O_CREAT, 0644);
    write(d, "12345", 5);
    say("opened after", d);
    if (vfork() == 0)
        _exit(0);
    say("lent", d);
    FILE *f = fopen("f", "w");
    fputs("12345", f);
    fflush(f);
    say("stream", fileno(f));
    dup2(fileno(f), 0);
    say("standard", fileno(f));
    return 0;
}
