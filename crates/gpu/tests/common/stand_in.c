// A stand-in for the part of NVIDIA's driver that this crate calls. The device is the host, and its kernels are plain C. It
// compares the PTX that it gets with the files in $STAND_IN, and runs what was compiled from the same source, which lies
// beside them. It reads the arguments of a launch as the PTX declares them.

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*run_t)(const char *, void **, const uint32_t *, uint32_t, uint32_t);
typedef struct {
    char *ptx;
    run_t run;
} module_t;
typedef struct {
    module_t *module;
    char name[64];
} function_t;

enum { OK, INVALID = 1, OUT_OF_MEMORY = 2, NO_CONTEXT = 201, BAD_IMAGE = 200, NOT_FOUND = 500, NOT_READY = 600 };
static __thread int current;
// Once this is set, no work ends any more. Then every call that waits without a limit, or frees anything, is a mistake.
static int hangs;
#define MUST_END() if (hangs) { abort(); }
#define INSIDE() if (!current) { return NO_CONTEXT; }

int cuInit(unsigned flags) { return flags ? INVALID : OK; }
int cuDriverGetVersion(int *version) { *version = 12020; return OK; }
int cuDeviceGetCount(int *count) { *count = 1; return OK; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return ordinal ? INVALID : OK; }
int cuDeviceGetName(char *name, int len, int device) { snprintf(name, len, "stand-in %d", device); return OK; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { (void)device; *bytes = 1 << 28; return OK; }

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    // Threads of a block, multiprocessors, clock, warp size, compute capability, shared memory of a block.
    *value = attribute == 1 ? 1024 : attribute == 10 ? 32 : attribute == 13 ? 1980000 : attribute == 16 ? 2 : attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 97 ? 232448 : -1;
    return *value < 0 ? INVALID : OK;
}

int cuDevicePrimaryCtxRetain(void **context, int device) { (void)device; *context = &current; return OK; }
int cuDevicePrimaryCtxRelease_v2(int device) { MUST_END() (void)device; return OK; }
int cuCtxSetCurrent(void *context) { current = context != NULL; return OK; }
int cuCtxSynchronize(void) { INSIDE() return OK; }

static char *read_file(const char *name, const char *suffix) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s%s", getenv("STAND_IN"), name, suffix);
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 23);
    if (file == NULL || text == NULL || fread(text, 1, (1 << 23) - 1, file) == 0) {
        abort();
    }
    fclose(file);
    return text;
}

int cuModuleLoadData(void **out, const void *image) {
    INSIDE()
    static const char *const names[] = {
        "aes_bitslice", "aes_bitslice_keys", "aes_bitslice_papers", "aes_bitslice_tiles", "aes_table1", "aes_table4",
        "aes_table4_wide", "sha3", "turboshake", "kmac", "md5",
    };
    for (int i = 0; i < 11; i++) {
        char *ptx = read_file(names[i], ".ptx");
        if (strcmp(ptx, image) == 0) {
            char path[4096];
            snprintf(path, sizeof path, "%s/%s.so", getenv("STAND_IN"), names[i]);
            void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
            module_t *module = malloc(sizeof *module);
            if (library == NULL || module == NULL) {
                abort();
            }
            module->ptx = ptx;
            *(void **)&module->run = dlsym(library, "run");
            *out = module;
            return OK;
        }
        free(ptx);
    }
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

static size_t taken;

int cuMemAlloc_v2(uint64_t *address, size_t len) {
    INSIDE()
    if (len == 0 || len > (1 << 28)) {
        return len == 0 ? INVALID : OUT_OF_MEMORY;
    }
    *address = (uint64_t)(uintptr_t)malloc(len);
    memset((void *)(uintptr_t)*address, 0xa5, len);
    taken++;
    return OK;
}

int cuMemFree_v2(uint64_t address) { INSIDE() MUST_END() taken--; free((void *)(uintptr_t)address); return OK; }
int cuMemHostAlloc(void **address, size_t len, unsigned flags) { INSIDE() *address = malloc(len); return flags ? INVALID : OK; }
int cuMemFreeHost(void *address) { INSIDE() MUST_END() free(address); return OK; }

int cuMemsetD8Async(uint64_t to, unsigned char value, size_t len, void *stream) {
    INSIDE()
    (void)stream;
    memset((void *)(uintptr_t)to, value, len);
    return OK;
}
int cuMemsetD8_v2(uint64_t to, unsigned char value, size_t len) { return cuMemsetD8Async(to, value, len, NULL); }

static int copy(void *to, const void *from, size_t len, void *stream) {
    INSIDE()
    memcpy(to, from, len);
    return stream == NULL ? INVALID : OK;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t len, void *s) { return copy((void *)(uintptr_t)to, from, len, s); }
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t len, void *s) { return copy(to, (void *)(uintptr_t)from, len, s); }
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t len, void *s) {
    return copy((void *)(uintptr_t)to, (void *)(uintptr_t)from, len, s);
}

int cuStreamCreate(void **stream, unsigned flags) { INSIDE() *stream = malloc(1); return flags == 1 ? OK : INVALID; }
int cuStreamSynchronize(void *stream) { INSIDE() MUST_END() return stream == NULL ? INVALID : OK; }
int cuStreamQuery(void *stream) { INSIDE() return stream == NULL ? INVALID : hangs ? NOT_READY : OK; }
int cuStreamDestroy_v2(void *stream) { INSIDE() MUST_END() free(stream); return OK; }

int cuEventCreate(void **event, unsigned flags) { INSIDE() (void)flags; *event = malloc(1); return OK; }
int cuEventRecord(void *event, void *stream) { INSIDE() return event == NULL || stream == NULL ? INVALID : OK; }
int cuEventElapsedTime(float *milliseconds, void *from, void *to) { INSIDE() *milliseconds = 1.5f; return from == to ? INVALID : OK; }
int cuEventQuery(void *event) { INSIDE() return event == NULL ? INVALID : hangs ? NOT_READY : OK; }
int cuEventDestroy_v2(void *event) { INSIDE() MUST_END() free(event); return OK; }

int cuLaunchKernel(
    function_t *function, unsigned groups, unsigned gy, unsigned gz, unsigned threads, unsigned ty, unsigned tz, unsigned local,
    void *stream, void **arguments, void **extra
) {
    INSIDE()
    void *memory[16];
    uint32_t numbers[16];
    int addresses = 0, count = 0;
    const char *at = parameters(function), *end = strchr(at, ')');
    for (at = strstr(at, ".param "); at != NULL && at < end; at = strstr(at + 1, ".param ")) {
        if (strncmp(at + 7, ".u64", 4) == 0) {
            memory[addresses++] = (void *)(uintptr_t)*(uint64_t *)*arguments++;
        } else {
            numbers[count++] = *(uint32_t *)*arguments++;
        }
    }
    const char *name = function->name;
    int tables = strncmp(name, "aes", 3) == 0 && strstr(function->module->ptx, ".extern .shared") != NULL;
    if (gy != 1 || gz != 1 || ty != 1 || tz != 1 || extra != NULL || stream == NULL || threads > 256 || (local != 0) != tables) {
        return INVALID;
    }
    return function->module->run(name, memory, numbers, groups, threads) ? NOT_FOUND : OK;
}

int cuGetErrorString(int error, const char **text) {
    *text = error == OUT_OF_MEMORY ? "out of memory" : error == BAD_IMAGE ? "device kernel image is invalid" : "another error";
    return OK;
}

size_t stand_in_taken(void) { return taken; }
void stand_in_hang(void) { hangs = 1; }
