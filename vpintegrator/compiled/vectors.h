// Vectors of numbers and functions of them. Before this is included, `real` is float or double, and
// NARROW is defined where one trajectory alone is stepped, UNROLL how many vectors go side by side.
// (Not with <cmath>: to read it takes a compiler longer than a small model.)
#include <cstdint>
#include <cstring>
#include <limits>

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
#define LANES (VECTOR_BYTES / (int)sizeof(real))

template <class> struct integer_of;
template <> struct integer_of<double> { typedef int64_t type; };
template <> struct integer_of<float> { typedef int32_t type; };
typedef integer_of<real>::type integer;
typedef real vector __attribute__((vector_size(VECTOR_BYTES)));
typedef integer mask __attribute__((vector_size(VECTOR_BYTES)));

template <class> struct format;
template <> struct format<double> {
    static constexpr double round_to_integer = 6755399441055744.0;  // 1.5 * 2^52
    static constexpr double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
    static constexpr int mantissa = 52, bias = 1023, degree = 13;
    static constexpr double tanh_is_one = 20.0, exp_highest = 709.0, exp_lowest = -708.0;
};
template <> struct format<float> {
    static constexpr float round_to_integer = 12582912.0f;  // 1.5 * 2^23
    static constexpr float ln2_high = 6.9314575195e-01f, ln2_low = 1.4286067653e-06f;
    static constexpr int mantissa = 23, bias = 127, degree = 7;
    static constexpr float tanh_is_one = 10.0f, exp_highest = 88.0f, exp_lowest = -87.0f;
};
typedef format<real> f;

static inline vector fill(real value) { return value - vector{}; }
static inline vector choose(mask where, vector yes, vector no) {
    return (vector)((where & (mask)yes) | (~where & (mask)no));
}

// 1/first! + r/(first+1)! + ..., so many terms. Not by Horner's rule: halves are computed side by
// side, for what is waited for is the length of the chain (Estrin's scheme)
constexpr real inverse_factorial(int n) { return n == 0 ? (real)1 : inverse_factorial(n - 1) / n; }
struct powers { vector r1, r2, r4, r8; };
template <int first, int terms> static inline vector series(const powers &r) {
    if constexpr (terms == 1) return fill(inverse_factorial(first));
    else {
        constexpr int half = terms > 8 ? 8 : terms > 4 ? 4 : terms > 2 ? 2 : 1;
        const vector power = half == 8 ? r.r8 : half == 4 ? r.r4 : half == 2 ? r.r2 : r.r1;
        return series<first + half, terms - half>(r) * power + series<first, half>(r);
    }
}

// exp(x) = 2^k exp(r) with |r| <= ln(2)/2: gives 2^k and exp(r) - 1
static inline vector split_exp(vector x, vector &scale) {
    vector k = x * (real)1.4426950408889634 + f::round_to_integer;
    mask exponent = (mask)k;
    k -= f::round_to_integer;
    vector r = x - k * f::ln2_high;
    r -= k * f::ln2_low;
    scale = (vector)((exponent + f::bias) << f::mantissa);
    // up to the term whose remainder is below rounding
    const vector r2 = r * r, r4 = r2 * r2;
    return r + r2 * series<2, f::degree - 1>({r, r2, r4, r4 * r4});
}

static inline vector exponential(vector x) {
    // beyond these bounds the power of two would overflow; the numbers there are 0 and infinity
    mask high = x > f::exp_highest, low = x < f::exp_lowest;
    vector scale, inside = choose(high | low, vector{}, x);
    vector p = split_exp(inside, scale);
    vector y = scale + scale * p;
    return choose(high, fill(std::numeric_limits<real>::infinity()), choose(low, vector{}, y));
}

// with expm1, so that it is accurate to rounding for small arguments too
static inline vector hyperbolic_tangent(vector x) {
    mask sign = (mask)x & (mask{} + std::numeric_limits<integer>::min());
    vector size = (vector)((mask)x ^ sign);
    size = choose(size > f::tanh_is_one, fill(f::tanh_is_one), size);
    vector scale, p = split_exp(size + size, scale);
    vector t = scale * p + (scale - (real)1);
    return (vector)((mask)(t / (t + (real)2)) | sign);
}

