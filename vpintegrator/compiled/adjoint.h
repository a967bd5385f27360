// Sums of squares of residuals, their gradients and Jacobians. Before this and `residuals.h` are
// included, `step` takes the windows in the first slots of a workspace to new states, and `back`
// takes the derivatives by these, in the slots from SEEDS on, to those by the weights (a vector each,
// added to `g`) and by the windows.
//
// Windows are (row, window * dim) and targets (row, calls * outputs) as the package has them, rows that
// may overlap; `rows` are those in use, in this order. Derivatives come with windows last, lanes side
// by side.
#include <memory>

enum : long { KEPT = INPUTS - OUTPUTS };

extern "C" int lanes() { return LANES; }
extern "C" void constants(const real *parameters, real *c) {
    compute_constants(parameters, c);
}

struct Problem {
    const real *windows, *targets, *weights, *c;
    const long *rows;
    long count, calls, window_stride, target_stride;
};

// the windows of a block, those that are missing replaced by its last, and the residuals after them
struct Block {
    const Problem &p;
    std::unique_ptr<value[]> v{new value[SLOTS]()}, windows{new value[(p.calls + 1) * INPUTS]},
        targets{new value[p.calls * OUTPUTS]}, residuals{new value[p.calls * OUTPUTS]};
    Squares squares;

    explicit Block(const Problem &problem) : p(problem) {}

    void step_from(long call, value *y) {
        memcpy(v.get(), &windows[call * INPUTS], INPUTS * sizeof(value));
        step(v.get(), p.c, y);
    }

    void predict(long first) {
        const long count = p.count - first < LANES ? p.count - first : LANES;
        squares.take(count);
        const long *rows = p.rows + first, next = first + LANES;
        for (long k = next; k < next + LANES && k < p.count; k++) {
            fetch(p.windows + p.rows[k] * p.window_stride, INPUTS);
            fetch(p.targets + p.rows[k] * p.target_stride, p.calls * OUTPUTS);
        }
        transpose(p.windows, rows, p.window_stride, count, INPUTS, windows.get());
        transpose(p.targets, rows, p.target_stride, count, p.calls * OUTPUTS, targets.get());
        for (long call = 0; call < p.calls; call++) {
            value y[OUTPUTS], *next = &windows[(call + 1) * INPUTS];
            step_from(call, y);
            memcpy(next, next - INPUTS + OUTPUTS, KEPT * sizeof(value));
            memcpy(next + KEPT, y, sizeof y);
            for (int i = 0; i < OUTPUTS; i++) {
                const long row = call * OUTPUTS + i;
                residuals[row] = squares.residual(y[i], targets[row], p.weights[i]);
            }
        }
    }

    // from the derivative by the window after a call to that by the window before it
    void go_back(value *carry, real *g) {
        value x[INPUTS] = {};
        back(v.get(), p.c, g, x);
        for (int j = 0; j < KEPT; j++) x[OUTPUTS + j] += carry[j];
        memcpy(carry, x, sizeof x);
    }
};

extern "C" void sums(const Problem *p, double *squares) { add_squares<Block>(p, squares); }

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
            block.go_back(carry, g.get());
        }
        // short sums of short sums: rounding does not grow with the number of windows
        if (blocks % 64 == 0 || first + LANES >= p->count)
            for (long i = 0; i < TRAINED * LANES; i++) {
                total[i / LANES] += g[i];
                g[i] = 0;
            }
    }
    block.squares.give(squares);
}

// residuals (vector of windows, row, lane) and J (vector of windows, row, trained, lane) of the rows
// `from` ... `to` of all calls * outputs
extern "C" void jacobian(const Problem *p, long from, long to, real *residuals, real *jacobian) {
    Block block(*p);
    const long rows = to - from, size = TRAINED * LANES;
    std::unique_ptr<value[]> carries(new value[rows * INPUTS]);
    value y[OUTPUTS];
    for (long first = 0; first < p->count; first += LANES, jacobian += rows * size) {
        block.predict(first);
        memcpy(residuals + first * rows, &block.residuals[from], rows * sizeof(value));
        memset(carries.get(), 0, rows * INPUTS * sizeof(value));
        memset(jacobian, 0, rows * size * sizeof(real));
        for (long call = p->calls - 1; call >= 0; call--) {
            if (call < p->calls - 1) block.step_from(call, y);
            for (long row = call * OUTPUTS > from ? call * OUTPUTS : from; row < to; row++) {
                value *carry = &carries[(row - from) * INPUTS];
                for (int i = 0; i < OUTPUTS; i++) {
                    const real weight = row == call * OUTPUTS + i ? p->weights[i] : 0;
                    const vector seed = choose(block.squares.live, fill(weight), vector{});
                    block.v[SEEDS + i] = seed + carry[KEPT + i];
                }
                block.go_back(carry, jacobian + (row - from) * size);
            }
        }
    }
}
