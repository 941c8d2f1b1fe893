// A stand-in for the part of NVIDIA's driver that this crate calls. The device is the host, and its kernels are plain C. It
// compares the PTX that it gets with the files in $STAND_IN, and runs the code next to them, which was compiled from the same
// source. It reads the arguments of a launch as the PTX declares them.
//
// It guarantees to callers only what the driver guarantees:
// - Every call for a device needs a retained context that is current on the thread.
// - Work on a stream is only queued. It is done when the caller asks whether it is over, and the first answer is "not ready".
//   So copies that read or write too early or too late are noticed.
// - Pinned memory has another address for kernels than for the host, and only if it was allocated with that flag.
// - A copy of memory that is not pinned is done at once, after all earlier work. Tests count these copies, and the waits.
// - While another library captures work as a graph, a thread allocates and frees only in the relaxed mode, and nobody waits for
//   the whole context.
// - No memory is freed while work is left that uses it, and no device memory is freed before it is wiped.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

typedef int (*run_t)(const char *, void **, const uint32_t *, uint32_t, uint32_t);
typedef struct {
    char *ptx;
    run_t run;
} module_t;
typedef struct {
    module_t *module;
    char name[64];
} function_t;

enum { OK, INVALID = 1, OUT_OF_MEMORY = 2, NO_CONTEXT = 201, BAD_IMAGE = 200, OS_CALL = 304, NOT_FOUND = 500, NOT_READY = 600, CAPTURE = 900 };

// One lock for everything. It is held during each call.
static pthread_mutex_t all = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static void unlock(pthread_mutex_t **lock) { pthread_mutex_unlock(*lock); }

// After its last release, the context is new again, at another address.
static char contexts[256];
static int retained, context;
enum { DEEP = 64 };
static __thread void *pushed[DEEP];
static __thread int depth;
static void *current(void) { return depth > 0 ? pushed[depth - 1] : NULL; }

// If this is set, no work ends any more. Every call that waits without a limit, or frees anything, is then a mistake.
static int hangs;
// The number of the call that fails, from 0, and its code.
static long fails = -1;
static int failure;

static void mistake(const char *what) {
    fprintf(stderr, "stand-in: %s\n", what);
    abort();
}

static int outcome(void) { return fails >= 0 && fails-- == 0 ? failure : OK; }

#define BEGIN() \
    __attribute__((cleanup(unlock))) pthread_mutex_t *held = &all; \
    pthread_mutex_lock(held); \
    int failed = outcome(); \
    if (failed) { \
        return failed; \
    }
#define INSIDE() \
    BEGIN() \
    if (retained == 0 || current() != &contexts[context]) { \
        return NO_CONTEXT; \
    }
#define MUST_END() \
    if (hangs) { \
        mistake("a call that may wait for ever"); \
    }

// Whether another library captures work, and the mode of the thread. Only in the relaxed one, 2, may it do what would end that.
static int captures;
static __thread unsigned mode;
#define MUST_BE_RELAXED() \
    if (captures && mode != 2) { \
        mistake("a call that ends the capture of another library"); \
    }
int cuThreadExchangeStreamCaptureMode(unsigned *other) {
    BEGIN()
    if (*other > 2) {
        return INVALID;
    }
    unsigned before = mode;
    mode = *other;
    *other = before;
    return OK;
}

