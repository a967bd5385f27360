// Symmetric matrices, row by row: sums of products of rows, Cholesky factors, and solutions. The
// matrix is the lower triangle with the diagonal; its factor U, matrix + damping = U^T U, is above
// the diagonal, and the reciprocals of U's diagonal are apart, so that both are there at once.
//
// The work is done on tiles of HIGH rows and WIDTH columns, which stay in registers while products
// of DEPTH pairs of numbers are added. Rows of a factor are first laid side by side, WIDTH of them
// (a panel), as the tiles read them. Several threads take tiles in turn: which takes which changes
// no number.
#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

extern "C" int lanes() { return LANES; }

enum : long {
    WIDE = VECTOR_BYTES == 16 ? 2 : 3,
    WIDTH = WIDE * LANES,
    HIGH = VECTOR_BYTES == 64 ? 8 : 4,
    DEPTH = 320,
    BLOCK = 4 * WIDTH,  // rows of a factor found at a time
};

static inline vector load(const real *from) {
    vector x;
    memcpy(&x, from, sizeof x);
    return x;
}
static inline void store(real *to, vector x) { memcpy(to, &x, sizeof x); }

struct Tile {
    vector sum[HIGH][WIDE];

    // sum_k a[k][row] b[k][column]; both have rows of WIDTH numbers
    void multiply(const real *a, const real *b, long depth) {
        vector s[HIGH][WIDE] = {};
        for (long k = 0; k < depth; k++, a += WIDTH, b += WIDTH) {
            vector x[WIDE];
#pragma GCC unroll 8
            for (int j = 0; j < WIDE; j++) x[j] = load(b + j * LANES);
#pragma GCC unroll 8
            for (int i = 0; i < HIGH; i++) {
#pragma GCC unroll 8
                for (int j = 0; j < WIDE; j++) s[i][j] += x[j] * a[i];
            }
        }
        memcpy(sum, s, sizeof s);
    }

    // added to, or subtracted from, some rows and columns of a matrix
    template <bool subtract> void put(real *c, long stride, long rows, long columns) const {
        if (rows >= HIGH && columns >= WIDTH) {
#pragma GCC unroll 8
            for (int i = 0; i < HIGH; i++)
#pragma GCC unroll 8
                for (int j = 0; j < WIDE; j++) {
                    real *to = c + i * stride + j * LANES;
                    store(to, subtract ? load(to) - sum[i][j] : load(to) + sum[i][j]);
                }
            return;
        }
        for (int i = 0; i < HIGH && i < rows; i++)
            for (int j = 0; j < WIDTH && j < columns; j++) {
                const real x = sum[i][j / LANES][j % LANES];
                c[i * stride + j] += subtract ? -x : x;
            }
    }

    // added to what is not above the diagonal, which goes through column `first` of the first row
    void put_lower(real *c, long stride, long rows, long first) const {
        for (int i = 0; i < HIGH && i < rows; i++)
            for (int j = 0; j <= first + i; j++)
                c[i * stride + j] += sum[i][j / LANES][j % LANES];
    }
};

// LANES rows of as many numbers become columns
template <int half, int... k>
static inline void exchange(vector &a, vector &b, std::integer_sequence<int, k...>) {
    const vector low = __builtin_shufflevector(a, b, (k & half ? LANES + k - half : k)...);
    b = __builtin_shufflevector(a, b, (k & half ? LANES + k : k + half)...);
    a = low;
}
template <int half = 1> static inline void transpose(vector *x) {
    if constexpr (half < LANES) {
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++)
            if (!(i & half))
                exchange<half>(x[i], x[i + half], std::make_integer_sequence<int, LANES>());
        transpose<2 * half>(x);
    }
}

// a panel [k][row] from at most WIDTH rows [row][k]; rows that are missing are zero
static void pack_rows(const real *from, long stride, long rows, long depth, real *panel) {
    long k = 0;
    if (rows >= WIDTH)
        for (; k + LANES <= depth; k += LANES)
            for (long r = 0; r < WIDTH; r += LANES) {
                vector x[LANES];
#pragma GCC unroll 16
                for (int i = 0; i < LANES; i++) x[i] = load(from + (r + i) * stride + k);
                transpose(x);
#pragma GCC unroll 16
                for (int i = 0; i < LANES; i++) store(panel + (k + i) * WIDTH + r, x[i]);
            }
    for (; k < depth; k++)
        for (long r = 0; r < WIDTH; r++)
            panel[k * WIDTH + r] = r < rows ? from[r * stride + k] : (real)0;
}

// the same from rows [k][row]
static void pack_columns(const real *from, long stride, long columns, long depth, real *panel) {
    for (long k = 0; k < depth; k++, from += stride, panel += WIDTH) {
        if (columns >= WIDTH) memcpy(panel, from, WIDTH * sizeof(real));
        else
            for (long r = 0; r < WIDTH; r++) panel[r] = r < columns ? from[r] : (real)0;
    }
}

