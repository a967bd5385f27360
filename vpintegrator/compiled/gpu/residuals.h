// Sums of squares of residuals, their gradients and Jacobians, a window and its target (a pair) a
// thread. Before this is included, `step` takes the window in the first slots of a workspace to new
// states, and `back` takes the derivatives by these, in the slots from SEEDS on, to those by the
// weights, each `put` where it belongs, and by the window, added to `x`.
//
// Pairs come last, so that threads side by side read and write side by side: windows (window * dim,
// pair), targets (calls * OUTPUTS, pair). Predictions that others are made from are kept in `path`
// (calls * OUTPUTS, column), a column for each thread of `sums` and `gradient`.
enum : int { KEPT = INPUTS - OUTPUTS };

struct Pair {
    const real *windows, *targets, *weights, *c;
    real *path;
    whole count, calls, columns, pair, column;

    // from the window before a call
    __device__ __forceinline__ void step_from(whole call, real *v, real *y) const {
#pragma unroll
        for (int i = 0; i < INPUTS; i++) {
            const whole k = CHAINED ? call * OUTPUTS + i : i;
            v[i] = !CHAINED || k < INPUTS ? windows[k * count + pair]
                                          : path[(k - INPUTS) * columns + column];
        }
        step(v, c, y);
    }

    __device__ __forceinline__ real difference(whole call, int i, const real *y) const {
        return y[i] - targets[(call * OUTPUTS + i) * count + pair];
    }

    __device__ __forceinline__ void keep(whole call, const real *y) const {
        if (!CHAINED || calls == 1) return;
#pragma unroll
        for (int i = 0; i < OUTPUTS; i++) path[(call * OUTPUTS + i) * columns + column] = y[i];
    }
};

// from the derivative by the window after a call to that by the window before it
template <class Sink>
INLINED void go_back(real *v, const real *c, Sink &sink, real *carry) {
    real x[INPUTS] = {};
    back(v, c, sink, x);
#pragma unroll
    for (int i = 0; i < KEPT; i++) x[OUTPUTS + i] += carry[i];
#pragma unroll
    for (int i = 0; i < INPUTS; i++) carry[i] = x[i];
}

// the sums of squares of a thread's residuals, weighted and plain: squares (2, thread)
struct Squares {
    double weighted, plain;

    __device__ __forceinline__ void add(real d, real weight) {
        const real r = d * weight;
        weighted += (double)r * r;
        plain += (double)d * d;
    }
};

extern "C" __global__ void __launch_bounds__(BLOCK)
sums(const real *windows, const real *targets, const real *weights, const real *__restrict c,
     real *path, double *squares, whole count, whole calls) {
    const whole thread = thread_number(), threads = (whole)gridDim.x * BLOCK;
    Squares total = {};
    for (whole pair = thread; pair < count; pair += threads) {
        const Pair p = {windows, targets, weights, c, path, count, calls, threads, pair, thread};
        real v[SLOTS], y[OUTPUTS];
#pragma unroll 1
        for (whole call = 0; call < calls; call++) {
            p.step_from(call, v, y);
            p.keep(call, y);
#pragma unroll
            for (int i = 0; i < OUTPUTS; i++) total.add(p.difference(call, i, y), weights[i]);
        }
    }
    squares[thread] = total.weighted;
    squares[threads + thread] = total.plain;
}

// Sums over the threads of a warp, of so many derivatives at a time: each thread leaves its own in
// memory that they share, and then adds up those of one weight. Totals (warp, weight), the weights in
// the order in which they come.
#define TOGETHER 32
typedef real (*Space)[WARP + 1];

static __device__ __noinline__ void add_up(Space space, double *totals, int lane, int count) {
    __syncwarp();
    for (int i = lane; i < count; i += WARP) {
        real sum = 0;
        for (int k = 0; k < WARP; k++) sum += space[i][k];
        totals[i] += (double)sum;
    }
    __syncwarp();
}

struct Sums {
    Space space;
    double *totals;
    int lane;

