// Maps made of shears: z[moved] += factor * gradient(sign * z[read]) for each of many clusters. Before
// this is included, each kind of gradient is a struct with a number, see `functions_source`:
//
//   SIZE, SLOTS     components of a cluster, and slots of the workspace `v` that begins with them
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
    const int *read, *moved;      // (cluster, SIZE)
    const real *sign, *factor;    // (cluster, SIZE)
    // the same by lanes, (group, SIZE, LANES), and where they begin if they are side by side, or -1
    const int *read_by_lanes, *moved_by_lanes, *read_from, *moved_from;
    const real *sign_by_lanes, *factor_by_lanes;
};

struct Shears {
    long dim, count, potentials, narrow;
    long trained, most, widest, rows;     // weights; SIZE and SIZE * TRAINED at most; rows at a time
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
        for (long first = 0; first < shear.clusters * K::SIZE; first += K::SIZE) {
            vector v[K::SLOTS], g[K::SIZE];
            for (int i = 0; i < K::SIZE; i++)
                v[i] = z[shear.read[first + i]] * shear.sign[first + i];
            K::gradient(v, own, g);
            for (int i = 0; i < K::SIZE; i++)
                z[shear.moved[first + i]] += g[i] * shear.factor[first + i];
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
            vector v[K::SLOTS], g[K::SIZE], x;
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
            for (int i = 0; i < K::SIZE; i++) {
                const long place = group * K::SIZE + i;
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
