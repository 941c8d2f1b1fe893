/* A world that fails: every system call of the process, whatever code makes it, comes here first.
 *
 * Linux' syscall user dispatch (x86-64, 5.11 and later) turns each system call that is not made by `world_raw` into a signal. Its
 * handler makes the call, or fails it, shortens it, or ends the process. So nothing goes around it: neither rustix, which calls
 * the kernel itself, nor the C library's own calls. The code under test is compiled as it is shipped.
 *
 * Operations are the calls on files of the world's folder and on redirected standard input and output. They are numbered and
 * recorded. All other calls pass.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef __x86_64__
#error "only x86-64 Linux lets a process dispatch its own system calls"
#endif
#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif
enum { ALLOW = 0, BLOCK = 1 };

/* The only code whose system calls are not dispatched: a call with six arguments, and the return from a handler. */
extern char world_raw_begin[], world_raw_end[];
extern long world_raw(long nr, long a, long b, long c, long d, long e, long f);
extern void world_return(void);
__asm__(".text\n"
        ".globl world_raw_begin\nworld_raw_begin:\n"
        ".globl world_raw\nworld_raw:\n"
        "  mov %rdi, %rax\n  mov %rsi, %rdi\n  mov %rdx, %rsi\n  mov %rcx, %rdx\n  mov %r8, %r10\n  mov %r9, %r8\n"
        "  mov 8(%rsp), %r9\n  syscall\n  ret\n"
        ".globl world_return\nworld_return:\n"
        "  mov $15, %eax\n  syscall\n  hlt\n"
        ".globl world_raw_end\nworld_raw_end:\n");

enum kind { ERROR = 1, LATE, SHORT, KILL, KILL_AFTER, TORN, STOP, FULL, READ_ONLY, SIGNAL };
enum { MOST_FAULTS = 4, MOST_OPS = 8192, MOST_BYTES = 4 << 20 };
/* How a process ends that the world ends. */
enum { KILLED = 200, ENDLESS = 201 };

struct fault {
  uint32_t at, kind;
  int32_t value;
  uint32_t met; /* 1 and the number of the operation that it met first, or 0 */
};

/* Flags of an operation. */
enum { CREATED = 1, TRUNCATED = 2, FAILED_BY_US = 4 };

struct op {
  uint32_t nr, flags;
  int64_t ret;
  uint64_t dir, ino, dir2;
  int64_t offset;
  uint32_t mode, len, data, name, name2, pad;
};

struct world {
  uint32_t count, limit, faults, fs_type;
  uint64_t device, root;
  struct fault fault[MOST_FAULTS];
  uint32_t ops, used, overflow, keep_data, keep_inodes;
  char path[256];
  struct op op[MOST_OPS];
  char bytes[MOST_BYTES];
};

static struct world *world;
static volatile int is_on;
static __thread volatile char selector;
static volatile int busy;
static char **arguments;
static int argument_count;

__attribute__((constructor)) static void remember(int argc, char **argv) {
  arguments = argv;
  argument_count = argc;
}

/* Puts other arguments in the place of this process's own, of which there must be enough. */
int world_arguments(char **given, int count) {
  if (count >= argument_count)
    return -1;
  for (int i = 0; i < count; i++)
    arguments[i] = given[i];
  arguments[count] = NULL;
  return 0;
}

struct world *world_new(void) {
  void *shared = mmap(NULL, sizeof(struct world), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return shared == MAP_FAILED ? NULL : shared;
}

#define RAW(nr, a, b, c, d, e, f) world_raw(nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

static void die(int code) {
  for (;;)
    RAW(SYS_exit_group, code, 0, 0, 0, 0, 0);
}

/* ---- What a call is about ---- */

struct about {
  int is_op;        /* whether it counts */
  int changes;      /* whether it changes the disk */
  int allocates;    /* whether it may need space */
  int moves;        /* 1: reads, 2: writes */
  uint64_t dir, ino, dir2;
  const char *name, *name2;
};

static int stat_of(int fd, struct stat *st) { return RAW(SYS_fstat, fd, st, 0, 0, 0, 0) == 0; }

static int is_folder(int fd) {
  struct stat st;
  return stat_of(fd, &st) && S_ISDIR(st.st_mode);
}

static int by_fd(struct about *a, int fd) {
  struct stat st;
  if (fd == 2 || fd < 0 || !stat_of(fd, &st))
    return 0;
  if (st.st_dev != world->device || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISLNK(st.st_mode)))
    return 0;
  a->ino = st.st_ino;
  return a->is_op = 1;
}

