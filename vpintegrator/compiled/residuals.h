// What adjoints share: residuals, of vectors of windows some of which may be missing, and the sums of
// their squares.
struct Squares {
    double weighted = 0, plain = 0;
    mask live;  // lanes with a window

    void take(long count) {
        for (int k = 0; k < LANES; k++) live[k] = k < count ? -1 : 0;
    }

    // the residual of a component
    vector residual(vector predicted, vector target, real weight) {
        const vector d = choose(live, predicted - target, vector{}), r = d * weight;
        for (int k = 0; k < LANES; k++) {
            weighted += (double)r[k] * r[k];
            plain += (double)d[k] * d[k];
        }
        return r;
    }

    void give(double *squares) const {
        squares[0] = weighted;
        squares[1] = plain;
    }
};

template <class Block, class Problem> static void add_squares(const Problem *p, double *squares) {
    Block block(*p);
    for (long first = 0; first < p->count; first += LANES) block.predict(first);
    block.squares.give(squares);
}
