// A map of very many operations as a list of numbers that is followed, instead of code: no compiler
// is done with so much code in a useful time. Before this is included, `opcode` has the operations
// and FUNCTIONS(one, two, three) lists those that are no sums.
struct data {
    const int32_t *code;
    const real *numbers;
};

#ifdef NARROW
typedef real part;
#else
typedef vector part;
#endif
enum : long { PARTS = sizeof(value) / sizeof(part) };

#define EACH for (int k = 0; k < PARTS; k++)
#define AT(slot) v[(slot) * PARTS + k]
#define OF_ONE(name)                                                    \
    case do_##name:                                                     \
        for (; count--; t += 2) EACH AT(t[0]) = name(AT(t[1]));         \
        break;
#define OF_TWO_VALUES(name)                                             \
    case do_##name:                                                     \
        for (; count--; t += 3) EACH AT(t[0]) = name(AT(t[1]), AT(t[2])); \
        break;
#define OF_THREE(name)                                                  \
    case do_##name:                                                     \
        for (; count--; t += 4) EACH AT(t[0]) = name(AT(t[1]), AT(t[2]), AT(t[3])); \
        break;

template <class T> static inline T quotient(T a, T b) { return a / b; }

// Each group has its operation, its number of values, and what these are made of. Values of a group
// have as many terms of a kind, so that the loops are foreseen.
static void step(value *__restrict values, const data *tape, value *y) {
    part *v = (part *)values;
    const real *numbers = tape->numbers;
    const int32_t *t = tape->code;
    for (;;) {
        const int operation = t[0];
        int count = t[1];
        t += 2;
        switch (operation) {
        case do_sum: {
            const int plus = t[0], minus = t[1], scaled = t[2], products = t[3], less = t[4];
            t += 5;
            while (count--) {
                const int32_t *place = t;
                part sum[PARTS];
                EACH sum[k] = part{} + numbers[t[1]];
                t += 2;
                for (int n = plus; n--; t++) EACH sum[k] += AT(t[0]);
                for (int n = minus; n--; t++) EACH sum[k] -= AT(t[0]);
                for (int n = scaled; n--; t += 2) EACH sum[k] += numbers[t[0]] * AT(t[1]);
                for (int n = products; n--; t += 2) EACH sum[k] += AT(t[0]) * AT(t[1]);
                for (int n = less; n--; t += 2) EACH sum[k] -= AT(t[0]) * AT(t[1]);
                EACH AT(place[0]) = sum[k];
            }
            break;
        }
        FUNCTIONS(OF_ONE, OF_TWO_VALUES, OF_THREE)
        default:
            for (int i = 0; i < OUTPUTS; i++) y[i] = values[t[i]];
            return;
        }
    }
}