/* Whether the path is within the world, and the folder that it starts from: 0 if it is absolute. */
static int by_path(uint64_t *dir, int fd, const char *path) {
  if (!path)
    return 0;
  if (path[0] == '/') {
    *dir = 0;
    size_t len = strlen(world->path);
    return (strncmp(path, world->path, len) == 0 && (path[len] == '/' || path[len] == 0)) ||
           strncmp(path, "/proc/self/fd/", 14) == 0;
  }
  if (fd == AT_FDCWD) {
    *dir = world->root;
    return 1;
  }
  struct stat st;
  if (!stat_of(fd, &st) || st.st_dev != world->device)
    return 0;
  *dir = st.st_ino;
  return 1;
}

static int one_path(struct about *a, int fd, const char *path) {
  a->name = path;
  return a->is_op = by_path(&a->dir, fd, path);
}

static int two_paths(struct about *a, int fd, const char *path, int fd2, const char *path2) {
  a->name = path, a->name2 = path2;
  uint64_t ignored;
  return a->is_op = by_path(&a->dir, fd, path) & (by_path(&a->dir2, fd2, path2) || by_path(&ignored, fd2, path2));
}

static struct about look(long nr, const long *g) {
  struct about a = {0};
  switch (nr) {
  case SYS_write: case SYS_pwrite64: case SYS_writev: case SYS_pwritev: case SYS_pwritev2:
    a.changes = a.allocates = 1, a.moves = 2;
    by_fd(&a, g[0]);
    break;
  case SYS_read: case SYS_pread64: case SYS_readv: case SYS_preadv: case SYS_preadv2:
    a.moves = 1;
    by_fd(&a, g[0]);
    break;
  case SYS_ftruncate: case SYS_fallocate: case SYS_fsetxattr:
    a.allocates = 1; /* fall through */
  case SYS_fchmod: case SYS_fchown: case SYS_fremovexattr: case SYS_fsync: case SYS_fdatasync: case SYS_syncfs:
    a.changes = 1;
    by_fd(&a, g[0]);
    break;
  case SYS_close:
    /* No file system reports an error when a folder is closed, and the standard library panics at one. */
    if (by_fd(&a, g[0]) && is_folder(g[0]))
      a.is_op = 0;
    break;
  case SYS_fstat: case SYS_getdents64: case SYS_lseek: case SYS_flock: case SYS_fcntl: case SYS_dup:
  case SYS_fstatfs: case SYS_fgetxattr: case SYS_flistxattr: case SYS_fadvise64: case SYS_sync_file_range:
    by_fd(&a, g[0]);
    break;
  case SYS_copy_file_range:
    a.changes = a.allocates = 1;
    by_fd(&a, g[2]);
    break;
  case SYS_open: case SYS_creat:
    a.changes = nr == SYS_creat || (g[1] & (O_CREAT | O_TRUNC)), a.allocates = nr == SYS_creat || (g[1] & O_CREAT);
    one_path(&a, AT_FDCWD, (char *)g[0]);
    break;
  case SYS_openat:
    a.changes = (g[2] & (O_CREAT | O_TRUNC)) != 0, a.allocates = (g[2] & O_CREAT) != 0;
    one_path(&a, g[0], (char *)g[1]);
    break;
  case SYS_openat2:
    a.changes = (((struct open_how *)g[2])->flags & (O_CREAT | O_TRUNC)) != 0;
    one_path(&a, g[0], (char *)g[1]);
    break;
  case SYS_mkdir: case SYS_mknod: a.allocates = 1; /* fall through */
  case SYS_unlink: case SYS_rmdir: case SYS_chmod: case SYS_chown: case SYS_lchown: case SYS_truncate: case SYS_setxattr:
  case SYS_lsetxattr: case SYS_removexattr: case SYS_lremovexattr:
    a.changes = 1; /* fall through */
  case SYS_stat: case SYS_lstat: case SYS_access: case SYS_readlink: case SYS_statfs: case SYS_getxattr: case SYS_lgetxattr:
  case SYS_listxattr: case SYS_llistxattr:
    one_path(&a, AT_FDCWD, (char *)g[0]);
    break;
  case SYS_mkdirat: case SYS_mknodat: a.allocates = 1; /* fall through */
  case SYS_unlinkat: case SYS_fchmodat: case 452: /* fchmodat2 */ case SYS_fchownat:
    a.changes = 1; /* fall through */
  case SYS_newfstatat: case SYS_statx: case SYS_faccessat: case SYS_faccessat2: case SYS_readlinkat:
    if (g[1] && *(char *)g[1] == 0)
      by_fd(&a, g[0]);
    else
      one_path(&a, g[0], (char *)g[1]);
    break;
  case SYS_utimensat:
    a.changes = 1;
    if (g[1])
      one_path(&a, g[0], (char *)g[1]);
    else
      by_fd(&a, g[0]);
    break;
  case SYS_rename: a.changes = 1, two_paths(&a, AT_FDCWD, (char *)g[0], AT_FDCWD, (char *)g[1]); break;
  case SYS_renameat: case SYS_renameat2: a.changes = 1, two_paths(&a, g[0], (char *)g[1], g[2], (char *)g[3]); break;
  case SYS_link: a.changes = a.allocates = 1, two_paths(&a, AT_FDCWD, (char *)g[0], AT_FDCWD, (char *)g[1]); break;
  case SYS_linkat: a.changes = a.allocates = 1, two_paths(&a, g[0], (char *)g[1], g[2], (char *)g[3]); break;
  case SYS_symlink: a.changes = a.allocates = 1, one_path(&a, AT_FDCWD, (char *)g[1]), a.name2 = (char *)g[0]; break;
  case SYS_symlinkat: a.changes = a.allocates = 1, one_path(&a, g[1], (char *)g[2]), a.name2 = (char *)g[0]; break;
  }
  return a;
}

