// What the translated kernels call: threads, barriers, and memory whose every access is checked. `translate.rs` puts the kernels
// behind this text. `launch.rs` has the same structures in Rust.
//
// A thread of a block is a fiber. All threads run, one after another, to their next barrier or to their end. Of each word the last
// accesses are recorded, so a race is found whatever the order in which threads run.

#define _GNU_SOURCE
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

// Who touched a word last, and when. Times count phases: a phase ends at a barrier, and each block and launch begins a new one.
typedef struct {
    uint32_t written_at, writer, read_at, reader;
} touch_t;

// A piece of memory: an allocation of the device, or a variable.
typedef struct {
    uint64_t address, len;
    uint8_t *bytes;   // null after it was freed
    uint8_t *written; // for each byte whether it was ever written; null if that is not recorded
    touch_t *touched; // for each word of 4 bytes; null if nothing can be written
} area_t;

typedef struct {
    area_t *areas; // by ascending addresses
    uint64_t count;
} space_t;

enum { GLOBAL, SHARED, CONSTANT, SPACES };

// Every thread's number in the launch is below this. `MANY` marks a reader that was not the only one.
#define MANY 0x80000000u
// Several blocks have read the word.
#define ANYBODY 0xffffffffu

enum fault {
    NONE, OUTSIDE, FREED, MISALIGNED, NEVER_WRITTEN, RACE_WITH_WRITER, RACE_WITH_READER, READ_ONLY, OTHER_BARRIER, ENDED_BEFORE_BARRIER,
    DIVIDED_BY_ZERO, ENDLESS, NO_STACKS
};

typedef struct {
    space_t spaces[SPACES];
    const uint8_t *parameters;
    uint32_t blocks, threads;
    uint32_t descending; // threads and blocks run in descending order
    uint32_t now;        // the phase
    // Where it stopped, and why.
    uint32_t fault, line, block, thread, write, other;
    uint64_t address, size;
    uint32_t space;
} launch_t;

enum { STACK = 1 << 20, MOST_THREADS = 1024 };
// A thread that jumps back more often than this is taken to run for ever.
#define JUMPS 100000000u

typedef struct {
    ucontext_t context;
    int ended;
    uint32_t barrier; // the line at which it waits
    uint32_t jumps;
} fiber_t;

static fiber_t fibers[MOST_THREADS];
static char *stacks;
static ucontext_t scheduler;
static launch_t *launch;
static uint32_t block, thread;
static uint32_t launch_began, block_began;

#define TID thread
#define CTAID block
#define NTID (launch->threads)
// What a register holds before it is written.
#define UNSET(type) ((type)0xa5a5a5a5a5a5a5a5u)

// Ends the launch. The fibers are left as they are.
static void __attribute__((noinline, noreturn)) stop(enum fault why, uint32_t line) {
    launch->fault = why;
    launch->line = line;
    launch->block = block;
    launch->thread = thread;
    setcontext(&scheduler);
    __builtin_unreachable();
}

static void __attribute__((noinline, noreturn))
stop_at(enum fault why, uint32_t line, uint32_t space, uint64_t address, uint32_t size, int write, uint32_t other) {
    launch->space = space;
    launch->address = address;
    launch->size = size;
    launch->write = write != 0;
    launch->other = other;
    stop(why, line);
}

static area_t *area_of(uint32_t space, uint64_t address) {
    static area_t *last[SPACES];
    static launch_t *of[SPACES];
    static uint32_t when[SPACES];
    space_t *all = &launch->spaces[space];
    if (of[space] == launch && when[space] == launch_began && address - last[space]->address < last[space]->len) {
        return last[space];
    }
    uint64_t low = 0, high = all->count;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (all->areas[middle].address <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0 || address - all->areas[low - 1].address >= all->areas[low - 1].len) {
        return NULL;
    }
    of[space] = launch, when[space] = launch_began, last[space] = &all->areas[low - 1];
    return last[space];
}

// Whether an access at phase `at` by thread `who` of this launch has no barrier between it and the present one.
static int is_beside(uint32_t at, uint32_t who, uint32_t me) {
    return who != me && (who / launch->threads != block || at == launch->now);
}

