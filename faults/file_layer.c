/* Preloaded into a process: sees every call that changes files under one folder. Such a call can be made to fail, to end
 * the process, or to be logged together with what was synced, so that a loss of power can be played back.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { COUNT, FAIL_ONCE, FAIL_ON, KILL, SHORT };

static char watched[PATH_MAX], snapshots[PATH_MAX];
static size_t watched_length;
static atomic_long calls, synced;
static long fatal;
static int how, number, log_file = -1;

#define REAL(name) \
    static __typeof__(name) *real; \
    if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

/* Watch what happens under `folder`; the call `at` (from 1) fails with `error`, ends the process or is cut short. */
void file_layer_arm(const char *folder, long at, int mode, int error, const char *log, const char *keep)
{
    watched_length = strlen(folder);
    memcpy(watched, folder, watched_length + 1);
    snprintf(snapshots, sizeof snapshots, "%s", keep);
    fatal = at, how = mode, number = error, calls = 0;
    log_file = *log ? (int)syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600) : -1;
}

static int is_watched(const char *path)
{
    return watched_length && !strncmp(path, watched, watched_length) && (!path[watched_length] || path[watched_length] == '/');
}

static int path_of(int descriptor, char *path)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return 1;
}

/* The absolute path of what a call names; 0 if it is not under the watched folder. */
static int named(int folder, const char *name, char *path)
{
    if (!watched_length || !name) return 0;
    if (*name == '/') {
        snprintf(path, PATH_MAX, "%s", name);
    } else {
        char base[PATH_MAX];
        if (folder == AT_FDCWD ? !getcwd(base, sizeof base) : !path_of(folder, base)) return 0;
        if (snprintf(path, PATH_MAX, "%s/%s", base, name) >= PATH_MAX) return 0;
    }
    return is_watched(path);
}

static int open_path(int descriptor, char *path)
{
    return watched_length && path_of(descriptor, path) && is_watched(path);
}

static void note(const char *what, const char *path, const char *other)
{
    char line[2 * PATH_MAX + 64];
    if (log_file < 0) return;
    int length = snprintf(line, sizeof line, "%s\t%s\t%s\n", what, path, other);
    if (length > 0 && length < (int)sizeof line) syscall(SYS_write, log_file, line, length);
}

enum { GO_ON, FAIL, CUT };

/* One more call that changes files: whether it goes on, fails or is cut short. */
static int next_call(const char *what, const char *path)
{
    long turn = ++calls;
    note("call", path, what);
    if (how == COUNT || turn < fatal) return GO_ON;
    if (how == KILL) syscall(SYS_kill, getpid(), SIGKILL);
    if (how == SHORT) return turn == fatal && !strcmp(what, "write") ? CUT : GO_ON;
    if (how == FAIL_ONCE && turn > fatal) return GO_ON;
    note("failed", path, what);
    errno = number;
    return FAIL;
}

#define CHANGE(what, path) \
    if (next_call(what, path) == FAIL) return -1

/* Keep what a file holds now: no loss of power takes it away any more. */
static void keep(int descriptor, const char *path)
{
    char target[PATH_MAX], buffer[65536], source[64];
    struct stat about;
    if (log_file < 0 || fstat(descriptor, &about)) return;
    if (S_ISDIR(about.st_mode)) {
        note("sync-folder", path, "");
        return;
    }
    if (snprintf(target, sizeof target, "%s/%d-%ld", snapshots, getpid(), (long)++synced) >= PATH_MAX) return;
    snprintf(source, sizeof source, "/proc/self/fd/%d", descriptor);
    int from = (int)syscall(SYS_openat, AT_FDCWD, source, O_RDONLY | O_CLOEXEC, 0);
    int into = (int)syscall(SYS_openat, AT_FDCWD, target, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    for (ssize_t part; from >= 0 && into >= 0 && (part = syscall(SYS_read, from, buffer, sizeof buffer)) > 0;)
        syscall(SYS_write, into, buffer, part);
    if (from >= 0) syscall(SYS_close, from);
    if (into >= 0) syscall(SYS_close, into);
    note("sync", path, target);
}

static int opening(int folder, const char *name, int flags, char *path)
{
    if (!(flags & (O_CREAT | O_TRUNC)) || !named(folder, name, path)) return 0;
    struct stat about;
    int there = !syscall(SYS_newfstatat, AT_FDCWD, path, &about, AT_SYMLINK_NOFOLLOW);
    if (there && !(flags & O_TRUNC)) return 0;
    return there ? 2 : 1;
}

#define OPEN(call, folder) \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { \
        va_list more; \
        va_start(more, flags); \
        mode = va_arg(more, mode_t); \
        va_end(more); \
    } \
    char path[PATH_MAX]; \
    int change = opening(folder, name, flags, path); \
    if (change) { CHANGE("open", path); } \
    int descriptor = call; \
    if (descriptor >= 0 && change) note(change == 1 ? "create" : "truncate", path, ""); \
    return descriptor

int open(const char *name, int flags, ...) { REAL(open); OPEN(real(name, flags, mode), AT_FDCWD); }
int open64(const char *name, int flags, ...) { REAL(open64); OPEN(real(name, flags, mode), AT_FDCWD); }
int openat(int folder, const char *name, int flags, ...) { REAL(openat); OPEN(real(folder, name, flags, mode), folder); }
int openat64(int folder, const char *name, int flags, ...) { REAL(openat64); OPEN(real(folder, name, flags, mode), folder); }