// The driver's needs. It reserves more addresses than there is memory, and it may not work in a process whose files in /proc
// belong to root, if a test of the program says so.
int cuInit(unsigned flags) {
    BEGIN()
    const char *needs = getenv("STAND_IN_NEEDS");
    if (needs != NULL && strcmp(needs, "dumpable") == 0 && prctl(PR_GET_DUMPABLE) != 1) {
        return OS_CALL;
    }
    if (needs != NULL && strcmp(needs, "the impossible") == 0) {
        return OS_CALL;
    }
    void *reserved = mmap(NULL, (size_t)1 << 40, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) {
        return OUT_OF_MEMORY;
    }
    munmap(reserved, (size_t)1 << 40);
    return flags ? INVALID : OK;
}
int cuDriverGetVersion(int *version) { BEGIN() *version = 13000; return OK; }
int cuDeviceGetCount(int *count) { BEGIN() *count = 1; return OK; }
int cuDeviceGet(int *device, int ordinal) { BEGIN() *device = ordinal; return ordinal ? INVALID : OK; }
int cuDeviceGetName(char *name, int len, int device) { BEGIN() snprintf(name, len, "stand-in %d", device); return OK; }
int cuDeviceGetPCIBusId(char *address, int len, int device) { BEGIN() (void)device; snprintf(address, len, "0000:1A:00.0"); return OK; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { BEGIN() (void)device; *bytes = 1 << 28; return OK; }

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    BEGIN()
    (void)device;
    // Threads of a block, the largest pitch, multiprocessors, clock, warp size, compute capability, shared memory of a block.
    *value = attribute == 1 ? 1024 : attribute == 11 ? 2147483647 : attribute == 10 ? 32 : attribute == 13 ? 1980000 : attribute == 16 ? 2 : attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 97 ? 232448 : -1;
    return *value < 0 ? INVALID : OK;
}

static long taken;

int cuDevicePrimaryCtxRetain(void **out, int device) {
    BEGIN()
    (void)device;
    retained++;
    *out = &contexts[context];
    return OK;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
    BEGIN()
    MUST_END()
    (void)device;
    if (retained == 0) {
        mistake("a context that nobody retains is released");
    }
    if (--retained == 0) {
        context = (context + 1) % 256;
        if (taken != 0 && fails == -1 && failure == 0) {
            mistake("memory is left in a context that is released");
        }
    }
    return OK;
}
int cuCtxPushCurrent_v2(void *context) {
    BEGIN()
    if (depth == DEEP) {
        mistake("contexts are pushed, and not popped");
    }
    pushed[depth++] = context;
    return OK;
}
int cuCtxPopCurrent_v2(void **out) {
    if (depth == 0) {
        mistake("a context is popped that was not pushed");
    }
    // A call that is made to fail has popped it as well.
    void *popped = pushed[--depth];
    BEGIN()
    *out = popped;
    return OK;
}

static char *read_file(const char *name, const char *suffix) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s%s", getenv("STAND_IN"), name, suffix);
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return NULL;
    }
    char *text = calloc(1, 1 << 23);
    if (text == NULL || fread(text, 1, (1 << 23) - 1, file) == 0) {
        abort();
    }
    fclose(file);
    return text;
}

int cuModuleLoadDataEx(void **out, const void *image, unsigned count, const int *options, void **values) {
    INSIDE()
    if (count != 2 || options[0] != 5 || options[1] != 6 || (uintptr_t)values[1] < 64) {
        return INVALID;
    }
    FILE *list = popen("cd \"$STAND_IN\" && ls *.ptx", "r");
    char name[256];
    while (list != NULL && fgets(name, sizeof name, list) != NULL) {
        *strrchr(name, '.') = 0;
        char *ptx = read_file(name, ".ptx");
        if (ptx != NULL && strcmp(ptx, image) == 0) {
            pclose(list);
            char path[4096];
            snprintf(path, sizeof path, "%s/%s.so", getenv("STAND_IN"), name);
            void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
            module_t *module = malloc(sizeof *module);
            if (library == NULL || module == NULL) {
                mistake(dlerror());
            }
            module->ptx = ptx;
            *(void **)&module->run = dlsym(library, "run");
            *out = module;
            return OK;
        }
        free(ptx);
    }
    snprintf(values[0], (uintptr_t)values[1], "ptxas: no such kernels");
    return BAD_IMAGE;
}

int cuModuleUnload(module_t *module) {
    INSIDE()
    MUST_END()
    free(module->ptx);
    free(module);
    return OK;
}

static const char *parameters(const function_t *function) {
    char entry[80];
    snprintf(entry, sizeof entry, ".entry %s(", function->name);
    return strstr(function->module->ptx, entry);
}

