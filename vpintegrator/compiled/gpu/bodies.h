// Maps made of shears on a GPU: z[moved] += factor * gradient(sign * z[read]) for each of many
// clusters. Kinds of gradients are as `../bodies/shears.h` and `../bodies/adjoint.h` have them.
//
// One thread is one trajectory, or one row of a Jacobian at one window; it goes through all
// clusters of all shears. Its state lies in the memory of the device, a column of an array
// (component, thread): threads side by side read and write side by side, and which components a
// cluster has is the same for all of them, one read for a warp. So tens of thousands of trajectories keep a GPU
// busy, whatever the number of bodies. Fewer do not, and each step of a thousand bodies then takes
// as whole as all clusters one after another in a single thread, with some hundreds of cycles for
// each read of memory. So a block of threads can also share the clusters of one trajectory
// (`rollout_by_blocks`); between shears its threads wait for one another, which a single trajectory
// on a CPU does not have to do.
//
// Derivatives go back from the states that `rollout` has written. A shear is undone exactly but for
// rounding, since it moves no component that it reads: so what a thread needs does not grow with
// the number of shears. Each thread adds to numbers of its own, in an order that is always the
// same.

// tables: one array of integers, which begins with this and says where the rest is, and one of
// reals
struct Header {
    int dim, shears, potentials, shear, potential, row;  // row: of trained weights
    int shift, scale, inverse;                           // among the reals; inverse = 1 / scale
};
struct Shear {
    int potential, clusters, read, moved, sign, factor;  // the last two among the reals
    // for each of so many components which moves of clusters, (SIZE, cluster), it is the sum of:
    // those listed at `moves` + start[i] ... start[i + 1]
    int components, component, start, moves;
};
struct Potential {
    int kind, weights, constants, first;  // where they begin, and derivatives by the trained ones
};

#define METHOD __device__ __forceinline__
#if defined(ON_HOST) && !defined(WARPS)  // one thread after another: one of a block does it all
#define TOGETHER 1
#define WAIT
#else
#define TOGETHER BLOCK
#define WAIT __syncthreads()
#endif

struct Map {
    const int *integers;
    const real *reals, *c;

    METHOD const Header &header() const { return *(const Header *)integers; }
    METHOD const Shear &shear(int k) const {
        return ((const Shear *)(integers + header().shear))[k];
    }
    METHOD const Potential &potential(int k) const {
        return ((const Potential *)(integers + header().potential))[k];
    }
};

// the numbers of one thread, among those of all
struct Column {
    real *first;
    whole stride;

    METHOD real &operator[](whole i) const { return first[i * stride]; }
};

// one cluster of a shear
template <class K> struct Cluster {
    const int *read, *moved;
    const real *sign, *factor;

    METHOD Cluster(const Map &m, const Shear &s, int number)
        : read(m.integers + s.read + number * K::SIZE),
          moved(m.integers + s.moved + number * K::SIZE),
          sign(m.reals + s.sign + number * K::SIZE),
          factor(m.reals + s.factor + number * K::SIZE) {}

    METHOD void gradient(const Column &z, const real *c, value *g) const {
        value v[K::SLOTS];
        for (int i = 0; i < K::SIZE; i++) v[i] = z[read[i]] * sign[i];
        K::gradient(v, c, g);
    }

    // z += way * factor * gradient
    METHOD void move(const Column &z, const real *c, real way) const {
        value g[K::SIZE];
        gradient(z, c, g);
        for (int i = 0; i < K::SIZE; i++) z[moved[i]] += g[i] * (way * factor[i]);
    }

    // from derivatives by the state after a shear to those by the state before it, and by weights
    METHOD void go_back(const Column &z, const Column &slope, const real *c, value *g) const {
        value v[K::BACK_SLOTS], x[K::SIZE] = {};
        bool reached = false;
        for (int i = 0; i < K::SIZE; i++) {
            v[K::SIZE + i] = slope[moved[i]] * factor[i];
            reached = reached || v[K::SIZE + i] != 0;
        }
        if (!reached) return;  // most clusters, where one row of a Jacobian has few neighbours
        for (int i = 0; i < K::SIZE; i++) v[i] = z[read[i]] * sign[i];
        K::back(v, c, g, x);
        for (int i = 0; i < K::SIZE; i++) slope[read[i]] += x[i] * sign[i];
    }
};

