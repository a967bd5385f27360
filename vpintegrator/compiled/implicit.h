// Stages y_i = sum_j h a_ij f(z + y_j) of implicit Runge-Kutta methods, solved to rounding. The rules
// are those of maps/newton.py; every lane follows them by itself. The first attempt takes the first two
// terms of the inverse Newton matrix, (I - h A (x) J)^-1 = I + h A (x) J + ...; the second, for lanes
// in which that contracts slowly, is Newton's method.
enum : long { SIZE = STAGES * DIM };
struct solver {
    value y[STAGES][DIM], update[STAGES][DIM], scale[DIM], unit[DIM];  // unit = 1 / scale
    value previous, before;              // sizes of the last two updates, relative to the scales
    value rate;                          // of the last to the one before
    value bound;                         // of the next update of a lane that is not slow
    mask finite, running, failed, slow;  // slow: a lane that needs new Newton matrices
    value inverse[SIZE][SIZE];           // of the Newton matrices I - h A (x) J
};
#define FOR_STAGES _Pragma("GCC unroll 4") for (long n = 0; n < STAGES; n++)

static __attribute__((noinline)) void evaluate(block *b, work *w, solver *q, const real *c) {
    FOR_STAGES {
        EACH FOR_COMPONENTS w[g].v[i] = b[g].z[i] + q[g].y[n][i];
        rates(b, w, c, n);
    }
}

static __attribute__((noinline)) void differentiate(block *b, work *w, solver *q, const real *c,
                                                    long stages) {
    for (long n = 0; n < stages; n++) {
        EACH FOR_COMPONENTS w[g].v[i] = b[g].z[i] + q[g].y[n][i];
        jacobian(b, w, c, n);
    }
}

// Inverse matrices by elimination with pivots, for the lanes that are slow.
static __attribute__((noinline)) void invert(const work &w, solver &q, const real *a) {
    static thread_local value m[SIZE][2 * SIZE];
    memset(m, 0, sizeof m);
    for (long r = 0; r < SIZE; r++) m[r][r] = m[r][SIZE + r] = fill(1);
    for (long e = 0; e < ENTRIES; e++) {
        const value ratio = q.scale[COLUMN[e]] * q.unit[ROW[e]];  // the matrix depends on no units
        FOR_STAGES {
            const value entry = w.j[n][e] * ratio;
            for (long r = 0; r < STAGES; r++)
                m[r * DIM + ROW[e]][n * DIM + COLUMN[e]] -= a[r * STAGES + n] * entry;
        }
    }
    for (long p = 0; p < SIZE; p++) {
        for (long r = p + 1; r < SIZE; r++) {
            const mask larger = magnitude(m[r][p]) > magnitude(m[p][p]);
            if (any(larger))
                for (long k = p; k < 2 * SIZE; k++) {
                    const value x = m[p][k];
                    m[p][k] = choose(larger, m[r][k], x), m[r][k] = choose(larger, x, m[r][k]);
                }
        }
        const value pivot = (real)1 / m[p][p];
        for (long k = p; k < 2 * SIZE; k++) m[p][k] *= pivot;
        for (long r = 0; r < SIZE; r++) {
            if (r == p) continue;
            const value x = m[r][p];
            for (long k = p; k < 2 * SIZE; k++) m[r][k] -= x * m[p][k];
        }
    }
    for (long r = 0; r < SIZE; r++)
        for (long k = 0; k < SIZE; k++)
            q.inverse[r][k] = choose(q.slow, m[r][SIZE + k], q.inverse[r][k]);
}

static inline value combined(const value x[STAGES][DIM], long i, const real *a) {
    value sum = a[0] * x[0][i];
    for (long n = 1; n < STAGES; n++) sum += a[n] * x[n][i];
    return sum;
}

// The update of the stages relative to the scales, and its size: NaN if a number is not finite.
template <bool NEWTON> static inline value find_update(const work &w, solver &q, const real *a) {
    FOR_STAGES FOR_COMPONENTS q.update[n][i] = combined(w.k, i, a + n * STAGES) - q.y[n][i];
    if (!NEWTON) {
        value slopes[STAGES][DIM]{};
        for (long e = 0; e < ENTRIES; e++)
            FOR_STAGES slopes[n][ROW[e]] += w.j[0][e] * q.update[n][COLUMN[e]];
        FOR_STAGES FOR_COMPONENTS q.update[n][i] += combined(slopes, i, a + n * STAGES);
    }
    FOR_STAGES FOR_COMPONENTS q.update[n][i] *= q.unit[i];
    if (NEWTON) {
        value product[SIZE], *u = q.update[0];
        for (long r = 0; r < SIZE; r++) {
            product[r] = q.inverse[r][0] * u[0];
            for (long k = 1; k < SIZE; k++) product[r] += q.inverse[r][k] * u[k];
        }
        memcpy(u, product, sizeof product);
    }
    value size{}, rest{};
    FOR_STAGES FOR_COMPONENTS {
        const value u = magnitude(q.update[n][i]);
        size = choose(u > size, u, size), rest += u - u;  // zero, or NaN
    }
    return size + rest;
}