/* ---- The record ---- */

static uint32_t keep(const void *bytes, size_t len) {
  if (world->used + len > MOST_BYTES) {
    world->overflow = 1;
    return 0;
  }
  uint32_t at = world->used;
  memcpy(world->bytes + at, bytes, len);
  world->used += len;
  return at;
}

static uint32_t keep_name(const char *name) { return name ? keep(name, strlen(name) + 1) : 0; }

static struct op *begin_op(long nr, const struct about *a) {
  if (world->ops == MOST_OPS) {
    world->overflow = 1;
    return NULL;
  }
  struct op *op = &world->op[world->ops++];
  memset(op, 0, sizeof *op);
  /* Until it is done, it is not: the process may end before. */
  op->ret = -EINTR;
  op->nr = nr, op->dir = a->dir, op->dir2 = a->dir2, op->ino = a->ino;
  /* Offset 0 stands for no name. */
  if (world->used == 0)
    world->used = 1;
  op->name = keep_name(a->name), op->name2 = keep_name(a->name2);
  return op;
}

static uint64_t inode_at(int fd, const char *path) {
  struct stat st;
  return RAW(SYS_newfstatat, fd, path, &st, AT_SYMLINK_NOFOLLOW, 0, 0) == 0 ? st.st_ino : 0;
}

/* Keeps what was written, wherever it lay. */
static void keep_written(struct op *op, long nr, const long *g, long ret) {
  if (ret <= 0)
    return;
  op->len = ret;
  if (!world->keep_data)
    return;
  if (nr == SYS_write || nr == SYS_pwrite64) {
    op->data = keep((void *)g[1], ret);
    return;
  }
  op->data = world->used;
  const struct iovec *vec = (void *)g[1];
  for (long i = 0, left = ret; i < g[2] && left > 0; i++) {
    long part = left < (long)vec[i].iov_len ? left : (long)vec[i].iov_len;
    keep(vec[i].iov_base, part);
    left -= part;
  }
}

/* Space is not reserved, because a file system in memory fills it with zeros, which takes longer than all else. Only the length is
 * as it would be. */
static long allocate(const long *g) {
  struct stat st;
  if (g[1] & ~FALLOC_FL_KEEP_SIZE)
    return RAW(SYS_fallocate, g[0], g[1], g[2], g[3], 0, 0);
  if (g[1] || !stat_of(g[0], &st) || st.st_size >= g[2] + g[3])
    return 0;
  return RAW(SYS_ftruncate, g[0], g[2] + g[3], 0, 0, 0, 0);
}

/* ---- Inodes that a power cut may bring back ----
 *
 * A file that is about to lose its last name gets another one, outside of the world: a power cut may undo the removal, and what a
 * volume says of a file it says of an inode. The process does not see that name. */

enum { MOST_BURIED = 512 };
static uint64_t buried[MOST_BURIED];
static int buried_count;

static int is_buried(uint64_t ino) {
  for (int i = 0; i < buried_count; i++)
    if (buried[i] == ino)
      return 1;
  return 0;
}