// what is done with one kind of clusters: `of_kind<Work>(number, ...)` calls `run` of Work<Kind>
template <class K> struct Constants {
    static METHOD void run(const Potential &p, const real *weights, real *c) {
        K::constants(weights + p.weights, c + p.constants);
    }
};

template <class K> struct Apply {
    static METHOD void run(const Map &m, const Shear &s, const real *c, const Column &z) {
        for (int n = 0; n < s.clusters; n++) Cluster<K>(m, s, n).move(z, c, (real)1);
    }
};

extern "C" __global__ void __launch_bounds__(BLOCK)
constants(const real *weights, real *c, const int *integers, const real *reals) {
    const Map m{integers, reals, c};
    const whole k = thread_number();
    if (k >= m.header().potentials) return;
    const Potential &p = m.potential(k);
    of_kind<Constants>(p.kind, p, weights, c);
}

// windows (dim, trajectory), which become the last ones, and states (call, dim, trajectory);
// z (dim, thread)
extern "C" __global__ void __launch_bounds__(BLOCK)
rollout(real *windows, real *states, real *z_of_all, const real *c, const int *integers,
        const real *reals, whole count, whole calls, whole threads) {
    const Map m{integers, reals, c};
    const Header &h = m.header();
    if (thread_number() >= threads) return;
    const Column z{z_of_all + thread_number(), threads};
    for (whole n = thread_number(); n < count; n += threads) {
        const Column window{windows + n, count};
        for (whole call = 0; call < calls; call++) {
            for (int i = 0; i < h.dim; i++)
                z[i] = (window[i] - reals[h.shift + i]) * reals[h.inverse + i];
            for (int k = 0; k < h.shears; k++) {
                const Shear &s = m.shear(k);
                const Potential &p = m.potential(s.potential);
                of_kind<Apply>(p.kind, m, s, c + p.constants, z);
            }
            for (int i = 0; i < h.dim; i++)
                states[(call * h.dim + i) * count + n] = window[i] =
                    z[i] * reals[h.scale + i] + reals[h.shift + i];
        }
    }
}

template <class K> struct Moves {
    static METHOD void run(const Map &m, const Shear &s, const real *c, const Column &z,
                           const Column &moves, int self) {
        for (int n = self; n < s.clusters; n += TOGETHER) {
            value g[K::SIZE];
            const Cluster<K> cluster(m, s, n);
            cluster.gradient(z, c, g);
            for (int i = 0; i < K::SIZE; i++) moves[i * s.clusters + n] = g[i] * cluster.factor[i];
        }
    }
};

// the same; space (block, room), room at least dim + SIZE * clusters of each shear
extern "C" __global__ void __launch_bounds__(BLOCK)
rollout_by_blocks(real *windows, real *states, real *space, const real *c, const int *integers,
                  const real *reals, whole count, whole calls, whole room) {
    const Map m{integers, reals, c};
    const Header &h = m.header();
    const int self = threadIdx.x;
    if (self >= TOGETHER) return;
    const Column z{space + blockIdx.x * room, 1}, moves{z.first + h.dim, 1};
    for (whole n = blockIdx.x; n < count; n += gridDim.x) {
        const Column window{windows + n, count};
        for (whole call = 0; call < calls; call++) {
            for (int i = self; i < h.dim; i += TOGETHER)
                z[i] = (window[i] - reals[h.shift + i]) * reals[h.inverse + i];
            WAIT;
            for (int k = 0; k < h.shears; k++) {
                const Shear &s = m.shear(k);
                const Potential &p = m.potential(s.potential);
                of_kind<Moves>(p.kind, m, s, c + p.constants, z, moves, self);
                WAIT;
                const int *start = integers + s.start, *listed = integers + s.moves;
                for (int i = self; i < s.components; i += TOGETHER) {
                    real sum = z[integers[s.component + i]];
                    for (int a = start[i]; a < start[i + 1]; a++) sum += moves[listed[a]];
                    z[integers[s.component + i]] = sum;
                }
                WAIT;
            }
            for (int i = self; i < h.dim; i += TOGETHER)
                states[(call * h.dim + i) * count + n] = window[i] =
                    z[i] * reals[h.scale + i] + reals[h.shift + i];
        }
    }
}