int cuModuleGetFunction(function_t **out, module_t *module, const char *name) {
    INSIDE()
    function_t *function = malloc(sizeof *function);
    function->module = module;
    snprintf(function->name, sizeof function->name, "%s", name);
    *out = function;
    return parameters(function) == NULL ? NOT_FOUND : OK;
}

int cuFuncSetAttribute(function_t *function, int attribute, int value) {
    INSIDE()
    return function != NULL && attribute == 8 && value <= 232448 ? OK : INVALID;
}

int cuFuncGetAttribute(int *value, int attribute, function_t *function) {
    INSIDE()
    *value = 256;
    return function != NULL && attribute == 0 ? OK : INVALID;
}

// Memory of the device, and pinned memory with its addresses for the host and for the device.
typedef struct {
    char *address, *on_device;
    size_t len;
} memory_t;
static memory_t memory[4096];
static int memories;
// How many bytes of the device are allocated, and may be. How often there were too few, or a wait was refused.
static size_t in_use, most_in_use = SIZE_MAX;
static long refused;

static memory_t *find(const void *address, size_t len, int on_device) {
    for (int i = 0; i < memories; i++) {
        const char *start = on_device ? memory[i].on_device : memory[i].address;
        if (start != NULL && (const char *)address >= start && (const char *)address + len <= start + memory[i].len) {
            return &memory[i];
        }
    }
    return NULL;
}

static void must_be_on_device(const void *address, size_t len) {
    if (find(address, len, 1) == NULL) {
        mistake("work on an address that is not the device's");
    }
}

// Work that waits in its stream.
enum { FILL, COPY, LAUNCH, EVENT };
typedef struct work {
    struct work *next;
    int kind, value;
    char *to;
    const char *from;
    size_t len;
    function_t *function;
    void *memory[16];
    uint32_t numbers[16];
    unsigned groups, threads;
} work_t;
typedef struct stream {
    struct stream *next;
    work_t *first, **last;
    int asked;
} stream_t;
typedef struct {
    stream_t *stream;
    int over;
} event_t;
static stream_t *streams;
// Copies of memory that is not pinned, and waits without a limit.
static long synchronous;

static work_t *note(stream_t *stream, int kind) {
    work_t *work = calloc(1, sizeof *work);
    work->kind = kind;
    *stream->last = work;
    stream->last = &work->next;
    stream->asked = 0;
    return work;
}

static int run_all(stream_t *stream) {
    int done = OK;
    while (stream->first != NULL) {
        work_t *work = stream->first;
        stream->first = work->next;
        if (work->kind == FILL) {
            memset(work->to, work->value, work->len);
        } else if (work->kind == COPY) {
            memcpy(work->to, work->from, work->len);
        } else if (work->kind == EVENT) {
            ((event_t *)work->to)->over = 1;
        } else if (work->function->module->run(work->function->name, work->memory, work->numbers, work->groups, work->threads)) {
            done = NOT_FOUND;
        }
        free(work);
    }
    stream->last = &stream->first;
    return done;
}

static int lies_in(const memory_t *memory, const void *address) {
    const char *at = address;
    return (memory->address != NULL && at >= memory->address && at < memory->address + memory->len) ||
           (memory->on_device != NULL && at >= memory->on_device && at < memory->on_device + memory->len);
}

static void must_be_idle(const memory_t *memory) {
    for (stream_t *stream = streams; stream != NULL && failure == 0; stream = stream->next) {
        for (work_t *work = stream->first; work != NULL; work = work->next) {
            int uses = lies_in(memory, work->to) || lies_in(memory, work->from);
            for (int i = 0; i < 16; i++) {
                uses |= lies_in(memory, work->memory[i]);
            }
            if (uses) {
                mistake("memory is freed while work is left that uses it");
            }
        }
    }
}

