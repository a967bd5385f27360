"""Functions that exported C needs, written out where the C library is slower.

Functions of one number are loops over arrays without branches, which compilers vectorise. They
use the methods of ``compiled/kernel.h`` and err by about a unit in the last place. Other functions
call the C library for each number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from string import Template

from vpintegrator.compiled.functions import FUNCTIONS
from vpintegrator.dynamics.expressions.bessel import ORDERS
from vpintegrator.export.c_program import literal

# formats of floating-point numbers: an unsigned whole number of as many bits, its sign bit, bits of
# the mantissa, the bias of the exponent, what rounds to whole numbers when it is added and
# subtracted again, ln 2 in two parts, from where on tanh is one, and where exp begins and ends
_FORMATS = {
    "double": {
        "whole": "unsigned long long",
        "sign": "0x8000000000000000ULL",
        "infinity": "0x7ff0000000000000ULL",
        "last": 63,
        "mantissa": 52,
        "bias": 1023,
        "rounding": 6755399441055744.0,
        "ln2_high": 6.93147180369123816490e-01,
        "ln2_low": 1.90821492927058770002e-10,
        "tanh_is_one": 20.0,
        "lowest": 708.0,
        "highest": 709.0,
    },
    "float": {
        "whole": "unsigned int",
        "sign": "0x80000000U",
        "infinity": "0x7f800000U",
        "last": 31,
        "mantissa": 23,
        "bias": 127,
        "rounding": 12582912.0,
        "ln2_high": 6.9314575195e-01,
        "ln2_low": 1.4286067653e-06,
        "tanh_is_one": 10.0,
        "lowest": 87.0,
        "highest": 88.0,
    },
}
_DEGREES = {"double": 13, "float": 7}  # up to which powers of exp go beyond rounding
_BLOCK = 8  # numbers side by side, a whole number of vectors of most machines
_OWN = {"double": ("exp", "tanh", "sin", "cos", "log"), "float": ("exp", "tanh")}
_OF_NUMBERS = {
    "larger": "$real ${p}_larger($real a, $real b) { return a > b || a != a ? a : b; }",
    "greater": "$real ${p}_greater($real a, $real b) { return a > b ? $one : $zero; }",
    "equal": "$real ${p}_equal($real a, $real b) { return a == b ? $one : $zero; }",
    "choose": "$real ${p}_choose($real where, $real yes, $real no) "
    "{ return where != $zero ? yes : no; }",
}
# for compilers that may reorder or round differently
_PLAIN = """#if defined(__FAST_MATH__) || defined(_M_FP_FAST) || \\
    (defined(__FLT_EVAL_METHOD__) && (__FLT_EVAL_METHOD__ == 1 || __FLT_EVAL_METHOD__ == 2))"""

# compiled for a machine at hand, or for all: then the wider vectors of those that have them, too
_WIDEST = """#if defined(__GLIBC__) && defined(__x86_64__) && __GNUC__ >= 9 && \\
    !defined(__clang__) && !defined(__AVX2__) && !defined(__SANITIZE_ADDRESS__) && \\
    !defined(__SANITIZE_THREAD__)
