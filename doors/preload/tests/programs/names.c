/* Files by their names. */
#include "say.h"
#include <dirent.h>
#include <dlfcn.h>
#include <ftw.h>
#include <glob.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <utime.h>

typedef int old_stat(int, const char *, struct stat *);
typedef int old_fstat(int, int, struct stat *);

static int visited;

static int visit(const char *name, const struct stat *st, int type)
{
    (void)name, (void)st, (void)type;
    visited++;
    return 0;
}

static int visit_more(const char *name, const struct stat *st, int type, struct FTW *where)
{
    (void)where;
    return visit(name, st, type);
}

int main(void)
{
    char text[4096];
    struct stat st;
    struct statx sx;
    int a = open("a", O_RDWR | O_CREAT, 0640);
    SAY(write(a, "12345", 5));
    SAY(stat("a", &st));
    SAY(st.st_size);
    SAY(st.st_mode);
    SAY(stat("", &st));
    SAY(stat("none", &st));
    SAY(stat("a/b", &st));
    SAY(stat(".//../././", &st));
    SAY(lstat("a", &st));
    SAY(fstat(a, &st));
    SAY(st.st_size);
    SAY(fstatat(AT_FDCWD, "a", &st, 0));
    SAY(fstatat(a, "", &st, AT_EMPTY_PATH));
    SAY(st.st_size);
    SAY(fstatat(99, "a", &st, 0));
    SAY(statx(AT_FDCWD, "a", 0, STATX_SIZE, &sx));
    SAY(sx.stx_size);
    SAY(statx(a, "", AT_EMPTY_PATH, STATX_ALL, &sx));
    SAY(sx.stx_size);
    SAY(statx(99, "none", 0, STATX_ALL, &sx));
    old_stat *xstat = (old_stat *)dlsym(RTLD_DEFAULT, "__xstat");
    old_stat *lxstat = (old_stat *)dlsym(RTLD_DEFAULT, "__lxstat64");
    old_fstat *fxstat = (old_fstat *)dlsym(RTLD_DEFAULT, "__fxstat");
    SAY(xstat(1, "a", &st));
    SAY(st.st_size);
    SAY(lxstat(1, "a", &st));
    SAY(fxstat(1, a, &st));
    SAY(st.st_size);
    SAY(xstat(77, "a", &st));

    SAY(mkdir("dir", 0755));
    SAY(mkdir("dir", 0755));
    int dir = open("dir", O_RDONLY | O_DIRECTORY);
    SAY(mkdirat(dir, "below", 0700));
    int b = openat(dir, "below/b", O_WRONLY | O_CREAT, 0600);
    SAY(write(b, "below", 5));
    SAY(close(b));
    SAY(fstatat(dir, "below/b", &st, 0));
    SAY(st.st_size);
    show("dir/../dir/below/b");
    SAY(rename("a", "dir/a"));
    SAY(write(a, "678", 3));
    SAY(renameat(dir, "a", dir, "below/a"));
    SAY(renameat2(dir, "below/a", dir, "below/b", RENAME_NOREPLACE));
    SAY(rename("none", "more"));
    SAY(rename("dir/below/a", "dir/below/b"));
    show("dir/below/b");
    SAY(write(a, "9", 1));
    SAY(truncate("dir/below/b", 4));
    SAY(lseek(a, 0, SEEK_END));
    SAY(access("dir/below/b", R_OK));
    SAY(access("none", F_OK));
    SAY(faccessat(dir, "below", X_OK, 0));
    SAY(euidaccess("dir", R_OK));
    SAY(link("dir/below/b", "linked"));
    SAY(symlink("linked", "soft"));
    SAY(readlink("soft", text, sizeof text));
    SAY(realpath("soft", text) != NULL);
    SAY(strcmp(strrchr(text, '/'), "/linked"));
    SAY(realpath("none/none", text) == NULL);
    SAY(lstat("soft", &st));
    SAY(S_ISLNK(st.st_mode));
    show("soft");
    int nofollow = open("soft", O_RDONLY | O_NOFOLLOW);
    SAY(nofollow);
    SAY(chmod("linked", 0600));
    SAY(fchmod(a, 0644));
    SAY(chown("linked", (uid_t)-1, (gid_t)-1));
    SAY(fchown(a, (uid_t)-1, (gid_t)-1));
    struct timespec times[2] = {{1000, 0}, {2000, 0}};
    SAY(utimensat(AT_FDCWD, "linked", times, 0));
    SAY(stat("linked", &st));
    SAY(st.st_mtime);
    times[1].tv_sec = 3000;
    SAY(futimens(a, times));
    SAY(fstat(a, &st));
    SAY(st.st_mtime);
    struct timeval older[2] = {{10, 0}, {20, 0}};
    SAY(utimes("linked", older));
    SAY(utime("linked", NULL));
    SAY(getxattr("linked", "user.none", text, 10) < 0);

    DIR *listing = opendir("dir/below");
    int names = 0;
    while (readdir(listing))
        names++;
    SAY(names);
    SAY(closedir(listing));
    listing = fdopendir(dir);
    names = 0;
    while (readdir(listing))
        names++;
    SAY(names);
    SAY(closedir(listing));
    SAY(opendir("none") == NULL);
    struct dirent **found;
    SAY(scandir("dir/below", &found, NULL, alphasort));
    SAY(ftw("dir", visit, 5));
    SAY(nftw("dir", visit_more, 5, FTW_PHYS));
    SAY(visited);
    glob_t matches;
    SAY(glob("di*/*/?", 0, NULL, &matches));
    SAY(matches.gl_pathc);

    SAY(unlink("none"));
    SAY(unlink("dir"));
    SAY(remove("dir"));
    SAY(rmdir("dir"));
    SAY(unlink("dir/below/b"));
    SAY(read(a, text, 10));
    SAY(unlinkat(AT_FDCWD, "soft", 0));
    SAY(remove("dir/below"));
    SAY(remove("none"));
    SAY(unlinkat(AT_FDCWD, "dir", AT_REMOVEDIR));
    show("linked");
    SAY(chdir("/"));
    SAY(open("none", O_RDONLY));
    SAY(creat("/", 0600));
    SAY(open("/", O_RDONLY | O_DIRECTORY) >= 0);
    SAY(open("/tmp", O_TMPFILE | O_RDWR, 0600) >= 0);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    SAY(open(text, O_RDONLY));
    SAY(open(NULL, O_RDONLY));
    /* By a name that is open, but not the file. */
    int held = open("by-name", O_RDWR | O_CREAT | O_TRUNC, 0644);
    SAY(write(held, "123", 3));
    int name = open("by-name", O_PATH);
    SAY(name >= 0);
    SAY(fstat(name, &st));
    SAY(st.st_size);
    SAY(read(name, text, 3));
    SAY(write(held, "45", 2));
    SAY(fstat(name, &st));
    SAY(st.st_size);
    SAY(close(name));
    SAY(close(held));
    SAY(open("no-such-name", O_PATH));
    return 0;
}