int cuMemAlloc_v2(uint64_t *address, size_t len) {
    INSIDE()
    MUST_BE_RELAXED()
    if (len > most_in_use - in_use) {
        refused++;
        return OUT_OF_MEMORY;
    }
    if (len == 0 || len > (1 << 28)) {
        return len == 0 ? INVALID : OUT_OF_MEMORY;
    }
    char *made = malloc(len);
    if (memories == 4096 || made == NULL) {
        return OUT_OF_MEMORY;
    }
    memset(made, 0xa5, len);
    memory[memories++] = (memory_t){.address = NULL, .on_device = made, .len = len};
    *address = (uint64_t)(uintptr_t)made;
    in_use += len;
    taken++;
    return OK;
}

int cuMemFree_v2(uint64_t address) {
    INSIDE()
    MUST_BE_RELAXED()
    MUST_END()
    memory_t *found = find((void *)(uintptr_t)address, 1, 1);
    if (found == NULL || found->address != NULL || found->on_device != (char *)(uintptr_t)address) {
        return INVALID;
    }
    must_be_idle(found);
    for (size_t i = 0; i < found->len; i++) {
        if (found->on_device[i] != 0) {
            mistake("memory is freed that was not wiped");
        }
    }
    free(found->on_device);
    in_use -= found->len;
    *found = memory[--memories];
    taken--;
    return OK;
}

int cuMemHostAlloc(void **address, size_t len, unsigned flags) {
    INSIDE()
    MUST_BE_RELAXED()
    if (flags & ~3u) {
        return INVALID;
    }
    // The same memory, at two addresses.
    int file = memfd_create("pinned", 0);
    if (file < 0 || ftruncate(file, (off_t)len) != 0 || memories == 4096) {
        return OUT_OF_MEMORY;
    }
    memory_t made = {.len = len};
    made.address = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (flags & 2) {
        made.on_device = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    }
    close(file);
    if (made.address == MAP_FAILED || made.on_device == MAP_FAILED) {
        return OUT_OF_MEMORY;
    }
    memset(made.address, 0xa5, len);
    memory[memories++] = made;
    *address = made.address;
    taken++;
    return OK;
}

int cuMemFreeHost(void *address) {
    INSIDE()
    MUST_BE_RELAXED()
    MUST_END()
    memory_t *found = find(address, 1, 0);
    if (found == NULL || found->address != address) {
        return INVALID;
    }
    must_be_idle(found);
    munmap(found->address, found->len);
    if (found->on_device != NULL) {
        munmap(found->on_device, found->len);
    }
    *found = memory[--memories];
    taken--;
    return OK;
}

int cuMemHostGetDevicePointer_v2(uint64_t *address, void *host, unsigned flags) {
    INSIDE()
    memory_t *found = find(host, 1, 0);
    if (found == NULL || found->address != host || found->on_device == NULL || flags != 0) {
        return INVALID;
    }
    *address = (uint64_t)(uintptr_t)found->on_device;
    return OK;
}

int cuMemsetD8Async(uint64_t to, unsigned char value, size_t len, stream_t *stream) {
    INSIDE()
    if (stream == NULL) {
        return INVALID;
    }
    must_be_on_device((void *)(uintptr_t)to, len);
    work_t *work = note(stream, FILL);
    work->to = (char *)(uintptr_t)to, work->value = value, work->len = len;
    return OK;
}

// `host` is the one of the two addresses that is on the host, if any.
static int copy(void *to, const void *from, size_t len, stream_t *stream, const void *host) {
    INSIDE()
    if (stream == NULL) {
        return INVALID;
    }
    if (to != host) {
        must_be_on_device(to, len);
    }
    if (from != host) {
        must_be_on_device(from, len);
    }
    work_t *work = note(stream, COPY);
    work->to = to, work->from = from, work->len = len;
    if (host != NULL && find(host, len, 0) == NULL) {
        MUST_END()
        synchronous++;
        return run_all(stream);
    }
    return OK;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t len, stream_t *stream) {
    return copy((void *)(uintptr_t)to, from, len, stream, from);
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t len, stream_t *stream) {
    return copy(to, (void *)(uintptr_t)from, len, stream, to);
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t len, stream_t *stream) {
    return copy((void *)(uintptr_t)to, (void *)(uintptr_t)from, len, stream, NULL);
}

