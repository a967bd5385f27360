// Sums of squares of residuals, their gradients and Jacobians, of maps made of shears. Kinds have
// beside what `shears.h` asks for:
//
//   TRAINED                   trained weights
//   BACK_SLOTS, back          from a cluster and derivatives by its gradient, in the slots that come
//                             next, to derivatives by the trained weights, added to `g`, and by the
//                             cluster, added to `x`
//   SLOPE_SLOTS, slopes       from a cluster to the derivatives of what it moves by by the cluster,
//                             h (OUTPUTS, SIZE), and by the trained weights, b (OUTPUTS, TRAINED)
//
// Windows are (trajectory, dim) and targets (trajectory, call, dim) as the package has them;
// derivatives come with windows last, lanes side by side. A Jacobian is computed by rows of its
// transpose, some of them at a time: what depends on the states alone is shared by them, and clusters
// that none of them has reached are left out, so that it takes a time proportional to the bodies.

struct Problem {
    const real *windows, *targets, *weights, *c;
    long count, calls;
    const Shears *shears;
};

static std::unique_ptr<vector[]> vectors(long count) {
    return std::unique_ptr<vector[]>(new vector[count]());
}

// the windows of a block, those that are missing replaced by its last, and the residuals after them
struct Block {
    const Problem &p;
    const Shears &s;
    const long dim, outputs, first_new;
    std::unique_ptr<vector[]> windows, residuals, before;
    long stored = -1;  // the call that `before` is of
    Squares squares;

    explicit Block(const Problem &problem)
        : p(problem), s(*p.shears), dim(s.dim), outputs(s.outputs), first_new(dim - outputs),
          windows(vectors((p.calls + 1) * dim)), residuals(vectors(p.calls * outputs)), before(vectors((s.count + 1) * dim)) {}

    // the states before each shear of a call and after all of them
    void step_from(long call) {
        if (stored == call) return;
        const vector *window = &windows[call * dim];
        for (long i = 0; i < dim; i++) before[s.place[i]] = (window[i] - s.shift[i]) * s.inverse[i];
        for (long k = 0; k < s.count; k++) {
            vector *z = &before[(k + 1) * dim];
            memcpy(z, z - dim, dim * sizeof(vector));
            apply(s, s.shears[k], p.c, z);
        }
        stored = call;
    }

    void predict(long first) {
        const long count = p.count - first < LANES ? p.count - first : LANES;
        const long width = p.calls * outputs;
        squares.take(count);
        for (long i = 0; i < dim; i++) windows[i] = column(p.windows + first * dim + i, dim, count);
        stored = -1;
        for (long call = 0; call < p.calls; call++) {
            step_from(call);
            for (long i = 0; i < outputs; i++) {
                const long row = call * outputs + i, from = first_new + i;
                vector y = before[s.count * dim + s.place[from]] * s.scale[from] + s.shift[from];
                windows[row + dim] = y;
                const vector target = column(p.targets + first * width + row, width, count);
                residuals[row] = squares.residual(y, target, p.weights[i]);
            }
        }
    }

    // from derivatives by the state after a shear to those by the state before it
    void go_back(long k, vector *slope, vector *g) {
        const Shear &shear = s.shears[k];
        const Potential &q = s.potential[shear.potential];
        const vector *z = &before[k * dim];
        of_kind(q.kind, [&](auto kind) {
            typedef decltype(kind) K;
            for (long cluster = 0; cluster < shear.clusters; cluster++) {
                const long read = cluster * K::SIZE, moved = cluster * K::OUTPUTS;
                vector v[K::BACK_SLOTS], x[K::SIZE] = {};
                for (int i = 0; i < K::SIZE; i++)
                    v[i] = z[shear.read[read + i]] * shear.sign[read + i];
                for (int i = 0; i < K::OUTPUTS; i++)
                    v[K::SIZE + i] = slope[shear.moved[moved + i]] * shear.factor[moved + i];
                K::back(v, p.c + q.constants, g + q.first, x);
                for (int i = 0; i < K::SIZE; i++)
                    slope[shear.read[read + i]] += x[i] * shear.sign[read + i];
            }
        });
    }
};

extern "C" void sums(const Problem *p, double *squares) { add_squares<Block>(p, squares); }

