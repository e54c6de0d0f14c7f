/* Lets one system call fail: the n-th of those on files below a directory. Loaded with LD_PRELOAD by the process that
   commands are forked from; `fault_arm` is called in the child, and the parent reads the result from shared memory. */

#define _GNU_SOURCE
#undef _FORTIFY_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

struct shared {
    int calls;     /* so far, on files below the directory */
    int failing;   /* the number of the call to fail; 0 for none */
    char kind[16]; /* of the call that has failed */
};

static struct shared *shared;
static int armed; /* in the child only */
static char below[4096];
static size_t below_length;

__attribute__((constructor)) static void make_shared(void) {
    shared = (struct shared *)syscall(SYS_mmap, NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

EXPORTED void fault_arm(const char *directory, int failing) {
    below_length = strlen(directory);
    memcpy(below, directory, below_length + 1);
    shared->calls = 0;
    shared->failing = failing;
    shared->kind[0] = 0;
    armed = 1;
}

EXPORTED int fault_calls(void) { return shared->calls; }

EXPORTED const char *fault_kind(void) { return shared->kind; }

static int inside(const char *path) {
    return path != NULL && (path[0] != '/' || strncmp(path, below, below_length) == 0); /* commands never leave it */
}

static int inside_fd(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    if (length <= 0 || path[0] != '/') return 0;
    path[length] = 0;
    return inside(path);
}

/* Returns true if this call is the one to fail. */
static int fails(const char *kind, int is_inside, int error) {
    if (!is_inside) return 0;
    int number = __atomic_add_fetch(&shared->calls, 1, __ATOMIC_SEQ_CST);
    if (number != shared->failing) return 0;
    snprintf(shared->kind, sizeof shared->kind, "%s", kind);
    errno = error;
    return 1;
}

#define ON_PATH(kind, path, error) (armed && fails(kind, inside(path), error))
#define ON_FD(kind, fd, error) (armed && fails(kind, inside_fd(fd), error))
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define OPEN(name)                                                              \
    EXPORTED int name(const char *path, int flags, ...) {                       \
        va_list rest;                                                           \
        va_start(rest, flags);                                                  \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                                           \
        if (ON_PATH("open", path, EMFILE)) return -1;                           \
        return REAL(name)(path, flags, mode);                                   \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                            \
    EXPORTED int name(int at, const char *path, int flags, ...) {               \
        va_list rest;                                                           \
        va_start(rest, flags);                                                  \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                                           \
        if (ON_PATH("open", path, EMFILE)) return -1;                           \
        return REAL(name)(at, path, flags, mode);                               \
    }
OPENAT(openat)
OPENAT(openat64)

#define CALL(result, name, parameters, arguments, condition, failure) \
    EXPORTED result name parameters {                                 \
        if (condition) return failure;                                \
        return REAL(name) arguments;                                  \
    }
CALL(ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size), ON_FD("write", fd, ENOSPC), -1)
CALL(ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), (fd, data, size, at), ON_FD("write", fd, ENOSPC), -1)
CALL(ssize_t, writev, (int fd, const struct iovec *data, int count), (fd, data, count), ON_FD("write", fd, ENOSPC), -1)
CALL(ssize_t, read, (int fd, void *data, size_t size), (fd, data, size), ON_FD("read", fd, EIO), -1)
CALL(int, fsync, (int fd), (fd), ON_FD("fsync", fd, EIO), -1)
CALL(int, ftruncate64, (int fd, off64_t size), (fd, size), ON_FD("ftruncate", fd, EIO), -1)
CALL(int, fchmod, (int fd, mode_t mode), (fd, mode), ON_FD("fchmod", fd, EIO), -1)
CALL(off64_t, lseek64, (int fd, off64_t at, int whence), (fd, at, whence), ON_FD("lseek", fd, EIO), -1)
CALL(int, flock, (int fd, int how), (fd, how), ON_FD("flock", fd, ENOLCK), -1)
CALL(void *, mmap64, (void *at, size_t size, int protection, int flags, int fd, off64_t offset), (at, size, protection, flags, fd, offset), fd >= 0 && ON_FD("mmap", fd, ENOMEM), MAP_FAILED)
CALL(int, rename, (const char *from, const char *to), (from, to), ON_PATH("rename", to, EIO), -1)
CALL(int, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to), ON_PATH("rename", to, EIO), -1)
CALL(int, unlink, (const char *path), (path), ON_PATH("unlink", path, EIO), -1)
CALL(int, unlinkat, (int at, const char *path, int flags), (at, path, flags), ON_PATH("unlink", path, EIO), -1)
CALL(int, rmdir, (const char *path), (path), ON_PATH("rmdir", path, EIO), -1)
CALL(int, mkdir, (const char *path, mode_t mode), (path, mode), ON_PATH("mkdir", path, EIO), -1)

/* The file is closed nevertheless, as on Linux. */
EXPORTED int close(int fd) {
    if (ON_FD("close", fd, EIO)) {
        REAL(close)(fd);
        errno = EIO;
        return -1;
    }
    return REAL(close)(fd);
}
