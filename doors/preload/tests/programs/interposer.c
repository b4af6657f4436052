/* Another library that is loaded before the C library, and counts calls. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

static ssize_t (*next)(int, const void *, size_t);
static int calls;

ssize_t write(int descriptor, const void *bytes, size_t length)
{
    if (!next)
        next = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    calls++;
    return next(descriptor, bytes, length);
}

/* Memory of its own kind, which uses files when it is first asked for. */
__attribute__((destructor)) static void end(void)
{
    fprintf(stderr, "%s\n", calls ? "interposed" : "not interposed");
}