// J^T r
extern "C" void gradient(const Problem *p, double *squares, double *total) {
    Block block(*p);
    const Shears &s = block.s;
    auto slope = vectors(s.dim), g = vectors(s.trained);
    for (long first = 0, blocks = 1; first < p->count; first += LANES, blocks++) {
        block.predict(first);
        memset(slope.get(), 0, s.dim * sizeof(vector));
        for (long call = p->calls - 1; call >= 0; call--) {
            block.step_from(call);
            for (long i = 0; i < s.outputs; i++) {
                const long from = block.first_new + i;
                slope[s.place[from]] +=
                    block.residuals[call * s.outputs + i] * (p->weights[i] * s.scale[from]);
            }
            for (long k = s.count - 1; k >= 0; k--) block.go_back(k, slope.get(), g.get());
        }
        // short sums of short sums: rounding does not grow with the number of windows
        if (blocks % 64 == 0 || first + LANES >= p->count)
            for (long i = 0; i < s.trained; i++) {
                for (int k = 0; k < LANES; k++) total[s.row[i]] += g[i][k];
                g[i] = vector{};
            }
    }
    block.squares.give(squares);
}

// a tile of a product in registers; its depth, and the size of a factor, in the cache
enum : long { HIGH = 4, WIDE = VECTOR_BYTES == 64 ? 6 : 2, DEEP = 128, LARGE = 1 << 11 };

// a[j][row] += sum_i l[i][row] b[i][j], HIGH rows and `wide` columns; those are in registers
template <int wide>
static inline void multiply_tile(const vector *l, const vector *b, vector *a, long depth, long rows,
                                 long columns) {
    vector sum[wide][HIGH];
#pragma GCC unroll 8
    for (int j = 0; j < wide; j++)
#pragma GCC unroll 8
        for (int r = 0; r < HIGH; r++) sum[j][r] = a[j * rows + r];
    for (long i = 0; i < depth; i++, l += rows, b += columns) {
#pragma GCC unroll 8
        for (int j = 0; j < wide; j++)
#pragma GCC unroll 8
            for (int r = 0; r < HIGH; r++) sum[j][r] += l[r] * b[j];
    }
#pragma GCC unroll 8
    for (int j = 0; j < wide; j++)
#pragma GCC unroll 8
        for (int r = 0; r < HIGH; r++) a[j * rows + r] = sum[j][r];
}

static void multiply(const vector *l, const vector *b, vector *a, long depth, long rows,
                     long columns) {
    for (long j = 0; j < columns;) {
        const bool whole = columns - j >= WIDE;
        for (long r = 0; r < rows; r += HIGH) {
            if (whole) multiply_tile<WIDE>(l + r, b + j, a + j * rows + r, depth, rows, columns);
            else multiply_tile<1>(l + r, b + j, a + j * rows + r, depth, rows, columns);
        }
        j += whole ? WIDE : 1;
    }
}

// some rows of J^T, which are adjoints of as many components of the states of one call
struct Rows {
    Block &block;
    const Shears &s;
    const long rows;  // a multiple of HIGH
    std::unique_ptr<vector[]> slope, left, right, sums, hessians;  // slope (component, row)
    std::unique_ptr<bool[]> reached;                               // components

    Rows(Block &b, long count)
        : block(b), s(b.s), rows(count), slope(vectors(s.dim * rows)),
          left(vectors((DEEP + s.most) * rows)), right(vectors(LARGE + s.widest)),
          sums(vectors(s.trained * rows)), hessians(vectors((DEEP + s.most) * s.most)),
          reached(new bool[s.dim]) {}

    void reach(long component) {
        if (reached[component]) return;
        reached[component] = true;
        memset(&slope[component * rows], 0, rows * sizeof(vector));
    }

    template <class K> static bool is_reached(const bool *reached, const int *moved) {
        for (int i = 0; i < K::OUTPUTS; i++)
            if (reached[moved[i]]) return true;
        return false;
    }