template <class Work> static void in_threads(long threads, long count, Work work) {
    std::atomic<long> next{0};
    auto some = [&] {
        for (long n; (n = next++) < count;) work(n);
    };
    std::vector<std::thread> others;
    for (long t = 1; t < threads && t < count; t++) others.emplace_back(some);
    some();
    for (auto &other : others) other.join();
}

static inline long smaller(long a, long b) { return a < b ? a : b; }
static std::unique_ptr<real[]> numbers(long count) {
    return std::unique_ptr<real[]>(new real[count]);
}

// matrix += P P^T, of panels (panel, depth, WIDTH)
static void add_panels(real *matrix, const real *packed, long count, long rows, long threads) {
    const long panels = (count + WIDTH - 1) / WIDTH;
    const long parts = (rows + DEPTH - 1) / DEPTH, deep = parts ? (rows + parts - 1) / parts : 0;
    auto panel = [&](long n, long first) { return packed + (n * rows + first) * WIDTH; };
    in_threads(threads, panels, [&](long n) {
        const long i = panels - 1 - n;  // the longest first
        for (long first = 0; first < rows; first += deep) {
            const long depth = smaller(rows - first, deep);
            for (long j = 0; j <= i; j++)
                for (long h = 0; h < WIDTH && i * WIDTH + h < count; h += HIGH) {
                    const long row = i * WIDTH + h, column = j * WIDTH;
                    Tile tile;
                    tile.multiply(panel(i, first) + h, panel(j, first), depth);
                    real *to = matrix + row * count + column;
                    if (j < i) tile.put<false>(to, count, count - row, WIDTH);
                    else tile.put_lower(to, count, count - row, row - column);
                }
        }
    });
}

// matrix += J^T J and gradient += J^T r, of J (rows, count)
extern "C" void add_rows(real *matrix, real *gradient, const real *jacobian, const real *residuals,
                         long count, long rows, long threads) {
    const long panels = (count + WIDTH - 1) / WIDTH;
    auto packed = numbers(panels * WIDTH * rows);
    in_threads(threads, panels, [&](long n) {
        const long top = n * WIDTH, some = smaller(count - top, WIDTH);
        real *panel = packed.get() + top * rows;
        pack_columns(jacobian + top, count, some, rows, panel);
        for (long k = 0; k < rows; k++)
            for (long i = 0; i < some; i++) gradient[top + i] += panel[k * WIDTH + i] * residuals[k];
    });
    add_panels(matrix, packed.get(), count, rows, threads);
}

// the same, of J (groups, count, LANES): the rows of a group are side by side
extern "C" void add_groups(real *matrix, real *gradient, const real *jacobian,
                           const real *residuals, long count, long groups, long threads) {
    const long panels = (count + WIDTH - 1) / WIDTH, rows = groups * LANES;
    auto packed = numbers(panels * WIDTH * rows);
    in_threads(threads, panels, [&](long n) {
        const long top = n * WIDTH, some = smaller(count - top, WIDTH);
        vector sums[WIDTH] = {}, x[WIDTH] = {};
        for (long g = 0; g < groups; g++) {
            const vector r = load(residuals + g * LANES);
            for (long i = 0; i < some; i++) {
                x[i] = load(jacobian + (g * count + top + i) * LANES);
                sums[i] += x[i] * r;
            }
            real *to = packed.get() + top * rows + g * LANES * WIDTH;
            for (long i = 0; i < WIDTH; i += LANES) {
                vector part[LANES];
                memcpy(part, x + i, sizeof part);
                transpose(part);
#pragma GCC unroll 16
                for (int k = 0; k < LANES; k++) store(to + k * WIDTH + i, part[k]);
            }
        }
        for (long i = 0; i < some; i++)
            for (int k = 0; k < LANES; k++) gradient[top + i] += sums[i][k];
    });
    add_panels(matrix, packed.get(), count, rows, threads);
}

// U of a block on the diagonal, from the upper triangle of `u` (size, BLOCK)
static bool factor_block(real *u, long size, real *reciprocals) {
    for (long k = 0; k < size; k++) {
        real *row = u + k * BLOCK;
        if (!(row[k] > 0) || row[k] > std::numeric_limits<real>::max()) return false;
        reciprocals[k] = 1 / __builtin_sqrt(row[k]);
        // whole vectors, from before the diagonal: what is there does not matter
        for (long j = k / LANES * LANES; j < size; j += LANES)
            store(row + j, load(row + j) * reciprocals[k]);
        for (long i = k + 1; i < size; i++) {
            real *other = u + i * BLOCK;
            const vector x = fill(row[i]);
            for (long j = i / LANES * LANES; j < size; j += LANES)
                store(other + j, load(other + j) - x * load(row + j));
        }
    }
    return true;
}