static void bury(int fd, const char *path) {
  struct stat st;
  if (RAW(SYS_newfstatat, fd, path, &st, AT_SYMLINK_NOFOLLOW, 0, 0) || !S_ISREG(st.st_mode) || st.st_nlink != 1 ||
      is_buried(st.st_ino))
    return;
  if (buried_count == MOST_BURIED) {
    world->overflow = 1;
    return;
  }
  char grave[sizeof world->path + 32], digits[24];
  size_t len = strlen(world->path), count = 0;
  memcpy(grave, world->path, len);
  memcpy(grave + len, ".removed/", 9);
  len += 9;
  for (uint64_t rest = st.st_ino; rest || !count; rest /= 10)
    digits[count++] = '0' + rest % 10;
  while (count)
    grave[len++] = digits[--count];
  grave[len] = 0;
  if (RAW(SYS_linkat, fd, path, AT_FDCWD, grave, 0, 0) == 0)
    buried[buried_count++] = st.st_ino;
  else
    world->overflow = 1;
}

static void bury_what_goes(long nr, const long *g) {
  switch (nr) {
  case SYS_unlink: bury(AT_FDCWD, (char *)g[0]); break;
  case SYS_unlinkat:
    if (!(g[2] & AT_REMOVEDIR))
      bury(g[0], (char *)g[1]);
    break;
  case SYS_rename: bury(AT_FDCWD, (char *)g[1]); break;
  case SYS_renameat: bury(g[2], (char *)g[3]); break;
  case SYS_renameat2:
    if (!(g[4] & (RENAME_EXCHANGE | RENAME_NOREPLACE)))
      bury(g[2], (char *)g[3]);
    break;
  }
}

/* Counts a file's names without the one that the process does not know. */
static void hide_buried(long nr, const long *g) {
  struct stat *st = (void *)(nr == SYS_newfstatat ? g[2] : g[1]);
  struct statx *stx = (void *)g[4];
  switch (nr) {
  case SYS_stat: case SYS_lstat: case SYS_fstat: case SYS_newfstatat:
    st->st_nlink -= is_buried(st->st_ino);
    break;
  case SYS_statx: stx->stx_nlink -= is_buried(stx->stx_ino); break;
  }
}

/* Makes a call, and completes its record. */
static long perform(struct op *op, long nr, const long *g) {
  int creates = (nr == SYS_openat && (g[2] & O_CREAT)) || (nr == SYS_open && (g[1] & O_CREAT)) || nr == SYS_creat;
  int fd = nr == SYS_openat ? g[0] : AT_FDCWD;
  const char *path = (char *)(nr == SYS_openat ? g[1] : g[0]);
  uint64_t before = creates ? inode_at(fd, path) : 0;
  if (op && (nr == SYS_unlink || nr == SYS_rmdir))
    op->ino = inode_at(AT_FDCWD, (char *)g[0]);
  if (op && nr == SYS_unlinkat)
    op->ino = inode_at(g[0], (char *)g[1]);
  long position = (nr == SYS_write || nr == SYS_writev) ? RAW(SYS_lseek, g[0], 0, SEEK_CUR, 0, 0, 0) : 0;
  if (world->keep_inodes)
    bury_what_goes(nr, g);
  long ret = nr == SYS_fallocate ? allocate(g) : RAW(nr, g[0], g[1], g[2], g[3], g[4], g[5]);
  if (world->keep_inodes && ret == 0)
    hide_buried(nr, g);
  if (world->fs_type && ret == 0 && (nr == SYS_fstatfs || nr == SYS_statfs))
    ((struct statfs *)g[1])->f_type = world->fs_type;
  if (!op)
    return ret;
  op->ret = ret;
  if (ret < 0)
    return ret;
  struct stat st;
  switch (nr) {
  case SYS_open: case SYS_openat: case SYS_creat:
    if (stat_of(ret, &st))
      op->ino = st.st_ino, op->mode = st.st_mode;
    if (creates && !before)
      op->flags |= CREATED;
    if (nr == SYS_creat || ((nr == SYS_openat ? g[2] : g[1]) & O_TRUNC))
      op->flags |= TRUNCATED;
    break;
  case SYS_write: case SYS_writev:
    op->offset = position;
    /* With O_APPEND the position was another one. */
    long after = RAW(SYS_lseek, g[0], 0, SEEK_CUR, 0, 0, 0);
    if (after >= ret)
      op->offset = after - ret;
    keep_written(op, nr, g, ret);
    break;
  case SYS_pwrite64: case SYS_pwritev: case SYS_pwritev2:
    op->offset = g[3];
    keep_written(op, nr, g, ret);
    break;
  case SYS_ftruncate: op->offset = g[1]; break;
  case SYS_fallocate: op->mode = g[1], op->offset = g[2], op->len = g[3]; break;
  case SYS_fchmod: op->mode = g[1]; break;
  case SYS_chmod: op->mode = g[1]; break;
  case SYS_fchmodat: op->mode = g[2]; break;
  case SYS_mkdirat: op->ino = inode_at(g[0], (char *)g[1]); break;
  case SYS_mkdir: op->ino = inode_at(AT_FDCWD, (char *)g[0]); break;
  case SYS_symlinkat: op->ino = inode_at(g[1], (char *)g[2]); break;
  case SYS_symlink: op->ino = inode_at(AT_FDCWD, (char *)g[1]); break;
  case SYS_linkat: op->ino = inode_at(g[2], (char *)g[3]); break;
  case SYS_renameat2: op->mode = g[4]; break;
  case SYS_unlinkat: op->mode = g[2]; break;
  }
  return ret;
}

