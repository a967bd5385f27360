// Sums of squares of residuals, their gradients and Jacobians. Before this is included, `step` takes
// the windows in the first slots of a workspace to new states, and `back` takes the derivatives by
// these, in the slots from SEEDS on, to those by the weights (added to `g`, each `stride` after the
// one before) and by the windows.
//
// Windows are (trajectory, window * dim) and targets (trajectory, calls * outputs) as the package has
// them; derivatives come with windows last, lanes side by side.
#include <memory>

enum : long { KEPT = INPUTS - OUTPUTS };

extern "C" int lanes() { return LANES; }
extern "C" void constants(const real *parameters, real *c, const void *) {
    compute_constants(parameters, c);
}

struct Problem {
    const real *windows, *targets, *weights, *c;
    long count, calls;
    const void *tables;  // of loops: here there are none
};

// the windows of a block, those that are missing replaced by its last, and the residuals after them
struct Block {
    const Problem &p;
    std::unique_ptr<value[]> v{new value[SLOTS]()}, windows{new value[(p.calls + 1) * INPUTS]},
        residuals{new value[p.calls * OUTPUTS]};
    double weighted = 0, plain = 0;
    mask live;

    explicit Block(const Problem &problem) : p(problem) {}

    void step_from(long call, value *y) {
        memcpy(v.get(), &windows[call * INPUTS], INPUTS * sizeof(value));
        step(v.get(), p.c, y);
    }

    void predict(long first) {
        const long count = p.count - first < LANES ? p.count - first : LANES;
        for (int k = 0; k < LANES; k++) live[k] = k < count ? -1 : 0;
        for (int i = 0; i < INPUTS; i++)
            windows[i] = column(p.windows + first * INPUTS + i, INPUTS, count);
        for (long call = 0; call < p.calls; call++) {
            value y[OUTPUTS], *next = &windows[(call + 1) * INPUTS];
            step_from(call, y);
            memcpy(next, next - INPUTS + OUTPUTS, KEPT * sizeof(value));
            memcpy(next + KEPT, y, sizeof y);
            for (int i = 0; i < OUTPUTS; i++) {
                const long row = call * OUTPUTS + i, width = p.calls * OUTPUTS;
                vector d = y[i] - column(p.targets + first * width + row, width, count);
                d = choose(live, d, vector{});
                vector r = d * p.weights[i];
                residuals[row] = r;
                for (int k = 0; k < LANES; k++) {
                    weighted += (double)r[k] * r[k];
                    plain += (double)d[k] * d[k];
                }
            }
        }
    }

    // from the derivative by the window after a call to that by the window before it
    void go_back(value *carry, real *g, long stride) {
        value x[INPUTS] = {};
        back(v.get(), p.c, g, stride, x);
        for (int j = 0; j < KEPT; j++) x[OUTPUTS + j] += carry[j];
        memcpy(carry, x, sizeof x);
    }
};

extern "C" void sums(const Problem *p, double *squares) {
    Block block(*p);
    for (long first = 0; first < p->count; first += LANES) block.predict(first);
    squares[0] = block.weighted;
    squares[1] = block.plain;
}

// J^T r
extern "C" void gradient(const Problem *p, double *squares, double *total) {
    Block block(*p);
    value carry[INPUTS], y[OUTPUTS];
    std::unique_ptr<real[]> g(new real[TRAINED * LANES]());
    for (long first = 0, blocks = 1; first < p->count; first += LANES, blocks++) {
        block.predict(first);
        memset(carry, 0, sizeof carry);
        for (long call = p->calls - 1; call >= 0; call--) {
            if (call < p->calls - 1) block.step_from(call, y);
            for (int i = 0; i < OUTPUTS; i++)
                block.v[SEEDS + i] =
                    block.residuals[call * OUTPUTS + i] * p->weights[i] + carry[KEPT + i];
            block.go_back(carry, g.get(), LANES);
        }
        // short sums of short sums: rounding does not grow with the number of windows
        if (blocks % 64 == 0 || first + LANES >= p->count)
            for (long i = 0; i < TRAINED * LANES; i++) {
                total[i / LANES] += g[i];
                g[i] = 0;
            }
    }
    squares[0] = block.weighted;
    squares[1] = block.plain;
}

// residuals (rows, stride) and J^T (trained, rows, stride) of the rows `from` ... `to` of all
// calls * outputs; the latter is zero before
extern "C" void jacobian(const Problem *p, long from, long to, long stride, real *residuals,
                         real *transposed) {
    Block block(*p);
    const long rows = to - from;
    std::unique_ptr<value[]> carries(new value[rows * INPUTS]);
    value y[OUTPUTS];
    for (long first = 0; first < p->count; first += LANES) {
        block.predict(first);
        memset(carries.get(), 0, rows * INPUTS * sizeof(value));
        for (long row = 0; row < rows; row++)
            memcpy(residuals + row * stride + first, &block.residuals[from + row], sizeof(value));
        for (long call = p->calls - 1; call >= 0; call--) {
            if (call < p->calls - 1) block.step_from(call, y);
            for (long row = call * OUTPUTS > from ? call * OUTPUTS : from; row < to; row++) {
                value *carry = &carries[(row - from) * INPUTS];
                for (int i = 0; i < OUTPUTS; i++) {
                    const real weight = row == call * OUTPUTS + i ? p->weights[i] : 0;
                    const vector seed = choose(block.live, fill(weight), vector{});
                    block.v[SEEDS + i] = seed + carry[KEPT + i];
                }
                block.go_back(carry, transposed + (row - from) * stride + first, rows * stride);
            }
        }
    }
}