static void touch(touch_t *word, uint32_t since, uint32_t line, uint32_t space, uint64_t address, uint32_t size, int write) {
    const uint32_t me = block * launch->threads + thread, now = launch->now;
    if (word->written_at >= since && is_beside(word->written_at, word->writer, me)) {
        stop_at(RACE_WITH_WRITER, line, space, address, size, write, word->writer);
    }
    const int was_read = word->read_at >= since;
    const uint32_t reader = word->reader & ~MANY;
    if (write) {
        // Of many readers in this phase at least one is another thread.
        const int is_many = (word->reader & MANY) != 0;
        const int beside = is_many ? word->reader == ANYBODY || reader / launch->threads != block || word->read_at == now
                                   : is_beside(word->read_at, reader, me);
        if (was_read && beside) {
            stop_at(RACE_WITH_READER, line, space, address, size, write, is_many ? ANYBODY : reader);
        }
        word->written_at = now, word->writer = me;
    } else if (was_read && (word->reader == ANYBODY || reader / launch->threads != block)) {
        word->read_at = now, word->reader = ANYBODY;
    } else if (was_read && word->read_at == now && word->reader != me) {
        word->reader |= MANY;
    } else {
        word->read_at = now, word->reader = me;
    }
}

// The bytes at an address, after all checks.
static void *__attribute__((noinline)) reach(uint32_t space, uint32_t line, uint64_t address, uint32_t size, int write) {
    area_t *area = area_of(space, address);
    if (area == NULL || area->len - (address - area->address) < size) {
        stop_at(OUTSIDE, line, space, address, size, write, 0);
    }
    if (area->bytes == NULL) {
        stop_at(FREED, line, space, address, size, write, 0);
    }
    if (address % size != 0) {
        stop_at(MISALIGNED, line, space, address, size, write, 0);
    }
    const uint64_t at = address - area->address;
    if (area->touched != NULL) {
        const uint32_t since = space == SHARED ? block_began : launch_began;
        for (uint64_t word = at / 4; word <= (at + size - 1) / 4; word++) {
            touch(&area->touched[word], since, line, space, address, size, write);
        }
    } else if (write) {
        stop_at(READ_ONLY, line, space, address, size, write, 0);
    }
    if (area->written != NULL) {
        if (write) {
            memset(area->written + at, 1, size);
        } else if (memchr(area->written + at, 0, size) != NULL) {
            stop_at(NEVER_WRITTEN, line, space, address, size, write, 0);
        }
    }
    return area->bytes + at;
}

#define LOAD(type, space, line, address) (*(type *)reach((space), (line), (address), sizeof(type), 0))
#define STORE(type, space, line, address, value) (*(type *)reach((space), (line), (address), sizeof(type), 1) = (type)(value))
#define LOAD_4(type, space, line, address, a, b, c, d) \
    do { \
        const type *from = reach((space), (line), (address), 4 * sizeof(type), 0); \
        const type w0 = from[0], w1 = from[1], w2 = from[2], w3 = from[3]; \
        a = w0, b = w1, c = w2, d = w3; \
    } while (0)
#define STORE_4(type, space, line, address, a, b, c, d) \
    do { \
        type *to = reach((space), (line), (address), 4 * sizeof(type), 1); \
        to[0] = a, to[1] = b, to[2] = c, to[3] = d; \
    } while (0)
#define PARAMETER(type, at) (*(const type *)(launch->parameters + (at)))

// bar.sync 0: waits for all threads of the block.
static void __attribute__((noinline)) barrier(uint32_t line) {
    fiber_t *me = &fibers[thread];
    me->barrier = line;
    swapcontext(&me->context, &scheduler);
}

static void jump_back(uint32_t line) {
    if (++fibers[thread].jumps > JUMPS) {
        stop(ENDLESS, line);
    }
}

// Arithmetic whose cases at the edges PTX defines and C does not.

static inline uint32_t shl_32(uint32_t a, uint32_t n) { return n > 31 ? 0 : a << n; }
static inline uint64_t shl_64(uint64_t a, uint32_t n) { return n > 63 ? 0 : a << n; }
static inline uint16_t shr_u16(uint16_t a, uint32_t n) { return n > 15 ? 0 : a >> n; }
static inline uint32_t shr_u32(uint32_t a, uint32_t n) { return n > 31 ? 0 : a >> n; }
static inline uint64_t shr_u64(uint64_t a, uint32_t n) { return n > 63 ? 0 : a >> n; }
static inline uint32_t shr_s32(uint32_t a, uint32_t n) { return (uint32_t)((int32_t)a >> (n > 31 ? 31 : n)); }

// The high word of b:a after a shift to the left by the low five bits of n.
static inline uint32_t shf_l_wrap(uint32_t a, uint32_t b, uint32_t n) {
    return (uint32_t)((((uint64_t)b << 32 | a) << (n & 31)) >> 32);
}

// Four of the eight bytes b:a. The highest bit of a selector's nibble asks for eight copies of that byte's sign.
static inline uint32_t prmt(uint32_t a, uint32_t b, uint32_t selector) {
    const uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t result = 0;
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t nibble = selector >> (4 * i) & 15;
        uint32_t byte = (uint32_t)(bytes >> (8 * (nibble & 7))) & 255;
        if (nibble & 8) {
            byte = byte & 128 ? 255 : 0;
        }
        result |= byte << (8 * i);
    }
    return result;
}