// Iterates the running lanes; those that do not converge have failed. The rates are those of the
// stages in the end.
template <bool NEWTON>
static void iterate(block *b, work *w, solver *q, const real *c, const real *a) {
    // updates that are no larger are rounding errors if they shrink no more; others change nothing
    constexpr real rounding = NEWTON ? (real)1e-9 : (real)1e-12, nothing = 0x1p-57, foreseen = 0x1p-60;
    for (int round = 0;; round++) {
        evaluate(b, w, q, c);
        mask running{}, renewed{};
        EACH running |= q[g].running, renewed |= q[g].slow;
        if (!any(running)) return;
        if (round == 60) {
            EACH q[g].failed |= q[g].running;
            return;
        }
        if (NEWTON && any(renewed)) {
            differentiate(b, w, q, c, STAGES);
            EACH if (any(q[g].slow)) invert(w[g], q[g], a);
        }
        for (long g = 0; g < BLOCKS; g++) {  // not EACH: too much code to be unrolled
            if (!any(q[g].running)) continue;
            const value size = find_update<NEWTON>(w[g], q[g], a);
            const mask small = size <= rounding, compared = mask{} - (round > 1);
            mask go = q[g].running & (size == size);
            q[g].failed |= q[g].running & ~go;
            // oscillators pass updates from one component to another: every second one shrinks
            const value last = NEWTON ? q[g].previous : q[g].before;
            go &= ~compared | (~(small & (size >= last)) & (size > nothing));
            FOR_STAGES FOR_COMPONENTS q[g].y[n][i] =
                choose(go, q[g].y[n][i] + q[g].update[n][i] * q[g].scale[i], q[g].y[n][i]);
            const value rate = size / q[g].previous;
            const value next = size * (NEWTON ? rate : choose(rate > q[g].rate, rate, q[g].rate));
            go &= ~compared | (next > foreseen);
            // the fixed-point iteration is judged by all of its updates, which may vary in the beginning
            q[g].slow = go & compared & ~small & (size > q[g].bound);
            q[g].bound = NEWTON ? (real)1e-2 * size : CONTRACTION * choose(compared, q[g].bound, size);
            if (NEWTON && round == 0) q[g].slow = go;
            if (!NEWTON && round > 2) q[g].failed |= q[g].slow, go &= ~q[g].slow;
            q[g].running = go, q[g].rate = rate, q[g].before = q[g].previous, q[g].previous = size;
        }
    }
}

// s has h a_ij row by row, h b_i, and the largest of |h a_ij|.
static void step(block *b, work *w, const real *c, const real *s) {
    static thread_local solver q[BLOCKS];
    const real *weights = s + STAGES * STAGES, largest = weights[STAGES];
    EACH memset(q[g].y, 0, sizeof q[g].y);
    differentiate(b, w, q, c, 1);
    EACH FOR_COMPONENTS w[g].v[i] = b[g].z[i];
    rates(b, w, c, 0);
    EACH {
        value sum{}, terms[DIM]{}, size[DIM];
        FOR_COMPONENTS {
            size[i] = i == CLOCK ? value{} : magnitude(b[g].z[i]);  // to rounding at any time
            sum += b[g].z[i] + w[g].k[0][i];
        }
        for (long e = 0; e < ENTRIES; e++) {
            const value term = magnitude(w[g].j[0][e]) * size[COLUMN[e]];
            terms[ROW[e]] = choose(term > terms[ROW[e]], term, terms[ROW[e]]);
        }
        FOR_COMPONENTS {
            const value rate = magnitude(w[g].k[0][i]);
            value x = largest * choose(rate > terms[i], rate, terms[i]);
            x = choose(x > size[i], x, size[i]);
            const mask usual = (x > std::numeric_limits<real>::min())
                             & (x < std::numeric_limits<real>::infinity());
            q[g].scale[i] = choose(usual, x, fill(1)), q[g].unit[i] = (real)1 / q[g].scale[i];
        }
        sum -= sum;
        q[g].finite = q[g].running = sum == value{};
        q[g].failed = q[g].slow = mask{};
        FOR_STAGES {
            real total = 0;
            for (long m = 0; m < STAGES; m++) total += s[n * STAGES + m];
            FOR_COMPONENTS q[g].y[n][i] = total * w[g].k[0][i];
        }
    }
    iterate<false>(b, w, q, c, s);
    mask rest{};
    EACH {
        q[g].running = q[g].slow = q[g].failed, q[g].failed = ~q[g].finite;
        FOR_STAGES FOR_COMPONENTS q[g].y[n][i] = choose(q[g].slow, value{}, q[g].y[n][i]);
        rest |= q[g].running;
    }
    if (any(rest)) iterate<true>(b, w, q, c, s);
    EACH FOR_COMPONENTS {
        value sum{};
        FOR_STAGES {
            // rounded, not fused with the sum: else invariants of the rigid body drift by 1e-14 in
            // 4 10^5 steps
            value part = weights[n] * w[g].k[n][i];
            asm("" : "+m"(part));
            sum += part;
        }
        w[g].d[i] = choose(q[g].failed, fill(std::numeric_limits<real>::quiet_NaN()), sum);
    }
}