// the functions of the C library, of numbers and of vectors
#define FUNCTION(name, function)                                                  \
    static inline double name(double x) { return __builtin_##function(x); }       \
    static inline float name(float x) { return __builtin_##function##f(x); }
#define BY_LANES(name, function)                                                  \
    FUNCTION(name, function)                                                      \
    static inline vector name(vector x) {                                         \
        for (int i = 0; i < LANES; i++) x[i] = name(x[i]);                        \
        return x;                                                                 \
    }
#define OF_TWO(name, function)                                                                 \
    static inline double name(double x, double y) { return __builtin_##function(x, y); }       \
    static inline float name(float x, float y) { return __builtin_##function##f(x, y); }       \
    static inline vector name(vector x, vector y) {                                            \
        for (int i = 0; i < LANES; i++) x[i] = name(x[i], y[i]);                               \
        return x;                                                                              \
    }
FUNCTION(hyperbolic_tangent, tanh)
FUNCTION(exponential, exp)
FUNCTION(magnitude, fabs)
BY_LANES(exponential_m1, expm1)
BY_LANES(logarithm_1p, log1p)
BY_LANES(arc_sine, asin)
BY_LANES(arc_cosine, acos)
BY_LANES(arc_tangent, atan)
BY_LANES(hyperbolic_sine, sinh)
BY_LANES(hyperbolic_cosine, cosh)
BY_LANES(error_function, erf)
OF_TWO(power, pow)
OF_TWO(angle, atan2)

FUNCTION(logarithm, log)
FUNCTION(square_root, sqrt)
FUNCTION(sine, sin)
FUNCTION(cosine, cos)
FUNCTION(tangent, tan)
template <real function(real)> static __attribute__((noinline)) vector by_lanes(vector x) {
    for (int i = 0; i < LANES; i++) x[i] = function(x[i]);
    return x;
}
static inline bool any(mask where) {
#if defined(__AVX512DQ__) && !defined(__clang__)
    if (sizeof(real) == 8) return __builtin_ia32_cvtq2mask512((long long __attribute__((vector_size(64))))where);
#elif defined(__AVX__) && !defined(__AVX512F__)
    if (sizeof(real) == 8) return __builtin_ia32_movmskpd256((double __attribute__((vector_size(32))))where);
#endif
    integer found = 0;
    for (int i = 0; i < LANES; i++) found |= where[i];
    return found != 0;
}
static inline vector square_root(vector x) {
#if defined(__AVX512F__) && !defined(__clang__)
    typedef double eight __attribute__((vector_size(64)));
    if (sizeof(real) == 8)
        return (vector)__builtin_ia32_sqrtpd512_mask((eight)x, (eight)x, (unsigned char)-1, 4);
#elif defined(__AVX__) && !defined(__AVX512F__)
    typedef double four __attribute__((vector_size(32)));
    if (sizeof(real) == 8) return (vector)__builtin_ia32_sqrtpd256((four)x);
#endif
    for (int i = 0; i < LANES; i++) x[i] = square_root(x[i]);
    return x;
}

// The sine (0) or cosine (1) of doubles, to about a unit in the last place: x = k pi/2 + r, exactly
// but for the last product, and the polynomials of fdlibm for |r| <= pi/4
template <int shift> static inline vector circular(vector x) {
    vector k = x * (real)0.63661977236758134 + f::round_to_integer;
    const mask quarter = (mask)k + shift;
    k -= f::round_to_integer;
    vector r = x - k * (real)1.57079632673412561417;
    r -= k * (real)6.07710050630396597660e-11;
    r -= k * (real)2.02226624879595063154e-21;
    const vector z = r * r, w = z * z;
    const vector s = ((z * (real)1.58969099521155010221e-10 - (real)2.50507602534068634195e-08) * w
                      + (z * (real)2.75573137070700676789e-06 - (real)1.98412698298579493134e-04)) * w
                     + (z * (real)8.33333333332248946124e-03 - (real)1.66666666666666324348e-01);
    const vector c = ((z * (real)-1.13596475577881948265e-11 + (real)2.08757232129817482790e-09) * w
                      + (z * (real)-2.75573143513906633035e-07 + (real)2.48015872894767294178e-05)) * w
                     + (z * (real)-1.38888888888741095749e-03 + (real)4.16666666666666019037e-02);
    const vector half = z * (real)0.5, one = (real)1 - half;
    const vector sine = r + r * z * s, cosine = one + ((((real)1 - one) - half) + w * c);
    const mask odd = -(quarter & 1), sign = (quarter & 2) << (8 * (int)sizeof(real) - 2);
    return (vector)((mask)choose(odd, cosine, sine) ^ sign);
}
static inline mask is_large(vector x) {  // or not finite
    return ~((x < (real)1e6) & (x > (real)-1e6));
}
// the library's for lanes outside of the range: a lane does not depend on what the others hold
template <real function(real)>
static inline vector beyond(mask outside, vector x, vector inside) {
    return any(outside) ? choose(outside, by_lanes<function>(x), inside) : inside;
}
static inline vector sine(vector x) {
    if (sizeof(real) == 4) return by_lanes<sine>(x);
    const vector inside = choose(x == vector{}, x, circular<0>(x));  // with the sign of zero
    return beyond<sine>(is_large(x), x, inside);
}
static inline vector cosine(vector x) {
    if (sizeof(real) == 4) return by_lanes<cosine>(x);
    return beyond<cosine>(is_large(x), x, circular<1>(x));
}
static inline vector tangent(vector x) {
    if (sizeof(real) == 4) return by_lanes<tangent>(x);
    return beyond<tangent>(is_large(x), x, circular<0>(x) / circular<1>(x));
}

// of doubles as fdlibm has it: x = 2^k (1 + f) with 1 + f between sqrt(1/2) and sqrt(2)
static inline vector logarithm(vector x) {
    const mask usual = (x >= std::numeric_limits<real>::min()) & (x < std::numeric_limits<real>::infinity());
    if (sizeof(real) == 4) return by_lanes<logarithm>(x);
    // what is above sqrt(2) goes to the next power of two
    constexpr integer up = (integer)((2 - 1.4142135623730951) * (double)((integer)1 << f::mantissa));
    const mask exponent = (((mask)x + up) >> f::mantissa) - f::bias;
    const vector m = (vector)((mask)x - (exponent << f::mantissa));
    // a small whole number plus the rounding number stands in its last bits
    const vector k = (vector)((mask)fill(f::round_to_integer) + exponent) - f::round_to_integer;
    const vector g = m - (real)1, s = g / (g + (real)2), z = s * s, w = z * z;
    const vector a = w * ((real)3.999999999940941908e-01
                          + w * ((real)2.222219843214978396e-01 + w * (real)1.531383769920937332e-01));
    const vector b = z * ((real)6.666666666666735130e-01
                          + w * ((real)2.857142874366239149e-01
                                 + w * ((real)1.818357216161805012e-01 + w * (real)1.479819860511658591e-01)));
    const vector half = g * g * (real)0.5;
    return beyond<logarithm>(~usual, x,
                             k * f::ln2_high - ((half - (s * (half + a + b) + k * f::ln2_low)) - g));
}

static inline real larger(real a, real b) { return a > b || a != a ? a : b; }
static inline real is_greater(real a, real b) { return a > b ? (real)1 : (real)0; }
static inline vector is_greater(vector a, vector b) { return choose(a > b, fill(1), vector{}); }
static inline vector larger(vector a, vector b) { return choose((a > b) | (a != a), a, b); }
static inline real is_equal(real a, real b) { return a == b ? (real)1 : (real)0; }
static inline vector is_equal(vector a, vector b) { return choose(a == b, fill(1), vector{}); }
static inline real pick(real where, real yes, real no) { return where != 0 ? yes : no; }
static inline vector pick(vector where, vector yes, vector no) {
    return choose(where != vector{}, yes, no);
}
static inline vector magnitude(vector x) {
    return (vector)((mask)x & (mask{} + std::numeric_limits<integer>::max()));
}

// numbers in memory that need not be aligned
static inline void add_to(real *numbers, vector x) {
    vector sum;
    memcpy(&sum, numbers, sizeof sum);
    sum += x;
    memcpy(numbers, &sum, sizeof sum);
}
// ask for so many numbers that are read soon, and may lie anywhere
static inline void fetch(const real *numbers, long count) {
    for (long i = 0; i < count; i += 64 / sizeof(real)) __builtin_prefetch(numbers + i);
    __builtin_prefetch(numbers + count - 1);
}
// the columns of so many `rows` of a matrix, which are `stride` apart; the last row is repeated to fill
// the vectors
static inline void transpose(const real *matrix, const long *rows, long stride, long count, long size,
                             vector *columns) {
    real *numbers = (real *)columns;
    for (int k = 0; k < LANES; k++) {
        const real *row = matrix + rows[k < count ? k : count - 1] * stride;
        for (long i = 0; i < size; i++) numbers[i * LANES + k] = row[i];
    }
}

#ifdef NARROW
typedef real value;
// so many values next to one another make a vector; there is room for a whole number of vectors
template <vector function(vector)> static inline void apply(value *first, int count) {
    for (int i = 0; i < count; i += LANES) {
        vector x;
        memcpy(&x, first + i, sizeof x);
        x = function(x);
        memcpy(first + i, &x, sizeof x);
    }
}
#elif defined(UNROLL) && UNROLL == 2
// an operation has to wait for the one before it: there is always another vector to work on
struct value { vector first, second; };
static inline value operator+(const value &a, real b) { return {a.first + b, a.second + b}; }
template <vector function(vector)> static inline void apply(value *first, int count) {
    for (int i = 0; i < count; i++) first[i] = {function(first[i].first), function(first[i].second)};
}
#elif defined(UNROLL) && UNROLL == 4
struct value { vector first, second, third, fourth; };
static inline value operator+(const value &a, real b) {
    return {a.first + b, a.second + b, a.third + b, a.fourth + b};
}
template <vector function(vector)> static inline void apply(value *first, int count) {
    for (int i = 0; i < count; i++)
        first[i] = {function(first[i].first), function(first[i].second), function(first[i].third),
                    function(first[i].fourth)};
}
#else
typedef vector value;
template <vector function(vector)> static inline void apply(value *first, int count) {
    for (int i = 0; i < count; i++) first[i] = function(first[i]);
}
#endif