static inline uint64_t low_bits(uint32_t len) { return len > 63 ? ~(uint64_t)0 : ((uint64_t)1 << len) - 1; }

static inline uint32_t bfe_u32(uint32_t a, uint32_t at, uint32_t len) {
    return shr_u32(a, at & 255) & (uint32_t)low_bits(len & 255);
}

static inline uint32_t bfe_s32(uint32_t a, uint32_t at, uint32_t len) {
    at &= 255, len &= 255;
    if (len == 0) {
        return 0;
    }
    const uint32_t last = at + len - 1 > 31 ? 31 : at + len - 1;
    const uint32_t sign = a >> last & 1 ? ~0u : 0;
    const uint32_t have = at > 31 ? 0 : (uint32_t)low_bits(last - at + 1);
    return (shr_u32(a, at) & have) | (sign & ~have);
}

static inline uint32_t bfi_32(uint32_t a, uint32_t b, uint32_t at, uint32_t len) {
    const uint32_t mask = shl_32((uint32_t)low_bits(len & 255), at & 255);
    return (b & ~mask) | (shl_32(a, at & 255) & mask);
}

static inline uint64_t bfi_64(uint64_t a, uint64_t b, uint32_t at, uint32_t len) {
    const uint64_t mask = shl_64(low_bits(len & 255), at & 255);
    return (b & ~mask) | (shl_64(a, at & 255) & mask);
}

#define DIVISOR(line, n) \
    do { \
        if ((n) == 0) { \
            stop(DIVIDED_BY_ZERO, (line)); \
        } \
    } while (0)

// Threads.

static void (*body)(void);

static void begin(void) {
    body();
    fibers[thread].ended = 1;
    // The context that follows is the scheduler's.
}

// Runs each thread up to its next barrier or its end. Returns whether any is left.
static int run_phase(void) {
    uint32_t waiting = 0, first = 0;
    for (uint32_t i = 0; i < launch->threads; i++) {
        thread = launch->descending ? launch->threads - 1 - i : i;
        if (!fibers[thread].ended) {
            swapcontext(&scheduler, &fibers[thread].context);
            if (launch->fault != NONE) {
                return 0;
            }
        }
    }
    for (thread = 0; thread < launch->threads; thread++) {
        if (!fibers[thread].ended && waiting++ == 0) {
            first = fibers[thread].barrier;
        }
    }
    for (thread = 0; waiting != 0 && thread < launch->threads; thread++) {
        const fiber_t *fiber = &fibers[thread];
        if (fiber->ended || fiber->barrier != first) {
            launch->fault = fiber->ended ? ENDED_BEFORE_BARRIER : OTHER_BARRIER;
            launch->line = first, launch->block = block, launch->thread = thread, launch->other = fiber->barrier;
            return 0;
        }
    }
    launch->now++;
    return waiting != 0;
}

static void run_block(void) {
    space_t *shared = &launch->spaces[SHARED];
    for (uint64_t i = 0; i < shared->count; i++) {
        memset(shared->areas[i].written, 0, shared->areas[i].len);
        memset(shared->areas[i].bytes, 0xa5, shared->areas[i].len);
    }
    block_began = ++launch->now;
    for (uint32_t i = 0; i < launch->threads; i++) {
        fiber_t *fiber = &fibers[i];
        getcontext(&fiber->context);
        fiber->context.uc_stack.ss_sp = stacks + (size_t)i * STACK + 4096;
        fiber->context.uc_stack.ss_size = STACK - 4096;
        fiber->context.uc_link = &scheduler;
        makecontext(&fiber->context, begin, 0);
        fiber->ended = 0, fiber->barrier = 0, fiber->jumps = 0;
    }
    while (run_phase()) {
    }
}

// Runs a kernel. One launch runs at a time.
void simulate_run(launch_t *what, void (*kernel)(void)) {
    launch = what, body = kernel;
    const size_t len = (size_t)STACK * launch->threads;
    stacks = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED) {
        launch->fault = NO_STACKS;
        return;
    }
    // The lowest page of each stack cannot be touched.
    for (size_t i = 0; i < launch->threads; i++) {
        mprotect(stacks + i * STACK, 4096, PROT_NONE);
    }
    launch_began = ++launch->now;
    for (uint32_t i = 0; i < launch->blocks && launch->fault == NONE; i++) {
        block = launch->descending ? launch->blocks - 1 - i : i;
        run_block();
    }
    munmap(stacks, len);
}