/* ---- Faults ---- */

/* Half of what was asked for. */
static long shortened(struct op *op, long nr, const long *g) {
  long args[6];
  memcpy(args, g, sizeof args);
  struct iovec part;
  if (nr == SYS_writev || nr == SYS_pwritev || nr == SYS_readv || nr == SYS_preadv || nr == SYS_pwritev2 || nr == SYS_preadv2) {
    const struct iovec *vec = (void *)g[1];
    for (long i = 0; i < g[2]; i++) {
      part = vec[i];
      if (part.iov_len > 0)
        break;
    }
    if (g[2] == 0)
      return perform(op, nr, g);
    part.iov_len = part.iov_len / 2 + part.iov_len % 2;
    args[1] = (long)&part, args[2] = 1;
  } else {
    args[2] = g[2] / 2 + g[2] % 2;
  }
  return perform(op, nr, args);
}

static long fail(struct op *op, long nr, const long *g, int error) {
  /* Linux closes a descriptor whatever the error. */
  if (nr == SYS_close)
    RAW(nr, g[0], 0, 0, 0, 0, 0);
  if (op)
    op->ret = -error, op->flags |= FAILED_BY_US;
  return -error;
}

static long operate(long nr, const long *g, const struct about *a) {
  uint32_t number = world->count++;
  if (number >= world->limit)
    die(ENDLESS);
  struct op *op = begin_op(nr, a);
  for (uint32_t i = 0; i < world->faults; i++) {
    struct fault *fault = &world->fault[i];
    int is_now = number == fault->at, is_since = number >= fault->at;
    uint32_t met = fault->met ? fault->met : number + 1;
    switch (fault->kind) {
    case ERROR:
      if (is_now)
        return fault->met = met, fail(op, nr, g, fault->value);
      break;
    case LATE:
      if (is_now) {
        fault->met = met;
        long ret = perform(op, nr, g);
        if (ret >= 0 && (nr == SYS_openat || nr == SYS_open || nr == SYS_dup))
          RAW(SYS_close, ret, 0, 0, 0, 0, 0);
        return -fault->value;
      }
      break;
    case SHORT:
      if (is_now && a->moves)
        return fault->met = met, shortened(op, nr, g);
      break;
    case KILL:
      if (is_now)
        fault->met = met, die(KILLED);
      break;
    case KILL_AFTER:
      if (is_now)
        fault->met = met, perform(op, nr, g), die(KILLED);
      break;
    case TORN:
      if (is_now && a->moves == 2)
        fault->met = met, shortened(op, nr, g), die(KILLED);
      break;
    case STOP:
      if (is_since)
        return fault->met = met, fail(op, nr, g, fault->value);
      break;
    case FULL:
      if (is_since && a->allocates)
        return fault->met = met, fail(op, nr, g, fault->value);
      break;
    case READ_ONLY:
      if (is_since && a->changes)
        return fault->met = met, fail(op, nr, g, fault->value);
      break;
    case SIGNAL:
      if (is_now)
        fault->met = met, RAW(SYS_kill, RAW(SYS_getpid, 0, 0, 0, 0, 0, 0), fault->value, 0, 0, 0, 0);
      break;
    }
  }
  return perform(op, nr, g);
}

/* ---- The handler ---- */

