// Cayley transforms of many small matrices and their derivatives, on as many matrices at once as a
// vector has lanes. Matrices are (batch, n, n), windows (batch, n, d), row by row.
//
// SIZE, defined before this is compiled, is n where it is small, so that the compiler unrolls loops
// and matrices stay in registers; or 0 for any n, given when called. Up to 3 there is a closed form.
//
// I + C for skew C has leading minors of 1 or more, and so has I - C: no elimination needs pivots.
#include <cstring>
#include <memory>
#include <utility>

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif
// REPEAT is for a count that the compiler knows, EACH for one that it knows if SIZE is not 0
#define REPEAT(i, count) _Pragma("GCC unroll 16") for (long i = 0; i < (count); i++)
#define CLOSED (SIZE && SIZE <= 3)
#if SIZE
#define EACH REPEAT
#define INLINE inline __attribute__((always_inline))
#else
#define EACH(i, count) _Pragma("GCC unroll 4") for (long i = 0; i < (count); i++)
#define INLINE inline
#endif
#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector)
#define CAN_SHUFFLE
#endif
#endif

namespace {

template <class real> struct Lanes {
    typedef real vector __attribute__((vector_size(VECTOR_BYTES)));
    static constexpr int count = VECTOR_BYTES / sizeof(real);
};

// A block's matrices or windows: on the stack where their size is fixed.
template <class real, long fixed> struct Block {
    typename Lanes<real>::vector data[fixed];
    explicit Block(long) {}
};
template <class real> struct Block<real, 0> {
    typedef typename Lanes<real>::vector vector;
    std::unique_ptr<vector[]> memory;
    vector *data;
    explicit Block(long size) : memory(new vector[size]), data(memory.get()) {}
};

#ifdef CAN_SHUFFLE
template <int half, class vector, int... i>
INLINE vector interleave(vector a, vector b, std::integer_sequence<int, i...>) {
    constexpr int count = sizeof...(i);
    return __builtin_shufflevector(a, b, (half * count / 2 + i / 2 + (i & 1) * count)...);
}

// rows and columns of a square of numbers change places: log2(count) perfect shuffles
template <class real> INLINE void transpose(typename Lanes<real>::vector *rows) {
    constexpr int count = Lanes<real>::count;
    typedef std::make_integer_sequence<int, count> all;
    typename Lanes<real>::vector other[count];
    _Pragma("GCC unroll 4")
    for (int step = 1; step < count; step *= 2) {
        REPEAT(i, count / 2) {
            other[2 * i] = interleave<0>(rows[i], rows[i + count / 2], all());
            other[2 * i + 1] = interleave<1>(rows[i], rows[i + count / 2], all());
        }
        REPEAT(i, count) rows[i] = other[i];
    }
}
#endif

// Several arrays (batch, size) are walked through together, a block of matrices at a time: `left`
// matrices remain, of which this block takes as many as there are lanes, or all.

// Blocks are read and written piecemeal, which a processor does not foresee: it is told to fetch
// what comes this many bytes later. Measured, and twice as fast where arrays leave the caches.
constexpr long AHEAD = 4096;

template <bool write> INLINE void fetch_ahead(const void *block, long bytes) {
    if (bytes <= AHEAD)
        for (long k = 0; k < bytes; k += 64)
            __builtin_prefetch((const char *)block + AHEAD + k, write);
}

// Numbers of the block's matrices into lanes; lanes without a matrix are 0.
template <class real>
INLINE void gather(const real *from, long left, long size, typename Lanes<real>::vector *to) {
    typedef typename Lanes<real>::vector vector;
    constexpr long lanes = Lanes<real>::count;
    fetch_ahead<false>(from, lanes * size * sizeof(real));
#ifdef CAN_SHUFFLE
    // squares of numbers; the last overlaps the one before it, or reads on into the next block
    if ((left - lanes) * size + size >= lanes && left >= lanes) {
        for (long first = 0; first < size; first += lanes) {
            const long start = size < lanes || first + lanes <= size ? first : size - lanes;
            vector rows[lanes];
            REPEAT(k, lanes) memcpy(rows + k, from + k * size + start, sizeof(vector));
            transpose<real>(rows);
            REPEAT(e, lanes)
                if (e < size) to[start + e] = rows[e];
        }
        return;
    }
#endif
    const long count = left < lanes ? left : lanes;
    memset(to, 0, size * sizeof(vector));
    for (long e = 0; e < size; e++)
        for (long k = 0; k < count; k++) ((real *)to)[e * lanes + k] = from[k * size + e];
}

// The reverse.
template <class real>
INLINE void scatter(const typename Lanes<real>::vector *from, long left, long size, real *to) {
    typedef typename Lanes<real>::vector vector;
    constexpr long lanes = Lanes<real>::count;
    fetch_ahead<true>(to, lanes * size * sizeof(real));
#ifdef CAN_SHUFFLE
    if ((left - lanes) * size + size >= lanes && left >= lanes) {
        for (long first = 0; first < size; first += lanes) {
            const long start = size < lanes || first + lanes <= size ? first : size - lanes;
            vector rows[lanes];
            REPEAT(e, lanes) rows[e] = e < size ? from[start + e] : vector{};
            transpose<real>(rows);
            // in this order what is written too much is overwritten
            REPEAT(k, lanes) memcpy(to + k * size + start, rows + k, sizeof(vector));
        }
        return;
    }
#endif
    const long count = left < lanes ? left : lanes;
    for (long k = 0; k < count; k++)
        for (long e = 0; e < size; e++) to[k * size + e] = ((const real *)from)[e * lanes + k];
}

// A matrix that is read by rows, or, transposed, by columns.
template <class vector> struct Matrix {
    const vector *first;
    long row, column;
    const vector &operator()(long i, long j) const { return first[i * row + j * column]; }
};

template <class vector> INLINE Matrix<vector> rows_of(const vector *A, long columns) {
    return {A, columns, 1};
}
template <class vector> INLINE Matrix<vector> transposed(const vector *A, long columns) {
    return {A, 1, columns};
}

// A few rows and columns of Y = A B, or with `add` of Y += A B, kept in registers.
template <long height, long width, bool add, class vector>
INLINE void tile(Matrix<vector> A, Matrix<vector> B, long inner, long i, long j, vector *Y,
                 long row) {
    vector sum[height][width];
    REPEAT(r, height)
        REPEAT(c, width) sum[r][c] = add ? Y[(i + r) * row + j + c] : vector{};
    _Pragma("GCC unroll 4") for (long k = 0; k < inner; k++)
        REPEAT(r, height)
            REPEAT(c, width) sum[r][c] += A(i + r, k) * B(k, j + c);
    REPEAT(r, height)
        REPEAT(c, width) Y[(i + r) * row + j + c] = sum[r][c];
}

// How many rows or columns of a tile there are; with 32 registers, 4 x 4 leave room for factors.
constexpr long fitting(long fixed) { return fixed ? fixed : 4; }

template <long height, long width, bool add, class vector>
INLINE void strip(Matrix<vector> A, Matrix<vector> B, long inner, long i, long columns, vector *Y) {
    long j = 0;
    for (; j + width <= columns; j += width)
        tile<height, width, add>(A, B, inner, i, j, Y, columns);
    for (; j < columns; j++) tile<height, 1, add>(A, B, inner, i, j, Y, columns);
}

// Y = A B, or Y += A B; `height` and `width` are the rows and columns of Y where these are fixed
template <long height, long width, bool add = false, class vector>
INLINE void multiply(Matrix<vector> A, Matrix<vector> B, long rows, long inner, long columns,
                     vector *Y) {
    constexpr long step = fitting(height), wide = fitting(width);
    long i = 0;
    for (; i + step <= rows; i += step) strip<step, wide, add>(A, B, inner, i, columns, Y);
    for (; i < rows; i++) strip<1, wide, add>(A, B, inner, i, columns, Y);
}

template <class vector> INLINE vector dot(const vector *A, const vector *B, long size) {
    vector sum = A[0] * B[0];
    _Pragma("GCC unroll 8") for (long e = 1; e < size; e++) sum += A[e] * B[e];
    return sum;
}

// 2 / (1 + |c|^2), see cayley.py
template <class vector> INLINE vector closed_form_factor(const vector *C, long size) {
    return 2 / (1 + dot(C, C, size) / 2);
}

// Gauss-Jordan elimination in place of the `width` columns from k on. Several at once touch the
// other rows, which for large n are not in the fastest cache, less often.
template <long width, class vector> INLINE void eliminate(vector *A, long n, long k) {
    vector inverse[width * width];
    REPEAT(r, width)
        REPEAT(c, width) inverse[r * width + c] = A[(k + r) * n + k + c];
    REPEAT(p, width) {
        const vector factor = 1 / inverse[p * width + p];
        inverse[p * width + p] = vector{} + 1;
        REPEAT(c, width) inverse[p * width + c] *= factor;
        REPEAT(r, width) {
            if (r == p) continue;
            const vector multiple = inverse[r * width + p];
            inverse[r * width + p] = vector{};
            REPEAT(c, width)
                inverse[r * width + c] -= multiple * inverse[p * width + c];
        }
    }
    vector *pivots = A + k * n;
    REPEAT(r, width)
        REPEAT(c, width) pivots[r * n + k + c] = r == c ? vector{} + 1 : vector{};
    EACH(j, n) {
        vector old[width];
        REPEAT(r, width) old[r] = pivots[r * n + j];
        REPEAT(r, width) {
            vector sum = inverse[r * width] * old[0];
            REPEAT(c, width - 1) sum += inverse[r * width + c + 1] * old[c + 1];
            pivots[r * n + j] = sum;
        }
    }
    EACH(i, n) {
        if (i >= k && i < k + width) continue;
        vector *row = A + i * n, multiple[width];
        REPEAT(r, width) {
            multiple[r] = row[k + r];
            row[k + r] = vector{};
        }
        EACH(j, n) {
            vector value = row[j];
            REPEAT(r, width) value -= multiple[r] * pivots[r * n + j];
            row[j] = value;
        }
    }
}

template <class vector> INLINE void invert(vector *A, long n) {
    const long blocks = n / 4 * 4;
    for (long k = 0; k < blocks; k += 4) eliminate<4>(A, n, k);
    for (long k = blocks; k < n; k++) eliminate<1>(A, n, k);
}

template <class real> void transform(const real *C, real *L, long batch, long size) {
    typedef typename Lanes<real>::vector vector;
    const long n = SIZE ? SIZE : size, square = n * n;
    Block<real, SIZE * SIZE> block(square), product(square);
    vector *A = block.data, *S = product.data;
    for (long left = batch; left > 0; left -= Lanes<real>::count) {
        const long done = (batch - left) * square;
        gather<real>(C + done, left, square, A);
        if (CLOSED) {
            const vector factor = closed_form_factor(A, square);
            multiply<SIZE, SIZE>(rows_of(A, n), rows_of(A, n), n, n, n, S);
            EACH(e, square) A[e] = factor * (S[e] - A[e]);
            EACH(i, n) A[i * n + i] += 1;
        } else {
            EACH(i, n) A[i * n + i] += 1;
            invert(A, n);
            EACH(e, square) A[e] += A[e];
            EACH(i, n) A[i * n + i] -= 1;
        }
        scatter<real>(A, left, square, L + done);
    }
}

// `saved` is C where there is a closed form, else L
template <class real>
void transform_gradient(const real *saved, const real *G, real *dC, long batch, long size) {
    typedef typename Lanes<real>::vector vector;
    const long n = SIZE ? SIZE : size, square = n * n;
    Block<real, SIZE * SIZE> first(square), second(square), third(square);
    vector *A = first.data, *B = second.data, *D = third.data;
    for (long left = batch; left > 0; left -= Lanes<real>::count) {
        const long done = (batch - left) * square;
        gather<real>(saved + done, left, square, A);
        gather<real>(G + done, left, square, B);
        if (CLOSED) {
            // of I - f (C - C^2):  f^2/2 <G, C - C^2> C - f (G - G C^T - C^T G)
            const vector factor = closed_form_factor(A, square);
            multiply<SIZE, SIZE>(rows_of(A, n), rows_of(A, n), n, n, n, D);
            const vector share = factor * factor / 2 * (dot(B, A, square) - dot(B, D, square));
            multiply<SIZE, SIZE>(rows_of(B, n), transposed(A, n), n, n, n, D);
            multiply<SIZE, SIZE, true>(transposed(A, n), rows_of(B, n), n, n, n, D);
            EACH(e, square) D[e] = share * A[e] + factor * (D[e] - B[e]);
            scatter<real>(D, left, square, dC + done);
        } else {
            // -1/2 (I + L)^T G (I + L)^T
            EACH(i, n) A[i * n + i] += 1;
            multiply<SIZE, SIZE>(transposed(A, n), rows_of(B, n), n, n, n, D);
            multiply<SIZE, SIZE>(rows_of(D, n), transposed(A, n), n, n, n, B);
            EACH(e, square) B[e] /= -2;
            scatter<real>(B, left, square, dC + done);
        }
    }
}

// Y = cayley(C)^T X - X, and M = (I - C)^-1 where it is needed later
template <class real>
void increment(const real *C, const real *X, real *Y, real *M, long batch, long size, long d,
               bool closed) {
    typedef typename Lanes<real>::vector vector;
    const long n = SIZE ? SIZE : size, square = n * n, window = n * d;
    Block<real, SIZE * SIZE> first(square);
    Block<real, 0> second(window), third(window);
    vector *A = first.data, *U = second.data, *V = third.data;
    for (long left = batch; left > 0; left -= Lanes<real>::count) {
        const long done = batch - left;
        gather<real>(C + done * square, left, square, A);
        gather<real>(X + done * window, left, window, V);
        multiply<SIZE, 0>(rows_of(A, n), rows_of(V, d), n, n, d, U);
        vector factor = vector{} + 2;
        if (CLOSED || closed) {
            factor = closed_form_factor(A, square);
            for (long e = 0; e < window; e++) V[e] = U[e];
            multiply<SIZE, 0, true>(rows_of(A, n), rows_of(U, d), n, n, d, V);
        } else {
            EACH(e, square) A[e] = -A[e];
            EACH(i, n) A[i * n + i] += 1;
            invert(A, n);
            if (M) scatter<real>(A, left, square, M + done * square);
            multiply<SIZE, 0>(rows_of(A, n), rows_of(U, d), n, n, d, V);
        }
        for (long e = 0; e < window; e++) V[e] *= factor;
        scatter<real>(V, left, window, Y + done * window);
    }
}

template <class real>
void increment_gradient(const real *C, const real *X, const real *Y, const real *M, const real *G,
                        real *dC, real *dX, long batch, long size, long d, bool closed) {
    typedef typename Lanes<real>::vector vector;
    const long n = SIZE ? SIZE : size, square = n * n, window = n * d;
    Block<real, SIZE * SIZE> first(square), second(square);
    Block<real, 0> third(window), fourth(window), fifth(window), sixth(window);
    vector *A = first.data, *D = second.data;
    vector *B = third.data, *H = fourth.data, *U = fifth.data, *V = sixth.data;
    for (long left = batch; left > 0; left -= Lanes<real>::count) {
        const long done = batch - left;
        gather<real>(C + done * square, left, square, A);
        gather<real>(X + done * window, left, window, B);
        gather<real>(G + done * window, left, window, H);
        gather<real>(Y + done * window, left, window, V);
        if (CLOSED || closed) {
            // of f (U + C U) with U = C X:  dU = f (G + C^T G),  dX = C^T dU,
            // dC = f G U^T + dU X^T - f/2 <G, Y> C
            const vector factor = closed_form_factor(A, square);
            const vector share = factor / 2 * dot(H, V, window);
            EACH(e, square) D[e] = -share * A[e];
            multiply<SIZE, 0>(rows_of(A, n), rows_of(B, d), n, n, d, U);
            for (long e = 0; e < window; e++) H[e] *= factor, V[e] = H[e];
            multiply<SIZE, SIZE, true>(rows_of(H, d), transposed(U, d), n, d, n, D);
            multiply<SIZE, 0, true>(transposed(A, n), rows_of(H, d), n, n, d, V);
            multiply<SIZE, SIZE, true>(rows_of(V, d), transposed(B, d), n, d, n, D);
            multiply<SIZE, 0>(transposed(A, n), rows_of(V, d), n, n, d, U);
        } else {
            // with W = M^T G:  dC = W (Y + 2 X)^T,  dX = 2 C^T W
            gather<real>(M + done * square, left, square, D);
            multiply<SIZE, 0>(transposed(D, n), rows_of(H, d), n, n, d, U);
            for (long e = 0; e < window; e++) V[e] += B[e] + B[e];
            multiply<SIZE, SIZE>(rows_of(U, d), transposed(V, d), n, d, n, D);
            for (long e = 0; e < window; e++) H[e] = U[e] + U[e];
            multiply<SIZE, 0>(transposed(A, n), rows_of(H, d), n, n, d, U);
        }
        scatter<real>(D, left, square, dC + done * square);
        scatter<real>(U, left, window, dX + done * window);
    }
}

}  // namespace

#define FUNCTIONS(real)                                                                           \
    extern "C" void cayley_##real(const real *C, real *L, long batch, long n) {                   \
        transform(C, L, batch, n);                                                                \
    }                                                                                             \
    extern "C" void cayley_gradient_##real(const real *saved, const real *G, real *dC,            \
                                           long batch, long n) {                                  \
        transform_gradient(saved, G, dC, batch, n);                                               \
    }                                                                                             \
    extern "C" void increment_##real(const real *C, const real *X, real *Y, real *M, long batch,  \
                                     long n, long d, long closed) {                               \
        increment(C, X, Y, M, batch, n, d, closed);                                               \
    }                                                                                             \
    extern "C" void increment_gradient_##real(const real *C, const real *X, const real *Y,        \
                                              const real *M, const real *G, real *dC, real *dX,   \
                                              long batch, long n, long d, long closed) {          \
        increment_gradient(C, X, Y, M, G, dC, dX, batch, n, d, closed);                           \
    }
FUNCTIONS(double)
FUNCTIONS(float)
