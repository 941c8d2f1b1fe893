// What CUDA, OpenCL C 1.2 and plain C call by different names. All else in these files is C that the three share:
// no headers, no recursion, pointers that name their address space, arrays whose indices are constant after unrolling.
//
// A kernel gets pointers first, then 32-bit numbers. In plain C a group has one thread, and the caller counts the groups.

typedef unsigned char u8;
typedef unsigned int u32;

#if defined(__OPENCL_VERSION__)

typedef ulong u64;
typedef uint4 block_t;
#define KERNEL(name) __kernel void name
#define DEVICE static inline
#define GLOBAL __global
#define LOCAL __local
#define CONSTANT __constant
#define LOCAL_ARRAY(type, name, count) __local type name[count]
// Local memory whose size the host gives: an argument in OpenCL, declared by the body in CUDA.
#define DYNAMIC_PARAMETER(type, name) , __local type *name
#define DYNAMIC_LOCAL(type, name, count)
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define THREAD ((u32)get_local_id(0))
#define THREADS ((u32)get_local_size(0))
#define GROUP ((u32)get_group_id(0))
#define UNROLL _Pragma("unroll")
#define ROTL32(x, n) rotate((u32)(x), (u32)(n))
#define ROTL64(x, n) rotate((u64)(x), (u64)(n))

#elif defined(__CUDACC__)

typedef unsigned long long u64;
typedef uint4 block_t;
#define KERNEL(name) extern "C" __global__ void name
#define DEVICE static __device__ __forceinline__
#define GLOBAL
#define LOCAL
#define CONSTANT __constant__ const
#define LOCAL_ARRAY(type, name, count) __shared__ type name[count]
#define DYNAMIC_PARAMETER(type, name)
#define DYNAMIC_LOCAL(type, name, count) extern __shared__ type name[]
#define BARRIER() __syncthreads()
#define THREAD (threadIdx.x)
#define THREADS (blockDim.x)
#define GROUP (blockIdx.x)
#define UNROLL _Pragma("unroll")
#define ROTL32(x, n) __funnelshift_l((x), (x), (n))
#define ROTL64(x, n) rotl64((x), (n))

// A rotation of 64 bits is two funnel shifts of 32.
DEVICE u64 rotl64(u64 x, u32 n) {
    u32 low = (u32)x, high = (u32)(x >> 32);
    u32 a = n < 32 ? low : high, b = n < 32 ? high : low;
    return ((u64)__funnelshift_l(a, b, n & 31) << 32) | __funnelshift_l(b, a, n & 31);
}

#else

typedef unsigned long long u64;
typedef struct {
    u32 x, y, z, w;
} block_t;
static u32 phx_group;
#define KERNEL(name) static void name
#define DEVICE static inline
#define GLOBAL
#define LOCAL
#define CONSTANT static const
#define LOCAL_ARRAY(type, name, count) static type name[count]
#define DYNAMIC_PARAMETER(type, name)
#define DYNAMIC_LOCAL(type, name, count) static type name[count]
#define BARRIER()
#define THREAD 0u
#define THREADS 1u
#define GROUP phx_group
#define UNROLL _Pragma("GCC unroll 32")
#define ROTL32(x, n) (((u32)(x) << ((n) & 31)) | ((u32)(x) >> ((32 - (n)) & 31)))
#define ROTL64(x, n) (((u64)(x) << ((n) & 63)) | ((u64)(x) >> ((64 - (n)) & 63)))

#endif

// Any function of three bits at each place, in one instruction: bit 4a + 2b + c of TABLE. The compiler does not find these
// where it would have to compute a part of them more than once.
#if defined(__CUDACC__)
template <int TABLE> DEVICE u32 lop3(u32 a, u32 b, u32 c) {
    u32 result;
    asm("lop3.b32 %0, %1, %2, %3, %4;" : "=r"(result) : "r"(a), "r"(b), "r"(c), "n"(TABLE));
    return result;
}
#define XOR3(a, b, c) lop3<0x96>((a), (b), (c))
DEVICE u64 xor3_64(u64 a, u64 b, u64 c) {
    return ((u64)XOR3((u32)(a >> 32), (u32)(b >> 32), (u32)(c >> 32)) << 32) | XOR3((u32)a, (u32)b, (u32)c);
}
#define XOR3_64(a, b, c) xor3_64((a), (b), (c))
#define SELECT(mask, a, b) lop3<0xca>((mask), (a), (b))
#else
#define XOR3(a, b, c) ((a) ^ (b) ^ (c))
#define XOR3_64(a, b, c) ((a) ^ (b) ^ (c))
// The bits of `a` where those of `mask` are 1, and those of `b` elsewhere.
#define SELECT(mask, a, b) (((a) & (mask)) | ((b) & ~(mask)))
#endif

// One instruction on GPUs: four bytes chosen out of eight.
#if defined(__CUDACC__)
#define LOW_HALVES(a, b) __byte_perm((a), (b), 0x5410)
#define HIGH_HALVES(a, b) __byte_perm((a), (b), 0x7632)
#define EVEN_BYTES(a, b) __byte_perm((a), (b), 0x6240)
#define ODD_BYTES(a, b) __byte_perm((a), (b), 0x7351)
#define SWAP_BYTES(x) __byte_perm((x), 0, 0x0123)
#else
#define LOW_HALVES(a, b) (((a) & 0x0000ffffu) | ((b) << 16))
#define HIGH_HALVES(a, b) (((a) >> 16) | ((b) & 0xffff0000u))
#define EVEN_BYTES(a, b) (((a) & 0x00ff00ffu) | (((b) & 0x00ff00ffu) << 8))
#define ODD_BYTES(a, b) ((((a) >> 8) & 0x00ff00ffu) | ((b) & 0xff00ff00u))
#define SWAP_BYTES(x) ((ROTL32((x), 8) & 0x00ff00ffu) | (ROTL32((x), 24) & 0xff00ff00u))
#endif
