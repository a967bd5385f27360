// Functions of exported C, in sections: c_source.py puts names and numbers in the place of $words.
//
// Functions of one number are loops over arrays without branches, which compilers vectorise. They
// use the methods of compiled/vectors.h and err by about a unit in the last place. Other functions
// call the C library for each number.

//// larger
static inline $real ${p}_larger($real a, $real b) { return a > b || a != a ? a : b; }

//// is_greater
static inline $real ${p}_is_greater($real a, $real b) { return a > b ? $one : $zero; }

//// is_equal
static inline $real ${p}_is_equal($real a, $real b) { return a == b ? $one : $zero; }

//// pick
static inline $real ${p}_pick($real where, $real yes, $real no) { return where != $zero ? yes : no; }

//// plain
#if defined(__FAST_MATH__) || defined(_M_FP_FAST) || \
    (defined(__FLT_EVAL_METHOD__) && (__FLT_EVAL_METHOD__ == 1 || __FLT_EVAL_METHOD__ == 2))

//// widest
#if defined(__GLIBC__) && defined(__x86_64__) && __GNUC__ >= 9 && \
    !defined(__clang__) && !defined(__AVX2__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define ${P}_WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define ${P}_WIDEST
#endif

//// library
static void ${p}_$name($real *x, int count)
{
    int i;
    for (i = 0; i < count; i++) x[i] = ${called}x[i]);
}

//// bits
static inline $whole ${p}_bits($real x)
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
}

//// split_exp
/* exp(x) = 2^k exp(r) with |r| <= ln(2)/2: gives exp(r) - 1 and 2^k */
static inline $real ${p}_split_exp($real x, $real *scale)
{
    const $real shifted = x * $log2e + $rounding, k = shifted - $rounding;
    const $real r = (x - k * $ln2_high) - k * $ln2_low;
    const $real r2 = r * r, r4 = r2 * r2, r8 = r4 * r4;
    (void)r8;
    *scale = ${p}_number((${p}_bits(shifted) + ${bias}U) << $mantissa);
    return r + r2 * ($series);
}

//// exp
${P}_WIDEST
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
}

//// tanh
${P}_WIDEST
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
}

//// circular
/* whether all are so small that multiples of pi/2 can be taken off */
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
}

//// sin_or_cos
${P}_WIDEST
static void ${p}_$name(double *x, int count)
{
    int i, k;
    if (!${p}_all_small(x, count)) {
        for (i = 0; i < count; i++) x[i] = $name(x[i]);
        return;
    }
    for (i = 0; i < count; i += $block)
        for (k = 0; k < $block; k++) x[i + k] = ${p}_circular(x[i + k], $shift);
}

//// log
/* as fdlibm has it: x = 2^k (1 + g) with 1 + g between sqrt(1/2) and sqrt(2) */
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
}