#define FOPEN(call) \
    char path[PATH_MAX]; \
    int change = opening(AT_FDCWD, name, strchr(kind, 'w') ? O_CREAT | O_TRUNC : strchr(kind, 'a') ? O_CREAT : 0, path); \
    if (change && next_call("open", path) == FAIL) return NULL; \
    FILE *file = call; \
    if (file && change) note(change == 1 ? "create" : "truncate", path, ""); \
    return file

FILE *fopen(const char *name, const char *kind) { REAL(fopen); FOPEN(real(name, kind)); }
FILE *fopen64(const char *name, const char *kind) { REAL(fopen64); FOPEN(real(name, kind)); }

#define WRITE(size, whole, part) \
    char path[PATH_MAX]; \
    if (open_path(descriptor, path)) { \
        int turn = next_call("write", path); \
        if (turn == FAIL) return -1; \
        note("write", path, ""); \
        if (turn == CUT && (size) > 1) return part; \
    } \
    return whole

ssize_t write(int descriptor, const void *data, size_t size)
{
    REAL(write);
    WRITE(size, real(descriptor, data, size), real(descriptor, data, size / 2));
}
ssize_t pwrite(int descriptor, const void *data, size_t size, off_t at)
{
    REAL(pwrite);
    WRITE(size, real(descriptor, data, size, at), real(descriptor, data, size / 2, at));
}
ssize_t pwrite64(int descriptor, const void *data, size_t size, off64_t at)
{
    REAL(pwrite64);
    WRITE(size, real(descriptor, data, size, at), real(descriptor, data, size / 2, at));
}
ssize_t writev(int descriptor, const struct iovec *parts, int count)
{
    REAL(writev);
    WRITE(count, real(descriptor, parts, count), real(descriptor, parts, 1));
}
ssize_t sendfile(int descriptor, int from, off_t *at, size_t size)
{
    static ssize_t (*real)(int, int, off_t *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "sendfile");
    WRITE(size, real(descriptor, from, at, size), real(descriptor, from, at, size / 2));
}
ssize_t sendfile64(int descriptor, int from, off64_t *at, size_t size)
{
    static ssize_t (*real)(int, int, off64_t *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "sendfile64");
    WRITE(size, real(descriptor, from, at, size), real(descriptor, from, at, size / 2));
}

#define TRUNCATE(call) \
    char path[PATH_MAX]; \
    if (open_path(descriptor, path)) { CHANGE("write", path); note("write", path, ""); } \
    return call

int ftruncate(int descriptor, off_t size) { REAL(ftruncate); TRUNCATE(real(descriptor, size)); }
int ftruncate64(int descriptor, off64_t size) { REAL(ftruncate64); TRUNCATE(real(descriptor, size)); }

#define SYNC(call) \
    char path[PATH_MAX]; \
    int change = open_path(descriptor, path); \
    if (change) { CHANGE("sync", path); } \
    int done = call; \
    if (!done && change) keep(descriptor, path); \
    return done

int fsync(int descriptor) { REAL(fsync); SYNC(real(descriptor)); }
int fdatasync(int descriptor) { REAL(fdatasync); SYNC(real(descriptor)); }

#define RENAME(call, what, old_folder, new_folder) \
    char from[PATH_MAX], to[PATH_MAX]; \
    int change = named(old_folder, old, from) | named(new_folder, new, to); \
    if (change) { CHANGE("rename", to); } \
    int done = call; \
    if (!done && change) note(what, from, to); \
    return done

int rename(const char *old, const char *new) { REAL(rename); RENAME(real(old, new), "rename", AT_FDCWD, AT_FDCWD); }
int renameat(int one, const char *old, int other, const char *new)
{
    REAL(renameat);
    RENAME(real(one, old, other, new), "rename", one, other);
}
int renameat2(int one, const char *old, int other, const char *new, unsigned int flags)
{
    REAL(renameat2);
    RENAME(real(one, old, other, new, flags), flags & RENAME_EXCHANGE ? "exchange" : "rename", one, other);
}

#define NAMED(call, kind, what, folder) \
    char path[PATH_MAX]; \
    int change = named(folder, name, path); \
    if (change) { CHANGE(kind, path); } \
    int done = call; \
    if (!done && change) note(what, path, ""); \
    return done

int mkdir(const char *name, mode_t mode) { REAL(mkdir); NAMED(real(name, mode), "open", "mkdir", AT_FDCWD); }
int mkdirat(int folder, const char *name, mode_t mode) { REAL(mkdirat); NAMED(real(folder, name, mode), "open", "mkdir", folder); }
int unlink(const char *name) { REAL(unlink); NAMED(real(name), "remove", "remove", AT_FDCWD); }
int unlinkat(int folder, const char *name, int flags) { REAL(unlinkat); NAMED(real(folder, name, flags), "remove", "remove", folder); }
int rmdir(const char *name) { REAL(rmdir); NAMED(real(name), "remove", "remove", AT_FDCWD); }
int symlink(const char *target, const char *name) { REAL(symlink); NAMED(real(target, name), "open", "create", AT_FDCWD); }
int link(const char *target, const char *name) { REAL(link); NAMED(real(target, name), "open", "create", AT_FDCWD); }