// x (size, WIDTH) becomes U^-T x, with U of the block by panels (panel, BLOCK, WIDTH)
static void solve_block(const real *panels, const real *reciprocals, long size, real *x) {
    for (long first = 0; first < size; first += HIGH) {
        const real *u = panels + first / WIDTH * BLOCK * WIDTH + first % WIDTH;
        Tile tile;
        tile.multiply(u, x, first);
        const long rows = smaller(size - first, HIGH);
        tile.put<true>(x + first * WIDTH, WIDTH, rows, WIDTH);
        for (long i = first; i < first + rows; i++)
            for (long j = 0; j < WIDTH; j += LANES) {
                vector sum = load(x + i * WIDTH + j);
                for (long k = first; k < i; k++)
                    sum -= u[k * WIDTH + i - first] * load(x + k * WIDTH + j);
                store(x + i * WIDTH + j, sum * reciprocals[i]);
            }
    }
}

// U of matrix + damping, block by block of rows; false where rounding leaves none
extern "C" int factor(real *matrix, real *reciprocals, double damping, long count, long threads) {
    auto left = numbers(count * BLOCK), diagonal = numbers(BLOCK * (BLOCK + WIDTH));
    auto panels = numbers(BLOCK * BLOCK);
    for (long top = 0; top < count; top += BLOCK) {
        const long size = smaller(count - top, BLOCK), right = top + size;
        // the rows of U above, of the columns of this block: (panel, top, WIDTH)
        auto above = [&](long column) { return left.get() + column / WIDTH * top * WIDTH; };
        for (long c = 0; c < size; c += WIDTH)
            pack_columns(matrix + top + c, count, size - c, top, above(c));
        real *d = diagonal.get();
        for (long r = 0; r < size; r++) {
            for (long c = r; c < size; c++) d[r * BLOCK + c] = matrix[(top + c) * count + top + r];
            d[r * BLOCK + r] += damping;
        }
        for (long r = 0; r < size; r += HIGH)
            for (long c = r / WIDTH * WIDTH; c < size; c += WIDTH) {
                Tile tile;
                tile.multiply(above(r) + r % WIDTH, above(c), top);
                tile.put<true>(d + r * BLOCK + c, BLOCK, HIGH, WIDTH);
            }
        if (!factor_block(d, size, reciprocals + top)) return 0;
        for (long r = 0; r < size; r++)
            for (long c = r + 1; c < size; c++)
                matrix[(top + r) * count + top + c] = d[r * BLOCK + c];
        for (long c = 0; c < size; c += WIDTH)
            pack_columns(d + c, BLOCK, size - c, size, panels.get() + c * BLOCK);
        in_threads(threads, (count - right + WIDTH - 1) / WIDTH, [&](long n) {
            const long column = right + n * WIDTH, columns = smaller(count - column, WIDTH);
            real x[BLOCK * WIDTH], some[DEPTH * WIDTH];
            pack_rows(matrix + column * count + top, count, columns, size, x);
            for (long first = 0; first < top; first += DEPTH) {
                const long depth = smaller(top - first, DEPTH);
                pack_columns(matrix + first * count + column, count, columns, depth, some);
                for (long r = 0; r < size; r += HIGH) {
                    Tile tile;
                    tile.multiply(above(r) + first * WIDTH + r % WIDTH, some, depth);
                    tile.put<true>(x + r * WIDTH, WIDTH, size - r, WIDTH);
                }
            }
            solve_block(panels.get(), reciprocals + top, size, x);
            for (long r = 0; r < size; r++)
                memcpy(matrix + (top + r) * count + column, x + r * WIDTH, columns * sizeof(real));
        });
    }
    return 1;
}

// x becomes (matrix + damping)^-1 x
extern "C" void solve(const real *matrix, const real *reciprocals, long count, real *x) {
    for (long k = 0; k < count; k++) {
        const real *row = matrix + k * count;
        x[k] *= reciprocals[k];
        long j = k + 1;
        for (; j + LANES <= count; j += LANES) store(x + j, load(x + j) - x[k] * load(row + j));
        for (; j < count; j++) x[j] -= x[k] * row[j];
    }
    for (long k = count - 1; k >= 0; k--) {
        const real *row = matrix + k * count;
        vector sums{};
        long j = k + 1;
        for (; j + LANES <= count; j += LANES) sums += load(row + j) * load(x + j);
        for (int i = 0; i < LANES; i++) x[k] -= sums[i];
        for (; j < count; j++) x[k] -= row[j] * x[j];
        x[k] *= reciprocals[k];
    }
}