#define ${P}_WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define ${P}_WIDEST
#endif"""
_LIBRARY = """static void ${p}_$name($real *x, int count)
{
    int i;
    for (i = 0; i < count; i++) x[i] = $called(x[i]);
}"""
_BITS = """static inline $whole ${p}_bits($real x)
{
    $whole bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline $real ${p}_number($whole bits)
{
    $real x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* all bits where a number without sign is larger than a limit, and infinity too, but not NaN */
static inline $whole ${p}_beyond($whole size, $whole limit)
{
    return (($whole)0 - ((limit - size) >> $last)) & ~(($whole)0 - (($infinity - size) >> $last));
}"""
_SPLIT_EXP = """/* exp(x) = 2^k exp(r) with |r| <= ln(2)/2: gives exp(r) - 1 and 2^k */
static inline $real ${p}_split_exp($real x, $real *scale)
{
    const $real shifted = x * $log2e + $rounding, k = shifted - $rounding;
    const $real r = (x - k * $ln2_high) - k * $ln2_low;
    const $real r2 = r * r, r4 = r2 * r2, r8 = r4 * r4;
    (void)r8;
    *scale = ${p}_number((${p}_bits(shifted) + ${bias}U) << $mantissa);
    return r + r2 * ($series);
}"""
_EXP = """${P}_WIDEST
static void ${p}_exp($real *x, int count)
{
    int i, k;
    for (i = 0; i < count; i += $block)
        for (k = 0; k < $block; k++) {
            const $whole bits = ${p}_bits(x[i + k]), minus = ($whole)0 - (bits >> $last);
            const $whole limit = (minus & ${p}_bits($lowest)) | (~minus & ${p}_bits($highest));
            const $whole beyond = ${p}_beyond(bits & ~$sign, limit);
            $real scale, p = ${p}_split_exp(${p}_number(bits & ~beyond), &scale);
            p = scale + scale * p;
            x[i + k] = ${p}_number((beyond & ~minus & $infinity) | (~beyond & ${p}_bits(p)));
        }
}"""
_TANH = """${P}_WIDEST
static void ${p}_tanh($real *x, int count)
{
    int i, k;
    for (i = 0; i < count; i += $block)
        for (k = 0; k < $block; k++) {
            const $whole sign = ${p}_bits(x[i + k]) & $sign, size = ${p}_bits(x[i + k]) ^ sign;
            const $whole one = ${p}_beyond(size, ${p}_bits($tanh_is_one));
            const $real z = ${p}_number((one & ${p}_bits($tanh_is_one)) | (~one & size));
            $real scale, p = ${p}_split_exp(z + z, &scale);
            p = scale * p + (scale - $one);
            x[i + k] = ${p}_number(${p}_bits(p / (p + $two)) | sign);
        }
}"""
_LARGE = """/* whether all are so small that multiples of pi/2 can be taken off */
static int ${p}_all_small(const double *x, int count)
{
    int i, small = 1;
    for (i = 0; i < count; i++) small &= x[i] < 1e6 && x[i] > -1e6;
    return small;
}

/* the sine (0) or cosine (1): x = k pi/2 + r, and the polynomials of fdlibm for |r| <= pi/4 */
static inline double ${p}_circular(double x, unsigned shift)
{
    const double shifted = x * 0.63661977236758134 + $rounding, k = shifted - $rounding;
    const unsigned long long quarter = ${p}_bits(shifted) + shift;
    const unsigned long long odd = 0ULL - (quarter & 1U), sign = (quarter & 2U) << 62;
    double r = x - k * 1.57079632673412561417, z, w, s, c, half, one;
    r -= k * 6.07710050630396597660e-11;
    r -= k * 2.02226624879595063154e-21;
    z = r * r, w = z * z;
    s = ((z * 1.58969099521155010221e-10 - 2.50507602534068634195e-08) * w
         + (z * 2.75573137070700676789e-06 - 1.98412698298579493134e-04)) * w
        + (z * 8.33333333332248946124e-03 - 1.66666666666666324348e-01);
    c = ((z * -1.13596475577881948265e-11 + 2.08757232129817482790e-09) * w
         + (z * -2.75573143513906633035e-07 + 2.48015872894767294178e-05)) * w
        + (z * -1.38888888888741095749e-03 + 4.16666666666666019037e-02);
    half = z * 0.5, one = 1.0 - half;
    s = r + r * z * s, c = one + (((1.0 - one) - half) + w * c);
    return ${p}_number(((odd & ${p}_bits(c)) | (~odd & ${p}_bits(s))) ^ sign);
}"""
_CIRCULAR = """${P}_WIDEST
static void ${p}_$name(double *x, int count)
{
    int i, k;
    if (!${p}_all_small(x, count)) {
        for (i = 0; i < count; i++) x[i] = $name(x[i]);
        return;
    }
    for (i = 0; i < count; i += $block)
        for (k = 0; k < $block; k++) x[i + k] = ${p}_circular(x[i + k], $shift);
}"""
_LOG = """/* as fdlibm has it: x = 2^k (1 + g) with 1 + g between sqrt(1/2) and sqrt(2) */
static inline double ${p}_usual_log(double x)
{
    const unsigned long long exponent = ((${p}_bits(x) + ${up}ULL) >> 52) - 1023U;
    const double k = ${p}_number(${p}_bits($rounding) + exponent) - $rounding;
    const double g = ${p}_number(${p}_bits(x) - (exponent << 52)) - 1.0;
    const double s = g / (g + 2.0), z = s * s, w = z * z, half = g * g * 0.5;
    const double a = w * (3.999999999940941908e-01
                          + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
    const double b = z * (6.666666666666735130e-01
                          + w * (2.857142874366239149e-01
                                 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
    return k * $ln2_high - ((half - (s * (half + a + b) + k * $ln2_low)) - g);
}

${P}_WIDEST
static void ${p}_log(double *x, int count)
{
    int i, k, usual = 1;
    for (i = 0; i < count; i++) usual &= x[i] >= 2.2250738585072014e-308 && x[i] < INFINITY;
    if (!usual) {
        for (i = 0; i < count; i++) x[i] = log(x[i]);
        return;
    }
    for (i = 0; i < count; i += $block)
        for (k = 0; k < $block; k++) x[i + k] = ${p}_usual_log(x[i + k]);
}"""
_UP = int((2 - math.sqrt(2)) * 2**52)  # mantissas above sqrt(2) belong to the next power of two


