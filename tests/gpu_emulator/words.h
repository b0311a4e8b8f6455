// CUDA C++ as a host compiler understands it: comes before every text that nvrtc.cc compiles. No header is
// included: most of a small text's compile time would go there.
// clang-format off
typedef __SIZE_TYPE__ size_t;

#define __global__ __attribute__((visibility("default")))
#define __device__
#define __host__
#define __constant__ static const
#define __shared__ static
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
#define __CUDACC__ 1
#define __CUDACC_RTC__ 1
#define __CUDA_ARCH__ 900

struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x, y, z; };
extern "C" {
extern uint3 threadIdx, blockIdx, blockDim, gridDim;
extern unsigned char emulated_dynamic_shared[];
void emulated_barrier();
void emulated_exchange(unsigned mask, const void* own, size_t bytes, unsigned lane, void* got);
unsigned emulated_ballot(unsigned mask, int vote);
unsigned emulated_lane();
}
constexpr int warpSize = 32;

// Vectors.
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(16) double2 { double x, y; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(4) ushort2 { unsigned short x, y; };
struct alignas(8) ushort4 { unsigned short x, y, z, w; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

// Barriers and exchanges.
inline void __syncthreads() { emulated_barrier(); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { emulated_ballot(mask, 0); }
inline void __threadfence() {}
inline void __threadfence_block() {}
template <class T> inline T emulated_shuffle(unsigned mask, T v, unsigned lane) {
  static_assert(sizeof(T) <= 16, "a value of at most 16 bytes");
  T got;
  emulated_exchange(mask, &v, sizeof v, lane, &got);
  return got;
}
template <class T> inline T __shfl_sync(unsigned mask, T v, int lane, int width = 32) {
  const unsigned own = emulated_lane(), base = own / width * width;
  return emulated_shuffle(mask, v, base + (unsigned)lane % width);
}
template <class T> inline T __shfl_xor_sync(unsigned mask, T v, int with, int width = 32) {
  const unsigned own = emulated_lane(), other = own ^ (unsigned)with;
  return emulated_shuffle(mask, v, other / width > own / width ? own : other);
}
template <class T> inline T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32) {
  const unsigned own = emulated_lane();
  return emulated_shuffle(mask, v, own % width < by ? own : own - by);
}
template <class T> inline T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32) {
  const unsigned own = emulated_lane();
  return emulated_shuffle(mask, v, own % width + by >= (unsigned)width ? own : own + by);
}
inline unsigned __ballot_sync(unsigned mask, int vote) { return emulated_ballot(mask, vote); }
inline int __any_sync(unsigned mask, int vote) { return emulated_ballot(mask, vote) != 0; }
inline int __all_sync(unsigned mask, int vote) { return emulated_ballot(mask, !vote) == 0; }
inline int __syncthreads_or(int vote) {
  static int any;
  emulated_barrier();
  any = 0;
  emulated_barrier();
  any |= vote;
  emulated_barrier();
  return any;
}

// Atomics: one thread runs at a time.
template <class T, class U> inline T atomicAdd(T* p, U v) { T old = *p; *p = old + (T)v; return old; }
template <class T, class U> inline T atomicSub(T* p, U v) { T old = *p; *p = old - (T)v; return old; }
template <class T, class U> inline T atomicMax(T* p, U v) { T old = *p; *p = old < (T)v ? (T)v : old; return old; }
template <class T, class U> inline T atomicMin(T* p, U v) { T old = *p; *p = (T)v < old ? (T)v : old; return old; }
template <class T, class U> inline T atomicOr(T* p, U v) { T old = *p; *p = old | (T)v; return old; }
template <class T, class U> inline T atomicAnd(T* p, U v) { T old = *p; *p = old & (T)v; return old; }
template <class T, class U> inline T atomicXor(T* p, U v) { T old = *p; *p = old ^ (T)v; return old; }
template <class T, class U> inline T atomicExch(T* p, U v) { T old = *p; *p = (T)v; return old; }
template <class T, class U, class V> inline T atomicCAS(T* p, U is, V v) { T old = *p; if (old == (T)is) *p = (T)v; return old; }

// Bits.
template <class To, class From> inline To emulated_bits(From v) {
  static_assert(sizeof(To) == sizeof(From), "types of one size");
  To to;
  __builtin_memcpy(&to, &v, sizeof to);
  return to;
}
inline float __uint_as_float(unsigned v) { return emulated_bits<float>(v); }
inline float __int_as_float(int v) { return emulated_bits<float>(v); }
inline unsigned __float_as_uint(float v) { return emulated_bits<unsigned>(v); }
inline int __float_as_int(float v) { return emulated_bits<int>(v); }
inline double __longlong_as_double(long long v) { return emulated_bits<double>(v); }
inline long long __double_as_longlong(double v) { return emulated_bits<long long>(v); }
inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((unsigned __int128)a * b >> 64);
}
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
inline int __clz(int v) { return v == 0 ? 32 : __builtin_clz((unsigned)v); }
inline int __clzll(long long v) { return v == 0 ? 64 : __builtin_clzll((unsigned long long)v); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline unsigned __brev(unsigned v) {
  unsigned r = 0;
  for (int i = 0; i < 32; ++i) r |= (v >> i & 1u) << (31 - i);
  return r;
}
template <class T> inline T __ldg(const T* p) { return *p; }
template <class T> inline T __ldcs(const T* p) { return *p; }
template <class T> inline T __ldcg(const T* p) { return *p; }
template <class T, class U> inline void __stcs(T* p, U v) { *p = v; }
template <class T, class U> inline void __stcg(T* p, U v) { *p = v; }

// Arithmetic that rounds once, each.
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline float __fsqrt_rn(float v) { return __builtin_sqrtf(v); }
inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline float __fdividef(float a, float b) { return a / b; }
inline int __float2int_rn(float v) { return (int)__builtin_rintf(v); }
inline int __float2int_rd(float v) { return (int)__builtin_floorf(v); }
inline float __int2float_rn(int v) { return (float)v; }

#define EMULATED_MATH1(name) \
  extern "C" double name(double); \
  extern "C" float name##f(float); \
  inline float name(float v) { return name##f(v); }
#define EMULATED_MATH2(name) \
  extern "C" double name(double, double); \
  extern "C" float name##f(float, float); \
  inline float name(float a, float b) { return name##f(a, b); }
EMULATED_MATH1(exp) EMULATED_MATH1(exp2) EMULATED_MATH1(expm1) EMULATED_MATH1(log) EMULATED_MATH1(log2)
EMULATED_MATH1(log10) EMULATED_MATH1(log1p) EMULATED_MATH1(sqrt) EMULATED_MATH1(cbrt) EMULATED_MATH1(sin)
EMULATED_MATH1(cos) EMULATED_MATH1(tan) EMULATED_MATH1(asin) EMULATED_MATH1(acos) EMULATED_MATH1(atan)
EMULATED_MATH1(sinh) EMULATED_MATH1(cosh) EMULATED_MATH1(tanh) EMULATED_MATH1(erf) EMULATED_MATH1(erfc)
EMULATED_MATH1(floor) EMULATED_MATH1(ceil) EMULATED_MATH1(rint) EMULATED_MATH1(round) EMULATED_MATH1(trunc)
EMULATED_MATH1(fabs) EMULATED_MATH1(lgamma)
EMULATED_MATH2(pow) EMULATED_MATH2(fmod) EMULATED_MATH2(fmax) EMULATED_MATH2(fmin) EMULATED_MATH2(atan2)
EMULATED_MATH2(copysign) EMULATED_MATH2(hypot)
extern "C" double fma(double, double, double);
extern "C" float fmaf(float, float, float);
inline float fma(float a, float b, float c) { return fmaf(a, b, c); }
extern "C" double ldexp(double, int);
extern "C" float ldexpf(float, int);
inline float rsqrtf(float v) { return 1.0f / sqrtf(v); }
inline float rsqrt(float v) { return rsqrtf(v); }
inline double rsqrt(double v) { return 1.0 / sqrt(v); }
inline float __expf(float v) { return expf(v); }
inline float __logf(float v) { return logf(v); }
inline float __powf(float a, float b) { return powf(a, b); }
inline float __frcp_rn(float v) { return 1.0f / v; }
inline float __saturatef(float v) { return v != v ? 0.0f : fminf(fmaxf(v, 0.0f), 1.0f); }
inline void sincosf(float v, float* s, float* c) { *s = sinf(v), *c = cosf(v); }
inline int abs(int v) { return v < 0 ? -v : v; }
inline long long abs(long long v) { return v < 0 ? -v : v; }
inline float abs(float v) { return fabsf(v); }
inline double abs(double v) { return fabs(v); }
template <class T> inline bool isnan(T v) { return v != v; }
template <class T> inline bool isinf(T v) { return __builtin_isinf(v); }
template <class T> inline bool isfinite(T v) { return __builtin_isfinite(v); }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a < b ? b : a; }
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
inline long long min(long long a, long long b) { return a < b ? a : b; }
inline long long max(long long a, long long b) { return a < b ? b : a; }
inline unsigned long long min(unsigned long long a, unsigned long long b) { return a < b ? a : b; }
inline unsigned long long max(unsigned long long a, unsigned long long b) { return a < b ? b : a; }
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
inline long long clock64() { return 0; }

// PTX: asm("cvt.f32.f16 %0, %1;" : "=f"(a) : "h"(b)) becomes emulated_ptx_cvt_f32_f16(a, b).
inline void emulated_ptx_cvt_f32_f16(float& to, unsigned short from) {
  const unsigned sign = (from & 0x8000u) << 16, exponent = from >> 10 & 31, fraction = from & 1023;
  if (exponent == 31) to = __uint_as_float(sign | 0x7f800000u | fraction << 13);
  else if (exponent == 0) to = (sign ? -1.0f : 1.0f) * (float)fraction * 5.9604644775390625e-8f;
  else to = __uint_as_float(sign | (exponent + 112) << 23 | fraction << 13);
}
inline void emulated_ptx_cvt_rn_bf16_f32(unsigned short& to, float from) {
  const unsigned bits = __float_as_uint(from);
  to = from != from ? 0x7fff : (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
inline void emulated_ptx_cvt_rn_f16_f32(unsigned short& to, float from) {
  const unsigned bits = __float_as_uint(from), sign = bits >> 16 & 0x8000u;
  const float size = fabsf(from);
  if (from != from) { to = 0x7fff; return; }
  if (size >= 65520.0f) { to = (unsigned short)(sign | 0x7c00u); return; }
  if (size < 6.103515625e-5f) {  // subnormal: rounds by the addition
    to = (unsigned short)(sign | (__float_as_uint(size + 0.5f) - 0x3f000000u));
    return;
  }
  const unsigned own = __float_as_uint(size), odd = own >> 13 & 1u;
  to = (unsigned short)(sign | ((own - (112u << 23) + 0xfffu + odd) >> 13));
}
// Two values, the first one in the upper half.
inline void emulated_ptx_cvt_rn_bf16x2_f32(unsigned& to, float high, float low) {
  unsigned short h, l;
  emulated_ptx_cvt_rn_bf16_f32(h, high);
  emulated_ptx_cvt_rn_bf16_f32(l, low);
  to = (unsigned)h << 16 | l;
}
inline void emulated_ptx_cvt_rn_f16x2_f32(unsigned& to, float high, float low) {
  unsigned short h, l;
  emulated_ptx_cvt_rn_f16_f32(h, high);
  emulated_ptx_cvt_rn_f16_f32(l, low);
  to = (unsigned)h << 16 | l;
}
inline void emulated_ptx_ex2_approx_ftz_f32(float& to, float from) { to = exp2f(from); }
inline void emulated_ptx_ex2_approx_f32(float& to, float from) { to = exp2f(from); }
inline void emulated_ptx_tanh_approx_f32(float& to, float from) { to = tanhf(from); }

// How the driver calls an entry: parameters by address, and their sizes behind their number.
template <class T> struct EmulatedEntry;
template <int... I> struct EmulatedIndex {};
template <int N, int... I> struct EmulatedIndices : EmulatedIndices<N - 1, N - 1, I...> {};
template <int... I> struct EmulatedIndices<0, I...> { typedef EmulatedIndex<I...> type; };
template <class... A> struct EmulatedEntry<void (*)(A...)> {
  struct Sizes { size_t count, sizes[sizeof...(A) + 1]; };
  template <int... I> static void call(void (*f)(A...), void** a, EmulatedIndex<I...>) { f(*(A*)a[I]...); }
  static void call(void (*f)(A...), void** a) { call(f, a, typename EmulatedIndices<sizeof...(A)>::type()); }
};
#define EMULATED_ENTRY(name) \
  extern "C" __global__ void emulated_call_##name(void** a) { EmulatedEntry<decltype(&name)>::call(&name, a); } \
  template <class... A> constexpr typename EmulatedEntry<void (*)(A...)>::Sizes emulated_sizes_of_##name(void (*)(A...)) { \
    return {sizeof...(A), {sizeof(A)..., 0}}; \
  } \
  extern "C" __global__ const decltype(emulated_sizes_of_##name(&name)) emulated_sizes_##name; \
  const decltype(emulated_sizes_of_##name(&name)) emulated_sizes_##name = emulated_sizes_of_##name(&name);
// clang-format on