// Rows of bytes. Both sides are as cuda.h has them.
typedef struct {
    size_t x, y;
    unsigned kind;
    void *host;
    uint64_t device;
    void *array;
    size_t pitch;
} side_t;
typedef struct {
    side_t from, to;
    size_t width, height;
} rows_t;
static long row_copies;
int cuMemcpy2DAsync_v2(const rows_t *rows, stream_t *stream) {
    INSIDE()
    const side_t *sides[2] = {&rows->from, &rows->to};
    char *starts[2];
    for (int i = 0; i < 2; i++) {
        const side_t *side = sides[i];
        if (stream == NULL || side->x != 0 || side->y != 0 || side->array != NULL || side->pitch < rows->width || side->pitch > 2147483647 || rows->height == 0) {
            return INVALID;
        }
        size_t len = (rows->height - 1) * side->pitch + rows->width;
        starts[i] = side->kind == 1 ? side->host : (char *)(uintptr_t)side->device;
        // The host's memory is pinned, and so the copy is not done at once.
        if ((side->kind != 1 && side->kind != 2) || find(starts[i], len, side->kind == 2) == NULL) {
            mistake("rows that are in no memory");
        }
    }
    for (size_t row = 0; row < rows->height; row++) {
        work_t *work = note(stream, COPY);
        work->to = starts[1] + row * rows->to.pitch, work->from = starts[0] + row * rows->from.pitch, work->len = rows->width;
    }
    row_copies++;
    return OK;
}
long stand_in_row_copies(void) { return row_copies; }

// The kind of the memory at an address, and its device.
int cuPointerGetAttribute(int *value, int attribute, uint64_t address) {
    INSIDE()
    memory_t *on_device = find((void *)(uintptr_t)address, 1, 1), *here = find((void *)(uintptr_t)address, 1, 0);
    if ((attribute != 2 && attribute != 9) || (on_device == NULL && here == NULL)) {
        return INVALID;
    }
    // Pinned memory is the host's at either address.
    int is_host = here != NULL || on_device->address != NULL;
    *value = attribute == 9 ? 0 : is_host ? 1 : 2;
    return OK;
}

int cuStreamCreate(stream_t **out, unsigned flags) {
    INSIDE()
    // Any other stream would wait for the default one.
    if (flags != 1) {
        return INVALID;
    }
    stream_t *stream = calloc(1, sizeof *stream);
    stream->last = &stream->first;
    stream->next = streams;
    *out = streams = stream;
    return OK;
}
// Waits for what others have started, too.
static long waited_for_all;
// Whether the work of others does not end, and the thread that must not wait for it.
static int others_work;
static pthread_t must_not_wait;
static pthread_cond_t others_end = PTHREAD_COND_INITIALIZER;
int cuCtxSynchronize(void) {
    INSIDE()
    MUST_END()
    if (captures) {
        refused++;
        return CAPTURE;
    }
    while (others_work) {
        if (pthread_equal(pthread_self(), must_not_wait)) {
            mistake("a thread waits for the work of others, which may wait for it");
        }
        pthread_cond_wait(&others_end, &all);
    }
    waited_for_all++;
    for (stream_t *stream = streams; stream != NULL; stream = stream->next) {
        int done = run_all(stream);
        if (done != OK) {
            return done;
        }
    }
    return OK;
}
int cuStreamSynchronize(stream_t *stream) {
    INSIDE()
    MUST_END()
    synchronous++;
    return stream == NULL ? INVALID : run_all(stream);
}
int cuStreamQuery(stream_t *stream) {
    INSIDE()
    if (stream == NULL) {
        return INVALID;
    }
    if (hangs || (stream->first != NULL && !stream->asked)) {
        stream->asked = 1;
        return NOT_READY;
    }
    return run_all(stream);
}
int cuStreamDestroy_v2(stream_t *stream) {
    INSIDE()
    MUST_END()
    if (stream->first != NULL && failure == 0) {
        mistake("a stream is destroyed while work is left");
    }
    for (stream_t **each = &streams; *each != NULL; each = &(*each)->next) {
        if (*each == stream) {
            *each = stream->next;
            free(stream);
            return OK;
        }
    }
    return INVALID;
}