    // `k` counts what is put, which is known when this is compiled
    __device__ __forceinline__ void put(int, int k, real x) {
        space[k % TOGETHER][lane] = x;
        const int used = k % TOGETHER + 1;
        if (used == TOGETHER || k == TRAINED - 1) add_up(space, totals + k + 1 - used, lane, used);
    }
};

// J^T r: totals are added to
extern "C" __global__ void __launch_bounds__(BLOCK)
gradient(const real *windows, const real *targets, const real *weights, const real *__restrict c,
         real *path, double *squares, double *totals, whole count, whole calls) {
    __shared__ real space[BLOCK / WARP][TOGETHER][WARP + 1];
    const whole thread = thread_number(), threads = (whole)gridDim.x * BLOCK;
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    Squares total = {};
    // all threads of a warp go through this, those without a pair with one of another and seeds zero
    for (whole first = thread - lane; first < count; first += threads) {
        const whole last = count - 1, pair = first + lane < last ? first + lane : last;
        const bool live = first + lane < count;
        const Pair p = {windows, targets, weights, c, path, count, calls, threads, pair, thread};
        real v[SLOTS], y[OUTPUTS], carry[INPUTS] = {};
        // there, and from the last call back
        const whole steps = CHAINED ? 2 * calls - 1 : 1;
#pragma unroll 1
        for (whole k = 0; k < steps; k++) {
            const bool there = k < calls;
            const whole call = there ? k : steps - 1 - k;
            p.step_from(call, v, y);
            if (there) p.keep(call, y);
#pragma unroll
            for (int i = 0; i < OUTPUTS; i++) {
                const real d = live ? p.difference(call, i, y) : (real)0;
                if (there) total.add(d, weights[i]);
                v[SEEDS + i] = d * weights[i] * weights[i] + carry[KEPT + i];
            }
            if (k < calls - 1) continue;
            Sums sink = {space[warp], totals + thread / WARP * TRAINED, lane};
            go_back(v, c, sink, carry);
        }
    }
    squares[thread] = total.weighted;
    squares[threads + thread] = total.plain;
}

struct Columns {
    real *first;
    whole stride;
    bool more;

    __device__ __forceinline__ void put(int i, int, real x) {
        real *to = first + i * stride;
        *to = more ? *to + x : x;
    }
};

// residuals (row, pair) and J^T (weight, row, pair) of the rows `from` ... `to` of all calls *
// OUTPUTS, of which a thread computes `share`; after `sums` with a thread a pair, if there are calls
// after the first
extern "C" __global__ void __launch_bounds__(BLOCK)
jacobian(const real *windows, const real *targets, const real *weights, const real *__restrict c,
         real *path, real *residuals, real *jacobian, whole count, whole calls, whole columns,
         whole from, whole to, whole share) {
    const whole pair = thread_number() % columns;
    const whole start = from + thread_number() / columns * share;
    const whole stop = start + share < to ? start + share : to;
    if (pair >= count || start >= to) return;
    const Pair p = {windows, targets, weights, c, path, count, calls, columns, pair, pair};
    real v[SLOTS], y[OUTPUTS];
    whole stored = -1;  // the call that the workspace is of
#pragma unroll 1
    for (whole row = start; row < stop; row++) {
        const whole own = row / OUTPUTS, place = (row - from) * count + pair;
        real carry[INPUTS] = {};
#pragma unroll 1
        for (whole call = own; call >= 0; call--) {
            if (call != stored) p.step_from(call, v, y);
            stored = call;
#pragma unroll
            for (int i = 0; i < OUTPUTS; i++) {
                const bool mine = row == call * OUTPUTS + i;
                v[SEEDS + i] = (mine ? weights[i] : (real)0) + carry[KEPT + i];
                if (mine) residuals[place] = p.difference(call, i, y) * weights[i];
            }
            whole stride = (to - from) * count;
            COMPUTE_AGAIN(stride);
            Columns sink = {jacobian + place, stride, call != own};
            go_back(v, c, sink, carry);
        }
    }
}
