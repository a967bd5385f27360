// Iterates `step`, which computes the increments `d` of the blocks from their states `z`. The
// increments are added up by compensated summation, as in NumPy (base.py); a trajectory that is no
// longer finite becomes NaN as a whole.
static inline void advance(block *b, const real *c, const real *s) {
#ifdef SHORT
    work w[BLOCKS];  // in registers
#else
    static thread_local work w[BLOCKS];
#endif
    step(b, w, c, s);
    EACH {
        value sum{};
        FOR_COMPONENTS {
            const value increment = w[g].d[i] + b[g].carry[i], z = b[g].z[i] + increment;
            b[g].carry[i] = increment - (z - b[g].z[i]);
            b[g].z[i] = z;
            sum += z;
        }
        sum -= sum;  // zero, or NaN
        FOR_COMPONENTS b[g].z[i] += sum;
    }
}

extern "C" int lanes() { return LANES * BLOCKS; }

extern "C" void constants(const real *parameters, real *c) { compute_constants(parameters, c); }

// state and carry as (component, trajectory), rows `stride` apart; states as (trajectory, step,
// component). These lie far apart: they are gathered in the fastest cache for some steps
extern "C" void run(real *state, real *carry, real *states, const real *c, const real *s,
                    long stride, long trajectories, long steps, long substeps) {
    constexpr long width = LANES * BLOCKS;
    constexpr long room = 1 + 256 / (DIM * sizeof(real));
    static thread_local block b[BLOCKS];
    static thread_local real gathered[width][room * DIM];
    for (long first = 0; first < trajectories; first += width) {
        const long count = trajectories - first < width ? trajectories - first : width;
        for (long g = 0; g < BLOCKS; g++) FOR_COMPONENTS for (long k = 0; k < LANES; k++) {
            // those that are missing are others once more
            const long place = i * stride + first + (g * LANES + k) % count;
            b[g].z[i][k] = state[place], b[g].carry[i][k] = carry[place];
        }
        for (long done = 0; done < steps; done += room) {
            const long part = steps - done < room ? steps - done : room;
            for (long n = 0; n < part; n++) {
                for (long m = 0; m < substeps; m++) advance(b, c, s);
                for (long g = 0; g < BLOCKS; g++) for (long k = 0; k < LANES; k++) FOR_COMPONENTS
                    gathered[g * LANES + k][n * DIM + i] = ((real *)(b[g].z + i))[k];
            }
            for (long k = 0; k < count; k++)
                memcpy(states + ((first + k) * steps + done) * DIM, gathered[k],
                       part * DIM * sizeof(real));
        }
        FOR_COMPONENTS for (long k = 0; k < count; k++) {
            const long place = i * stride + first + k, g = k / LANES;
            state[place] = b[g].z[i][k % LANES], carry[place] = b[g].carry[i][k % LANES];
        }
    }
}
