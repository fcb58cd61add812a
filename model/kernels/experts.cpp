// The chosen experts of each token on a CPU:  out = W2 (SiTU(W1 x) * cap(W3 x)),  for every (token, choice).
//
// Slots are sorted by expert. A block of weight rows meets all rows of the expert before the next block comes,
// so each weight crosses the memory bus once; lanes run along the inner dimension, which both sides have
// contiguous, and W dot products are added up across lanes at a time.

#include "lanes.h"

namespace {

struct Task {
    const float *x, *w1, *w3, *w2;  // [N, L], [E, F, L], [E, F, L], [E, L, F]
    float *out;                     // [N * top_k, L]
    const int64_t *slots, *ends;    // slots sorted by expert, and where each expert's slots end
    int64_t top_k, E, L, F;
    float gate_cap, up_cap;  // 0: no cap
};

struct Weights {
    const float *gate, *up, *down;
};

struct Rows {
    std::vector<const float *> in;
    std::vector<float *> out;

    Rows part(int64_t first, int64_t stop) const {
        return {{in.begin() + first, in.begin() + stop}, {out.begin() + first, out.begin() + stop}};
    }
};

constexpr int WIDEST = W / 8;  // vectors of rows that the registers hold beside the weights
constexpr int MANY = W / 2;    // rows from which they fill the lanes

// tanh without cancellation: a polynomial near zero, where 1 - e^-2|x| would lose digits.
inline lanes hyperbolic(const lanes &x) {
    const lanes size = x < 0 ? -x : x, square = x * x;
    const lanes e = exponential(-2.0f * size);
    const lanes far = (1.0f - e) / (1.0f + e);
    lanes p = square * -5.70498872745e-3f + 2.06390887954e-2f;
    p = p * square - 5.37397155531e-2f;
    p = p * square + 1.33314422036e-1f;
    p = p * square - 3.33332819422e-1f;
    return size < 0.625f ? x + x * square * p : (x < 0 ? -far : far);
}

inline lanes capped(const lanes &x, float cap) { return cap > 0 ? cap * hyperbolic(x / cap) : x; }

inline lanes activation(const lanes &gate, const lanes &up, float gate_cap, float up_cap) {
    const lanes e = exponential(gate < 0 ? gate : -gate);
    const lanes sigmoid = (gate < 0 ? e : lanes{} + 1.0f) / (1.0f + e);
    return capped(gate, gate_cap) * sigmoid * capped(up, up_cap);
}

// Dot products of M rows with W / M rows of weights, in the order [M][W / M].
template <int M> lanes products(const float *const *rows, const float *weight, int64_t stride, int64_t left,
                                int64_t size) {
    constexpr int N = W / M;
    lanes total[W] = {};
    const float *columns[N];
    for (int n = 0; n < N; n++) columns[n] = weight + std::min<int64_t>(n, left - 1) * stride;
    int64_t c = 0;
    for (; c + W <= size; c += W) {
        lanes row[M];
        for (int m = 0; m < M; m++) row[m] = load(rows[m] + c, W);
        for (int n = 0; n < N; n++) {
            const lanes column = load(columns[n] + c, W);
            __builtin_prefetch(columns[n] + c + N * stride);  // the next rows: the processor guesses late
            for (int m = 0; m < M; m++) total[m * N + n] += row[m] * column;
        }
    }
    if (c < size)
        for (int n = 0; n < N; n++) {
            const lanes column = load(columns[n] + c, size - c);
            for (int m = 0; m < M; m++) total[m * N + n] += load(rows[m] + c, size - c) * column;
        }
    return sums(total);
}

template <int M> void scatter(const lanes &values, float *const *rows, int64_t at, int64_t left) {
    constexpr int N = W / M;
    float flat[W];
    std::memcpy(flat, &values, sizeof flat);
    for (int m = 0; m < M; m++) std::memcpy(rows[m] + at, flat + m * N, 4 * std::min<int64_t>(N, left));
}

// Calls body<M>(first row, first weight row) over all rows and weight rows, M = 4 rows at a time, then 2, 1.
template <class Body> void tiles(int64_t rows, int64_t weights, const Body &body) {
    for (int64_t n = 0; n < weights; n += W) {
        int64_t m = 0;
        const int64_t stop = std::min<int64_t>(n + W, weights);
        for (; m + 4 <= rows; m += 4)
            for (int64_t i = n; i < stop; i += W / 4) body.template operator()<4>(m, i);
        for (; m + 2 <= rows; m += 2)
            for (int64_t i = n; i < stop; i += W / 2) body.template operator()<2>(m, i);
        if (m < rows) body.template operator()<1>(m, n);
    }
}

// Few rows: lanes run along the inner dimension.
void narrow(const Task &task, const Weights &w, const Rows &rows) {
    const int64_t L = task.L, F = task.F, count = rows.in.size();
    std::vector<float> hidden(count * F);
    std::vector<float *> middle(count);
    for (int64_t m = 0; m < count; m++) middle[m] = hidden.data() + m * F;
    const float *const *between = middle.data();
    tiles(count, F, [&]<int M>(int64_t m, int64_t f) {
        const lanes gate = products<M>(&rows.in[m], w.gate + f * L, L, F - f, L);
        const lanes up = products<M>(&rows.in[m], w.up + f * L, L, F - f, L);
        scatter<M>(activation(gate, up, task.gate_cap, task.up_cap), &middle[m], f, F - f);
    });
    tiles(count, L, [&]<int M>(int64_t m, int64_t l) {
        scatter<M>(products<M>(between + m, w.down + l * F, F, L - l, F), &rows.out[m], l, L - l);
    });
}

// W * R rows as columns: column c of block b is the R vectors at x[(b * size + c) * R].
template <int R> std::vector<lanes> columns(const std::vector<const float *> &rows, int64_t size) {
    const int64_t count = rows.size(), blocks = (count + W * R - 1) / (W * R);
    std::vector<lanes> x(blocks * size * R);
    for (int64_t m = 0; m < count; m += W)
        for (int64_t c = 0; c < size; c += W) {
            lanes tile[W] = {};
            for (int i = 0; i < std::min<int64_t>(W, count - m); i++) tile[i] = load(rows[m + i] + c, size - c);
            transpose(tile);
            lanes *to = &x[(m / (W * R) * size + c) * R + m / W % R];
            for (int i = 0; i < std::min<int64_t>(W, size - c); i++) to[i * R] = tile[i];
        }
    return x;
}

template <int R> void write_rows(const std::vector<lanes> &x, const std::vector<float *> &rows, int64_t size) {
    const int64_t count = rows.size();
    for (int64_t m = 0; m < count; m += W)
        for (int64_t c = 0; c < size; c += W) {
            lanes tile[W] = {};
            const lanes *from = &x[(m / (W * R) * size + c) * R + m / W % R];
            for (int i = 0; i < std::min<int64_t>(W, size - c); i++) tile[i] = from[i * R];
            transpose(tile);
            for (int i = 0; i < std::min<int64_t>(W, count - m); i++) store(rows[m + i] + c, tile[i], size - c);
        }
}

// N rows of weights times one block of columns.
template <int N, int R>
inline void multiply(const float *const *weights, const lanes *x, int64_t size, lanes (&y)[N][R]) {
    lanes total[N][R] = {};
    for (int64_t c = 0; c < size; c++)
        for (int r = 0; r < R; r++)
            for (int n = 0; n < N; n++) total[n][r] += weights[n][c] * x[c * R + r];
    std::memcpy(y, total, sizeof total);
}

// Many rows, in blocks of R vectors: lanes run along the rows, weights are broadcast.
template <int R> void wide(const Task &task, const Weights &w, const Rows &rows) {
    constexpr int N = 4;  // hidden units at a time, gate and up of each
    const int64_t L = task.L, F = task.F, count = rows.in.size(), blocks = (count + W * R - 1) / (W * R);
    const std::vector<lanes> x = columns<R>(rows.in, L);
    std::vector<lanes> hidden(blocks * F * R), y(blocks * L * R);
    for (int64_t f = 0; f < F; f += N) {
        const float *weights[2 * N];
        for (int n = 0; n < N; n++) {
            const int64_t row = std::min(f + n, F - 1) * L;
            weights[n] = w.gate + row, weights[N + n] = w.up + row;
        }
        for (int64_t b = 0; b < blocks; b++) {
            lanes total[2 * N][R];
            multiply(weights, &x[b * L * R], L, total);
            for (int n = 0; n < std::min<int64_t>(N, F - f); n++)
                for (int r = 0; r < R; r++)
                    hidden[(b * F + f + n) * R + r] =
                        activation(total[n][r], total[N + n][r], task.gate_cap, task.up_cap);
        }
    }
    for (int64_t l = 0; l < L; l += 2 * N) {
        const float *weights[2 * N];
        for (int n = 0; n < 2 * N; n++) weights[n] = w.down + std::min(l + n, L - 1) * F;
        for (int64_t b = 0; b < blocks; b++) {
            lanes total[2 * N][R];
            multiply(weights, &hidden[b * F * R], F, total);
            for (int n = 0; n < std::min<int64_t>(2 * N, L - l); n++)
                std::memcpy(&y[(b * L + l + n) * R], total[n], sizeof total[n]);
        }
    }
    write_rows<R>(y, rows.out, L);
}

void expert(const Task &task, int64_t e, int64_t first, int64_t count) {
    const int64_t L = task.L, F = task.F;
    const Weights weights = {task.w1 + e * F * L, task.w3 + e * F * L, task.w2 + e * L * F};
    Rows rows;
    for (int64_t m = 0; m < count; m++) {
        const int64_t slot = task.slots[first + m];
        rows.in.push_back(task.x + slot / task.top_k * L);
        rows.out.push_back(task.out + slot * L);
    }
    constexpr int64_t BLOCK = W * WIDEST;
    const int64_t whole = count % BLOCK > W ? count : count / BLOCK * BLOCK, rest = count - whole;
    if (whole) wide<WIDEST>(task, weights, rows.part(0, whole));
    if (rest) (rest < MANY ? narrow : wide<1>)(task, weights, rows.part(whole, count));
}

}  // namespace

extern "C" void k3scope_experts(const float *x, const float *w1, const float *w3, const float *w2, float *out,
                                const int64_t *slots, const int64_t *ends, int64_t top_k, int64_t E, int64_t L,
                                int64_t F, float gate_cap, float up_cap, int64_t threads) {
    const Task task = {x, w1, w3, w2, out, slots, ends, top_k, E, L, F, gate_cap, up_cap};
    std::vector<int64_t> hit;
    for (int64_t e = 0; e < E; e++)
        if (ends[e] > (e ? ends[e - 1] : 0)) hit.push_back(e);
    const int64_t count = hit.size();
    in_threads(std::min(threads, count), 3.0 * ends[E - 1] * L * F, [&](int64_t part, int64_t stride) {
        for (int64_t n = part; n < count; n += stride) {
            const int64_t e = hit[n], first = e ? ends[e - 1] : 0;
            expert(task, e, first, ends[e] - first);
        }
    });
}
