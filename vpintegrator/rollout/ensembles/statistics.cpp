// Statistics of states on their way: which trajectories leave, where all have been, how they turn.
// Numbers of doubles are handled a vector at a time; the compiler makes of a vector what the
// machine has.
#include <cmath>
#include <cstdint>
#include <cstring>

typedef double vector __attribute__((vector_size(32)));
typedef int64_t mask __attribute__((vector_size(32)));
constexpr int LANES = 4, AHEAD = 32;

static inline vector choose(mask where, vector yes, vector no) {
    return (vector)((where & (mask)yes) | (~where & (mask)no));
}
static inline vector magnitude(vector x) { return (vector)((mask)x & INT64_MAX); }
static inline vector signed_as(vector x, vector sign) {
    return (vector)((mask)x | ((mask)sign & INT64_MIN));
}

// atan2, to rounding. The angle of a fraction up to 1 by a rational function of Cephes (S. Moshier,
// Methods and Programs for Mathematical Functions, 1989), after one division for the reduction
static inline vector angle(vector y, vector x) {
    const vector ax = magnitude(x), ay = magnitude(y), zero = {};
    const mask steep = ay > ax;
    const vector large = choose(steep, ay, ax), small = choose(steep, ax, ay);
    const mask far = small > 0.66 * large;
    const vector bottom = choose(far, small + large, large);
    const vector t = choose(far, small - large, small) / choose(bottom == zero, zero + 1.0, bottom);
    const vector z = t * t;
    vector p = -8.750608600031904122785e-1 * z - 1.615753718733365076637e1;
    p = p * z - 7.500855792314704667340e1;
    p = p * z - 1.228866684490136173410e2;
    p = p * z - 6.485021904942025371773e1;
    vector q = z + 2.485846490142306297962e1;
    q = q * z + 1.650270098316988542046e2;
    q = q * z + 4.328810604912902668951e2;
    q = q * z + 4.853903996359136964868e2;
    q = q * z + 1.945506571482613964425e2;
    vector turned = t * (z * p / q) + t;
    turned = choose(far, (turned + 3.061616997868382943e-17) + 0.78539816339744830962, turned);
    turned = choose(steep, (6.123233995736765886e-17 - turned) + 1.57079632679489661923, turned);
    turned = choose(x < zero, (1.224646799147353177e-16 - turned) + 3.14159265358979323846, turned);
    return signed_as(turned, y);
}

struct Plane {
    int64_t x, y;                     // components on the axes
    double low_x, low_y;              // of the view
    double cells_x, cells_y;          // in a unit
    double period_x, period_y;        // of angles, else 0
    double per_period_x, per_period_y;
    int64_t columns, rows;
};

struct Turning {
    int64_t kind;           // 0 none, 1 about a centre, 2 of an angle
    double centre_x, centre_y;
    double scale_x, scale_y;  // for an angle: radians in a unit of it
};

// The first of `count` states (n, count, dim) of each trajectory, after `done` others, that is
// outside by `outside` (n, count), if it is given, or by the box (dim, 2); for those whose `first`
// is -1 so far
extern "C" void find_outside(const double *states, const uint8_t *outside, const double *box,
                             int64_t n, int64_t count, int64_t dim, int64_t done, int32_t *first) {
    for (int64_t k = 0; k < n; k++) {
        if (first[k] >= 0) continue;
        const double *own = states + k * count * dim;
        for (int64_t t = 0; t < count; t++) {
            bool inside = !outside || !outside[k * count + t];
            for (int64_t i = 0; i < dim; i++) {
                const double z = own[t * dim + i];
                inside &= z >= box[2 * i] && z <= box[2 * i + 1];
            }
            if (!inside) {
                first[k] = (int32_t)(done + t);
                break;
            }
        }
    }
}

// The states (n, count, dim) of n trajectories, after `done` others, up to the first outside, `left`
extern "C" void accumulate(const double *states, int64_t n, int64_t count, int64_t dim, int64_t done,
                           const Plane *plane, uint32_t *density, int64_t *off, const int32_t *left,
                           const Turning *turning, const double *weights, double *turned) {
    const Plane s = *plane;
    uint32_t beyond = 0;
    for (int64_t k = 0; k < n; k++) {
        const double *own = states + k * count * dim;
        const int64_t end = left[k] < 0 ? count : left[k] - done;
        // the table is larger than the near caches: its cells are called for some states ahead
        for (int64_t first = 0; first < end; first += AHEAD) {
            const int64_t part = end - first < AHEAD ? end - first : AHEAD;
            uint32_t *cells[AHEAD];
            for (int64_t t = 0; t < part; t++) {
                double x = own[(first + t) * dim + s.x] - s.low_x;
                double y = own[(first + t) * dim + s.y] - s.low_y;
                if (s.period_x) x -= s.period_x * __builtin_floor(x * s.per_period_x);
                if (s.period_y) y -= s.period_y * __builtin_floor(y * s.per_period_y);
                x *= s.cells_x;
                y *= s.cells_y;
                // a quotient rounded to the last cell's edge belongs to the cell before
                if (s.period_x && x >= s.columns) x = s.columns - 1;
                if (s.period_y && y >= s.rows) y = s.rows - 1;
                const bool seen = x >= 0 && x < s.columns && y >= 0 && y < s.rows;
                cells[t] = seen ? density + (int64_t)y * s.columns + (int64_t)x : &beyond;
                __builtin_prefetch(cells[t], 1);
            }
            for (int64_t t = 0; t < part; t++) ++*cells[t];
        }
        *off += beyond;
        beyond = 0;
        if (!turning->kind || end < count) continue;
        // turned (n, 5): the last angle, the first increment, and three weighted sums
        double *sums = turned + 5 * k;
        double last = sums[0], first = sums[1], all = sums[2], early = sums[3], late = sums[4];
        for (int64_t start = 0; start < count; start += LANES) {
            const int64_t part = count - start < LANES ? count - start : LANES;
            vector x = {}, y = {};
            for (int64_t i = 0; i < part; i++) {
                x[i] = own[(start + i) * dim + s.x];
                y[i] = own[(start + i) * dim + s.y];
            }
            vector angles;
            if (turning->kind == 2) {
                angles = x * turning->scale_x;
            } else {
                x -= turning->centre_x;
                y -= turning->centre_y;
                if (s.period_x)
                    for (int i = 0; i < LANES; i++)
                        x[i] -= s.period_x * __builtin_rint(x[i] * s.per_period_x);
                if (s.period_y)
                    for (int i = 0; i < LANES; i++)
                        y[i] -= s.period_y * __builtin_rint(y[i] * s.per_period_y);
                angles = angle(y * turning->scale_y, x * turning->scale_x);
            }
            for (int64_t i = 0; i < part; i++) {
                const int64_t step = done + start + i - 1;  // of the increment before this state
                const double increment = angles[i] - last;
                last = angles[i];
                if (step < 0) continue;
                if (step == 0) first = increment;
                double more = increment - first;
                if (turning->kind == 1)
                    more -= 6.28318530717958647693 * __builtin_rint(more * 0.159154943091895335769);
                const double *w = weights + 3 * step;
                all += w[0] * more;
                early += w[1] * more;
                late += w[2] * more;
            }
        }
        sums[0] = last, sums[1] = first, sums[2] = all, sums[3] = early, sums[4] = late;
    }
}
