// Iterates `step`, which computes increments `d` and estimates `e`, `f` of their errors for a step of
// each trajectory's own, between outputs at equal times. The norm of the error and the next step are
// those of DOP853 (Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, II.5 and
// II.10). A trajectory goes on to its next output without waiting for the others.
struct progress {
    value left, size;        // to the next output, and the step wished for
    long done[LANES];        // outputs
    long attempts[LANES];    // steps since the last one
};
constexpr long most_attempts = 100000;

// The errors, as multiples of what is tolerated, squared, of increments that may be taken
static inline value error_of(const block &b, const work &w, real relative, real absolute) {
    value fifth{}, third{};
    FOR_COMPONENTS {
        const value old = magnitude(b.z[i]), moved = magnitude(b.z[i] + w.d[i]);
        const value scale = absolute + relative * choose(moved > old, moved, old);
        const value e = w.e[i] / scale, f = w.f[i] / scale;
        fifth += e * e, third += f * f;
    }
    const value both = fifth + (real)0.01 * third;
    return choose(both > value{}, fifth * fifth / (both * (real)DIM), both);
}

static inline void take(block &b, const work &w, progress &p, const real *t) {
    const value square = error_of(b, w, t[1], t[2]);
    // 0.9 error^(-1/8), between 1/3 and 6; what is no number is too large
    value factor = (real)0.9 / square_root(square_root(square_root(square_root(square))));
    factor = choose(factor < (real)6, factor, fill(6));
    factor = choose(factor > (real)(1. / 3), factor, fill((real)(1. / 3)));
    const mask taken = square < (real)1, bounded = p.size > p.left;
    const value used = choose(bounded, p.left, p.size), wished = used * factor;
    FOR_COMPONENTS b.z[i] = choose(taken, b.z[i] + w.d[i], b.z[i]);
    p.left = choose(taken, choose(bounded, value{}, p.left - used), p.left);
    // a step that an output cut short says no more than that it may be longer
    const mask kept = taken & bounded & (p.size > wished);
    p.size = choose(kept, p.size, choose(taken | (wished < used), wished, used * (real)0.5));
}

extern "C" int lanes() { return LANES * BLOCKS; }

extern "C" void constants(const real *parameters, real *c) { compute_constants(parameters, c); }

// state as (component, trajectory), rows `stride` apart; sizes of steps (trajectory); states as
// (trajectory, output, component); t: the time between outputs, whose sign is that of all steps, the
// tolerances, relative and absolute, and outputs since the clocks stood as in `origin`
extern "C" void run(real *state, real *sizes, real *states, const real *c, const real *s,
                    const real *origin, const real *t, long stride, long trajectories, long outputs) {
    static thread_local block b[BLOCKS];
    static thread_local progress p[BLOCKS];
    const real between = t[0] < 0 ? -t[0] : t[0], sign = t[0] < 0 ? -1 : 1;
    const real missing = std::numeric_limits<real>::quiet_NaN();
    for (long first = 0; first < trajectories; first += LANES * BLOCKS) {
        const long count = trajectories - first < LANES * BLOCKS ? trajectories - first : LANES * BLOCKS;
        long running = count;
        for (long g = 0; g < BLOCKS; g++) for (long k = 0; k < LANES; k++) {
            const long own = g * LANES + k, place = first + own % count;
            FOR_COMPONENTS b[g].z[i][k] = state[i * stride + place];
            p[g].left[k] = between, p[g].size[k] = sizes[place];
            // those that are missing are others once more, and have no outputs
            p[g].done[k] = own < count ? 0 : outputs, p[g].attempts[k] = 0;
        }
        while (running > 0) {
            for (long g = 0; g < BLOCKS; g++)
                b[g].step = sign * choose(p[g].size > p[g].left, p[g].left, p[g].size);
#ifdef SHORT
            work w[BLOCKS];
#else
            static thread_local work w[BLOCKS];
#endif
            step(b, w, c, s);
            for (long g = 0; g < BLOCKS; g++) {
                take(b[g], w[g], p[g], t);
                for (long k = 0; k < LANES; k++) {
                    if (p[g].done[k] == outputs) continue;
                    const bool arrived = p[g].left[k] == 0;
                    if (!arrived && ++p[g].attempts[k] < most_attempts
                        && p[g].size[k] > 4 * std::numeric_limits<real>::epsilon() * between) continue;
                    const long own = first + g * LANES + k;
                    real *to = states + (own * outputs + p[g].done[k]) * DIM;
                    // one that does not arrive is not a number from here on
                    const long last = arrived ? p[g].done[k] + 1 : outputs;
                    if (!arrived) FOR_COMPONENTS b[g].z[i][k] = missing;
                    else if (CLOCK >= 0)  // to the last digit, however long
                        b[g].z[CLOCK < 0 ? 0 : CLOCK][k] = origin[own] + (t[3] + last) * t[0];
                    for (; p[g].done[k] < last; p[g].done[k]++, to += DIM)
                        FOR_COMPONENTS to[i] = b[g].z[i][k];
                    p[g].left[k] = between, p[g].attempts[k] = 0;
                    if (p[g].done[k] == outputs) {
                        FOR_COMPONENTS state[i * stride + own] = b[g].z[i][k];
                        sizes[own] = p[g].size[k];
                        running--;
                    }
                }
            }
        }
    }
}
