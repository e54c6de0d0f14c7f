/* PTX instructions that C has no operator for. Included by the output of translate.py. */
#include "thread.h"
#include <math.h>
#include <stdbool.h>
#include <string.h>

typedef uint8_t u8, b8;
typedef int8_t s8;
typedef uint16_t u16, b16;
typedef int16_t s16;
typedef uint32_t u32, b32;
typedef int32_t s32;
typedef uint64_t u64, b64;
typedef int64_t s64;
typedef float f32;
typedef double f64;
typedef bool pred;

#define INLINE static inline __attribute__((always_inline, unused))

INLINE f32 f32_of(u32 bits) { f32 x; memcpy(&x, &bits, 4); return x; }
INLINE u32 bits_f32(f32 x) { u32 bits; memcpy(&bits, &x, 4); return bits; }
INLINE f64 f64_of(u64 bits) { f64 x; memcpy(&x, &bits, 8); return x; }
INLINE u64 bits_f64(f64 x) { u64 bits; memcpy(&bits, &x, 8); return bits; }

/* Accesses have their exact size, so that a guard page finds the first byte too far. */
#define LOAD(type, address) (*(const volatile type *)(uintptr_t)(address))
#define STORE(type, address, value) (*(volatile type *)(uintptr_t)(address) = (value))

/* --- floating point */
INLINE f32 ftz(f32 x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }
INLINE f32 sat(f32 x) { return x > 0 ? x < 1 ? x : 1 : 0; }
INLINE f32 ex2_approx_ftz_f32(f32 x) { return ftz(exp2f(ftz(x))); }
INLINE f32 lg2_approx_ftz_f32(f32 x) { return log2f(ftz(x)); }
INLINE f32 rcp_approx_ftz_f32(f32 x) { return ftz(1 / ftz(x)); }
INLINE f64 rcp_approx_ftz_f64(f64 x) { return f64_of(bits_f64(1 / x) & 0xFFFFFFFF00000000u); }
/* Rounded down: the sign of the rounding error decides. */
INLINE f32 fma_rm_f32(f32 a, f32 b, f32 c) {
  f32 r = fmaf(a, b, c);
  return fma((f64)a, (f64)b, (f64)c - (f64)r) < 0 ? nextafterf(r, -INFINITY) : r;
}
INLINE f32 add_rz_f32(f32 a, f32 b) {
  f64 sum = (f64)a + (f64)b;
  f32 r = (f32)sum;
  return fabs((f64)r) > fabs(sum) ? nextafterf(r, 0) : r;
}

/* --- conversion to integers: out of range is the nearest integer, NaN is 0 */
#define TO_INTEGER(type, low, high) \
  INLINE type to_##type(f64 x) { return x != x ? 0 : x <= (f64)low ? low : x >= (f64)high ? high : (type)x; }
TO_INTEGER(s32, INT32_MIN, INT32_MAX)
TO_INTEGER(s64, INT64_MIN, INT64_MAX)
TO_INTEGER(u32, 0, UINT32_MAX)
TO_INTEGER(u64, 0, UINT64_MAX)

/* --- integers: shifts by too much, and division by zero, which never reaches memory */
#define SHIFTS(type, unsigned_type, bits) \
  INLINE type shl_##type(type x, u32 by) { return by < bits ? (type)((unsigned_type)x << by) : 0; } \
  INLINE type shr_##type(type x, u32 by) { return x >> (by < bits ? by : bits - 1) >> (by < bits ? 0 : 1); }
SHIFTS(b16, u16, 16) SHIFTS(b32, u32, 32) SHIFTS(b64, u64, 64)
SHIFTS(s16, u16, 16) SHIFTS(s32, u32, 32) SHIFTS(s64, u64, 64)
#define DIVISION(type, lowest) \
  INLINE type div_##type(type a, type b) { return b == 0 ? (type)-1 : b == (type)-1 && a == lowest ? a : a / b; } \
  INLINE type rem_##type(type a, type b) { return b == 0 ? a : b == (type)-1 && a == lowest ? 0 : a % b; }
DIVISION(s32, INT32_MIN) DIVISION(s64, INT64_MIN)
#define UNSIGNED_DIVISION(type) \
  INLINE type div_##type(type a, type b) { return b ? a / b : (type)-1; } \
  INLINE type rem_##type(type a, type b) { return b ? a % b : a; }
UNSIGNED_DIVISION(u32) UNSIGNED_DIVISION(u64)
INLINE u64 mulhi_u64(u64 a, u64 b) { return (unsigned __int128)a * b >> 64; }
INLINE s64 mulhi_s64(s64 a, s64 b) { return (__int128)a * b >> 64; }
INLINE u32 mulhi_u32(u32 a, u32 b) { return (u64)a * b >> 32; }
INLINE s32 mulhi_s32(s32 a, s32 b) { return (s64)a * b >> 32; }

/* --- atomics: threads switch only at barriers */
#define ATOMIC(type, address, old, new) \
  ({ type old = LOAD(type, address); STORE(type, address, new); old; })

#ifdef COUNT
#define EXECUTED(instructions, multiply_adds, memory) \
  (t->counts[0] += (instructions), t->counts[1] += (multiply_adds), t->counts[2] += (memory))
#else
#define EXECUTED(instructions, multiply_adds, memory) ((void)0)
#endif