int cuEventCreate(event_t **event, unsigned flags) { INSIDE() (void)flags; *event = calloc(1, sizeof **event); return OK; }
int cuEventRecord(event_t *event, stream_t *stream) {
    INSIDE()
    if (event == NULL || stream == NULL) {
        return INVALID;
    }
    event->stream = stream;
    event->over = 0;
    note(stream, EVENT)->to = (char *)event;
    return OK;
}
int cuEventElapsedTime(float *milliseconds, event_t *from, event_t *to) {
    INSIDE()
    *milliseconds = 1.5f;
    return from == to ? INVALID : from->over && to->over ? OK : NOT_READY;
}
int cuEventQuery(event_t *event) {
    INSIDE()
    MUST_BE_RELAXED()
    if (event == NULL) {
        return INVALID;
    }
    return hangs ? NOT_READY : event->over ? OK : (run_all(event->stream), NOT_READY);
}
int cuEventDestroy_v2(event_t *event) {
    INSIDE()
    MUST_END()
    if (event->over || failure == 0) {
        free(event);
    }
    return OK;
}

int cuLaunchKernel(
    function_t *function, unsigned groups, unsigned gy, unsigned gz, unsigned threads, unsigned ty, unsigned tz, unsigned local,
    stream_t *stream, void **arguments, void **extra
) {
    INSIDE()
    const char *name = function->name;
    int tables = strncmp(name, "aes", 3) == 0 && strstr(function->module->ptx, ".extern .shared") != NULL;
    if (groups == 0 || gy != 1 || gz != 1 || ty != 1 || tz != 1 || extra != NULL || stream == NULL || threads == 0 || threads > 256 || (local != 0) != tables) {
        return INVALID;
    }
    work_t *work = note(stream, LAUNCH);
    work->function = function, work->groups = groups, work->threads = threads;
    int addresses = 0, count = 0;
    const char *at = parameters(function), *end = strchr(at, ')');
    for (at = strstr(at, ".param "); at != NULL && at < end; at = strstr(at + 1, ".param ")) {
        if (strncmp(at + 7, ".u64", 4) == 0) {
            void *address = (void *)(uintptr_t)*(uint64_t *)*arguments++;
            must_be_on_device(address, 1);
            work->memory[addresses++] = address;
        } else {
            work->numbers[count++] = *(uint32_t *)*arguments++;
        }
    }
    return OK;
}

// The driver has no text for a code that it does not know.
int cuGetErrorString(int error, const char **text) {
    *text = error == OUT_OF_MEMORY ? "out of memory" : error == BAD_IMAGE ? "device kernel image is invalid" : error > 0 && error < 1000 ? "another error" : NULL;
    return *text == NULL ? INVALID : OK;
}

long stand_in_taken(void) { return taken; }
long stand_in_synchronous(void) { return synchronous; }
long stand_in_waited_for_all(void) { return waited_for_all; }
// How many contexts of this thread were pushed and not popped.
long stand_in_depth(void) { return depth; }
long stand_in_refused(void) { return refused; }
long stand_in_mode(void) { return mode; }
void stand_in_capture(long on) { captures = (int)on; }
void stand_in_may_take(long more) { most_in_use = more < 0 ? SIZE_MAX : in_use + (size_t)more; }
void stand_in_others_work(long on) {
    pthread_mutex_lock(&all);
    others_work = (int)on, must_not_wait = pthread_self();
    pthread_cond_broadcast(&others_end);
    pthread_mutex_unlock(&all);
}
void stand_in_hang(void) { hangs = 1; }
// Lets a call fail, counted from 0 and from now on. Returns whether an earlier one did.
int stand_in_fail(long call, int code) {
    int has_failed = failure != 0 && fails == -1;
    fails = call, failure = code;
    return has_failed;
}
