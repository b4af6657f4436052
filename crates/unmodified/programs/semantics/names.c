/* Steps on names. */
#include "actor.h"

#include <dirent.h>
#include <sys/sysmacros.h>

const char *const names[NAMES] = {"f0", "f1", "f2", "f3", "d/g0", "d/g1"};

/* In a child process its own, if asked to: some stages say that other processes see files late. */
static const char *const own_names[NAMES] = {"c0", "c1", "c2", "c3", "d/e0", "d/e1"};

const char *some_name(void) {
    unsigned which = below(NAMES);
    return depth > 0 && getenv("ACTOR_OWN_NAMES") ? own_names[which] : names[which];
}

static void tell_kind(long long size, unsigned mode, unsigned links) {
    /* Sizes of directories are the file system's own business. */
    if (S_ISDIR(mode))
        tell(" directory %o", mode);
    else
        tell(" size %lld mode %o links %u", size, mode, links);
}

static void tell_stat(const char *name) {
    struct stat found = {0};
    struct statx more = {0};
    int form = (int)below(4), result;
    tell("stat %s form %d", name, form);
    before_call();
    if (form == 3) {
        result = statx(AT_FDCWD, name, 0, STATX_BASIC_STATS, &more);
        told(result);
        if (result == 0)
            tell_kind((long long)more.stx_size, more.stx_mode, more.stx_nlink);
    } else {
        result = form == 0 ? lstat(name, &found)
               : form == 1 ? fstatat(AT_FDCWD, name, &found, AT_SYMLINK_NOFOLLOW)
                           : stat(name, &found);
        told(result);
        if (result == 0)
            tell_kind((long long)found.st_size, found.st_mode, (unsigned)found.st_nlink);
    }
    /* Which of the open files is this? */
    for (int slot = 0; result == 0 && form != 3 && slot < SLOTS; slot++) {
        struct stat own;
        if (slots[slot] >= 0 && fstat(slots[slot], &own) == 0 && own.st_ino == found.st_ino &&
            own.st_dev == found.st_dev)
            tell(" =%d", slot);
    }
    tell("\n");
}

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static void list(const char *name) {
    char *found[64];
    int count = 0;
    DIR *directory = opendir(name);
    struct dirent *entry;
    tell("list %s:", name);
    while (directory && (entry = readdir(directory)) && count < 64)
        found[count++] = strdup(entry->d_name);
    if (directory)
        closedir(directory);
    qsort(found, (size_t)count, sizeof *found, by_text);
    for (int i = 0; i < count; i++) {
        tell(" %s", found[i]);
        free(found[i]);
    }
    tell("\n");
}

void name_step(void) {
    const char *name = some_name(), *other = some_name();
    off_t length = seldom(20) ? -1 : some_offset();
    switch (below(16)) {
    case 0: case 1: case 2: case 3: case 4: tell_stat(name); return;
    case 5: case 6:
        tell("unlink %s", name);
        before_call();
        told(seldom(2) ? unlink(name) : seldom(2) ? remove(name) : unlinkat(AT_FDCWD, name, 0));
        break;
    case 7: case 8:
        tell("rename %s to %s", name, other);
        before_call();
        told(seldom(2) ? rename(name, other) : renameat(AT_FDCWD, name, AT_FDCWD, other));
        break;
    case 9:
        tell("link %s to %s", name, other);
        before_call();
        told(link(name, other));
        break;
    case 10:
        tell("truncate %s, %lld", name, (long long)length);
        before_call();
        told(truncate(name, length));
        break;
    case 11:
        tell("chmod %s", name);
        before_call();
        told(chmod(name, seldom(2) ? 0644 : 0600));
        break;
    case 12:
        tell("access %s", name);
        before_call();
        told(access(name, seldom(2) ? F_OK : R_OK));
        break;
    case 13: {
        int make = (int)below(2);
        tell(make ? "mkdir d" : "rmdir d");
        before_call();
        told(make ? mkdir("d", 0755) : rmdir("d"));
        break;
    }
    default: list(seldom(2) ? "." : "d"); return;
    }
    tell("\n");
}