/* The mask belongs to the code that was interrupted. The dispatching signal is never blocked. */
static long mask(ucontext_t *context, int how, const uint64_t *set, uint64_t *old) {
  uint64_t *now = (uint64_t *)&context->uc_sigmask, before = *now;
  if (set) {
    if (how == SIG_BLOCK)
      *now |= *set;
    else if (how == SIG_UNBLOCK)
      *now &= ~*set;
    else if (how == SIG_SETMASK)
      *now = *set;
    else
      return -EINVAL;
    *now &= ~(1ull << (SIGSYS - 1));
  }
  if (old)
    *old = before;
  return 0;
}

static void dispatch(int signal, siginfo_t *info, void *given) {
  (void)signal, (void)info;
  ucontext_t *context = given;
  greg_t *reg = context->uc_mcontext.gregs;
  long nr = reg[REG_RAX];
  long g[6] = {reg[REG_RDI], reg[REG_RSI], reg[REG_RDX], reg[REG_R10], reg[REG_R8], reg[REG_R9]};
  switch (nr) {
  case SYS_rt_sigprocmask: reg[REG_RAX] = mask(context, g[0], (uint64_t *)g[1], (uint64_t *)g[2]); return;
  /* Locking the memory of each of a million short processes would only take time. */
  case SYS_mlock: case SYS_mlock2: case SYS_mlockall: case SYS_munlockall: reg[REG_RAX] = -EPERM; return;
  /* It would go around this. */
  case SYS_io_uring_setup: reg[REG_RAX] = -ENOSYS; return;
  case SYS_rt_sigaction:
    if (g[0] == SIGSYS) {
      reg[REG_RAX] = 0;
      return;
    }
  }
  struct about a = look(nr, g);
  if (!a.is_op) {
    reg[REG_RAX] = RAW(nr, g[0], g[1], g[2], g[3], g[4], g[5]);
    return;
  }
  /* One operation at a time, so that the record has their order. A lock on a file may wait for another thread. */
  int waits = nr == SYS_flock;
  while (!waits && __atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE))
    RAW(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
  reg[REG_RAX] = operate(nr, g, &a);
  if (!waits)
    __atomic_store_n(&busy, 0, __ATOMIC_RELEASE);
}

static int dispatch_thread(void) {
  selector = ALLOW;
  long len = world_raw_end - world_raw_begin;
  if (RAW(SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, 1, world_raw_begin, len, &selector, 0))
    return -1;
  selector = BLOCK;
  return 0;
}

/* From here on, the calls of this thread and of its new ones go through the world. */
int world_begin(struct world *given) {
  world = given;
  struct {
    void *handler;
    unsigned long flags;
    void *restorer;
    unsigned long mask;
  } action = {dispatch, SA_SIGINFO | SA_NODEFER | 0x04000000, world_return, 0};
  if (RAW(SYS_rt_sigaction, SIGSYS, &action, 0, 8, 0, 0))
    return -1;
  is_on = 1;
  return dispatch_thread();
}

void world_end(void) { selector = ALLOW, is_on = 0; }

void world_exit(int code) { die(code); }

struct start {
  void *(*body)(void *);
  void *with;
};

static void *start(void *given) {
  struct start start = *(struct start *)given;
  free(given);
  if (dispatch_thread())
    abort();
  void *result = start.body(start.with);
  selector = ALLOW;
  return result;
}

/* In the place of the C library's: a new thread is not dispatched, unless it says so itself. */
int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *with) {
  static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
  char before = selector;
  selector = ALLOW;
  if (!real)
    real = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_NEXT, "pthread_create");
  int failed;
  if (is_on) {
    struct start *given = malloc(sizeof *given);
    if (!given) {
      selector = before;
      return EAGAIN;
    }
    *given = (struct start){body, with};
    failed = real(thread, attributes, start, given);
    if (failed)
      free(given);
  } else {
    failed = real(thread, attributes, body, with);
  }
  selector = before;
  return failed;
}

/* ---- Processes ---- */

int world_fork(void) { return fork(); }

/* Ends this process by SIGKILL after so many seconds, whatever it waits for then. */
int world_deadline(int seconds) {
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL};
  struct itimerspec when = {.it_value.tv_sec = seconds};
  timer_t timer;
  return timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &when, NULL) ? -1 : 0;
}

/* Standard input, output and error of a new process, and its folder. */
int world_enter(int in, int out, int error, const char *dir) {
  return dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(error, 2) < 0 || chdir(dir) ? -1 : 0;
}

/* Its exit code; 256 and its signal if it was killed. */
int world_wait(int child) {
  int status;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR)
      return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}