#ifdef DERIVATIVES
// the state after a call, as the shears left it
INLINED void take(const Map &m, const real *states, whole stride, const Column &z) {
    const Header &h = m.header();
    for (int i = 0; i < h.dim; i++)
        z[i] = (states[i * stride] - m.reals[h.shift + i]) * m.reals[h.inverse + i];
}

// of one shear: z goes back, too, unless it is the first
template <class K> struct GoBack {
    static METHOD void run(const Map &m, const Shear &s, const Potential &p, const Column &z,
                           const Column &slope, const Column &g, bool undo) {
        value own[K::TRAINED + 1] = {};
        for (int n = 0; n < s.clusters; n++) {
            const Cluster<K> cluster(m, s, n);
            cluster.go_back(z, slope, m.c + p.constants, own);
            if (undo) cluster.move(z, m.c + p.constants, (real)-1);
        }
        for (int i = 0; i < K::TRAINED; i++) g[m.integers[m.header().row + p.first + i]] += own[i];
    }
};

// from derivatives by the state after all shears to those by the state before, and by weights,
// which are added to `g` by their places
INLINED void go_back(const Map &m, const Column &z, const Column &slope, const Column &g) {
    for (int k = m.header().shears - 1; k >= 0; k--) {
        const Shear &s = m.shear(k);
        const Potential &p = m.potential(s.potential);
        of_kind<GoBack>(p.kind, m, s, p, z, slope, g, k > 0);
    }
}

// total (weight, thread) += derivatives of sum seeds * states, with both (call, dim, trajectory);
// space (2 dim, thread)
extern "C" __global__ void __launch_bounds__(BLOCK)
gradient(const real *states, const real *seeds, real *space, real *total, const real *c,
         const int *integers, const real *reals, whole count, whole calls, whole threads) {
    const Map m{integers, reals, c};
    const Header &h = m.header();
    if (thread_number() >= threads) return;
    const Column z{space + thread_number(), threads}, g{total + thread_number(), threads};
    const Column slope{z.first + h.dim * threads, threads};
    for (whole n = thread_number(); n < count; n += threads) {
        for (int i = 0; i < h.dim; i++) slope[i] = 0;
        for (whole call = calls - 1; call >= 0; call--) {
            const whole first = call * h.dim * count + n;
            take(m, states + first, count, z);
            for (int i = 0; i < h.dim; i++)
                slope[i] += seeds[first + i * count] * reals[h.scale + i];
            go_back(m, z, slope, g);
        }
    }
}

// J^T (weight, row, trajectory) += derivatives of weights * states by rows `from` ... `from + rows`
// of all (call, dim); states (call, dim, trajectory), space (2 dim, row, trajectory)
extern "C" __global__ void __launch_bounds__(BLOCK)
jacobian(const real *states, const real *weights, real *space, real *transposed, const real *c,
         const int *integers, const real *reals, whole count, whole from, whole rows) {
    const Map m{integers, reals, c};
    const Header &h = m.header();
    const whole threads = rows * count;
    if (thread_number() >= threads) return;
    const whole row = from + thread_number() / count, n = thread_number() % count;
    const Column z{space + thread_number(), threads}, g{transposed + thread_number(), threads};
    const Column slope{z.first + h.dim * threads, threads};
    const int last = row / h.dim, component = row % h.dim;
    for (int i = 0; i < h.dim; i++) slope[i] = 0;
    slope[component] = weights[component] * reals[h.scale + component];
    for (whole call = last; call >= 0; call--) {
        take(m, states + call * h.dim * count + n, count, z);
        go_back(m, z, slope, g);
    }
}
#endif