    void go_back(long k) {
        const Shear &shear = s.shears[k];
        const Potential &q = s.potential[shear.potential];
        const vector *z = &block.before[k * s.dim];
        of_kind(q.kind, [&](auto kind) {
            typedef decltype(kind) K;
            constexpr long deep = DEEP / K::OUTPUTS, wide = LARGE / (K::OUTPUTS * K::TRAINED + 1);
            constexpr long most = 1 + (deep < wide ? deep : wide);
            long chosen[most], count = 0;
            for (long cluster = 0; cluster < shear.clusters; cluster++) {
                if (!is_reached<K>(reached.get(), shear.moved + cluster * K::OUTPUTS)) continue;
                chosen[count++] = cluster;
                if (count == most) {
                    some<K>(shear, q, z, chosen, count);
                    count = 0;
                }
            }
            if (count) some<K>(shear, q, z, chosen, count);
        });
    }

    template <class K>
    void some(const Shear &shear, const Potential &q, const vector *z, const long *chosen,
              long count) {
        for (long n = 0; n < count; n++) {
            const long read = chosen[n] * K::SIZE, moved = chosen[n] * K::OUTPUTS;
            vector v[K::SLOPE_SLOTS];
            for (int i = 0; i < K::SIZE; i++)
                v[i] = z[shear.read[read + i]] * shear.sign[read + i];
            for (int i = 0; i < K::OUTPUTS; i++) {
                reach(shear.moved[moved + i]);
                const vector *from = &slope[shear.moved[moved + i] * rows];
                vector *to = &left[(n * K::OUTPUTS + i) * rows];
                for (long r = 0; r < rows; r++) to[r] = from[r] * shear.factor[moved + i];
            }
            K::slopes(v, block.p.c + q.constants, &hessians[n * K::OUTPUTS * K::SIZE],
                      &right[n * K::OUTPUTS * K::TRAINED]);
        }
        multiply(left.get(), right.get(), &sums[q.first * rows], count * K::OUTPUTS, rows,
                 K::TRAINED);
        for (long n = 0; n < count; n++) {
            const vector *h = &hessians[n * K::OUTPUTS * K::SIZE], *l = &left[n * K::OUTPUTS * rows];
            for (int i = 0; i < K::SIZE; i++) {
                const long read = shear.read[chosen[n] * K::SIZE + i];
                const real sign = shear.sign[chosen[n] * K::SIZE + i];
                reach(read);
                vector own[K::OUTPUTS], *to = &slope[read * rows];
                for (int j = 0; j < K::OUTPUTS; j++) own[j] = h[j * K::SIZE + i] * sign;
                for (long r = 0; r < rows; r++) {
                    vector sum = to[r];
                    for (int j = 0; j < K::OUTPUTS; j++) sum += l[j * rows + r] * own[j];
                    to[r] = sum;
                }
            }
        }
    }

    // rows `first` ... `first + count` of a call
    void compute(long call, long first, long count) {
        memset(reached.get(), 0, s.dim * sizeof(bool));
        memset(sums.get(), 0, s.trained * rows * sizeof(vector));
        for (long r = 0; r < count; r++) {
            const long from = block.first_new + first + r, component = s.place[from];
            reach(component);
            const vector seed = fill(block.p.weights[first + r] * s.scale[from]);
            slope[component * rows + r] = choose(block.squares.live, seed, vector{});
        }
        for (; call >= 0; call--) {
            block.step_from(call);
            for (long k = s.count - 1; k >= 0; k--) go_back(k);
        }
    }
};

// residuals (vector of windows, row, lane) and J (vector of windows, row, trained, lane) of the rows
// `from` ... `to` of all calls * outputs
extern "C" void jacobian(const Problem *p, long from, long to, real *residuals, real *jacobian) {
    Block block(*p);
    const Shears &s = block.s;
    Rows part(block, s.rows);
    for (long first = 0; first < p->count; first += LANES) {
        block.predict(first);
        memcpy(residuals + first * (to - from), &block.residuals[from], (to - from) * sizeof(vector));
        for (long row = from; row < to;) {
            const long call = row / s.outputs, within = row - call * s.outputs;
            long some = s.rows < s.outputs - within ? s.rows : s.outputs - within;
            if (some > to - row) some = to - row;
            part.compute(call, within, some);
            for (long r = 0; r < some; r++, jacobian += s.trained * LANES)
                for (long i = 0; i < s.trained; i++)
                    memcpy(jacobian + s.row[i] * LANES, &part.sums[i * part.rows + r],
                           sizeof(vector));
            row += some;
        }
    }
}