def write_functions(used: Iterable[str], real: str, prefix: str, widest: bool = False) -> str:
    """Return the C source of the functions named.

    Parameters
    ----------
    used
        Names of functions, of ``FUNCTIONS`` and of those of a few numbers.
    real
        ``double`` or ``float``.
    prefix
        Prefix of all names.
    widest
        Whether to define the macro ``PREFIX_WIDEST`` even if no function here needs it.
    """
    names = set(used)
    constants = _FORMATS[real]
    numbers = {n: literal(c, real) for n, c in constants.items() if isinstance(c, float)}
    about = {
        **constants,
        **numbers,
        "p": prefix,
        "P": prefix.upper(),
        "real": real,
        "block": _BLOCK,
        "up": _UP,
    }
    about |= {n: literal(c, real) for n, c in (("zero", 0.0), ("one", 1.0), ("two", 2.0))}
    about |= {
        "log2e": literal(1.4426950408889634, real),
        "series": _series(2, _DEGREES[real] - 1, real),
    }
    own = [name for name in _OWN[real] if name in names]
    found = ["static inline " + _OF_NUMBERS[name] for name in _OF_NUMBERS if name in names]
    found += [_library(name, real) for name in FUNCTIONS if name in names and name not in own]
    if own or widest:
        found.append(_WIDEST)
    if own:
        plain = "\n\n".join(_library(name, real) for name in own)
        written = "\n\n".join(_written(own))
        found.append(f"{_PLAIN}\n{plain}\n#else\n{written}\n#endif")
    return "\n\n".join(Template(text).substitute(about) for text in found)


def _library(name: str, real: str) -> str:
    """Return a loop over the function of the C library."""
    if name in ORDERS:  # POSIX, which <math.h> declares only where it is asked for
        loop = _LIBRARY.replace("$called(", f"({real})jn({ORDERS[name]}, ").replace("$name", name)
        return f"extern double jn(int n, double x);\n\n{loop}"
    return _LIBRARY.replace("$called", name + "f" * (real == "float")).replace("$name", name)


def _written(names: Iterable[str]) -> Iterator[str]:
    names = set(names)
    yield _BITS
    if names & {"exp", "tanh"}:
        yield _SPLIT_EXP
    if "exp" in names:
        yield _EXP
    if "tanh" in names:
        yield _TANH
    if names & {"sin", "cos"}:
        yield _LARGE
    for name, shift in (("sin", "0"), ("cos", "1")):
        if name in names:
            yield _CIRCULAR.replace("$name", name).replace("$shift", shift)
    if "log" in names:
        yield _LOG


def _series(first: int, terms: int, real: str) -> str:
    """Return 1/first! + r/(first + 1)! + ... in C, by Estrin's scheme."""
    if terms == 1:
        return literal(1 / math.factorial(first), real)
    half = 8 if terms > 8 else 4 if terms > 4 else 2 if terms > 2 else 1
    power = "r" if half == 1 else f"r{half}"
    return f"({_series(first + half, terms - half, real)}) * {power} + {_series(first, half, real)}"
