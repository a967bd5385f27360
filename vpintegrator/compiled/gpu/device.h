// What every source for a GPU begins with: numbers and functions of them by the names that programs
// use, see `../kernel.h`. One thread has one trajectory, so that a vector is a number. Before this is
// included, `real` is float or double, PART what the functions of a program are, UNROLLED how their
// loops are; BANK, if it is defined, is how many constants there are, and CALLED says that there are
// many functions. Nothing is included: the compiler for GPUs has no headers. On a CPU, `host.h` stands
// before it.
typedef real vector;
typedef vector value;
typedef long long whole;
#define LANES 1
#define BLOCK 64  // threads of a block: few, so that a few thousand trajectories use all processors

#ifndef ON_HOST
#define WARP 32
#define C_LIBRARY(function) function
// what the compiler must not compute before a loop: it would fill the registers
#define COMPUTE_AGAIN(number) asm volatile("" : "+l"(number))
namespace std {
template <class> struct numeric_limits;
template <> struct numeric_limits<double> {
    static __device__ double infinity() { return __longlong_as_double(0x7ff0000000000000); }
    static __device__ double quiet_NaN() { return __longlong_as_double(0x7ff8000000000000); }
};
template <> struct numeric_limits<float> {
    static __device__ float infinity() { return __int_as_float(0x7f800000); }
    static __device__ float quiet_NaN() { return __int_as_float(0x7fc00000); }
};
}  // namespace std
#endif

// Constants of a program: on a GPU, if there is room, in the memory for constants, from which an
// operation reads them at no cost; else they are loaded, and kept in registers, which are few
#if defined(BANK) && !defined(ON_HOST)
__constant__ real bank[BANK];
#define CONSTANT(i) bank[i]
#else
#define CONSTANT(i) c[i]
#endif

#define INLINED static __device__ __forceinline__
// Functions of doubles are as long as a hundred operations: called where there are many of them, so
// that the code stays in the cache for it
#ifdef CALLED
#define OF_DOUBLES static __device__ __noinline__
#else
#define OF_DOUBLES INLINED
#endif
#define FUNCTION(name, function)                                                     \
    OF_DOUBLES double name(double x) { return C_LIBRARY(function)(x); }              \
    INLINED float name(float x) { return C_LIBRARY(function##f)(x); }
#define BESSEL(order)                                                                \
    OF_DOUBLES double bessel_##order(double x) { return C_LIBRARY(jn)(order, x); }   \
    INLINED float bessel_##order(float x) { return C_LIBRARY(jnf)(order, x); }
#define OF_TWO(name, function)                                                       \
    OF_DOUBLES double name(double x, double y) { return C_LIBRARY(function)(x, y); } \
    INLINED float name(float x, float y) { return C_LIBRARY(function##f)(x, y); }
FUNCTION(hyperbolic_tangent, tanh)
FUNCTION(exponential, exp)
FUNCTION(exponential_m1, expm1)
FUNCTION(logarithm, log)
FUNCTION(logarithm_1p, log1p)
FUNCTION(sine, sin)
FUNCTION(cosine, cos)
FUNCTION(tangent, tan)
FUNCTION(arc_sine, asin)
FUNCTION(arc_cosine, acos)
FUNCTION(arc_tangent, atan)
FUNCTION(hyperbolic_sine, sinh)
FUNCTION(hyperbolic_cosine, cosh)
FUNCTION(error_function, erf)
BESSEL_ORDERS(BESSEL)
OF_TWO(power, pow)
OF_TWO(angle, atan2)
#undef OF_DOUBLES
#define OF_DOUBLES INLINED
FUNCTION(square_root, sqrt)
FUNCTION(magnitude, fabs)

INLINED real larger(real a, real b) { return a > b || a != a ? a : b; }
INLINED real is_greater(real a, real b) { return a > b ? (real)1 : (real)0; }
INLINED real is_equal(real a, real b) { return a == b ? (real)1 : (real)0; }
INLINED bool is_finite(real a) { return a - a == 0; }
INLINED real pick(real where, real yes, real no) { return where != 0 ? yes : no; }

// places in the workspace are known when this is compiled, so that it is registers
template <real function(real)> INLINED void apply(real *first, int count) {
    UNROLLED
    for (int i = 0; i < count; i++) first[i] = function(first[i]);
}

INLINED whole thread_number() { return (whole)blockIdx.x * BLOCK + threadIdx.x; }
