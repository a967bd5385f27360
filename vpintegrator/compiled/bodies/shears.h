// Maps made of shears: z[moved] += factor * gradient(sign * z[read]) for each of many clusters. Before
// this is included, each kind of gradient is a struct with a number, see `functions_source`:
//
//   SIZE, OUTPUTS   components that a cluster reads, and that it moves: as many, of gradients
//   SLOTS           slots of the workspace `v` that begins with what is read
//   WEIGHTS         numbers from which `constants` computes the constants `c`
//   gradient        of the cluster in `v`
//
// and `of_kind(number, work)` calls `work` with the struct. What is the same for all numbers of
// bodies is compiled; tables say the rest.
#include <memory>

struct Potential {
    long kind, weights, constants, first;  // where they begin, and derivatives by the trained ones
};

struct Shear {
    long potential, clusters;
    const int *read, *moved;      // (cluster, SIZE), (cluster, OUTPUTS)
    const real *sign, *factor;    // the same
    // the same by lanes, (group, SIZE or OUTPUTS, LANES), and where they begin if they are side by side, or -1
    const int *read_by_lanes, *moved_by_lanes, *read_from, *moved_from;
    const real *sign_by_lanes, *factor_by_lanes;
};

struct Shears {
    long dim, outputs, count, potentials, narrow;  // components of a window, and of new states
    // weights; SIZE and OUTPUTS * TRAINED at most; rows at a time
    long trained, most, widest, rows;
    const Shear *shears;
    const Potential *potential;
    const int *place, *row;               // of components of a state, and of trained weights
    const real *shift, *scale, *inverse;  // normalisation, inverse = 1 / scale
};

extern "C" int lanes() { return LANES; }

extern "C" void constants(const real *weights, real *c, const Shears *s) {
    for (long i = 0; i < s->potentials; i++) {
        const Potential &p = s->potential[i];
        of_kind(p.kind, [&](auto kind) { kind.constants(weights + p.weights, c + p.constants); });
    }
}

// lanes are trajectories
static inline void apply(const Shears &s, const Shear &shear, const real *c, vector *z) {
    const Potential &p = s.potential[shear.potential];
    of_kind(p.kind, [&](auto kind) {
        typedef decltype(kind) K;
        const real *own = c + p.constants;
        for (long cluster = 0; cluster < shear.clusters; cluster++) {
            const long read = cluster * K::SIZE, moved = cluster * K::OUTPUTS;
            vector v[K::SLOTS], g[K::OUTPUTS];
            for (int i = 0; i < K::SIZE; i++)
                v[i] = z[shear.read[read + i]] * shear.sign[read + i];
            K::gradient(v, own, g);
            for (int i = 0; i < K::OUTPUTS; i++)
                z[shear.moved[moved + i]] += g[i] * shear.factor[moved + i];
        }
    });
}

// lanes are clusters
static inline void apply_narrow(const Shears &s, const Shear &shear, const real *c, real *z) {
    const Potential &p = s.potential[shear.potential];
    of_kind(p.kind, [&](auto kind) {
        typedef decltype(kind) K;
        const real *own = c + p.constants;
        const long groups = (shear.clusters + LANES - 1) / LANES;
        for (long group = 0; group < groups; group++) {
            vector v[K::SLOTS], g[K::OUTPUTS], x;
            for (int i = 0; i < K::SIZE; i++) {
                const long place = group * K::SIZE + i;
                const int *read = shear.read_by_lanes + place * LANES;
                if (shear.read_from[place] >= 0) memcpy(&x, z + shear.read_from[place], sizeof x);
                else for (int k = 0; k < LANES; k++) x[k] = z[read[k]];
                vector sign;
                memcpy(&sign, shear.sign_by_lanes + place * LANES, sizeof sign);
                v[i] = x * sign;
            }
            K::gradient(v, own, g);
            for (int i = 0; i < K::OUTPUTS; i++) {
                const long place = group * K::OUTPUTS + i;
                const int *moved = shear.moved_by_lanes + place * LANES;
                vector factor;
                memcpy(&factor, shear.factor_by_lanes + place * LANES, sizeof factor);
                factor *= g[i];
                if (shear.moved_from[place] >= 0) add_to(z + shear.moved_from[place], factor);
                else for (int k = 0; k < LANES; k++) z[moved[k]] += factor[k];
            }
        }
    });
}
